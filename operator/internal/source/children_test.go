package source_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

func shop(patches ...v1beta1.Patch) *v1beta1.Workload {
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec: v1beta1.WorkloadSpec{
			Image: "r.io/web:1", Replicas: new(int32(3)), Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
			Ports:   []v1beta1.Port{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
			Storage: &v1beta1.Storage{Size: "1Gi", MountPath: "/data"},
			Config:  &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"app.conf": "a"}},
			Backup:  &v1beta1.Backup{Schedule: "0 3 * * *", Image: "r.io/backup:1", S3: v1beta1.S3{Bucket: "b", Region: "r"}},
			Patches: patches,
		},
	}
}

func TestChildren_SayWhichFieldOfTheWorkloadIsMeant(t *testing.T) {
	set := func(path, value string) v1beta1.Patch {
		return v1beta1.Patch{Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}, Patch: "- {op: add, path: " + path + ", value: " + value + "}\n"}
	}
	const pod = "spec.template.spec."
	config := ""
	rendered, err := render.Children(shop())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rendered {
		if c["kind"] == "ConfigMap" {
			config = images.ObjectName(c)
		}
	}
	for name, c := range map[string]struct {
		patches     []v1beta1.Patch
		child, path string
		want, note  string
	}{
		"the image":                    {nil, "StatefulSet/shop/web", pod + "containers[0].image", "spec.image", ""},
		"a variable":                   {nil, "StatefulSet/shop/web", pod + "containers[0].env[0].value", "spec.env[0].value", ""},
		"resources, which are not set": {nil, "StatefulSet/shop/web", pod + "containers[0].resources.limits.memory", "spec.resources.limits.memory", ""},
		"a probe, which is not set":    {nil, "StatefulSet/shop/web", pod + "containers[0].readinessProbe", "spec.probes.readiness", ""},
		"a port":                       {nil, "StatefulSet/shop/web", pod + "containers[0].ports[0].containerPort", "spec.ports[0].port", ""},
		"replicas":                     {nil, "StatefulSet/shop/web", "spec.replicas", "spec.replicas", ""},
		"the size":                     {nil, "StatefulSet/shop/web", "spec.volumeClaimTemplates[0].spec.resources.requests.storage", "spec.storage.size", ""},
		"the image of the backup":      {nil, "CronJob/shop/web-backup", "spec.jobTemplate.spec.template.spec.containers[0].image", "spec.backup.image", ""},
		"a file":                       {nil, config, `data["app.conf"]`, `spec.config.files["app.conf"]`, ""},
		"what nobody can set":          {nil, "StatefulSet/shop/web", pod + "securityContext.runAsNonRoot", "", "Sluice sets"},
		"an object that there is not":  {nil, "StatefulSet/shop/other", "spec.x", "", "Sluice sets"},
		"what a patch set":             {[]v1beta1.Patch{set("/spec/template/spec/hostNetwork", "true")}, "StatefulSet/shop/web", pod + "hostNetwork", "spec.patches[0]", ""},
		"the later of two patches":     {[]v1beta1.Patch{set("/spec/template/spec/containers/0/image", "a"), set("/spec/template/spec/containers/0/image", "b")}, "StatefulSet/shop/web", pod + "containers[0].image", "spec.patches[1]", ""},
		"beside a patch":               {[]v1beta1.Patch{set("/spec/template/spec/hostNetwork", "true")}, "StatefulSet/shop/web", pod + "containers[0].image", "spec.image", ""},
		"a sidecar":                    {[]v1beta1.Patch{set("/spec/template/spec/containers/-", "{name: x, image: b}")}, "StatefulSet/shop/web", pod + "containers[1].image", "spec.patches[0]", ""},
		"what a patch took away":       {[]v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}, Patch: "- {op: remove, path: /spec/template/spec/securityContext}\n"}}, "StatefulSet/shop/web", pod + "securityContext.runAsNonRoot", "spec.patches[0]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := shop(c.patches...)
			rendered, err := render.Children(w)
			if err != nil {
				t.Fatal(err)
			}
			for _, known := range [][]map[string]any{nil, rendered} {
				got, note := source.NewChildren(w, known).Field(c.child, c.path)
				if got != c.want || !strings.Contains(note, c.note) || c.note == "" && note != "" {
					t.Errorf("%q (%s), and not %q", got, note, c.want)
				}
			}
		})
	}
}

// Rendering a Workload with patches is a build by Kustomize: what the gate judged is not
// rendered once more.
func TestChildren_TakeWhatWasRendered(t *testing.T) {
	patch := v1beta1.Patch{Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}, Patch: "- {op: add, path: /spec/template/spec/hostNetwork, value: true}\n"}
	w := shop(patch)
	known := []map[string]any{{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "only", "namespace": "shop"}}}
	if got, note := source.NewChildren(w, known).Field("Service/shop/only", "metadata.name"); got != "spec.patches[0]" || note != "" {
		t.Errorf("%q (%s): the children were rendered, and not taken", got, note)
	}
}
