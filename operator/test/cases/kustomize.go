package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/pin"
	"github.com/sluice-dev/sluice/operator/internal/repo"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// commandCase is a case about the command, drift or health. run says what ours is, and
// what is wrong with it.
type commandCase struct {
	number int
	name   string
	right  string
	run    func(context.Context) error
}

var kustomizeCases = []commandCase{
	{1, "an overlay with its own OpenAPI schema, before and beside another one's patch", "image and sidecar are kept", openAPIStays},
	{2, "a base pinned by digest, and newTag alone in the overlay", "denied, at the overlay's line", unpinned},
	{3, "images: against the image of a Workload", "reaches it by our component; an error without", imagesOfWorkloads},
	{4, "a generator without the namespace that its user has", "reported, with both files", danglingReference},
	{5, "a merge patch on the env of a Workload", "diff shows the entries that are lost", lostEntries},
	{6, "1000m against 1 in an object that nobody knows", "no drift", quantities},
	{7, "volumeClaimTemplates as the API server stores them", "no drift", storedClaims},
	{8, "a StatefulSet with OnDelete and old pods", "Progressing, with the reason", onDelete},
	{8, "a custom resource that is not Ready, of a kind without a script", "Degraded, with its message", notReady},
	{9, "a status that speaks of an older generation", "Progressing", olderStatus},
	{10, "two promotions that were prepared from one head", "one lands, the other refuses, reads the head anew and lands after it", twoPromotions},
}

// folder writes files into a new folder, which done removes.
func folder(files map[string]string) (dir string, done func(), err error) {
	if dir, err = os.MkdirTemp("", "case-*"); err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			done()
			return "", nil, err
		}
	}
	return dir, done, nil
}

// check runs the command on a folder's overlay; it fails unless the exit code is code and
// everything in says is said.
func check(ctx context.Context, files map[string]string, code int, says ...string) error {
	dir, done, err := folder(files)
	if err != nil {
		return err
	}
	defer done()
	var out bytes.Buffer
	args := []string{"check", "--no-cache", filepath.Join(dir, "overlay"), "--root", dir, "--gate", filepath.Join(dir, "gate")}
	if got := cli.Main(ctx, args, strings.NewReader(""), &out, &out); got != code {
		return fmt.Errorf("exit code %d and not %d: %s", got, code, out.String())
	}
	for _, s := range says {
		if !strings.Contains(out.String(), s) {
			return fmt.Errorf("%q is not said: %s", s, out.String())
		}
	}
	return nil
}

const (
	statefulSet = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: db, image: r.io/db:1}\n      - {name: side, image: r.io/side:1}\n"
	allGate     = "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: case}\nspec:\n  environment: case\n  match: {kinds: [Workload, Deployment, Pod]}\n"
	shopSpace   = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	webWorkload = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: registry.example.com/shop/web:1}\n"
)

func openAPIStays(context.Context) error {
	dir, done, err := folder(map[string]string{
		"hostile/kustomization.yaml": "resources: [x.yaml]\nopenapi: {path: schema.json}\n", "hostile/schema.json": `{"definitions": {}}`,
		"hostile/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "innocent/kustomization.yaml": "resources: [db.yaml]\npatches: [{path: p.yaml}]\n",
		"innocent/db.yaml": statefulSet, "innocent/p.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: db, env: [{name: A, value: b}]}\n",
	})
	if err != nil {
		return err
	}
	defer done()
	var all sync.WaitGroup
	failed := make(chan error, 40)
	for i := range 40 {
		all.Go(func() {
			if i%2 == 0 {
				if _, err := overlay.Read(dir, filepath.Join(dir, "hostile"), nil); err != nil {
					failed <- err
				}
				return
			}
			objects, err := overlay.Read(dir, filepath.Join(dir, "innocent"), nil)
			if err != nil {
				failed <- err
				return
			}
			containers, _, _ := unstructured.NestedSlice(objects[0].Object, "spec", "template", "spec", "containers")
			if text := fmt.Sprint(containers); len(containers) != 2 || !strings.Contains(text, "r.io/db:1") || !strings.Contains(text, "r.io/side:1") {
				failed <- fmt.Errorf("the containers are %v", containers)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func unpinned(ctx context.Context) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	digest, err := b.signed()
	if err != nil {
		return err
	}
	key := strings.ReplaceAll(strings.TrimSpace(b.key.PublicPEM), "\n", "\n        ")
	return check(ctx, map[string]string{
		"base/kustomization.yaml":    "resources: [web.yaml]\n",
		"base/web.yaml":              "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: web, image: '" + b.repository() + ":1@" + digest + "'}\n",
		"overlay/kustomization.yaml": fmt.Sprintf("resources: [../base]\nimages:\n- name: %s\n  newTag: '1'\n", b.repository()),
		"gate/gate.yaml":             allGate + "  images:\n  - match: '" + b.registry.Host() + "/**'\n    requireDigest: true\n    authorities:\n    - name: k\n      key:\n        inline: |\n          " + strings.ReplaceAll(key, "\n", "\n  ") + "\n" + shopSpace,
	}, cli.ExitDenied, "demands a digest", "overlay/kustomization.yaml:4:3 images[0].newTag")
}

// component is the one that this repository has.
func component() (map[string]string, error) {
	root, err := clone.Root()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range []string{"kustomization.yaml", "fields.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, "kustomize/components/workload-kustomize", name))
		if err != nil {
			return nil, err
		}
		files["component/"+name] = string(raw)
	}
	return files, nil
}

func imagesOfWorkloads(ctx context.Context) error {
	files, err := component()
	if err != nil {
		return err
	}
	files["base/kustomization.yaml"], files["base/web.yaml"] = "resources: [web.yaml]\n", webWorkload
	files["gate/gate.yaml"] = allGate + "  images: [{match: registry.example.com/**, require: none}]\n" + shopSpace
	const entry = "images:\n- {name: registry.example.com/shop/web, newTag: v2}\n"
	files["overlay/kustomization.yaml"] = "resources: [../base]\n" + entry
	if err := check(ctx, files, cli.ExitUsage, "does not reach Workload/shop/web spec.image", "kustomize/components/workload-kustomize"); err != nil {
		return err
	}
	files["overlay/kustomization.yaml"] = "resources: [../base]\ncomponents: [../component]\n" + entry
	if err := check(ctx, files, cli.ExitPass); err != nil {
		return err
	}
	dir, done, err := folder(files)
	if err != nil {
		return err
	}
	defer done()
	objects, err := overlay.Read(dir, filepath.Join(dir, "overlay"), nil)
	if err != nil {
		return err
	}
	if got, _, _ := unstructured.NestedString(objects[0].Object, "spec", "image"); got != "registry.example.com/shop/web:v2" {
		return fmt.Errorf("the image is %s", got)
	}
	files["overlay/kustomization.yaml"] += "- {name: registry.example.com/shop/wbe, newTag: v2}\n"
	return check(ctx, files, cli.ExitUsage, "shop/wbe matches no image")
}

func danglingReference(ctx context.Context) error {
	return check(ctx, map[string]string{
		"base/kustomization.yaml":    "resources: [web.yaml]\n",
		"base/web.yaml":              "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: a, image: r.io/a:1, envFrom: [{configMapRef: {name: settings}}]}]}\n",
		"overlay/kustomization.yaml": "resources: [../base]\nconfigMapGenerator: [{name: settings, literals: [a=b]}]\n",
		"gate/gate.yaml":             allGate + "  images: [{match: r.io/**, require: none}]\n" + shopSpace,
	}, cli.ExitUsage, "base/web.yaml:4", "overlay/kustomization.yaml generates", "in no namespace")
}

// object reads YAML with whole numbers as such.
func object(text string, into *unstructured.Unstructured) error {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	return into.UnmarshalJSON(raw)
}

// drift compares two objects and wants no difference.
func drift(desired, live string) error {
	var pair [2]unstructured.Unstructured
	for i, text := range []string{desired, live} {
		if err := object(text, &pair[i]); err != nil {
			return err
		}
	}
	changes, err := delta.Compare(&pair[0], &pair[1])
	if err == nil && len(changes) > 0 {
		err = fmt.Errorf("drift: %v", changes)
	}
	return err
}

func quantities(context.Context) error {
	const pod = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\nspec: {unknownField: x, template: {spec: {containers: [{name: a, resources: {limits: {cpu: CPU}}}]}}}\n"
	return drift(strings.Replace(pod, "CPU", "1000m", 1), strings.Replace(pod, "CPU", `"1"`, 1))
}

func storedClaims(context.Context) error {
	const set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: shop}\nspec:\n  serviceName: db\n  volumeClaimTemplates:\n  - "
	return drift(
		set+"{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}\n",
		set+"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}\n"+
			"  persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}\n  podManagementPolicy: OrderedReady\n  revisionHistoryLimit: 10\n")
}

// progresses wants the health of an object to be Progressing, and to say why.
func progresses(text, says string) error {
	var u unstructured.Unstructured
	if err := object(text, &u); err != nil {
		return err
	}
	if h := health.Of(&u); h.Status != health.Progressing || !strings.Contains(h.Message, says) {
		return fmt.Errorf("it is %s: %s", h.Status, h.Message)
	}
	return nil
}

func onDelete(context.Context) error {
	return progresses("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, generation: 2}\nspec: {replicas: 3, updateStrategy: {type: OnDelete}}\n"+
		"status: {observedGeneration: 2, replicas: 3, readyReplicas: 3, currentReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}\n", "deleted by hand")
}

func olderStatus(context.Context) error {
	return progresses("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, generation: 3}\nspec: {replicas: 1}\n"+
		"status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}\n", "")
}

func lostEntries(ctx context.Context) error {
	dir, done, err := folder(map[string]string{
		"base/kustomization.yaml":    "resources: [web.yaml]\n",
		"base/web.yaml":              strings.Replace(webWorkload, "web:1}", "web:1, env: [{name: FIRST, value: a}, {name: LOST, value: b}]}", 1),
		"overlay/kustomization.yaml": "resources: [../base]\npatches: [{path: p.yaml}]\n",
		"overlay/p.yaml":             "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {env: [{name: ADDED, value: c}]}\n",
	})
	if err != nil {
		return err
	}
	defer done()
	var out bytes.Buffer
	args := []string{"diff", filepath.Join(dir, "overlay"), "--root", dir, "--against", filepath.Join(dir, "base")}
	if code := cli.Main(ctx, args, strings.NewReader(""), &out, &out); code != 1 {
		return fmt.Errorf("exit code %d: %s", code, out.String())
	}
	for _, says := range []string{"Workload/shop/web changed", "-  - name: FIRST", "-  - name: LOST", "+  - name: ADDED"} {
		if !strings.Contains(out.String(), says) {
			return fmt.Errorf("%q is not said: %s", says, out.String())
		}
	}
	return nil
}

func notReady(context.Context) error {
	var u unstructured.Unstructured
	if err := object("apiVersion: example.com/v1\nkind: Database\nmetadata: {name: db, generation: 1}\nstatus: {conditions: [{type: Ready, status: 'False', reason: DiskFull, message: the disk is full}]}\n", &u); err != nil {
		return err
	}
	if h := health.Of(&u); h.Status != health.Degraded || h.Message != "the disk is full" {
		return fmt.Errorf("it is %s: %s", h.Status, h.Message)
	}
	return nil
}

// queued is an overlay with two Workloads in a repository of its own.
func queued(ctx context.Context) (dir string, done func(), err error) {
	files, err := component()
	if err != nil {
		return "", nil, err
	}
	files["base/kustomization.yaml"], files["base/web.yaml"] = "resources: [web.yaml, api.yaml]\n", webWorkload
	files["base/api.yaml"] = strings.ReplaceAll(strings.ReplaceAll(webWorkload, "name: web", "name: api"), "shop/web", "shop/api")
	files["overlay/kustomization.yaml"] = "resources: [../base]\ncomponents: [../component]\n"
	if dir, done, err = folder(files); err != nil {
		return "", nil, err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "a"}, {"config", "user.email", "a@example.com"}, {"config", "commit.gpgsign", "false"}, {"add", "-A"}, {"commit", "-q", "-m", "a"}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			done()
			return "", nil, fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return dir, done, nil
}

// prepare works out the commit that pins one Workload, from what is checked out.
func prepare(ctx context.Context, dir, name, digest string) (repo.Commit, error) {
	status, err := repo.At(dir).Status(ctx)
	if err != nil {
		return repo.Commit{}, err
	}
	set, err := overlay.Load(dir, filepath.Join(dir, "overlay"), nil)
	if err != nil {
		return repo.Commit{}, err
	}
	for _, o := range set.Objects {
		if o.GetName() != name {
			continue
		}
		changed, err := pin.Change(set, pin.Want{Object: o, Digest: digest})
		if err != nil {
			return repo.Commit{}, err
		}
		return repo.Commit{Parent: status.Head, Branch: status.Branch, Message: "promote " + name, Files: changed.Files}, nil
	}
	return repo.Commit{}, fmt.Errorf("no Workload %s", name)
}

func twoPromotions(ctx context.Context) error {
	dir, done, err := queued(ctx)
	if err != nil {
		return err
	}
	defer done()
	digest := map[string]string{"web": testkit.DigestOf("web"), "api": testkit.DigestOf("api")}
	var commits []repo.Commit
	for _, name := range []string{"web", "api"} {
		c, err := prepare(ctx, dir, name, digest[name])
		if err != nil {
			return err
		}
		commits = append(commits, c)
	}
	if _, err := repo.At(dir).Commit(ctx, commits[0]); err != nil {
		return err
	}
	if _, err := repo.At(dir).Commit(ctx, commits[1]); !errors.Is(err, repo.ErrMoved) {
		return fmt.Errorf("the second is not refused: %w", err)
	}
	again, err := prepare(ctx, dir, "api", digest["api"])
	if err != nil {
		return err
	}
	if _, err := repo.At(dir).Commit(ctx, again); err != nil {
		return err
	}
	set, err := overlay.Load(dir, filepath.Join(dir, "overlay"), nil)
	if err != nil {
		return err
	}
	for _, o := range set.Objects {
		if now, err := pin.Read(set, o); err != nil || now.Digest != digest[o.GetName()] {
			return fmt.Errorf("%s is pinned to %s: %w", o.GetName(), now.Digest, err)
		}
	}
	return nil
}
