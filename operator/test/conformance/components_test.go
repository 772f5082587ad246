package conformance

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/controller/workload"
	"github.com/sluice-dev/sluice/operator/internal/live"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// stock builds an overlay with the kustomize program.
func stock(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "tools", "kustomize"), "build", folder)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		t.Fatalf("kustomize build %s: %v\n%s", folder, err, said.String())
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(out.String(), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

var hashed = regexp.MustCompile(`^blue-(words|settings|rules)-[a-z0-9]{10}$`)

func TestComponents_KustomizeReachesIntoWorkloads(t *testing.T) {
	const folder = "testdata/workload-kustomize"
	read, err := overlay.Read("", folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ours []*unstructured.Unstructured
	for _, o := range read {
		ours = append(ours, o.Unstructured)
	}
	for door, objects := range map[string][]*unstructured.Unstructured{"ours": ours, "stock kustomize": stock(t, folder)} {
		t.Run(door, func(t *testing.T) {
			byName := map[string]map[string]any{}
			generated := map[string]string{}
			for _, o := range objects {
				byName[o.GetKind()+"/"+o.GetName()] = o.Object
				if m := hashed.FindStringSubmatch(o.GetName()); m != nil {
					generated[m[1]] = o.GetName()
				}
			}
			if len(generated) != 3 {
				t.Fatalf("generated: %v", generated)
			}
			for at, want := range map[string]string{
				"Workload/blue-web spec.image":                                                        "registry.example.com/shop/web:2",
				"Workload/blue-web spec.backup.image":                                                 "registry.example.com/shop/backup@sha256:7551ce23073489f97f74cc0d7d77776e2fa3e920fd15afe359ac324e60f279b1",
				"Workload/blue-web spec.replicas":                                                     "4",
				"Workload/blue-web metadata.namespace":                                                "shop",
				"Workload/blue-web spec.serviceAccountName":                                           "blue-runner",
				"Workload/blue-web spec.imagePullSecrets.0.name":                                      "blue-pull",
				"Workload/blue-web spec.env.0.valueFrom.secretKeyRef.name":                            generated["words"],
				"Workload/blue-web spec.env.1.valueFrom.configMapKeyRef.name":                         generated["settings"],
				"Workload/blue-web spec.env.2.value":                                                  "words",
				"Workload/blue-web spec.secrets.0.name":                                               generated["words"],
				"Workload/blue-web spec.secrets.1.name":                                               "elsewhere",
				"Workload/blue-web spec.dependsOn.0.name":                                             "blue-cache",
				"Workload/blue-web spec.dependsOn.1.name":                                             "cache",
				"Workload/blue-web spec.dependsOn.1.namespace":                                        "other",
				"Workload/blue-cache spec.image":                                                      "mirror.example.com/cache:1",
				"Gate/blue-prod spec.policies.0.configMap.name":                                       generated["rules"],
				"Gate/blue-prod spec.policies.1.oci.registrySecret.name":                              "blue-pull",
				"Gate/blue-prod spec.policies.1.oci.authorities.0.key.secret.name":                    generated["words"],
				"Gate/blue-prod spec.policies.1.oci.authorities.1.keyless.trustedRoot.configMap.name": generated["rules"],
				"Gate/blue-prod spec.images.0.authorities.0.key.secret.name":                          generated["words"],
				"Gate/blue-prod spec.images.0.authorities.1.keyless.trustedRoot.configMap.name":       generated["rules"],
				"Gate/blue-prod spec.requirePromotionFrom.authorities.0.key.secret.name":              generated["words"],
				"Gate/blue-prod spec.attest.key.secret.name":                                          generated["words"],
				"Gate/blue-prod spec.attest.registrySecret.name":                                      "blue-pull",
			} {
				object, path, _ := strings.Cut(at, " ")
				if got := fmt.Sprint(field(byName[object], path)); got != want {
					t.Errorf("%s is %s and not %s", at, got, want)
				}
			}
		})
	}
	theirs := map[string]any{}
	for _, o := range stock(t, folder) {
		theirs[o.GetKind()+"/"+o.GetName()] = o.Object
	}
	for _, o := range ours {
		if want := theirs[o.GetKind()+"/"+o.GetName()]; !reflect.DeepEqual(normal(t, o.Object), normal(t, want)) {
			t.Errorf("%s/%s is %v, and with stock kustomize %v", o.GetKind(), o.GetName(), o.Object, want)
		}
	}
}

// The command line may not import the controller, and looks for the same kinds but one: the
// record of a stable revision is no part of what a Workload renders to.
func TestLive_ReadsTheChildrenThatTheControllerMakes(t *testing.T) {
	rendered := slices.DeleteFunc(slices.Clone(workload.ChildKinds), func(k schema.GroupVersionKind) bool { return k.Kind == "ControllerRevision" })
	if len(rendered) != len(workload.ChildKinds)-1 || !slices.Equal(live.ChildKinds, rendered) {
		t.Errorf("%v and not %v", live.ChildKinds, rendered)
	}
}

// normal is a value as YAML: readers differ in the types of numbers.
func normal(t *testing.T, v any) string {
	t.Helper()
	raw, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// field reads a path such as spec.env.0.name.
func field(v any, path string) any {
	for _, part := range strings.Split(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}
