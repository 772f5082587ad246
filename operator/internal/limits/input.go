package limits

import "time"

// Bounds on what users hand in.
const (
	// SourceFileBytes is the largest manifest file that is read.
	SourceFileBytes = 8 << 20
	// BrokenBytes is how much of a document that is not YAML is read again, beginning by
	// beginning, to find the line that it breaks at: half a second, and each of 500 lines.
	BrokenBytes = 4 << 20
	// SourceFiles is how many files one overlay may read.
	SourceFiles = 4096
	// SourceReadBytes is how much of an overlay's files stays read while places are looked up
	// in them, beside kustomizations, patches and files that are asked for again. As YAML they
	// take some 25 times as much.
	SourceReadBytes = 256 << 10
	// SourceBytes is how much all files of one overlay may hold: they are kept until the
	// places of findings were looked up in them. 4096 files of 64 KiB, or all of
	// limits.Objects at 13 KiB each.
	SourceBytes = 256 << 20
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
	// ResultWarnings is how many bytes of warnings a result may have that is kept: one for
	// each of SourceFiles, with a long path, is 1 MiB.
	ResultWarnings = 1 << 20
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
