package graph

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/core"
)

// recorder is a journal in memory.
type recorder struct {
	effects []core.Effect
	failed  error
	waits   int
}

func (r *recorder) Reserve(int) error           { return r.failed }
func (r *recorder) Position() uint64            { return uint64(len(r.effects)) }
func (r *recorder) Readable() error             { return nil }
func (r *recorder) Slow() bool                  { return false }
func (r *recorder) Flush(context.Context) error { return nil }
func (r *recorder) Close() error                { return nil }

func (r *recorder) Wait(context.Context, uint64) error {
	r.waits++
	return r.failed
}

func (r *recorder) Append(e *core.Effect) error {
	c := *e
	for _, b := range []*[]byte{&c.Keys, &c.Keys2, &c.Vals} {
		*b = slices.Clone(*b)
	}
	r.effects = append(r.effects, c)
	return nil
}

func (r *recorder) Fail(err error) error {
	if r.failed == nil {
		r.failed = err
	}
	return r.failed
}

// copyGraph returns a copy of a graph on another device.
func copyGraph(t testing.TB, g *WeightedGraph[uint32], to device.Device) *WeightedGraph[uint32] {
	t.Helper()
	var file bytes.Buffer
	must(t, g.Save(t.Context(), &file))
	c, err := NewWeightedGraph[uint32](to, &g.opts)
	must(t, err)
	must(t, c.Load(t.Context(), &file))
	return c
}

// savedBytes returns what Save writes after the header.
func savedBytes(t testing.TB, g *WeightedGraph[uint32]) []byte {
	t.Helper()
	const header = 20
	var b bytes.Buffer
	must(t, g.Save(t.Context(), &b))
	return b.Bytes()[header:]
}

// TestJournalAfterFailures checks that effects repeat what a call has done that failed, if the
// journal has not failed. A lack of memory does not make the journal fail.
func TestJournalAfterFailures(t *testing.T) {
	host := devicetest.OpenCPU(t, 1)
	devices(t, func(t *testing.T, dev device.Device) {
		unknown := 0
		for i, x := range steps()[:6] {
			first, stride := 0, 1
			if dev.Properties().Kind == device.Sim {
				first, stride = i, 6 // the simulator is slow
			}
			for fired, failed, n := true, false, first; fired; n += stride {
				if fired, failed = failsLogged(t, dev, host, x, n, 1, devicetest.FailAfter); failed {
					unknown++
				}
			}
			for fired, failed, n := true, false, first%stride; fired; n += stride {
				// Several failures, because some are tolerated.
				if fired, failed = failsLogged(t, dev, host, x, n, 8, devicetest.FailMemoryAfter); failed {
					t.Errorf("%s, lack of memory %d: the journal failed", x.name, n)
				}
			}
		}
		if isHost(dev) != (unknown == 0) {
			t.Errorf("the effects of %d calls were unknown", unknown)
		}
	})
}

// failsLogged makes operations of the device fail in a call on a graph with a journal, after n
// operations. It reports whether one failed, and whether the journal failed. If it did not, its
// effects must be those of the call.
func failsLogged(t *testing.T, dev, host device.Device, x step, n, failures int, fail func(device.Device, int) func() bool) (fired, failed bool) {
	g, h, _ := heldGraph(t, dev, Options{Directed: n%2 == 1})
	replica, j := copyGraph(t, g, host), &recorder{}
	g.logged().SetJournal(j)
	did := fail(dev, n)
	for range failures - 1 {
		fail(dev, n)
	}
	err := x.call(t.Context(), g, h.WeightedSnapshot)
	devicetest.ClearFailures(dev)
	must(t, g.Sync(t.Context()))
	if failed = j.failed != nil; failed {
		if !errors.Is(err, j.failed) {
			t.Errorf("%s, failure %d: %v; the journal failed with %v", x.name, n, err, j.failed)
		}
	} else {
		for _, e := range j.effects {
			must(t, replica.logged().Replay(t.Context(), &e))
		}
		if !bytes.Equal(savedBytes(t, g), savedBytes(t, replica)) {
			t.Errorf("%s, failure %d: %v; %d effects give another graph", x.name, n, err, len(j.effects))
		}
	}
	for _, err := range []error{h.Close(), replica.Close(), g.Close()} {
		must(t, err)
	}
	return did(), failed
}

// TestJournalOfStreams checks that calls on a stream do not wait for the journal, and that an
// invalid vertex in device memory leaves the journal as it was.
func TestJournalOfStreams(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g, err := New(dev, &Options{MaxVertices: 100})
		must(t, err)
		s, j := devicetest.NewStream(t, dev), &recorder{}
		g.logged().SetJournal(j)
		from, to, none := upload(t, s, []uint32{1, 3}), upload(t, s, []uint32{2, 100}), device.Slice[bool]{}
		must(t, g.InsertOn(s, from, from, none)) // drops loops, which log nothing
		must(t, g.InsertVerticesOn(s, from))
		_, err = g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil)
		must(t, err)
		for _, sorted := range []bool{false, true} {
			forceSort(g.store, sorted)
			if err := g.InsertOn(s, from, to, none); !errors.Is(err, weft.ErrOptions) {
				t.Errorf("sorted %v: %v", sorted, err)
			}
			must(t, g.DeleteOn(s, from, to, none))
		}
		must(t, g.DeleteVerticesOn(s, from))
		kinds := []core.EffectKind{core.PutVertices, core.PutEdges, core.DeleteEdges, core.DeleteVertices}
		for i, e := range j.effects {
			if i >= len(kinds) || e.Kind != kinds[i] || !e.Last {
				t.Errorf("effect %d: %+v", i, e)
			}
		}
		if j.failed != nil || len(j.effects) != len(kinds) || j.waits != 1 {
			t.Errorf("%d effects, %d waits, %v", len(j.effects), j.waits, j.failed)
		}
		for _, err := range []error{from.Free(), to.Free(), g.Close()} {
			must(t, err)
		}
	})
}

// TestCheckpointIsExact checks that a checkpoint has no change after rotate, even one that waits
// for it, and that changes run while it is saved.
func TestCheckpointIsExact(t *testing.T) {
	g, err := NewWeightedGraph[uint32](devicetest.OpenCPU(t, 1), nil)
	must(t, err)
	c, ctx, changed := copyGraph(t, g, g.dev), t.Context(), make(chan error)
	insert := func(v uint32) error {
		_, err := g.Insert(ctx, []uint32{1}, []uint32{v}, []uint32{v}, nil)
		return err
	}
	must(t, insert(2))
	var file bytes.Buffer
	rows := 0
	must(t, g.logged().Checkpoint(ctx, func(uint64) error {
		go func() { changed <- insert(3) }()
		time.Sleep(20 * time.Millisecond) // until it waits for the writer lock
		return nil
	}, func(write func(io.Writer) (int, error)) error {
		err := errors.Join(<-changed, insert(4))
		if err == nil {
			rows, err = write(&file)
		}
		return err
	}))
	n, err := c.logged().LoadCheckpoint(ctx, &file, rows, 0)
	must(t, err)
	if rows != 3 || n != rows || c.Edges() != 1 || g.Edges() != 3 || len(g.snapshots) != 0 {
		t.Errorf("%d rows, %d loaded, %d edges of %d; %d snapshots", rows, n, c.Edges(), g.Edges(), len(g.snapshots))
	}
	must(t, c.Close())
	must(t, g.Close())
}
