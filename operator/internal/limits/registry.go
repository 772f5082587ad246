package limits

import "time"

// Bounds on what is read from a registry. A manifest in the field is a few KiB; an
// image index with 40 platforms is 20 KiB. A cosign payload is 300 bytes, a sigstore
// bundle with certificate and log entry 12 KiB.
const (
	// ManifestBytes is the largest manifest or index that is read.
	ManifestBytes = 4 << 20
	// DocumentBytes is up to how many bytes a manifest or list is read beside any number of
	// others. One that is larger is asked for again, in turn: an index of 200 entries is below.
	DocumentBytes = 64 << 10
	// LargeDocuments is how many larger ones are read and taken apart at a time, at 15 MiB each.
	LargeDocuments = 2
	// DocumentsParsed is how many documents are taken apart at a time: an entry takes three
	// bytes of a document and a hundred in memory, so that DocumentBytes become 3 MiB until
	// what counts is picked out of them. It takes a millisecond of a core.
	DocumentsParsed = 4
	// Reads is how many answers of registries are read at a time, over all registries: with
	// DocumentBytes, RegistryHeaderBytes and a connection each takes 0.2 MiB, and all 25 MiB.
	// At 50 ms for one, that is for 2500 requests a second.
	Reads = 128
	// Looks is how many images are looked at at a time. Each takes up to 100 KiB beside what
	// is read, in stacks and in what it picked out of a list, and together they take 25 MiB.
	// Decisions with a turn for evidence need none: EvidenceDecisions by LooksPerObject, 6 MiB.
	Looks = 256
	// LooksPerObject is how many of them are of one object: its other images wait. With
	// RegistryConcurrency requests of theirs at a registry, eight with two each have all.
	LooksPerObject = 8
	// ManifestEntries is how many layers or manifests one document may list: more than
	// ReferrersPerImage, at a hundred bytes each in memory.
	ManifestEntries = 16384
	// BundleManifestBytes is the largest manifest of a referrer that is looked into. One with
	// SignaturesPerImage bundles has 20 KiB.
	BundleManifestBytes = 64 << 10
	// SignatureBlobBytes is the largest signature payload that is read, and the largest
	// bundle where no attestation is asked for.
	SignatureBlobBytes = 1 << 20
	// AttestationBytes is the largest bundle or envelope that may hold an attestation. The
	// statement in it is in base64, four bytes for three: 16 MiB become 21.3 MiB. 1 MiB is
	// left for envelope, certificate, log entry and timestamp, which take 12 KiB.
	AttestationBytes = (StatementBytes+2)/3*4 + SignatureBlobBytes
	// EvidenceBytes is how much is read of all signatures and attestations of one image,
	// the smallest first: two of the largest attestations take 44.7 MiB, which leaves 3.3
	// MiB for signatures. The images of an index share as much once more.
	EvidenceBytes = 48 << 20
	// ObjectEvidenceBytes is how much is read for all images of one object, which share it
	// evenly: with an SBOM of 5 MiB each, which is 6.7 MiB as it is stored, that is for seven.
	ObjectEvidenceBytes = EvidenceBytes
	// LargeDecisions is how many decisions hold more than LargeEvidence at a time: 96 MiB with
	// ObjectEvidenceBytes each. What all of it takes with what is kept and with one image that
	// is judged, of the 512 MiB that the manager has, is measured by make bench-memory.
	LargeDecisions = 2
	// EvidenceDecisions is how many hold more than SmallEvidence, those included: the others
	// hold up to LargeEvidence each, or 24 MiB. The API server waits for some 200 decisions at
	// most, which hold 50 MiB where each of them has all of SmallEvidence.
	EvidenceDecisions = 8
	// TurnOwners is of how many namespaces it is remembered when they had their last turn, 100
	// bytes each.
	TurnOwners = 1024
	// SignatureAnnotationBytes is the longest certificate, log entry or timestamp in a layer's
	// annotations, and in a bundle: a certificate is 1 KiB (CertificateBytes bounds it further), a log
	// entry 2 KiB, a timestamp with its chain 8 KiB. Taken apart a log entry takes fifty times its bytes.
	SignatureAnnotationBytes = 64 << 10
	// SignaturesPerImage is how many signatures and attestations of one image are fetched
	// from each place. One in a tag costs a blob request, one in a referrer a manifest
	// request too, so that the budget for an image is four times this, lists apart.
	SignaturesPerImage = 64
	// ImageChildren is how many images an index may have where each has to be signed.
	// Those with the most platforms in the field have 40.
	ImageChildren = 64
	// ReferrersPerImage is how many entries of a referrers index are looked at; each is
	// 300 bytes in the index and costs nothing more unless it is a signature.
	ReferrersPerImage = 4096
	// ReferrerPages is how many pages a referrers list may come in: registries page by
	// 100 entries or more, so that this covers ReferrersPerImage.
	ReferrerPages = 64
	// RegistryRedirects is how often one request may be sent on; a blob that is kept in
	// cloud storage needs one or two.
	RegistryRedirects = 5
	// RegistryParallel is how many requests for one image run at a time.
	RegistryParallel = 8
	// RegistrySessions is how many logins, each for one repository with one set of
	// credentials, are kept.
	RegistrySessions = 1024
	// RegistryHosts is how many registries are remembered, each with its state of health,
	// and how many accounts at them.
	RegistryHosts = 256
	// PullSecrets is how many image pull Secrets of an object and its ServiceAccount are read
	// for a decision. Each is a request to the API server, of which the operator has so many a
	// second for all objects; pods in the field name one or two.
	PullSecrets = 32
	// RegistryCredentials is how many sets of credentials for one repository are tried in
	// turn, where several pull Secrets have some. A login that is refused takes two
	// requests, so that these are 16 until the last is known to do or not.
	RegistryCredentials = 8
	// RegistryConcurrency is how many requests to one registry run at a time, for all
	// images: two images with all their requests.
	RegistryConcurrency = 16
	// RegistryFailures is how many failures in a row, of the connection or with a status
	// of 500 and above, make a registry count as down.
	RegistryFailures = 5
	// RegistryRetries is how often a request that the registry put off is tried again.
	RegistryRetries = 2
	// RegistryTokenBytes is the largest answer of a token server that is read. Tokens are
	// sent in a header, which servers limit to 8 KiB or 16 KiB.
	RegistryTokenBytes = 64 << 10
	// RegistryHeaderBytes is how long the header of an answer may be. Those of registries have
	// 2 KiB, and the longest a redirect to storage with a signature in it. Of the shortest
	// lines, each takes twenty times as much in memory.
	RegistryHeaderBytes = 16 << 10
	// RegistryIdle is how many connections are kept open for the next request, to all
	// registries, at 40 KiB each.
	RegistryIdle = 128
	// RegistryErrorBytes is how much of an answer without content is read away, so that
	// its connection can be used again.
	RegistryErrorBytes = 4 << 10
	// RecordingBytes is how much one recording of registries' answers holds, in memory and,
	// at four bytes for three, in a file: 256 MiB are 18000 images with one bundle, at 14
	// KiB, or five with the most evidence.
	RecordingBytes = 256 << 20
	// RecordingAnswers is how many answers: some ten for an image with one bundle.
	RecordingAnswers = 200_000
	// RecordingFileBytes is the largest file with a recording that is read.
	RecordingFileBytes = (RecordingBytes+2)/3*4 + RecordingAnswers<<10
	// RecordingLineBytes is the longest line of one, for the largest attestation.
	RecordingLineBytes = (AttestationBytes+2)/3*4 + 64<<10
	// RecordingAge is how old a recording may be where nobody says otherwise: a tag that was
	// moved, or a signature that was taken away, is missed for a day.
	RecordingAge = 24 * time.Hour
)
