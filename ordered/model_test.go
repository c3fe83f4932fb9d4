package ordered_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

func ctx() context.Context { return context.Background() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgainstModel runs batches of all kinds against a model, alongside held snapshots.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(4) {
		history(t, seed, 1+int(seed)*400)
	}
	defer ordered.ShrinkPieces(300, 4, 16)()
	for seed := range uint64(8) {
		history(t, 4+seed, 1+int(seed)*200)
	}
}

func history(t *testing.T, seed uint64, most int) {
	dev := devicetest.Open(t)
	m, err := ordered.New[int64, uint32](dev, &ordered.Options{Fill: []float64{0, .65, 1}[seed%3]})
	must(t, err)
	h := conformance.OrderedHistory[int64, uint32]{Map: m.OrderedMap, MaxOps: most, ExtraKinds: []weft.OpKind{weft.OpUpdate, weft.OpPut, weft.OpDelete}}
	h.Run(t, seed, 40)
	if s, err := m.Stats(ctx()); err != nil || s.Kept != 0 || s.Snapshots != 0 {
		t.Errorf("behind all snapshots: %v, %v", s, err)
	}
	must(t, m.Close())
}

// TestWithoutMemory checks that a change that runs out of memory reports how many operations it has
// done. The map must stay valid, and a snapshot must not change.
func TestWithoutMemory(t *testing.T) {
	dev := devicetest.Open(t)
	m, err := ordered.New[int64, uint32](dev, nil)
	must(t, err)
	defer m.Close()
	keys, vals := make([]int64, 2000), make([]uint32, 2000)
	for i := range keys {
		keys[i], vals[i] = int64(i), uint32(i)
	}
	from := func(name string, first int, pairs iter.Seq2[int64, uint32]) {
		at := first
		for k, v := range pairs {
			if k != int64(at) || v != uint32(at) {
				t.Fatalf("%s: pair %d is %d: %d", name, at, k, v)
			}
			at++
		}
		if at != len(keys) {
			t.Fatalf("%s ends at %d of %d pairs", name, at, len(keys))
		}
	}
	_, err = m.Put(ctx(), keys, vals)
	must(t, err)
	s, err := m.Snapshot(ctx())
	must(t, err)
	devicetest.FailNext(dev, devicetest.OpAlloc)
	n, err := m.Delete(ctx(), keys, nil)
	var partial *weft.PartialError
	if !errors.Is(err, device.ErrMemory) || !errors.As(err, &partial) || n != partial.Done {
		t.Fatalf("Delete without memory: %d, %v", n, err)
	}
	devicetest.ClearFailures(dev)
	must(t, m.Check(ctx()))
	from("the snapshot", 0, s.All())
	from("the map", n, m.All())
	must(t, s.Close())
}
