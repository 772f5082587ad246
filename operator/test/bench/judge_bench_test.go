// Package bench measures the hot paths end to end. Figures are compared within one run.
package bench

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

const image = "registry.example.com/shop/orders-db:15.3.0"

// setUp makes a Judge whose registry has the image signed, and the digests as a
// reconcile knows them.
func setUp(b *testing.B) (*gather.Judge, map[string]string, *testkit.Registry) {
	b.Helper()
	served := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	b.Cleanup(served.Close)
	key, err := testkit.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	digest, err := testkit.PushImage(served.Host()+"/shop/orders-db:15.3.0", "shop/orders-db:15.3.0")
	if err != nil {
		b.Fatal(err)
	}
	if err := key.SignTag(served.Host()+"/shop/orders-db", digest); err != nil {
		b.Fatal(err)
	}
	source := &gather.Files{
		Namespaces: map[string]map[string]string{"shop": {}},
		GateList: []v1beta1.Gate{{
			ObjectMeta: metav1.ObjectMeta{Name: "prod"},
			Spec: v1beta1.GateSpec{
				Environment: "prod", Mode: v1beta1.GateModeEnforce, UnmatchedImages: v1beta1.UnmatchedImagesDeny,
				// The group restricted is ten policies.
				Policies: []v1beta1.PolicySource{{Builtin: "restricted"}},
				Images: []v1beta1.ImageRule{{
					Match:       "registry.example.com/shop/**",
					Authorities: []v1beta1.Authority{{Name: "release-key", Key: &v1beta1.PublicKey{Inline: key.PublicPEM}}},
				}},
			},
		}},
	}
	client := registry.New(registry.Options{Mirrors: map[string]string{"registry.example.com": served.Host()}})
	return gather.NewJudge(source, client, trust.New(trust.Options{})), map[string]string{image: digest}, served
}

func workload() *v1beta1.Workload {
	three := int32(3)
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-db", Namespace: "shop"},
		Spec: v1beta1.WorkloadSpec{
			Image: image, Replicas: &three, DeletionPolicy: v1beta1.DeletionPolicyDelete,
			Ports:   []v1beta1.Port{{Name: "postgres", Port: 5432, Protocol: corev1.ProtocolTCP}},
			Storage: &v1beta1.Storage{Size: "10Gi", MountPath: "/data"},
			Config:  &v1beta1.ConfigFiles{MountPath: "/etc/orders", Files: map[string]string{"postgresql.conf": "max_connections = 200"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
			Probes: &v1beta1.Probes{Readiness: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("postgres")}}}},
		},
	}
}

// BenchmarkJudge_TenPoliciesAndACachedSignature is what an admission request and a
// reconcile at rest cost: render, find images, ten policies, verify one signature.
func BenchmarkJudge_TenPoliciesAndACachedSignature(b *testing.B) {
	judge, known, served := setUp(b)
	w := workload()
	if j := judge.Workload(b.Context(), w, known); gate.Worst(j.Verdicts).Outcome != gate.OutcomeAllow {
		b.Fatalf("the verdict is %s", gate.Worst(j.Verdicts).Canonical())
	}
	served.ResetCounts()
	took := make([]time.Duration, 0, 1<<16)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		judge.Workload(b.Context(), w, known)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(served.Requests())/float64(len(took)), "registry-requests/op")
}
