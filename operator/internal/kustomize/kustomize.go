// Package kustomize is the one door to kustomize/api. The api keeps its OpenAPI schema
// in package variables: an overlay with an openapi field changes how every later build
// of the process merges lists, and two builds at once race. Here one build runs at a
// time, and each starts from the built-in schema.
package kustomize

import (
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

var door sync.Mutex

// The bound is a package variable too, and by default there is none. It is set before
// anything of the process can read it.
func init() { jsonpatch.AccumulatedCopySizeLimit = limits.PatchCopyBytes }

// Build builds the kustomization in folder of fsys. No plugin runs, whether exec,
// container or Helm, and files are only read below the kustomization that names them;
// keeping bases inside a root, refusing remote ones and CheckAliases are the file
// system's and the caller's part. A panic inside Kustomize comes back as an error.
//
// Kustomize writes what it warns of to the process's standard error and to its log, in every
// build and for every kustomization of it. heard is given those lines in their place, once the
// build is done; nil leaves them there.
func Build(fsys filesys.FileSystem, folder string, heard func(line string)) (resources resmap.ResMap, err error) {
	door.Lock()
	defer door.Unlock()
	if heard != nil {
		defer listen(heard)()
	}
	defer func() {
		if p := recover(); p != nil {
			resources, err = nil, fmt.Errorf("kustomize build: it gave up on this input: %v", p)
		}
	}()
	openapi.ResetOpenAPI()
	defer openapi.ResetOpenAPI()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	options.PluginConfig = types.DisabledPluginConfig()
	resources, err = krusty.MakeKustomizer(options).Run(fsys, folder)
	if err != nil {
		return nil, &buildError{err}
	}
	return resources, nil
}

// listen takes in what is written to the standard error, or logged, until the function that it
// returns is called. Where there is no pipe to be had, what is written goes where it went.
func listen(heard func(line string)) func() {
	var l logged
	to, flags := log.Writer(), log.Flags()
	log.SetOutput(&l)
	log.SetFlags(0)
	written := reroute()
	return func() {
		lines := slices.Collect(strings.Lines(written()))
		log.SetOutput(to)
		log.SetFlags(flags)
		for _, line := range append(lines, l...) {
			heard(strings.TrimRight(line, "\n"))
		}
	}
}

// logged are the messages of a log, one each time something is written.
type logged []string

// loggedValue is where Kustomize quotes what a var stands for, such as the data of a Secret.
var loggedValue = regexp.MustCompile(`(?s)^(MakePrimitiveReplacer: .*) val=.*`)

// Write keeps a message. One after which the process would end, as with a merge into a ConfigMap
// whose data is none, is a panic in its place, which Build makes an error of.
func (l *logged) Write(message []byte) (int, error) {
	if isLast() {
		panic(strings.TrimSpace(string(message)))
	}
	*l = append(*l, loggedValue.ReplaceAllString(string(message), "$1"))
	return len(message), nil
}

// isLast says whether what is logged is logged by log.Fatal or its like.
func isLast() bool {
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "log.Fatal") || strings.HasPrefix(frame.Function, "log.(*Logger).Fatal") {
			return true
		}
		if !more {
			return false
		}
	}
}

// reroute has what is written to the standard error kept, until the function that it returns is
// called, which gives it.
func reroute() func() string {
	read, write, err := os.Pipe()
	if err != nil {
		return func() string { return "" }
	}
	stderr := os.Stderr
	os.Stderr = write
	whole := make(chan []byte)
	go func() {
		raw, _ := io.ReadAll(read) // until the other end is closed
		whole <- raw
	}()
	return func() string {
		os.Stderr = stderr
		write.Close()
		defer read.Close()
		return string(<-whole)
	}
}

// quoted is where Kustomize quotes a whole patch, or what a generator is given, before it
// says what is wrong: there are passwords in those.
var quoted = regexp.MustCompile("(?s) with config: `.*?`| from \\[patch: .*\\]|literal sources \\[.*\\]: |(invalid literal source) .*(, expected)")

// buildError is an error of Kustomize without what it quotes.
type buildError struct{ err error }

func (e *buildError) Error() string {
	return "kustomize build: " + quoted.ReplaceAllString(e.err.Error(), "$1$2")
}

func (e *buildError) Unwrap() error { return e.err }
