package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// manager is the name of the Deployment, of its ServiceAccount and of its rights.
	manager = "sluice-manager"
	// certificates is where OLM mounts the webhooks' certificate.
	certificates = "/tmp/k8s-webhook-server/serving-certs"
)

// examples are what a console offers to fill in, one for each kind.
func examples() ([]any, error) {
	files, err := filepath.Glob("operator/packaging/bundle/examples/*.yaml")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no examples in operator/packaging/bundle: run this in the root of the repository (%w)", err)
	}
	var out []any
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read an example: %w", err)
		}
		var o map[string]any
		if err := yaml.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("read the example %s: %w", file, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// serviceVersion is the ClusterServiceVersion. Only all namespaces are supported: that is
// what OLM wants of an operator whose CRDs convert, and Gates are the cluster's anyway.
func (b base) serviceVersion(examples []any, image string) (map[string]any, error) {
	deployment, err := b.one("Deployment", manager)
	if err != nil {
		return nil, err
	}
	image, err = prepare(deployment, image)
	if err != nil {
		return nil, err
	}
	tagged, _, _ := strings.Cut(image, "@")
	version := tagged[strings.LastIndex(tagged, ":")+1:]
	shown, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		return nil, err
	}
	install, err := b.install(deployment)
	if err != nil {
		return nil, err
	}
	webhooks, err := b.webhooks()
	if err != nil {
		return nil, err
	}
	spec := description(version)
	spec["install"] = install
	spec["webhookdefinitions"] = webhooks
	spec["relatedImages"] = []any{map[string]any{"name": "manager", "image": image}}
	spec["customresourcedefinitions"] = map[string]any{"owned": b.owned()}
	return map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": map[string]any{
			"name": "sluice.v" + version, "namespace": "placeholder",
			"annotations": map[string]any{
				"alm-examples": string(shown), "capabilities": "Deep Insights", "categories": "Security, Developer Tools",
				"containerImage": image, "description": "One gate for Workloads, in the pull request, at admission and on every reconcile.",
				"repository": "https://github.com/sluice-dev/sluice", "support": "sluice-dev",
				"operators.operatorframework.io/suggested-namespace": "sluice-system",
			},
		},
		"spec": spec,
	}, nil
}

// prepare has the Deployment serve with OLM's certificate and run the image, where that is
// not empty, and returns the image that it runs.
func prepare(deployment *unstructured.Unstructured, image string) (string, error) {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		return "", fmt.Errorf("deployment %s: want one container, got %d (%w)", manager, len(containers), err)
	}
	container := containers[0].(map[string]any)
	args, _, err := unstructured.NestedSlice(container, "args")
	if err != nil {
		return "", fmt.Errorf("deployment %s: %w", manager, err)
	}
	container["args"] = append(args, "--webhook-certificate-dir="+certificates)
	if image == "" {
		image, _, _ = unstructured.NestedString(container, "image")
	}
	container["image"] = image
	if !strings.Contains(image, ":") {
		return "", fmt.Errorf("deployment %s: the image %q has no tag to tell the version by", manager, image)
	}
	return image, unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

// install is the Deployment and the rights of its ServiceAccount.
func (b base) install(deployment *unstructured.Unstructured) (map[string]any, error) {
	spec := map[string]any{
		"deployments": []any{map[string]any{"name": manager, "label": deployment.GetLabels(), "spec": deployment.Object["spec"]}},
	}
	for kind, key := range map[string]string{"ClusterRole": "clusterPermissions", "Role": "permissions"} {
		role, err := b.one(kind, manager)
		if err != nil {
			return nil, err
		}
		spec[key] = []any{map[string]any{"serviceAccountName": manager, "rules": role.Object["rules"]}}
	}
	return map[string]any{"strategy": "deployment", "spec": spec}, nil
}

// webhooks are those of the base's configuration, and that which converts, as OLM wants
// them told.
func (b base) webhooks() ([]any, error) {
	configuration, err := b.one("ValidatingWebhookConfiguration", "sluice")
	if err != nil {
		return nil, err
	}
	all, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, err
	}
	var out []any
	for _, w := range all {
		w := w.(map[string]any)
		path, _, _ := unstructured.NestedString(w, "clientConfig", "service", "path")
		d := served("ValidatingAdmissionWebhook", w["name"].(string), path)
		for _, key := range []string{"admissionReviewVersions", "failurePolicy", "matchPolicy", "rules", "sideEffects", "timeoutSeconds"} {
			d[key] = w[key]
		}
		out = append(out, d)
	}
	for _, definition := range b["CustomResourceDefinition"] {
		path, converts, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "service", "path")
		if !converts {
			continue
		}
		d := served("ConversionWebhook", "conversion."+definition.GetName(), path)
		d["admissionReviewVersions"], _, _ = unstructured.NestedSlice(definition.Object, "spec", "conversion", "webhook", "conversionReviewVersions")
		d["sideEffects"], d["conversionCRDs"] = "None", []any{definition.GetName()}
		out = append(out, d)
	}
	return out, nil
}

func served(kind, name, path string) map[string]any {
	return map[string]any{
		"type": kind, "generateName": name, "deploymentName": manager, "containerPort": int64(443), "targetPort": int64(9443), "webhookPath": path,
	}
}

// owned are the kinds in every version, with what a console shows of them.
func (b base) owned() []any {
	var out []any
	for _, definition := range b["CustomResourceDefinition"] {
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		for _, v := range versions {
			version := v.(map[string]any)
			about, _, _ := unstructured.NestedString(version, "schema", "openAPIV3Schema", "description")
			entry := map[string]any{
				"name": definition.GetName(), "kind": kind, "version": version["name"], "displayName": kind, "description": about,
				"specDescriptors": described(version, "spec"),
			}
			if status := described(version, "status"); len(status) > 0 {
				entry["statusDescriptors"] = status
			}
			out = append(out, entry)
		}
	}
	return out
}
