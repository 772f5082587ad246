package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// usage is the index of which Workload's pods use which Secrets and ConfigMaps. It is
// filled by reconciles, since a patch can bring a reference that only shows in what is
// rendered. After a restart each Workload is reconciled once, and reads what is there.
type usage struct {
	mu    sync.Mutex
	users map[used]map[client.ObjectKey]bool
	uses  map[client.ObjectKey][]used
	// contents of those that are used, by what was read last.
	contents map[used]held
}

// used is a Secret or ConfigMap.
type used struct {
	kind string
	key  client.ObjectKey
}

// held is a hash of what an object held at a version.
type held struct {
	uid          types.UID
	version, sum string
}

// set replaces what a Workload uses; with no references it is forgotten.
func (u *usage) set(workload client.ObjectKey, references []reference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users == nil {
		u.users, u.uses, u.contents = map[used]map[client.ObjectKey]bool{}, map[client.ObjectKey][]used{}, map[used]held{}
	}
	before := u.uses[workload]
	delete(u.uses, workload)
	for _, ref := range references {
		o := used{ref.kind, client.ObjectKey{Namespace: workload.Namespace, Name: ref.name}}
		if u.users[o] == nil {
			u.users[o] = map[client.ObjectKey]bool{}
		}
		u.users[o][workload] = true
		u.uses[workload] = append(u.uses[workload], o)
	}
	kept := map[used]bool{}
	for _, o := range u.uses[workload] {
		kept[o] = true
	}
	for _, o := range before {
		if kept[o] {
			continue
		}
		if delete(u.users[o], workload); len(u.users[o]) == 0 {
			delete(u.users, o)
			delete(u.contents, o)
		}
	}
}

// of are the Workloads whose pods use an object.
func (u *usage) of(kind string, key client.ObjectKey) []reconcile.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []reconcile.Request
	for workload := range u.users[used{kind, key}] {
		out = append(out, reconcile.Request{NamespacedName: workload})
	}
	return out
}

func (u *usage) content(kind string, key client.ObjectKey) (held, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c, ok := u.contents[used{kind, key}]
	return c, ok
}

// keep remembers a content as long as it is used.
func (u *usage) keep(kind string, key client.ObjectKey, c held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if o := (used{kind, key}); len(u.users[o]) > 0 {
		u.contents[o] = c
	}
}
