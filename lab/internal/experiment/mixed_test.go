package experiment

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
)

// read copies a slice from the device.
func read[T device.Elem](t *testing.T, r *runner, s device.Slice[T]) []T {
	t.Helper()
	host := make([]T, s.Len())
	if err := s.CopyTo(t.Context(), r.stream, host); err != nil {
		t.Fatal(err)
	}
	return host
}

// No key of a mixed batch occurs twice, and the present keys are those that the kinds of the
// operations require.
func TestMixedBatch(t *testing.T) {
	const n, size = 800, 400
	r := testRunner(t)
	number := map[uint64]int{} // of each key
	for i := range n {
		number[workload.Key[uint64](r.Seed, uint64(i))] = i
	}
	for _, c := range []struct {
		mix
		inserts, removes, hits, misses int
	}{
		{evenMix, 100, 100, 200, 0},
		{slabMixes[0], 200, 200, 0, 0},
		{slabMixes[1], 80, 80, 120, 120},
		{fewUpdates, 40, 40, 160, 160},
	} {
		b, err := newBatch[uint64, uint32](r, c.mix, n, size)
		if err != nil {
			t.Fatal(err)
		}
		if b.before != n-c.inserts || b.succeed != size-c.misses {
			t.Errorf("%s: %d keys before, %d operations succeed", c.op, b.before, b.succeed)
		}
		seen, got := map[uint64]bool{}, map[string]int{}
		kinds := read(t, r, b.kinds)
		for i, k := range read(t, r, b.keys) {
			if seen[k] {
				t.Errorf("%s: key %d twice", c.op, k)
			}
			seen[k] = true
			what := kinds[i].String()
			at, known := number[k]
			switch there := known && at < b.before; {
			case kinds[i] == weft.OpGet && !known:
				what = "miss"
			case there != (kinds[i] != weft.OpPut):
				t.Errorf("%s: %s of key number %d", c.op, what, at)
			}
			got[what]++
		}
		if got["Put"] != c.inserts || got["Delete"] != c.removes || got["Get"] != c.hits || got["miss"] != c.misses {
			t.Errorf("%s: operations %v, want %+v", c.op, got, c)
		}
		if err := b.free(); err != nil {
			t.Error(err)
		}
	}
}

func TestMixedLimits(t *testing.T) {
	r := testRunner(t)
	r.result.Limits["read"], r.result.Limits["write"] = 30, 10
	for updates, want := range map[float64]struct {
		name string
		rate float64
	}{1: {"write", 10}, .5: {"mixed_read_write", 15}, .2: {"mixed20_read_write", 1 / (.8/30 + .2/10)}} {
		name := r.mixedLimit("read", "write", updates)
		if name != want.name || r.result.Limits[name] != want.rate {
			t.Errorf("%g updates: %s %g, want %+v", updates, name, r.result.Limits[name], want)
		}
	}
}
