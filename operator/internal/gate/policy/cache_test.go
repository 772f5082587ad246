package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestCache_CompilesOnceForAllWhoAsk(t *testing.T) {
	c := newCache(4)
	set := builtin(t, "restricted")
	results := make([]*compiled, 16)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], err = c.get(context.Background(), unit{set}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		if r != results[0] {
			t.Fatal("compiled more than once")
		}
	}
}

func TestCache_KeepsTheLastUsedAndNoMore(t *testing.T) {
	c := newCache(2)
	get := func(i int) *compiled {
		t.Helper()
		got, err := c.get(context.Background(), unit{house(fmt.Sprintf("package main\ndeny contains \"%d\" if true", i))})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := get(1), get(2)
	if get(1) != first {
		t.Error("the first was compiled again")
	}
	get(3)
	if len(c.entries) != 2 || c.byUse.Len() != 2 {
		t.Errorf("%d entries are kept", len(c.entries))
	}
	if get(1) != first {
		t.Error("the one used last was dropped")
	}
	if get(2) == second {
		t.Error("the one not used longest was kept")
	}
}

func TestCache_KeepsFailures(t *testing.T) {
	c := newCache(2)
	_, first := c.get(context.Background(), unit{house("package")})
	_, second := c.get(context.Background(), unit{house("package")})
	if first == nil || !errors.Is(second, first) {
		t.Errorf("got %v, then %v", first, second)
	}
}

func TestCache_DoesNotWaitLongerThanAsked(t *testing.T) {
	c := newCache(2)
	set := house("package main\ndeny contains \"no\" if true")
	// An entry that is never ready, as while a large source compiles.
	c.entries[set.Digest()] = c.byUse.PushFront(&cached{digest: set.Digest(), ready: make(chan struct{})})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.get(ctx, unit{set}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
