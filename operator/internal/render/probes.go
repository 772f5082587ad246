package render

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// probesReach refuses a probe by the name of a port that its container does not have. The API
// server takes one, and the kubelet cannot run it: pods are never ready, or never found dead.
// A patch may give the container a port that no Service publishes, so what is looked at is
// what the patches left. A number may be any port: it need not be declared.
func probesReach(w *v1beta1.Workload, children []map[string]any) error {
	for _, child := range children {
		if !runs([]map[string]any{child}) {
			continue
		}
		pod := under(under(under(child, "spec"), "template"), "spec")
		for _, list := range []string{"initContainers", "containers"} {
			for _, container := range objects(pod[list]) {
				if err := probesOf(w, container); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func probesOf(w *v1beta1.Workload, container map[string]any) error {
	own := v1beta1.Probes{}
	if w.Spec.Probes != nil && container["name"] == mainContainer {
		own = *w.Spec.Probes
	}
	for _, p := range []struct {
		field, name string
		own         *corev1.Probe
	}{{"startupProbe", "startup", own.Startup}, {"readinessProbe", "readiness", own.Readiness}, {"livenessProbe", "liveness", own.Liveness}} {
		for _, way := range []string{"httpGet", "tcpSocket"} {
			port, ok := under(under(container, p.field), way)["port"].(string)
			if !ok || hasPort(container, port) {
				continue
			}
			at := patchesPath
			if asks(p.own, port) && !slices.ContainsFunc(w.Spec.Ports, func(p v1beta1.Port) bool { return p.Name == port }) {
				at = "spec.probes." + p.name + "." + way + ".port"
			}
			return &FieldError{Path: at, Err: fmt.Errorf("no port of container %v is named %q, which its %s asks: declare it in spec.ports, or in a patch where no Service is to publish it, or give a number", container["name"], port, p.field)}
		}
	}
	return nil
}

func hasPort(container map[string]any, name string) bool {
	for _, port := range objects(container["ports"]) {
		if port["name"] == name {
			return true
		}
	}
	return false
}

// asks says whether a probe, which may be nil, is by this port.
func asks(probe *corev1.Probe, port string) bool {
	switch {
	case probe == nil:
		return false
	case probe.HTTPGet != nil:
		return probe.HTTPGet.Port == intstr.FromString(port)
	}
	return probe.TCPSocket != nil && probe.TCPSocket.Port == intstr.FromString(port)
}

// under is a field that holds an object; nil where it does not.
func under(object map[string]any, field string) map[string]any {
	v, _ := object[field].(map[string]any)
	return v
}

// objects are the objects of a list.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}
