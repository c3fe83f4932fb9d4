package btree

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// TestSortedAheadAndNotRun sorts a batch that does not run. It must not be mistaken for the next
// batch, even if that batch has its keys at the same address.
func TestSortedAheadAndNotRun(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	m, err := New[uint32, uint32](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const n = 100
	s, first := devicetest.NewStream(t, dev), conformance.Sequence[uint32](0, n)
	keys := devicetest.Upload(t, s, first)
	if _, err := m.Put(t.Context(), []uint32{1 << 20, 1 << 21}, []uint32{1, 2}); err != nil {
		t.Fatal(err)
	}
	e := m.policy.engine.(*gpuEngine)
	b := &batch.Batch{Kind: op.Put, Flags: batch.Order, N: n}
	b.Columns[batch.Keys], b.Columns[batch.Vals] = batch.InputOn(keys), batch.InputOn(keys)
	e.stale = true
	e.current().maxUsed = e.current().capacity()
	if n, _, err := m.policy.Prepare(t.Context(), core.Counters{}, s, b); n != 0 || err != nil || e.presorted.batch != b {
		t.Fatalf("room for %d, error %v, sorted %v", n, err, e.presorted.batch)
	}
	second := conformance.Sequence[uint32](1000, n)
	slices.Reverse(second)
	if err := errors.Join(keys.CopyFrom(s, second), m.PutOn(s, keys, keys), m.Sync(t.Context()), m.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	if m.Len() != n+2 {
		t.Errorf("%d keys, want %d", m.Len(), n+2)
	}
	vals := make([]uint32, n)
	if hits, err := m.Get(t.Context(), second, vals, nil); hits != n || err != nil || !slices.Equal(vals, second) {
		t.Errorf("%d keys of %d are found, with %v: %v", hits, n, vals, err)
	}
	if e.presorted.batch != nil {
		t.Error("something is sorted still")
	}
}

// TestPresortedBatches submits batches one after the other on streams. If the upper bounds allow no
// capacity, a batch is sorted first, and meanwhile the counters after the previous batches are
// read.
func TestPresortedBatches(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed, v := range []Versions{Whole, InPlace, OutOfPlace} {
		dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: uint64(seed), Races: true})
		m, err := New[uint32, uint32](dev, &Options{Versions: v})
		if err != nil {
			t.Fatal(err)
		}
		e := m.policy.engine.(*gpuEngine)
		const n, batches = 60, 6
		streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
		all := conformance.Sequence[uint32](0, batches*n)
		for i := range all {
			all[i] = uint32(i) * 2654435761
		}
		keys := devicetest.Upload(t, streams[0], all)
		if err := streams[0].Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range batches {
			part := keys.Sub(i*n, (i+1)*n)
			if i%2 == 1 {
				e.current().maxUsed = e.current().capacity() // as if many batches had come before
			}
			if err := m.PutOn(streams[i/2%2], part, part); err != nil {
				t.Fatal(err)
			}
		}
		vals := make([]uint32, len(all))
		err = errors.Join(m.Sync(t.Context()), m.Check(t.Context()))
		hits, err2 := m.Get(t.Context(), all, vals, nil)
		if err := errors.Join(err, err2); err != nil || hits != len(all) || !slices.Equal(vals, all) || m.Len() != len(all) {
			t.Errorf("seed %d, %v: %d keys of %d are found, of %d: %v", seed, v, hits, len(all), m.Len(), err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
