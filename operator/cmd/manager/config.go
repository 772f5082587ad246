package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/sluice-dev/sluice/operator/internal/analysis"
	"github.com/sluice-dev/sluice/operator/internal/controller/workload"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// config is the flags, validated.
type config struct {
	namespace       string
	service         string
	configuration   string
	certificates    string
	certificateDir  string
	hosts           []string
	webhookPort     int
	webhookAddress  string
	metricsAddress  string
	healthAddress   string
	leaderElection  bool
	leaseDuration   time.Duration
	renewDeadline   time.Duration
	retryPeriod     time.Duration
	workers         int
	retryBase       time.Duration
	retryMax        time.Duration
	shard           labels.Selector
	prometheus      string
	analysis        workload.Measurer
	qps             float64
	mirrors         map[string]string
	insecure        []string
	registryCAFiles []string
	tokenHosts      []string
	addresses       []netip.Prefix
	google          bool
	amazon          bool
	azure           bool
}

// Bounds of the pause between two tries: below, the API server is what fails; above, a
// Workload is forgotten for a working day.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = time.Hour
)

// Bounds of leader election. The Lease counts in seconds: of two renewals in one second the
// others see the first, and would take the Lease over that much too early. With a longer
// Lease nothing is reconciled for hours when a leader dies.
const (
	minLeaseRetry = time.Second
	maxLease      = time.Hour
)

// list collects a repeatable flag.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}

// help is what -h asks for; it is no failure.
type help string

func (h help) Error() string { return string(h) }

func parse(args []string, getenv func(string) string) (config, error) {
	var c config
	var mirrors, insecure, hosts, cas, tokenHosts, addresses list
	var shard string
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.namespace, "namespace", getenv("POD_NAMESPACE"), "namespace the operator runs in, and the only one whose Secrets and ConfigMaps a Gate may name (default: $POD_NAMESPACE)")
	flags.StringVar(&c.service, "webhook-service", "sluice-webhook", "Service that the API server reaches the webhooks by")
	flags.StringVar(&c.configuration, "webhook-configuration", "sluice", "ValidatingWebhookConfiguration to keep the CA bundle of")
	flags.StringVar(&c.certificates, "webhook-certificate-secret", "sluice-webhook-certificate", "Secret that holds the webhook's own certificates; the Role sluice-manager has to name it")
	flags.StringVar(&c.certificateDir, "webhook-certificate-dir", "", "folder with tls.crt and tls.key made by someone else, such as cert-manager; empty: the manager makes and renews its own")
	flags.Var(&hosts, "webhook-host", "further host name or IP that the webhook's certificate is for (repeatable)")
	flags.IntVar(&c.webhookPort, "webhook-port", 9443, "port of the webhooks")
	flags.StringVar(&c.webhookAddress, "webhook-bind-address", "", "address the webhooks listen on (default: all)")
	flags.StringVar(&c.metricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 turns it off")
	flags.StringVar(&c.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.BoolVar(&c.leaderElection, "leader-elect", true, "reconcile only while holding the Lease; webhooks answer on every replica")
	flags.DurationVar(&c.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long after its last renewal the Lease of a leader that is gone keeps the others from leading, in whole seconds")
	flags.DurationVar(&c.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long after its last renewal a leader may write, and how long it tries to renew before it ends; shorter than the lease duration by what a write may take to arrive")
	flags.DurationVar(&c.retryPeriod, "leader-elect-retry-period", 2*time.Second, "pause between two renewals, and between two looks at whether the Lease is free")
	flags.IntVar(&c.workers, "workers", 4, "Workloads reconciled at a time")
	flags.DurationVar(&c.retryBase, "retry-base-delay", time.Second, "pause after the first failure of a Workload; doubles with each")
	flags.DurationVar(&c.retryMax, "retry-max-delay", 5*time.Minute, "longest pause between two tries of a Workload that fails")
	flags.StringVar(&shard, "watch-label-selector", "", "reconcile only Workloads with these labels, as one of several operators; admission judges all")
	flags.StringVar(&c.prometheus, "prometheus-address", "", "URL of the Prometheus that canaries are measured by, such as http://prometheus.monitoring:9090; without it a canary with metrics fails")
	flags.Float64Var(&c.qps, "kube-api-qps", 50, "requests per second to the API server; twice as many in a burst")
	flags.Var(&mirrors, "registry-mirror", "HOST=HOST:PORT to dial in place of a registry host (repeatable)")
	flags.Var(&tokenHosts, "registry-token-host", "host of a token server that may be given credentials although it is at another site than its registry (repeatable)")
	flags.Var(&addresses, "registry-allow-address", "IP or CIDR of a registry at a link-local or metadata address, which is not dialled otherwise (repeatable)")
	flags.BoolVar(&c.google, "google-credentials", false, "read gcr.io and pkg.dev with the credentials of the workload identity or the machine")
	flags.BoolVar(&c.amazon, "amazon-credentials", false, "read private registries of Amazon ECR with the credentials of the workload identity or the machine")
	flags.BoolVar(&c.azure, "azure-credentials", false, "read azurecr.io, azurecr.cn and azurecr.us with the credentials of the workload identity or the machine")
	flags.Var(&insecure, "insecure-registry", "registry host where plain HTTP is allowed (repeatable); loopback always is")
	flags.Var(&cas, "registry-ca-file", "PEM file with a further authority for registries (repeatable)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			var usage strings.Builder
			flags.SetOutput(&usage)
			flags.PrintDefaults()
			return c, help("The manager reconciles Workloads and answers admission. Flags:\n" + usage.String())
		}
		return c, err
	}
	c.insecure, c.hosts, c.registryCAFiles, c.tokenHosts = insecure, hosts, cas, tokenHosts
	var err error
	if c.shard, err = labels.Parse(shard); err != nil {
		return c, fmt.Errorf("--watch-label-selector=%s: write a label selector, such as shard=a: %w", shard, err)
	}
	if c.analysis, err = measurer(c.prometheus); err != nil {
		return c, fmt.Errorf("--prometheus-address: %w", err)
	}
	if c.mirrors, err = parseMirrors(mirrors); err != nil {
		return c, err
	}
	if c.addresses, err = registry.ParseAddresses(addresses); err != nil {
		return c, fmt.Errorf("--registry-allow-address: %w", err)
	}
	return c, c.validate(flags.Args())
}

func (c config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: the manager takes flags only", rest[0])
	case c.namespace == "":
		return errors.New("--namespace is not set and neither is POD_NAMESPACE: set one to the namespace the operator runs in")
	case c.workers < 1 || c.workers > 64:
		return fmt.Errorf("--workers=%d: has to be between 1 and 64", c.workers)
	case c.webhookPort < 1 || c.webhookPort > 65535:
		return fmt.Errorf("--webhook-port=%d: not a port", c.webhookPort)
	case c.retryBase < minRetry || c.retryMax < c.retryBase || c.retryMax > maxRetry:
		return fmt.Errorf("--retry-base-delay=%s and --retry-max-delay=%s: have to be between %s and %s, the first no longer than the second", c.retryBase, c.retryMax, minRetry, maxRetry)
	case c.retryPeriod < minLeaseRetry || float64(c.renewDeadline) <= leaderelection.JitterFactor*float64(c.retryPeriod):
		return fmt.Errorf("--leader-elect-retry-period=%s and --leader-elect-renew-deadline=%s: the first has to be at least %s, and the second longer than %.1f times the first", c.retryPeriod, c.renewDeadline, minLeaseRetry, leaderelection.JitterFactor)
	case c.leaseDuration <= c.renewDeadline || c.leaseDuration > maxLease || c.leaseDuration%time.Second != 0: // the Lease has it in seconds
		return fmt.Errorf("--leader-elect-lease-duration=%s: has to be longer than --leader-elect-renew-deadline=%s, at most %s, and in whole seconds", c.leaseDuration, c.renewDeadline, maxLease)
	case !(c.qps > 0 && c.qps <= 10000): // also not a number
		return fmt.Errorf("--kube-api-qps=%v: has to be above 0 and at most 10000", c.qps)
	case slices.Contains(c.hosts, ""):
		return errors.New("--webhook-host is empty: name a host or leave the flag out")
	}
	for _, host := range c.insecure {
		if host == "" || strings.Contains(host, "/") {
			return fmt.Errorf("--insecure-registry=%s: write HOST or HOST:PORT, without scheme and path", host)
		}
	}
	return nil
}

func parseMirrors(entries []string) (map[string]string, error) {
	mirrors := map[string]string{}
	for _, e := range entries {
		host, target, ok := strings.Cut(e, "=")
		dial, port, err := net.SplitHostPort(target)
		if !ok || host == "" || strings.Contains(host, "/") || err != nil || dial == "" || port == "" {
			return nil, fmt.Errorf("--registry-mirror=%s: write HOST=HOST:PORT", e)
		}
		if before, twice := mirrors[host]; twice {
			return nil, fmt.Errorf("--registry-mirror=%s: %s has a mirror already, %s", e, host, before)
		}
		mirrors[host] = target
	}
	return mirrors, nil
}

// webhookHosts are the names that the webhook's certificate has to be good for.
func (c config) webhookHosts() []string {
	name := c.service + "." + c.namespace + ".svc"
	return append([]string{name, name + ".cluster.local"}, c.hosts...)
}

func measurer(address string) (workload.Measurer, error) {
	if address == "" {
		return workload.Unmeasured{}, nil
	}
	return analysis.New(address, nil)
}

// lease names what the replicas of one shard compete for: each shard has a leader of its
// own.
func (c config) lease() string {
	if c.shard.Empty() {
		return "sluice.dev"
	}
	sum := sha256.Sum256([]byte(c.shard.String()))
	return "sluice.dev-" + hex.EncodeToString(sum[:])[:10]
}
