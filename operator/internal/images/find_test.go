package images

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"sigs.k8s.io/yaml"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const podSpec = `{initContainers: [{image: init}], containers: [{image: main}, {image: side}],
  ephemeralContainers: [{image: debug}], volumes: [{name: a, emptyDir: {}}, {name: b, image: {reference: files}}]}`

func TestFind_SeesEveryImageOfEveryPodBearingKind(t *testing.T) {
	for _, tc := range []struct{ apiVersion, kind, shape, prefix string }{
		{"v1", "Pod", "spec: %s", "spec"},
		{"v1", "PodTemplate", "template: {spec: %s}", "template.spec"},
		{"v1", "ReplicationController", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"apps/v1", "Deployment", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"apps/v1", "StatefulSet", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"apps/v1", "DaemonSet", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"apps/v1", "ReplicaSet", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"batch/v1", "Job", "spec: {template: {spec: %s}}", "spec.template.spec"},
		{"batch/v1", "CronJob", "spec: {jobTemplate: {spec: {template: {spec: %s}}}}", "spec.jobTemplate.spec.template.spec"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			obj := object(t, fmt.Sprintf("apiVersion: %s\nkind: %s\n"+tc.shape, tc.apiVersion, tc.kind, podSpec))
			got, err := Find(obj)
			if err != nil {
				t.Fatal(err)
			}
			want := []Found{
				{"init", tc.prefix + ".initContainers[0].image"},
				{"main", tc.prefix + ".containers[0].image"},
				{"side", tc.prefix + ".containers[1].image"},
				{"debug", tc.prefix + ".ephemeralContainers[0].image"},
				{"files", tc.prefix + ".volumes[1].image.reference"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if !PodBearing(tc.apiVersion, tc.kind) {
				t.Error("PodBearing says no")
			}
		})
	}
}

func TestFind_IsNotFooledByShape(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec: "
	for name, tc := range map[string]struct{ text, wantErr string }{
		"containers that are a map":          {pod + "{containers: {image: x}}", "spec.containers has to be a list and is an object"},
		"a container that is a string":       {pod + "{containers: [x]}", "spec.containers[0] has to be an object and is a string"},
		"a container that is null":           {pod + "{containers: [null]}", "spec.containers[0] has to be an object and is null"},
		"an image that is a list":            {pod + "{containers: [{image: [x]}]}", "spec.containers[0].image has to be a string and is a list"},
		"an image that is a number":          {pod + "{initContainers: [{image: 1}]}", "spec.initContainers[0].image has to be a string and is a number"},
		"a spec that is a string":            {pod + "x", "spec has to be an object and is a string"},
		"an image volume that is a string":   {pod + "{volumes: [{image: x}]}", "spec.volumes[0].image has to be an object and is a string"},
		"a template that is a list":          {"apiVersion: apps/v1\nkind: Deployment\nspec: {template: []}", "spec.template has to be an object and is a list"},
		"ephemeral containers that are true": {pod + "{ephemeralContainers: true}", "spec.ephemeralContainers has to be a list and is a boolean"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Find(object(t, tc.text))
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("got %v, %v; want error %q", got, err, tc.wantErr)
			}
		})
	}
}

func TestFind_LeavesOtherKindsAlone(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\nspec: {containers: [{image: x}]}",
		"apiVersion: example.com/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{image: x}]}}}",
		"apiVersion: v1\nkind: Deployment\nspec: {template: {spec: {containers: [{image: x}]}}}",
	} {
		if got, err := Find(object(t, text)); err != nil || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestFind_ReportsAContainerWithoutImage(t *testing.T) {
	got, err := Find(object(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: x}]}"))
	if diff := cmp.Diff([]Found{{Path: "spec.containers[0].image"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCollect_GroupsByReferenceInOrderOfAppearance(t *testing.T) {
	pinned := "registry.example.com/shop/web:1@" + someDigest
	got, err := Collect([]map[string]any{
		object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {template: {spec: {containers: [{image: nginx}, {image: '"+pinned+"'}]}}}"),
		object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}"),
		object(t, "apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-, namespace: shop}\nspec: {initContainers: [{image: 'a b'}], containers: [{image: nginx}]}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []gate.Image{
		{Ref: "nginx", Repository: "docker.io/library/nginx", Locations: []gate.Location{
			{Object: "Deployment/shop/web", Path: "spec.template.spec.containers[0].image"},
			{Object: "Pod/shop/web-", Path: "spec.containers[0].image"}}},
		{Ref: pinned, Repository: "registry.example.com/shop/web", Tag: "1", Pinned: true, Digest: someDigest,
			Locations: []gate.Location{{Object: "Deployment/shop/web", Path: "spec.template.spec.containers[1].image"}}},
		{Ref: "a b", Locations: []gate.Location{{Object: "Pod/shop/web-", Path: "spec.initContainers[0].image"}}, Invalid: got[2].Invalid},
	}
	if got[2].Invalid == "" {
		t.Error("an invalid reference is not marked")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func podWith(n int) map[string]any {
	containers := make([]any, n)
	for i := range containers {
		containers[i] = map[string]any{"image": fmt.Sprintf("app:%d", i)}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": containers}}
}

func TestCollect_StopsAtItsLimit(t *testing.T) {
	if got, err := Collect([]map[string]any{podWith(limits.ImagesPerObject)}); err != nil || len(got) != limits.ImagesPerObject {
		t.Errorf("at the limit: %d images, %v", len(got), err)
	}
	_, err := Collect([]map[string]any{podWith(limits.ImagesPerObject + 1)})
	if err == nil || !strings.Contains(err.Error(), "limits.ImagesPerObject") {
		t.Errorf("got %v", err)
	}
}

func TestPin_NamesTheDigestAndKeepsTheRegistryAsWritten(t *testing.T) {
	other := "sha256:" + strings.Repeat("cd", 32)
	for ref, want := range map[string]string{
		"nginx":                          "nginx@" + someDigest,
		"nginx:1.27":                     "nginx@" + someDigest,
		"localhost:5000/shop/web":        "localhost:5000/shop/web@" + someDigest,
		"localhost:5000/shop/web:1":      "localhost:5000/shop/web@" + someDigest,
		"docker.io/x/web:1@" + other:     "docker.io/x/web@" + someDigest,
		"registry.example.com/untouched": "registry.example.com/untouched",
		"not a reference":                "not a reference",
	} {
		t.Run(ref, func(t *testing.T) {
			digests := map[string]string{ref: someDigest}
			if strings.HasSuffix(ref, "untouched") {
				digests = nil
			}
			in := object(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: '"+ref+"', args: [a]}], volumes: [{image: {reference: '"+ref+"'}}]}")
			before, _ := json.Marshal(in)
			out := Pin([]map[string]any{in}, digests)
			found, err := Find(out[0])
			if err != nil || len(found) != 2 || found[0].Image != want || found[1].Image != want {
				t.Errorf("got %v, %v; want %q twice", found, err, want)
			}
			if after, _ := json.Marshal(in); string(after) != string(before) {
				t.Errorf("the input was changed: %s", after)
			}
		})
	}
}

func TestPin_LeavesAMisshapenChildAsItIs(t *testing.T) {
	in := object(t, "apiVersion: v1\nkind: Pod\nspec: {initContainers: [{image: web}], containers: {}}")
	out := Pin([]map[string]any{in, nil}, map[string]string{"web": someDigest})
	if diff := cmp.Diff([]map[string]any{in, nil}, out); diff != "" {
		t.Error(diff)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"x"}],"volumes":[{"image":{"reference":"y"}}]}}`))
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{}]}}}}}}`))
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var obj map[string]any
		if json.Unmarshal(raw, &obj) != nil {
			return
		}
		found, err := Find(obj)
		if err != nil {
			return
		}
		digests := map[string]string{}
		for _, x := range found {
			digests[x.Image] = someDigest
		}
		again, err := Find(Pin([]map[string]any{obj}, digests)[0])
		if err != nil || len(again) != len(found) {
			t.Fatalf("after pinning: %v, %v; before: %v", again, err, found)
		}
		for i := range again {
			parsed, err := Parse(found[i].Image)
			if err != nil {
				continue
			}
			pinned, err := Parse(again[i].Image)
			if err != nil || pinned.Digest != someDigest || pinned.Repository != parsed.Repository {
				t.Errorf("%q was pinned to %q", found[i].Image, again[i].Image)
			}
		}
	})
}
