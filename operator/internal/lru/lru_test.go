package lru_test

import (
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/lru"
)

// put is a value under a key, and what it is told to take.
type put struct {
	key, value string
	bytes      int
}

func TestCache_KeepsTheLastUsedWithinItsBytes(t *testing.T) {
	for title, tc := range map[string]struct {
		puts  []put
		want  map[string]string
		bytes int
	}{
		"nothing":                    {nil, map[string]string{}, 0},
		"all there is room for":      {[]put{{"a", "1", 50}, {"b", "2", 50}}, map[string]string{"a": "1", "b": "2"}, 100},
		"the first one leaves":       {[]put{{"a", "1", 50}, {"b", "2", 50}, {"c", "3", 1}}, map[string]string{"b": "2", "c": "3"}, 51},
		"as many as it takes":        {[]put{{"a", "1", 20}, {"b", "2", 20}, {"c", "3", 50}, {"d", "4", 50}}, map[string]string{"c": "3", "d": "4"}, 100},
		"the largest":                {[]put{{"a", "1", 60}}, map[string]string{"a": "1"}, 60},
		"one that is too large":      {[]put{{"a", "1", 50}, {"b", "2", 61}}, map[string]string{"a": "1"}, 50},
		"another value":              {[]put{{"a", "1", 50}, {"a", "2", 10}}, map[string]string{"a": "2"}, 10},
		"another value, put last":    {[]put{{"a", "1", 40}, {"b", "2", 40}, {"a", "3", 40}, {"c", "4", 40}}, map[string]string{"a": "3", "c": "4"}, 80},
		"another that is too large":  {[]put{{"a", "1", 50}, {"b", "2", 10}, {"a", "3", 61}}, map[string]string{"b": "2"}, 10},
		"one that is said not to be": {[]put{{"a", "1", 0}, {"b", "2", -7}}, map[string]string{"a": "1", "b": "2"}, 2},
	} {
		t.Run(title, func(t *testing.T) {
			c, got := lru.New[string, string](100, 60), map[string]string{}
			for _, p := range tc.puts {
				c.Put(p.key, p.value, p.bytes)
			}
			for _, key := range []string{"a", "b", "c", "d"} {
				if value, ok := c.Get(key); ok {
					got[key] = value
				} else if value != "" {
					t.Errorf("%s is not there, and is %q", key, value)
				}
			}
			if !maps.Equal(got, tc.want) || c.Len() != len(tc.want) || c.Bytes() != tc.bytes {
				t.Errorf("%v, %d of %d bytes; want %v of %d", got, c.Len(), c.Bytes(), tc.want, tc.bytes)
			}
		})
	}
}

func TestCache_KeepsWhatIsAskedForAllTheTime(t *testing.T) {
	c := lru.New[int, int](10, 10)
	for i := range 50 {
		c.Put(i, -i, 1)
		if value, ok := c.Get(0); !ok || value != 0 {
			t.Fatalf("it is gone after %d: %d, %t", i, value, ok)
		}
	}
	for i := range 50 {
		if _, ok := c.Get(i); ok != (i == 0 || i > 40) {
			t.Errorf("%d: %t", i, ok)
		}
	}
}

func TestCache_DropsOneAndItsBytes(t *testing.T) {
	c := lru.New[string, string](100, 60)
	c.Put("a", "1", 40)
	c.Put("b", "2", 20)
	for range 2 { // the second time it is not there
		c.Drop("a")
		_, ok := c.Get("a")
		if b, _ := c.Get("b"); ok || b != "2" || c.Len() != 1 || c.Bytes() != 20 {
			t.Errorf("it is there: %t, with b %q, %d, %d bytes", ok, b, c.Len(), c.Bytes())
		}
	}
}

func TestNew_LetsNoValueTakeMoreThanTheLimit(t *testing.T) {
	c := lru.New[string, int](10, 20)
	c.Put("small", 1, 5)
	c.Put("large", 2, 11)
	if _, ok := c.Get("small"); !ok || c.Len() != 1 {
		t.Errorf("one that has no room drove the others out: %d are kept", c.Len())
	}
}

func TestCache_CountsRightForManyAtATime(t *testing.T) {
	const limit, each = 1000, 7
	c := lru.New[string, int](limit, limit)
	var side sync.WaitGroup
	for range 8 {
		side.Go(func() {
			for i := range 2000 {
				c.Put(strconv.Itoa(i%300), i, each)
				if value, ok := c.Get(strconv.Itoa(i % 300)); ok && value%300 != i%300 {
					t.Errorf("under %d there is %d", i%300, value)
				}
				if n := c.Bytes(); n > limit {
					t.Errorf("%d bytes", n)
				}
			}
		})
	}
	side.Wait()
	if n := c.Len(); n != limit/each || c.Bytes() != n*each {
		t.Errorf("%d of %d bytes", n, c.Bytes())
	}
}

func BenchmarkCache(b *testing.B) {
	c := lru.New[int, int](1000, 1000)
	b.Run("get", func(b *testing.B) {
		c.Put(0, 1, 1)
		b.ReportAllocs()
		for b.Loop() {
			c.Get(0)
		}
	})
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.Put(i, i, 1)
		}
	})
}
