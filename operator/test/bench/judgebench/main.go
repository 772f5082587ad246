// Command judgebench times the policies of checkbench's fleet alone: it reads the Workloads,
// judges them under the Gate without policies and under the one with them, in turn, by all cores
// and with the collector paced as in `sluice check`, and prints the best round of each.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/collector"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	manifests "github.com/sluice-dev/sluice/operator/internal/schema"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// rounds are three, the first of which has caches to fill: checkbench calls it in each of its own.
const rounds = 3

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judgebench FLEET")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "judgebench:", err)
		os.Exit(1)
	}
}

func run(fleet string) error {
	collector.Pace()
	all, err := readWorkloads(fleet)
	if err != nil {
		return err
	}
	with, err := newJudge(fleet, "gate")
	if err != nil {
		return err
	}
	without, err := newJudge(fleet, "none")
	if err != nil {
		return err
	}
	bare, full := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range rounds {
		a, err := judgeAll(without, all)
		if err != nil {
			return err
		}
		b, err := judgeAll(with, all)
		if err != nil {
			return err
		}
		bare, full = min(bare, a), min(full, b)
	}
	fmt.Println(bare, full)
	return nil
}

func judgeAll(judge *gather.Judge, all []*v1beta1.Workload) (time.Duration, error) {
	denied := make([]error, len(all))
	start := time.Now()
	collector.Each(len(all), func(i int) {
		if v := gate.Worst(judge.Workload(context.Background(), all[i], nil).Verdicts); v.Outcome != gate.OutcomeAllow {
			denied[i] = fmt.Errorf("%s: %s", all[i].Name, v.Canonical())
		}
	})
	return time.Since(start), errors.Join(denied...)
}

func newJudge(fleet, folder string) (*gather.Judge, error) {
	raw, err := os.ReadFile(filepath.Join(fleet, folder, "gate.yaml"))
	if err != nil {
		return nil, err
	}
	from := &gather.Files{Namespaces: map[string]map[string]string{"shop": {"environment": "prod"}}, GateList: make([]v1beta1.Gate, 1)}
	if err := yaml.Unmarshal(raw, &from.GateList[0]); err != nil {
		return nil, err
	}
	return gather.NewJudge(from, registry.New(registry.Options{}), trust.New(trust.Options{})), nil
}

// readWorkloads as the API server would keep them.
func readWorkloads(fleet string) ([]*v1beta1.Workload, error) {
	schemas, err := manifests.Load(crds.Files)
	if err != nil {
		return nil, err
	}
	converter, err := conversion.New(schemas)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(fleet, "base", "w*.yaml"))
	if err != nil {
		return nil, err
	}
	all := make([]*v1beta1.Workload, len(files))
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.Unmarshal(raw, &content); err != nil {
			return nil, err
		}
		admitted, errs := converter.Admit(context.Background(), content, schema.FromAPIVersionAndKind(v1beta1.GroupVersion.String(), v1beta1.WorkloadKind))
		if err := errs.ToAggregate(); err != nil {
			return nil, err
		}
		all[i] = &v1beta1.Workload{}
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(admitted, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
