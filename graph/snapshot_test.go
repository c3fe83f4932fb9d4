package graph

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestSnapshotsDuringUpdates reads snapshots in several goroutines while batches insert and delete
// edges.
func TestSnapshotsDuringUpdates(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.Sim {
		t.Skip("the simulator runs one call at a time")
	}
	ctx, r := t.Context(), rand.New(rand.NewPCG(1, 2))
	g, err := New(dev, nil)
	must(t, err)
	defer g.Close()
	e, _ := randomEdges(500, 4000, 1)
	_, err = g.Insert(ctx, e.From, e.To, nil)
	must(t, err)
	type kept struct {
		*Snapshot
		was *CSR
	}
	var held []kept
	read := func(k kept) {
		if got, err := k.CSR(ctx); err != nil || !slices.Equal(got.Targets(), k.was.Targets()) {
			t.Errorf("a snapshot has changed, or %v", err)
		}
	}
	for i := range 40 {
		s, err := g.Snapshot(ctx)
		must(t, err)
		was, err := s.CSR(ctx)
		must(t, err)
		held = append(held, kept{s, was})
		var readers sync.WaitGroup
		for _, k := range held {
			readers.Go(func() { read(k) })
		}
		lo := i % 10 * 400
		from, to := e.From[lo:lo+400], e.To[lo:lo+400]
		_, err = g.Delete(ctx, from, to, nil)
		must(t, err)
		_, err = g.Insert(ctx, to, from, nil)
		must(t, err)
		readers.Wait()
		for len(held) > 4 || i == 39 && len(held) > 0 { // in any order
			at := r.IntN(len(held))
			must(t, held[at].Close())
			held = slices.Delete(held, at, at+1)
			_, err = g.Insert(ctx, from, to, nil) // takes the blocks that the closed snapshot frees
			must(t, err)
			for _, k := range held {
				read(k)
			}
		}
	}
	must(t, g.Check(ctx))
}
