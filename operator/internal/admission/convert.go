package admission

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	versions "github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// PathConvert is where Workloads are converted from one API version to the other.
const PathConvert = "/convert"

// newConversion serves ConversionReviews. Its scheme has both versions as objects without
// a type, so that no field is lost that this operator does not know.
func newConversion(c *versions.Converter) (http.Handler, error) {
	scheme := runtime.NewScheme()
	for _, version := range []schema.GroupVersion{v1alpha1.GroupVersion, v1beta1.GroupVersion} {
		scheme.AddKnownTypeWithName(version.WithKind(v1beta1.WorkloadKind), &unstructured.Unstructured{})
	}
	registry := conversion.NewRegistry()
	workload := schema.GroupKind{Group: v1beta1.GroupVersion.Group, Kind: v1beta1.WorkloadKind}
	if err := registry.RegisterConverter(workload, converter{c}); err != nil {
		return nil, err
	}
	handler := conversion.NewWebhookHandler(scheme, registry)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, limits.ConversionBytes)
		handler.ServeHTTP(w, r)
	}), nil
}

// converter implements conversion.Converter.
type converter struct{ *versions.Converter }

func (c converter) ConvertObject(_ context.Context, from, to runtime.Object) error {
	src, ok := from.(*unstructured.Unstructured)
	dst, okDst := to.(*unstructured.Unstructured)
	if !ok || !okDst {
		return fmt.Errorf("convert %T to %T: neither has to have a type", from, to)
	}
	if dst.GroupVersionKind().GroupVersion() == v1alpha1.GroupVersion {
		dst.Object = c.ToV1alpha1(src.Object)
		return nil
	}
	converted, err := c.ToV1beta1(src.Object)
	if err != nil {
		return fmt.Errorf("convert %s/%s: %w", src.GetNamespace(), src.GetName(), err)
	}
	dst.Object = converted
	return nil
}
