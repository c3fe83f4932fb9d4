package group

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// Keys that were interned when memory ended, and whose rows were not added, may come again in another order.
func TestKeysAhead(t *testing.T) {
	dev, found := open(t, 1), false
	for limit := int64(60_000); limit < 400_000; limit += 10_000 {
		g, err := New(dev, []Aggregate{{First, 0}}, &Options{MaxBytes: limit})
		must(t, err)
		add := func(keys, values []string) error {
			return g.Add(t.Context(), []column.Column{column.OfStrings(keys)}, []column.Column{column.OfStrings(values)})
		}
		var partial *op.PartialError
		if err := add([]string{"a", "b", "c"}, []string{"A", strings.Repeat("B", 1<<20), "C"}); !errors.As(err, &partial) {
			continue
		}
		found = found || partial.Done == 1
		if err := add([]string{"c", "b"}, []string{"C", "B"}); err != nil && !errors.Is(err, op.ErrFull) {
			t.Fatal(err)
		}
		r, err := g.Result(t.Context())
		must(t, err)
		for i := range r.Len() {
			if k, v := r.Keys[0].Any(i).(string), r.Values[0].Any(i).(string); strings.ToUpper(k) != v {
				t.Errorf("MaxBytes %d: group %q has the value of %q", limit, k, v)
			}
		}
		must(t, g.Close())
	}
	if !found {
		t.Error("no limit stopped the batch behind its first row")
	}
}

// A context may end while columns with bitmaps, of which no value is null, are encoded.
func TestContextEndsBesideBitmaps(t *testing.T) {
	dev := open(t, 2)
	n := 1 << 18
	valid := make([]bool, n)
	for i := range valid {
		valid[i] = true
	}
	keys := column.Of(make([]int32, n)).WithValid(column.OfBools(valid))
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		g, err := New(dev, nil, nil)
		must(t, err)
		if err := g.Add(ctx, []column.Column{keys, keys}, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		must(t, g.Close())
		cancel()
	}
}

// Memory is bounded as said, whatever is expected.
func TestCapacityAndMaxBytes(t *testing.T) {
	dev := open(t, 2)
	for _, capacity := range []int{-1, 1 << 31, 1 << 60} {
		if _, err := New(dev, nil, &Options{Capacity: capacity}); !errors.Is(err, op.ErrOptions) {
			t.Errorf("Capacity %d: %v", capacity, err)
		}
	}
	keys := make([]int64, 1<<20)
	for i := range keys {
		keys[i] = rand.Int64()
	}
	for _, o := range []Options{{MaxBytes: 1 << 20, Capacity: 2_000_000}, {MaxBytes: 4 << 20}, {MaxBytes: 32 << 20}} {
		g, err := New(dev, []Aggregate{{Sum, 0}}, &o)
		must(t, err)
		err = g.Add(t.Context(), []column.Column{column.Of(keys)}, []column.Column{column.Of(keys)})
		if !errors.Is(err, op.ErrFull) || g.Len() == 0 || g.recordBytes() > o.MaxBytes {
			t.Errorf("%+v: %d groups take %d bytes: %v", o, g.Len(), g.recordBytes(), err)
		}
		must(t, g.Close())
	}
	// Two narrow keys have bits for nulls, and intern nothing.
	g, err := New(dev, nil, &Options{MaxBytes: 100 << 10})
	must(t, err)
	defer g.Close()
	narrow := column.Of([]int8{1, 2}).WithValid(column.OfBools([]bool{true, false}))
	must(t, g.Add(t.Context(), []column.Column{narrow, narrow}, nil))
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
