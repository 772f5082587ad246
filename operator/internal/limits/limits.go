// Package limits holds every bound of Sluice in one place. A bound that is hit is
// reported by the name it has here, so that an operator can look it up.
package limits

import "time"

// Bounds on what is read from a registry. A manifest in the field is a few KiB; an
// image index with 40 platforms is 20 KiB. A cosign payload is 300 bytes, a sigstore
// bundle with certificate and log entry 12 KiB.
const (
	// ManifestBytes is the largest manifest or index that is read.
	ManifestBytes = 4 << 20
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
	// SignatureAnnotationBytes is the longest certificate, chain, log entry or timestamp
	// in a layer's annotations: a chain of three certificates is 4 KiB, a timestamp with
	// its chain 8 KiB.
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
	// RegistryHeaderBytes is how long the header of an answer may be.
	RegistryHeaderBytes = 64 << 10
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

// Bounds on what users hand in.
const (
	// SourceFileBytes is the largest manifest file that is read.
	SourceFileBytes = 8 << 20
	// SourceFiles is how many files one overlay may read.
	SourceFiles = 4096
	// SourceBytes is how much all files of one overlay may hold: they are kept until the
	// places of findings were looked up in them. 4096 files of 64 KiB, or all of
	// limits.Objects at 13 KiB each.
	SourceBytes = 256 << 20
	// SourceReadBytes is how much of an overlay's files stays read while places are looked up
	// in them, beside kustomizations, patches and files that are asked for again. As YAML they
	// take some 25 times as much.
	SourceReadBytes = 256 << 10
	// SourceDepth is how deep folders may nest below the root.
	SourceDepth = 32
	// ExpandedBytes is how large a YAML document may become when its aliases are written
	// out. The parsers count the aliases that they follow, not the bytes that come of it:
	// 30 KiB of text behind 8000 aliases would be 240 MB. The largest object that etcd
	// stores is 1.5 MiB.
	ExpandedBytes = 16 << 20
	// PatchCopyBytes is how much the copy operations of one JSON 6902 patch may add to an
	// object: a patch that copies an object into itself doubles it with every line.
	PatchCopyBytes = 1 << 20
	// Objects is how many objects one check may judge or render.
	Objects = 20000
	// SchemaDepth is how deep the schemas of two CRDs are compared. Those of Pods nest
	// fifteen levels; a field in etcd is behind some hundred at most, by its path's length.
	SchemaDepth = 128
	// RevisionFiles is how many files a Git revision may have that is read. A fleet of a
	// hundred teams with ten overlays of ten files has 10000.
	RevisionFiles = 50_000
	// RevisionBytes is how much is unpacked of it, files over SourceFileBytes apart: they
	// are left empty, and are an error where an overlay reads one.
	RevisionBytes = 256 << 20
	// RevisionCall is for one call of git. Unpacking RevisionBytes takes some five seconds.
	RevisionCall = time.Minute
	// DiffCells is how large the table is by which two texts are compared, at four bytes
	// for each pair of lines that are not at a common start or end: two thousand lines
	// against as many.
	DiffCells = 4_000_000
	// MarkdownBytes is how long a comparison in Markdown gets: the description of a pull
	// request may have 65536 characters.
	MarkdownBytes = 60_000
	// LintBuilds is how many patches and images of one overlay are looked at: each costs a
	// build, of 4 ms for a small overlay and 50 ms for one with all of the operator.
	LintBuilds = 500
	// GitErrorBytes is how much is shown of what git says when it fails.
	GitErrorBytes = 1 << 10
	// CheckParallel is how many objects one check judges at a time where Gates ask registries:
	// most of a judgement is waiting for one, of which RegistryConcurrency requests run at once.
	CheckParallel = 16
	// ResultBytes is the largest result of a check that is kept: verdicts over 1,000 Workloads
	// with a finding each, and the files that were read for them, are 1 MiB.
	ResultBytes = 32 << 20
	// Results is how many results are kept, the ones that were used last: four overlays, in
	// two formats each, of eight branches. ResultsBytes is how much they may take together.
	Results      = 64
	ResultsBytes = 256 << 20
	// ResultDraft is after how long a result that was not written to the end is deleted;
	// writing the largest takes a second.
	ResultDraft = time.Hour
	// ProgramBytes is the largest executable that is read to tell it from another, where the
	// linker left no note of at most BuildNoteBytes: ours has 100 MB, and with symbols 150.
	ProgramBytes   = 1 << 30
	BuildNoteBytes = 1 << 10
	// ResultFacts is how many answers of a registry one result may rest on, which all are
	// asked for again: two for each of the images of a thousand Workloads.
	ResultFacts = 4096
	// ProgressEvery is how often the command says how far it is, on a terminal.
	ProgressEvery = 200 * time.Millisecond
	// GitCall is for one command of git; a diff of 100,000 files takes a second.
	GitCall = 30 * time.Second
	// GitOutputBytes is how much of a list of files is read: 160,000 names of 100 bytes.
	GitOutputBytes = 16 << 20
	// GitPush is for sending a branch, over a slow line too: what is new in it are a few KiB.
	GitPush = 2 * time.Minute
	// GitSign is for making a commit, for which somebody may have to type a passphrase.
	GitSign = 2 * time.Minute
	// GitGone is how long a git that was stopped may hold its output open.
	GitGone = 2 * time.Second
	// PromotedFiles is how many files one promotion changes: as many as there are Workloads
	// in an overlay, each in its own file.
	PromotedFiles = 1000
	// Links is how many symbolic links are followed to one file. Linux opens nothing behind
	// more than 40.
	Links = 40
	// ConversionBytes is the largest request to convert between API versions that is read.
	// The API server asks for one object at a time, of 1.5 MiB in etcd at most; a write has
	// at most 3 MiB.
	ConversionBytes = 16 << 20
	// ImagesPerObject is how many distinct images one object may name.
	ImagesPerObject = 128
)

// Bounds on a decision.
const (
	// PolicyDeadline is for all policies of one gate over one object. Ten policies over
	// a Workload with six children take about 1 ms.
	PolicyDeadline = 2 * time.Second
	// Findings is how many findings one verdict holds; more are counted in a last one.
	Findings = 200
	// Exemptions is how many exemptions may concern one object under one Gate; 200 findings
	// against 256 exemptions of 64 images each are 3 million comparisons, or 300 ms.
	Exemptions = 256
	// MessageBytes is the longest message a policy may give.
	MessageBytes = 1024
	// ErrorBytes is the longest error that the command prints; the cause stands at the end
	// of what Kustomize says.
	ErrorBytes = 8 << 10
	// MaskedValues is how many secrets of one object are looked for in what is said of it.
	// Each is compared at up to every byte of a message: at MessageBytes, and four ways to
	// write a value, that is half a million short comparisons, or 4 ms. Of an object
	// with more, nothing is told but that.
	MaskedValues = 128
	// PolicyBytes is the largest set of Rego modules from one source.
	PolicyBytes = 1 << 20
	// BundleLayers is how many layers a policy bundle may have: conftest makes one of each
	// file, and each costs a request. At 20 ms, eight at a time, these take 0.7 s of Gather.
	BundleLayers = 256
	// BundleBytes is how much is read of a bundle as its registry holds it, all layers
	// together: PolicyBytes of Rego, and three times as much of what is passed over.
	BundleBytes = 4 << 20
	// BundleUnpackedBytes is how much its archives may unpack to. Rego is compressed to a
	// sixth, so that PolicyBytes of modules are far below, with tests and documentation too.
	BundleUnpackedBytes = 16 << 20
	// BundleFiles is how many files its archives may have, folders too.
	BundleFiles = 2048
	// BundleNameBytes is how long the name of a file in it may be.
	BundleNameBytes = 256
	// PolicySteps is how many expressions the policies of one source may evaluate over
	// one object, and the groups of the library that a Gate names together. All of them
	// take 1,000 for a Workload with six children, and a step takes 1 µs. Unlike the
	// deadline, and before it, it cuts off at the same place on every machine, so that pull
	// request and admission agree.
	PolicySteps = 1_000_000
	// PolicyBuiltinBytes is how much text and how many collections (at 16 bytes per
	// element) the built-in functions may make for the policies of one source over one
	// object; values of more than PolicyElementParts parts that comprehensions and rules
	// are made of count with them. Without it forty lines that double a string would take
	// the process down.
	PolicyBuiltinBytes = 16 << 20
	// PolicyGrace is how long an evaluation may take to notice that its deadline is over.
	// One that does not is inside a single call that cannot be interrupted; it is left
	// behind, and its source decides nothing until it has ended.
	PolicyGrace = 100 * time.Millisecond
	// PolicyNesting is how deep brackets, terms and else branches may nest in a Rego
	// module. The compiler recurses, a Go stack that overflows cannot be recovered from,
	// and a sum of 50 000 terms takes it a minute.
	PolicyNesting = 256
	// PolicyBodyExpressions is how many conditions one rule body may have; the compiler's
	// time grows with their square, and 20 000 take three seconds.
	PolicyBodyExpressions = 1000
	// PolicyValueParts is how many parts a value may have that rules and functions write out
	// of other values: [x, x] of [y, y] and so on doubles with each, and cannot be
	// interrupted.
	PolicyValueParts = 100_000
	// PolicyElementParts is up to how many parts an element of a comprehension, or a value of
	// a rule, is free: a step for each bounds those. A million of three parts are 180 MiB.
	PolicyElementParts = 4
	// PolicyCompile is for compiling one source. The whole library takes 40 ms.
	PolicyCompile = 5 * time.Second
	// CompiledPolicies is how many sources are kept compiled: those of some dozen Gates, at
	// about 1 MiB each for sources of usual size, and each choice of the library's groups that
	// a Gate makes, at 1 MiB for one group and 3 MiB for all.
	CompiledPolicies = 64
	// Digests is of how many Gates and sources of policies as they were last the digests are
	// known, at 128 bytes each. With one more all are worked out anew.
	Digests = 1024
)

// Bounds on signatures, attestations and what they are verified with.
const (
	// CertificateChain is how many certificates a signature, or an authority in a trusted
	// root, may come with. Fulcio's chain has three, that of a timestamp authority four.
	CertificateChain = 10
	// TrustedRootBytes is the largest trusted_root.json. That of the public instance, with
	// every key it ever had, is 7 KiB.
	TrustedRootBytes = 256 << 10
	// TrustedRootEntries is how many authorities and how many logs of each kind one trusted
	// root may list; the public instance has two to four.
	TrustedRootEntries = 64
	// Identities is how many keyless identities are kept ready to verify with, at 100 KiB
	// each for a trusted root of usual size.
	Identities = 128
	// PatternBytes is the longest pattern for an issuer or a subject.
	PatternBytes = 1024
	// StatementBytes is the largest in-toto statement that is read. A scan report is some
	// 100 KiB, the SBOM of a large image 5 MiB.
	StatementBytes = 16 << 20
	// LargeEvidence is how many bytes of evidence make its image one of which a process
	// judges one at a time: 12 MiB of statement take 100 MiB while they are judged, and 160
	// MiB with a policy, of the 512 MiB that the manager has.
	LargeEvidence = 4 << 20
	// StatementNesting is how deep a statement's JSON may nest; reports use a dozen levels.
	StatementNesting = 128
)

// Bounds on promotion evidence.
const (
	// EvidenceStatementBytes is the largest verification summary. One of an index with 64
	// images is 8 KiB, and one with 64 exemptions, each with a message, 100 KiB.
	EvidenceStatementBytes = 256 << 10
	// EvidenceSubjects is how many images one summary is about: an index and its images.
	EvidenceSubjects = 1 + ImageChildren
	// EvidenceEntries is how many levels, inputs and exemptions it lists, each.
	EvidenceEntries = 64
	// PrivateKeyBytes is the largest private key in PEM: RSA with 4096 bits, encrypted, is
	// 5 KiB.
	PrivateKeyBytes = 32 << 10
	// IdentityTokenBytes is the largest identity token; those of CI systems are 2 KiB.
	IdentityTokenBytes = 16 << 10
	// SigstoreAnswerBytes is the largest answer of a certificate or timestamp authority: a
	// chain of three certificates is 5 KiB.
	SigstoreAnswerBytes = 256 << 10
	// SigstoreServices is how many services one signature asks.
	SigstoreServices = 8
	// SigstoreRetries is how often each of them is asked again when it answers 5xx.
	SigstoreRetries = 1
	// Soak is how long a Workload has to do well where its Gate does not say.
	Soak = 10 * time.Minute
	// Signers is how many keys are kept ready to sign with: one for each Gate that attests,
	// and as many again while they are rotated.
	Signers = 64
	// Attestations is how many attestations are remembered, 300 bytes each: two for each of
	// Objects images. What is forgotten is asked of the registry again.
	Attestations = 2 * Objects
	// AttestationTTL is how long it is remembered that evidence is there.
	AttestationTTL = 24 * time.Hour
	// AttestationsAtOnce is how many attestations are looked for or written at a time. At 20
	// requests for an image, and 20 ms for each, that is ten images a second.
	AttestationsAtOnce = 4
	// AttestationsWaiting is how many wait for their turn: one for each image of Objects
	// Workloads, as after a restart.
	AttestationsWaiting = Objects
	// AttestationPause is how long after a failure it is tried again; it doubles with each
	// failure, up to AttestationPauseMax.
	AttestationPause    = 10 * time.Second
	AttestationPauseMax = 10 * time.Minute
	// AttestationFailures is of how many credentials it is remembered that one attestation
	// failed with them, 300 bytes each: those of as many namespaces that run one image. One
	// that is forgotten is tried again at once.
	AttestationFailures = 1024
	// SoakPods is how many pods of a Workload are looked at before its images are attested:
	// the API allows 100 replicas, and a canary has as many again.
	SoakPods = 250
	// EvidenceSkew is how far in the future evidence may be dated: clocks that are set by
	// NTP differ by less than a second, and those of virtual machines that were suspended by
	// some minutes, until they are set.
	EvidenceSkew = 5 * time.Minute
)

// Deadlines of calls.
const (
	// RegistryCall is for one request to a registry, body and login included.
	RegistryCall = 5 * time.Second
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

// Bounds on promotions, and on what the command asks of a forge.
const (
	// WindowZones is how far what a clock shows may be from UTC, and more: zones reach from
	// 12 hours behind to 14 hours ahead.
	WindowZones = 26 * time.Hour
	// WindowSteps is how many ends of windows are looked at to find when promotions take
	// place again: a night of each day for eight months. A step takes 12 µs
	// for each window, so that 32 of them take a tenth of a second.
	WindowSteps = 256
	// PromotionOverlays is how many overlays are built to find those of two environments.
	PromotionOverlays = 64
	// PromotionWorkloads is how many Workloads one promotion takes over.
	PromotionWorkloads = 500
	// PromotionTextBytes is how long the text of a pull request gets: GitHub takes 65536
	// characters, which are as many bytes or more.
	PromotionTextBytes = 64_000
	// PromotionPartBytes is how long each of its four parts before the comparison gets, so
	// that a third is left for that.
	PromotionPartBytes = 10_000
	// PromotionNotes is how many risk notes of one Workload are written.
	PromotionNotes = 40
	// ForgeCall is for one call of a forge; making a pull request takes a second or two.
	ForgeCall = 30 * time.Second
	// ForgeBytes is the largest answer of a forge that is read. One pull request is 30 KiB
	// beside its text, and a page has ForgePage of them.
	ForgeBytes = 16 << 20
	// ForgePage is how many pull requests a forge is asked for at a time, and ForgePages how
	// often, to find one of a branch where the forge cannot search for it.
	ForgePage  = 50
	ForgePages = 40
	// ForgeErrorBytes is how much is shown of what a forge says when it refuses.
	ForgeErrorBytes = 1 << 10
)

// Bounds on what the command line asks of a cluster.
const (
	// ClusterCall is for one question: a list of Objects Workloads takes some seconds.
	ClusterCall = 30 * time.Second
	// WatchPause is how long is waited before a watch that ended at once is begun anew.
	WatchPause = time.Second
	// EventsShown is how many events of a Workload are shown, the newest.
	EventsShown = 10
	// OwnerSteps is how many owners are climbed from an object to its Workload: from a pod
	// of a backup over Job and CronJob it is three.
	OwnerSteps = 4
)

// Bounds on what is kept in memory.
const (
	// CacheBytes is for all that is kept from registries but large attestations: 14 KiB for
	// an image with one bundle, so that this is for 4000 images.
	CacheBytes = 64 << 20
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
	// CloudCredentialsTTL is how long credentials from a cloud are used: Azure's are good
	// for three hours, Amazon's for twelve.
	CloudCredentialsTTL = 30 * time.Minute
	// RegistryMemory is how long it is remembered how to log in to a registry, and
	// whether it has a referrers API.
	RegistryMemory = time.Hour
)

// Bounds on keys and trusted roots.
const (
	// TrustCall is for one key or root from outside the cluster.
	TrustCall = 5 * time.Second
	// TrustEntries is how many keys and roots are kept.
	TrustEntries = 256
	// KeyTTL is how long a key from a key management service is kept: a key that is
	// rotated there is noticed after this.
	KeyTTL = 5 * time.Minute
	// RootTTL is how long the public Sigstore's root is kept. Its timestamp is renewed
	// weekly.
	RootTTL = 6 * time.Hour
)

// Bounds on dependencies between Workloads.
const (
	// GraphNodes is how many Workloads are ordered at once: all that one check may judge,
	// and as many again that they name and that are not among them.
	GraphNodes = 2 * Objects
	// GraphEdges is how many dependencies there may be between them; the API allows 32 of
	// one Workload.
	GraphEdges = 32 * Objects
	// DependencyReach is how many Workloads are read for one, through the dependencies of
	// its dependencies: at 10 µs for one from the cache, this takes 10 ms.
	DependencyReach = 1000
	// DependencyDepth is how long a chain of dependencies may be. At half a minute for each
	// to become Ready, the last of 64 starts after half an hour.
	DependencyDepth = 64
	// DeletionGrace is how long a Workload that is deleted gives those that depend on it to
	// be deleted as well: one command or one namespace deletes its objects one by one.
	DeletionGrace = 5 * time.Second
	// DeletionHold is how long, from its own deletion on, a Workload waits for those that
	// depend on it to go first. All of a chain are deleted within seconds of each other, so
	// this is for the chain as a whole; pods have 30 s each to end by default.
	DeletionHold = 5 * time.Minute
)

// Bounds on what the operator does to children.
const (
	// HealsAtOnce is how often a child is put back without a pause. Two people who both
	// edit it need no more; a controller that keeps writing a field would otherwise be
	// answered for ever, and each answer rolls the pods.
	HealsAtOnce = 3
	// OverwriteAttempts is how often a child is overwritten at once while its status keeps
	// changing: a rollout of two pods changes it four times in 100 ms.
	OverwriteAttempts = 4
	// HealPause is the longest pause between two times that a child is put back: it starts
	// at a second and doubles, so a quarrel costs 1440 writes a day and not one a
	// millisecond.
	HealPause = time.Minute
	// StrayImagePause is the longest pause while a child has an image that was not judged:
	// one write a second, against a container that nobody allowed.
	StrayImagePause = time.Second
	// HealQuiet is how long a child has to stay as it should be for its quarrel to be
	// forgotten.
	HealQuiet = 10 * time.Minute
	// Reverify is how soon a Workload at rest is judged again where its Gates do not say: a
	// signature may be gone, which raises no event. Digests are known then, so it costs a look
	// at signatures and no lookup of tags.
	Reverify = 10 * time.Minute
	// DenialStands is how long a denial of what runs has to stand, over at least two looks,
	// before its pods are taken away: a key is rotated in two writes, the Gate's and the
	// signature's.
	DenialStands = time.Minute
	// NoteBytes is the longest message of an event or a condition. The events API takes
	// 1 KiB, and "…" is added at the cut.
	NoteBytes = 1000
)

// Bounds on canaries.
const (
	// CanarySteps is how many steps a canary takes at most; replicas end at 100, so that
	// batches of one pod fit.
	CanarySteps = 100
	// CanaryMeasureEvery is the longest pause between two looks at the metrics of a step:
	// ten queries then cost Prometheus one a second.
	CanaryMeasureEvery = 10 * time.Second
	// CanaryMeasurements is how often metrics are looked at within the interval of a step,
	// at least. With an interval of a second, the shortest that the API takes, that is
	// every 333 ms.
	CanaryMeasurements = 3
)

// Bounds on what Prometheus is asked.
const (
	// PrometheusQuery is how long Prometheus may evaluate one query; it is told so. Usual
	// ones take some ms, and Prometheus's own limit is two minutes.
	PrometheusQuery = 5 * time.Second
	// PrometheusCall is for one query from waiting for its turn to the end of its answer,
	// and for all of one Workload, since they run side by side.
	PrometheusCall = 7 * time.Second
	// PrometheusParallel is how many queries run at a time, for all Workloads: those of one
	// with the most metrics.
	PrometheusParallel = 10
	// PrometheusSeries is how many series of an answer Prometheus is asked to send. One is
	// wanted, and a second tells that the query does not aggregate.
	PrometheusSeries = 2
	// PrometheusAnswerBytes is the largest answer that is read. One sample with thirty
	// labels is 3 KiB; a Prometheus that does not know the limit on series may send more.
	PrometheusAnswerBytes = 1 << 20
	// PrometheusWarnings is how many warnings of one answer are kept.
	PrometheusWarnings = 3
	// PrometheusNoteBytes is how long an error or a warning of Prometheus may be. With ten
	// metrics and all warnings, a status is 12 KiB larger.
	PrometheusNoteBytes = 300
)

// Bounds on status.
const (
	// ProgressPause is the shortest time between two writes of a status that tell of
	// nothing but progress. A hundred pods that start one by one change a status two hundred
	// times; over five minutes, that is one write every 1.5 s without this, and a person
	// does not look more often than with it. Two pods that are there sooner take one write
	// instead of three.
	ProgressPause = 2 * time.Second
	// StatusFindings is how many violations and drift changes a status holds.
	StatusFindings = 20
)

// Bounds of the local cluster (package lab).
const (
	// LabReady is how long one part of the control plane may take until it serves. On two
	// cores the slowest, kube-apiserver, takes 3 s; a busy CI machine ten times that.
	LabReady = time.Minute
	// LabStop is how long a process may take to end on SIGTERM before it is killed.
	LabStop = 10 * time.Second
	// LabServed is how long a CRD may take until it is Established and in discovery, and
	// how long an object is tried again while its webhook does not answer.
	LabServed = 30 * time.Second
	// LabPoll is the pause between two looks at something that cannot be watched.
	LabPoll = 50 * time.Millisecond
	// LabToken is how long the token of a ServiceAccount's kubeconfig is valid: a working
	// day, for a manager that lives as long as a shell.
	LabToken = 12 * time.Hour
	// LabCertificate is how long the certificates of a cluster are valid. They cannot be
	// renewed, so this is also how long a cluster can live.
	LabCertificate = 30 * 24 * time.Hour
	// LabLogTail is how much of a log an error shows, from its end.
	LabLogTail = 4 << 10
	// LabWorkers is how many pods the stand-in node plays at once.
	LabWorkers = 16
)
