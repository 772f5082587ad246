package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// The programs of the control plane.
const (
	etcdTool       = "etcd"
	apiserverTool  = "kube-apiserver"
	controllerTool = "kube-controller-manager"
	kubectlTool    = "kubectl"
)

// unroutable is an address of the documentation range (RFC 5737). The API server wants
// to advertise an address that is not loopback, and nothing ever dials this one.
const unroutable = "192.0.2.1"

// startEtcd starts etcd with client certificates: a bare etcd on loopback would make
// every user of the machine an admin of the cluster.
func (c *Cluster) startEtcd(ctx context.Context, f files) error {
	ports, err := FreePorts(2)
	if err != nil {
		return err
	}
	c.etcdURL = "https://" + ports[0]
	peer := "https://" + ports[1]
	p, err := c.launch(etcdTool,
		"--data-dir="+filepath.Join(c.data, "etcd"),
		"--unsafe-no-fsync", // the data is thrown away
		"--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--cert-file="+f.serverCert, "--key-file="+f.serverKey, "--trusted-ca-file="+f.ca, "--client-cert-auth",
		"--peer-cert-file="+f.serverCert, "--peer-key-file="+f.serverKey, "--peer-trusted-ca-file="+f.ca, "--peer-client-cert-auth",
	)
	if err != nil {
		return err
	}
	probe, err := newProbe(f, c.etcdURL+"/health")
	if err != nil {
		return err
	}
	return c.untilReady(ctx, p, probe)
}

func (c *Cluster) startAPIServer(ctx context.Context, f files, ca *authority, users []string) error {
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(ports[0])
	if err != nil {
		return fmt.Errorf("port of kube-apiserver: %w", err)
	}
	policy, err := c.writeAuditPolicy(users)
	if err != nil {
		return err
	}
	p, err := c.launch(apiserverTool,
		"--audit-policy-file="+policy, "--audit-log-path="+c.AuditLog(),
		"--etcd-servers="+c.etcdURL, "--etcd-cafile="+f.ca, "--etcd-certfile="+f.clientCert, "--etcd-keyfile="+f.clientKey,
		"--bind-address=127.0.0.1", "--secure-port="+port,
		"--advertise-address="+unroutable, "--endpoint-reconciler-type=none",
		"--tls-cert-file="+f.serverCert, "--tls-private-key-file="+f.serverKey, "--client-ca-file="+f.ca,
		"--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+f.accountKey, "--service-account-signing-key-file="+f.accountKey,
		"--service-cluster-ip-range=10.96.0.0/16",
	)
	if err != nil {
		return err
	}
	host := "https://" + ports[0]
	admin, err := ca.client("lab-admin", "system:masters")
	if err != nil {
		return err
	}
	c.config = &rest.Config{
		Host: host,
		// The rate limits of client-go protect a shared API server; this one is ours.
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: admin.cert, KeyData: admin.key},
	}
	probe, err := newProbe(f, host+"/readyz")
	if err != nil {
		return err
	}
	return c.untilReady(ctx, p, probe)
}

// auditPolicy records every request of the users, and of all others who wrote what of
// Sluice's kinds, with the annotations that its webhooks add: their verdicts.
func auditPolicy(users []string) auditv1.Policy {
	writes := auditv1.PolicyRule{
		Level: auditv1.LevelMetadata, Verbs: []string{"create", "update", "patch", "delete"},
		Resources: []auditv1.GroupResources{{Group: v1beta1.GroupVersion.Group}},
	}
	rules := []auditv1.PolicyRule{writes, {Level: auditv1.LevelNone}}
	if len(users) > 0 { // a rule without users is for everyone
		rules = append([]auditv1.PolicyRule{{Level: auditv1.LevelMetadata, Users: users}}, rules...)
	}
	return auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived}, Rules: rules,
	}
}

// AuditLog is the API server's audit log of writes to Sluice's kinds, and of every request
// of Options.AuditUsers: a JSON audit.k8s.io/v1 Event a line, written before the request is
// answered. It is rotated after 100 MB.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }

func (c *Cluster) writeAuditPolicy(users []string) (string, error) {
	file := filepath.Join(c.data, "audit-policy.json")
	policy, err := json.Marshal(auditPolicy(users))
	if err != nil {
		return "", fmt.Errorf("write the audit policy: %w", err)
	}
	if err := os.WriteFile(file, policy, 0o600); err != nil {
		return "", fmt.Errorf("write the audit policy: %w", err)
	}
	return file, nil
}

func (c *Cluster) startControllers(ctx context.Context, f files, ca *authority) error {
	user, err := ca.client("system:kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(c.data, "controller-manager.kubeconfig")
	access := rest.Config{Host: c.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: user.cert, KeyData: user.key}}
	if err := writeKubeconfig(kubeconfig, &access, ""); err != nil {
		return err
	}
	p, err := c.launch(controllerTool,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--secure-port=0", // nobody asks it anything, and a port that is not open cannot clash
		"--use-service-account-credentials=true", "--service-account-private-key-file="+f.accountKey,
		"--root-ca-file="+f.ca,
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		// The stand-in node sends no heartbeats and attaches no volumes.
		"--controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller,-persistentvolume-attach-detach-controller",
	)
	if err != nil {
		return err
	}
	return c.untilReady(ctx, p, c.defaultNamespaceReady)
}

// defaultNamespaceReady says whether pods can be created: their admission needs the
// ServiceAccount, and their token volume the root certificates.
func (c *Cluster) defaultNamespaceReady(ctx context.Context) error {
	for name, object := range map[string]client.Object{
		"default": &corev1.ServiceAccount{}, "kube-root-ca.crt": &corev1.ConfigMap{},
	} {
		err := c.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, object)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is not in namespace default yet", object, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// launch starts one of the tools with its log in the cluster's folder.
func (c *Cluster) launch(tool string, args ...string) (*Process, error) {
	return c.run(tool, filepath.Join(c.tools, tool), args, systemEnv())
}

// systemEnv is what a process may know of the environment the lab runs in: no proxy, no
// credentials and no KUBECONFIG of the user.
func systemEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// untilReady waits until ready returns nil, and fails when p ends before.
func (c *Cluster) untilReady(ctx context.Context, p *Process, ready func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, limits.LabPoll, limits.LabReady, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, p.Ended()
		default:
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is not ready: %w (%v); the end of %s:\n%s", p.name, err, last, p.log, p.tail())
	}
	return err
}

// newProbe makes a condition that holds when a GET of url answers 200.
func newProbe(f files, url string) (func(context.Context) error, error) {
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("probe of %s: %w", url, err)
	}
	pair, err := tls.LoadX509KeyPair(f.clientCert, f.clientKey)
	if err != nil {
		return nil, fmt.Errorf("probe of %s: %w", url, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, answer.Status)
		}
		return nil
	}, nil
}
