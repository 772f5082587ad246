package workload

import (
	"encoding/json"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// annotationReferenced on the pod template is the mark that changes when a Secret or
	// ConfigMap does which the pods use: this is what rolls them.
	annotationReferenced = "sluice.dev/referenced"
	// annotationMark on the pods' controller says what was seen when the mark was set.
	annotationMark = "sluice.dev/referenced-mark"
	// markScheme has to be counted up whenever the same Secrets and ConfigMaps would give
	// another hash, or other fields of a pod count as references. A new version of the
	// operator then takes what is there for unchanged, and rolls nothing.
	markScheme = 1
)

var markValue = regexp.MustCompile(`^[0-9a-f]{0,64}$`)

// mark is what the pods' template says of what the pods refer to.
type mark struct {
	Scheme int `json:"scheme"`
	// Seen is the hash of the references when they were read last.
	Seen string `json:"seen"`
	// Pods is the value in the template. It is what was seen when the pods were rolled
	// last, and stays when only the scheme changes.
	Pods string `json:"pods"`
}

// marked is the mark as remembered, or as noted on the pods' controller after a restart;
// nil where there is neither. Whoever may edit that object could change the note, and get
// the pods rolled or not: they can do both without it.
func marked(s *scope) *mark {
	if s.memory.mark != nil {
		return s.memory.mark
	}
	p := primary(s.owned)
	if p == nil {
		return nil
	}
	m := &mark{}
	if json.Unmarshal([]byte(p.GetAnnotations()[annotationMark]), m) != nil || !markValue.MatchString(m.Pods) {
		return nil
	}
	return m
}

// nextMark decides whether the pods are rolled for what they refer to. seen is the hash of
// it now; incomplete says that a part is missing, which is no reason to restart pods that
// would not start again.
func nextMark(before *mark, live *unstructured.Unstructured, seen string, incomplete bool) mark {
	switch {
	case live == nil:
		return mark{markScheme, seen, seen}
	case before == nil:
		// Made by a version that knew no marks, or the note is lost: what runs is taken for
		// current.
		before = &mark{markScheme, seen, liveMark(live)}
	}
	switch {
	case incomplete:
		return *before
	case before.Scheme != markScheme:
		return mark{markScheme, seen, before.Pods}
	case before.Seen != seen:
		return mark{markScheme, seen, seen}
	}
	return *before
}

func liveMark(live *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(live.Object, "spec", "template", "metadata", "annotations", annotationReferenced)
	if !markValue.MatchString(value) {
		return ""
	}
	return value
}

// stampPods writes the mark where it rolls the pods. It comes after the gate, which judges
// the same object in the pull request, where no Secret can be read.
func stampPods(pods *unstructured.Unstructured, m mark) error {
	if m.Pods == "" {
		return nil
	}
	return unstructured.SetNestedField(pods.Object, m.Pods, "spec", "template", "metadata", "annotations", annotationReferenced)
}
