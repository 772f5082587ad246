// Package limits holds every bound of Sluice in one place. A bound that is hit is
// reported by the name it has here, so that an operator can look it up.
package limits

import "time"

// Deadlines of calls.
const (
	// RegistryCall is for one request to a registry, body and login included.
	RegistryCall = 5 * time.Second
	// RegistryAside is for what a decision can do without, such as what a tag beside a digest
	// stands for: a login and a request take some 300 ms, and Gather is for what it needs.
	RegistryAside = 2 * time.Second
	// RegistryPush is for attaching evidence to one image: eight requests, and three tries.
	RegistryPush = 30 * time.Second
	// BundlePush is for pushing a policy bundle: BundleLayers at three requests of 20 ms each,
	// eight at a time, are 2 s, and BundleBytes over a slow line some more.
	BundlePush = 2 * time.Minute
	// Attestation is for one attestation in all: an index of 64 images takes 65 pushes, at
	// eight requests of 20 ms each ten seconds. What is not done then is done at the next try.
	Attestation = 2 * time.Minute
	// SigstoreCall is for one request to a service of Sigstore: a transparency log answers
	// once the entry is in it, which takes some seconds.
	SigstoreCall = 20 * time.Second
	// Signing is for one signature with an identity: a certificate, a log entry and a
	// timestamp, each with one retry, at the time that they usually take.
	Signing = time.Minute
	// CloudCredentials is for asking a cloud for credentials for its registries. The
	// helpers' own calls may go on for longer; nobody waits for them.
	CloudCredentials = RegistryCall
	// RegistryProbe is for the first request over HTTPS to a registry that may also be
	// spoken to in plain HTTP; what is left of RegistryCall is for that.
	RegistryProbe = 2 * time.Second
	// RegistryWait is the longest time that a registry is given when it asks for time
	// (Retry-After). Of Gather, that leaves four seconds for all requests.
	RegistryWait = 5 * time.Second
	// RegistryPause is how long a registry that counts as down is not asked at all.
	RegistryPause = 10 * time.Second
	// Scrape is for counting Exemptions when metrics are read: they come from a cache, which
	// makes one wait only while it is filled.
	Scrape = time.Second
	// Gather is for all facts of one object, registry included. An admission request has
	// ten seconds in all; one second is left for deciding and answering.
	Gather = 9 * time.Second
)

// Pauses before what failed about the webhook's certificates is tried again: the first, which
// doubles with each, and the longest. A try is three reads.
const (
	CertificateRetryFirst = 100 * time.Millisecond
	CertificateRetry      = time.Minute
)

// Bounds on what is kept in memory.
const (
	// CacheBytes is for all that is kept from registries but large attestations: 14 KiB for
	// an image with one bundle, so that this is for 3500 images.
	CacheBytes = 48 << 20
	// CacheLargeBytes is for attestations of more than SignatureBlobBytes, which must not
	// drive out the rest: two of the largest, or nine SBOMs of 5 MiB. What it has no room
	// for is read again on each look.
	CacheLargeBytes = 48 << 20
	// Verifications is for what was decided over images: at 1 KiB for one with an identity
	// and two attestations, 8000 of them.
	Verifications = 8 << 20
	// VerificationBytes is the most that one of them takes; a longer one is made anew.
	VerificationBytes = 16 << 10
	// PolicyBundles is for the modules of policy bundles that were verified: 32 of the
	// largest, and thousands of usual size. What it has no room for is read again.
	PolicyBundles = 32 << 20
	// CacheTTL is how long it is kept which signatures an image has, where they were what
	// was needed. A signature that is removed from the registry is noticed after this.
	CacheTTL = 5 * time.Minute
	// CacheNegativeTTL is how long it is kept where they were not what was needed, or
	// none: short, so that signing and trying again works at once.
	CacheNegativeTTL = 2 * time.Second
	// CacheContentTTL is how long content is kept that has a digest and cannot change: a
	// look at an image after CacheTTL then costs one request, for the list.
	CacheContentTTL = time.Hour
	// TagTTL is how long it is told what a tag beside a digest stood for, while a registry does
	// not say what it stands for now: a registry that fails once in CacheTTL, or is down for a
	// while, so makes no verdict go back and forth between Warn and Allow.
	TagTTL = time.Hour
	// CloudCredentialsTTL is how long credentials from a cloud are used: Azure's are good
	// for three hours, Amazon's for twelve.
	CloudCredentialsTTL = 30 * time.Minute
	// RegistryMemory is how long it is remembered how to log in to a registry, and
	// whether it has a referrers API.
	RegistryMemory = time.Hour
)
