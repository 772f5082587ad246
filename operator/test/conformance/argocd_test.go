package conformance

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// project is what an AppProject of Argo CD allows.
type project struct {
	Spec struct {
		Destinations []struct {
			Namespace string `json:"namespace"`
		} `json:"destinations"`
		Cluster    []schema.GroupKind `json:"clusterResourceWhitelist"`
		Namespaced []schema.GroupKind `json:"namespaceResourceWhitelist"`
	} `json:"spec"`
}

// TestArgoCD_TheProjectAllowsWhatTheOverlaysHoldAndNothingElse keeps the rights least.
func TestArgoCD_TheProjectAllowsWhatTheOverlaysHoldAndNothingElse(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "kustomize", "argocd", "project.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var p project
	if err := yaml.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, k := range append(p.Spec.Cluster, p.Spec.Namespaced...) {
		allowed[k.String()] = true
	}
	for _, d := range p.Spec.Destinations {
		allowed["namespace "+d.Namespace] = true
	}
	held := map[string]bool{}
	for _, environment := range []string{"dev", "ci", "e2e", "prod"} {
		objects, err := stage.Objects(root, filepath.Join("kustomize", "overlays", environment))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			held[o.GroupVersionKind().GroupKind().String()] = true
			if o.GetNamespace() != "" {
				held["namespace "+o.GetNamespace()] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if !allowed[name] {
			t.Errorf("the overlays hold %s, which the project does not allow", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if !held[name] {
			t.Errorf("the project allows %s, which no overlay holds", name)
		}
	}
}

// TestArgoCD_WhatJudgesIsSyncedBeforeWhatIsJudged: definitions, then the operator, then
// Gates, then Workloads.
func TestArgoCD_WhatJudgesIsSyncedBeforeWhatIsJudged(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	order := map[string]int{"CustomResourceDefinition": 0, "Gate": 2, "Exemption": 2, "Workload": 3}
	for _, environment := range []string{"dev", "ci", "e2e", "prod"} {
		objects, err := stage.Objects(root, filepath.Join("kustomize", "overlays", environment))
		if err != nil {
			t.Fatal(err)
		}
		waves := map[int]int{} // by place in the order
		for _, o := range objects {
			place, known := order[o.GetKind()]
			if !known {
				place = 1 // the operator, and namespaces
			}
			wave, err := strconv.Atoi(o.GetAnnotations()["argocd.argoproj.io/sync-wave"])
			if err != nil && o.GetKind() != "Workload" {
				t.Errorf("%s: %s %s: %v", environment, o.GetKind(), o.GetName(), err)
			}
			if before, seen := waves[place]; seen && before != wave {
				t.Errorf("%s: %s %s is in wave %d, and others of its like in wave %d", environment, o.GetKind(), o.GetName(), wave, before)
			}
			waves[place] = wave
		}
		if len(waves) != 4 || waves[0] >= waves[1] || waves[1] >= waves[2] || waves[2] >= waves[3] {
			t.Errorf("%s: the waves are %v", environment, waves)
		}
	}
}

// TestArgoCD_NoDefaultIsSetWithinWhatIsReplacedAsAWhole: a list or map that is atomic is
// Git's as a whole to Argo CD, so that a default within it would be OutOfSync for ever.
func TestArgoCD_NoDefaultIsSetWithinWhatIsReplacedAsAWhole(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := stage.Objects(root, "kustomize/base/crds")
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes's own: names, which are always there, and a field that is of no use to a
	// Workload, whose pods have no file to take variables from.
	known := map[string]bool{
		"spec.imagePullSecrets[].name": true, "spec.env[].valueFrom.configMapKeyRef.name": true, "spec.env[].valueFrom.secretKeyRef.name": true, "spec.env[].valueFrom.fileKeyRef.optional": true,
	}
	looked := 0
	for _, o := range objects {
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(raw, crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			looked++
			for _, path := range defaultsWithin(*v.Schema.OpenAPIV3Schema, "", false) {
				if !known[path] {
					t.Errorf("%s %s: %s has a default", crd.Spec.Names.Kind, v.Name, path)
				}
			}
		}
	}
	if looked != 4 {
		t.Errorf("%d schemas were looked at", looked)
	}
}

// defaultsWithin are the paths with a default below a list or map that is atomic.
func defaultsWithin(s apiextensionsv1.JSONSchemaProps, path string, atomic bool) []string {
	var out []string
	if atomic && s.Default != nil {
		out = append(out, strings.TrimPrefix(path, "."))
	}
	atomic = atomic || s.XMapType != nil && *s.XMapType == "atomic"
	for name, field := range s.Properties {
		out = append(out, defaultsWithin(field, path+"."+name, atomic)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out = append(out, defaultsWithin(*s.AdditionalProperties.Schema, path+"{}", atomic)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, defaultsWithin(*s.Items.Schema, path+"[]", atomic || s.XListType == nil || *s.XListType == "atomic")...)
	}
	return out
}
