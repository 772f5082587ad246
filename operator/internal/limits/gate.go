package limits

import "time"

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
	// PoliciesAhead is how many choices of groups of the library sluice check compiles for Gates
	// that it has not taken in yet, some MB and a tenth of a second of a core each.
	PoliciesAhead = 4
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
	// CertificateChain is how many certificates an authority in a trusted root may come with.
	// Fulcio's chain has three, that of a timestamp authority four. One that comes with a
	// signature is not looked at.
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
	// StatementParts is how many parts of a statement are decoded, an object or a list counting
	// for eight (strictjson.Parts), as each takes 150 bytes while it is judged by a policy: all take
	// 120 MiB at a time. An SBOM of 5 MiB has 300,000 in SPDX and 700,000 in CycloneDX.
	StatementParts = 800_000
	// StatementNames is how many names one object of a statement has, which are remembered to
	// find the one that is there twice: 10 MiB.
	StatementNames = 100_000
	// EnvelopeParts is the same for what is around a statement, its bundle or envelope. One with
	// a certificate, two log entries and a timestamp has 400.
	EnvelopeParts = 10_000
	// CertificateBytes is the largest certificate of a signature, in DER: one of Fulcio has 2 KiB.
	// Taken apart one takes thirty times its bytes, and an image has three of SignaturesPerImage.
	CertificateBytes = 8 << 10
	// LargeEvidence is how many bytes of evidence make its image one of which a process
	// judges one at a time: a statement takes 120 MiB with a policy (StatementParts), and all of
	// an image are decoded from base64 at a time, of the 512 MiB that the manager has.
	LargeEvidence = 4 << 20
	// SmallEvidence is how many bytes of evidence make its image one of which a process judges
	// few at a time: 18 bundles of usual size are below.
	SmallEvidence = 256 << 10
	// Judged is how many of those are judged at a time: of 4 MiB each takes 40 MiB, and all
	// together as much as one with more than LargeEvidence, which is judged alone.
	Judged = 4
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
