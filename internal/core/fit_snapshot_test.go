package core_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// ---- the structure --------------------------------------------------------------

// A frozen array never changes: each batch makes a new array as a new generation, while lookups
// continue. So a snapshot needs no version.
type array struct {
	mem      device.Slice[uint64] // keys in order, then the values
	counters core.Tally
}

func (a *array) Tally() *core.Tally { return &a.counters }
func (a *array) Free() error        { return a.mem.Free() }

func (a *array) keys() []uint64 { return a.mem.Host()[:a.mem.Len()/2] }
func (a *array) vals() []uint64 { return a.mem.Host()[a.mem.Len()/2:] }

type frozen struct {
	cpu.Engine
	streams bool   // pretend that work on streams is still running
	working func() // called during a change, before the change is visible
	unpin   func()
}

func newFrozen(dev device.Host) (*core.Table, *frozen) {
	e := &frozen{Engine: cpu.Engine{Device: dev}, working: func() {}, unpin: func() {}}
	e.Leases = core.NewLeases(&array{})
	c := config("frozen", dev, easy{}, e, e.Leases)
	c.NewLike = func(dev device.Device) (*core.Table, error) {
		t, _ := newFrozen(dev.(device.Host))
		return t, nil
	}
	return core.New(c), e
}

func (e *frozen) Caps() core.Caps { return core.Caps{ConcurrentReads: true, Streams: e.streams} }

func (e *frozen) Pin(context.Context) (uint64, error) { return 0, nil }

func (e *frozen) Unpin(context.Context, uint64) error {
	e.unpin()
	return nil
}

func (e *frozen) Change(_ context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	old, c := e.Parts().(*array), cpu.ChangesOf[uint64, uint64](b)
	pairs := map[uint64]*pair{}
	for i, k := range old.keys() {
		pairs[k] = &pair{Key: k, Val: old.vals()[i]}
	}
	for i, k := range c.Keys {
		p, kind := pairs[k], c.Kind(uint32(i))
		switch {
		case p == nil && kind.Inserts():
			pairs[k] = &pair{Key: cpu.Sentinel[uint64](cpu.Empty)}
			c.WriteOutcome(uint32(i), cpu.Insert(&c, uint32(i), k, pairs[k]))
		case p == nil:
			c.WriteOutcome(uint32(i), cpu.Outcome{})
		default:
			c.WriteOutcome(uint32(i), cpu.ApplyPresent(&c, uint32(i), kind, p))
			if kind == op.Delete {
				delete(pairs, k)
			}
		}
	}
	to := &array{counters: core.Tally{Live: uint64(len(pairs)), Used: uint64(len(pairs))}}
	if to.mem, err = device.Make[uint64](e.Device, 2*len(pairs)); err != nil {
		return 0, nil, err
	}
	copy(to.keys(), slices.Sorted(maps.Keys(pairs)))
	for i, k := range to.keys() {
		to.vals()[i] = pairs[k].Val
	}
	e.working()
	return b.N, nil, e.Leases.Replace(to)
}

func (e *frozen) Lookup(_ context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	a, to := l.Parts.(*array), cpu.AnswersOf[uint64](b)
	for i, k := range batch.View[uint64](b.Columns[batch.Keys].Host) {
		var p *pair
		if at, found := slices.BinarySearch(a.keys(), k); found {
			p = &pair{Key: k, Val: a.vals()[at]}
		}
		hits += cpu.WriteAnswer(&to, i, p)
	}
	return b.N, hits, nil
}

func (e *frozen) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(len(l.Parts.(*array).keys())), 1
}

func (e *frozen) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	a := l.Parts.(*array)
	copy(batch.View[uint64](out.Columns[batch.Vals].Host), a.vals()[lo:hi])
	return copy(batch.View[uint64](out.Columns[batch.Keys].Host), a.keys()[lo:hi]), nil
}

func (e *frozen) Clear(context.Context) error { return e.Leases.Replace(&array{}) }

// ---- the tests --------------------------------------------------------------------

func getAt(table *core.Table, s *core.Snapshot, keys ...uint64) (vals []uint64, err error) {
	vals = make([]uint64, len(keys))
	_, err = table.Get(ctx, "Get", s, &batch.Batch{N: len(keys), Columns: batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(vals),
	}})
	return vals, err
}

// A snapshot must not change while the table changes, and Save and CopyTo must accept it. Closing
// the snapshot must free its memory, which must not be freed before.
func TestFitSnapshotHeld(t *testing.T) {
	dev := openHost(t)
	table, _ := newFrozen(dev)
	m := weft.NewMap[uint64, uint64](table)
	arrays := func(where string, want int) {
		t.Helper()
		if n := devicetest.Live(dev).Buffers; n != want {
			t.Errorf("%s there are %d arrays, want %d", where, n, want)
		}
	}
	_, err := m.Put(ctx, []uint64{1, 2, 3}, []uint64{10, 20, 30})
	must(t, err)
	s, err := table.Snapshot(ctx, "Snapshot")
	must(t, err)
	again, err := table.Snapshot(ctx, "Snapshot")
	must(t, err)
	for i := range uint64(10) {
		_, err = m.Put(ctx, []uint64{1, 100 + i}, []uint64{i, i})
		must(t, err)
		arrays("with a snapshot", 2)
	}
	must(t, m.Clear(ctx))
	_, err = m.Put(ctx, []uint64{4}, []uint64{40})
	must(t, err)
	if v, err := getAt(table, s, 1, 2, 3, 4); err != nil || !slices.Equal(v, []uint64{10, 20, 30, 0}) || s.Len() != 3 {
		t.Errorf("the snapshot of %d pairs has %v: %v", s.Len(), v, err)
	}

	var stream bytes.Buffer
	n, err := table.Save(ctx, s, &stream)
	must(t, err)
	copied, err := table.CopyTo(ctx, s, dev)
	must(t, err)
	loaded, _ := newFrozen(dev)
	_, err = loaded.Load(ctx, &stream)
	must(t, err)
	for _, table := range []*core.Table{copied, loaded} {
		model{1: 10, 2: 20, 3: 30}.equals(t, "a snapshot that was moved", table)
		must(t, table.Close())
	}
	if n != 3 {
		t.Errorf("Save wrote %d pairs", n)
	}

	arrays("with two snapshots", 2)
	must(t, again.Close())
	arrays("with one snapshot", 2)
	must(t, errors.Join(s.Close(), s.Close()))
	arrays("with no snapshot", 1)
	model{4: 40}.equals(t, "at the end", table)

	s, err = table.Snapshot(ctx, "Snapshot")
	must(t, err)
	must(t, table.Close())
	arrays("behind Close", 1)
	if _, err := getAt(table, s, 4); !errors.Is(err, op.ErrClosed) {
		t.Errorf("a snapshot of a closed table: %v", err)
	}
	must(t, s.Close())
	arrays("at the end", 0)
}

// Lookups must run concurrently with a change, and see the change once it has returned. A snapshot
// must wait for the change. An iteration may close the table that it reads.
func TestFitConcurrentReads(t *testing.T) {
	dev := openHost(t)
	table, e := newFrozen(dev)
	m := weft.NewMap[uint64, uint64](table)
	_, err := m.Put(ctx, []uint64{1}, []uint64{1})
	must(t, err)
	working, goOn := make(chan struct{}), make(chan struct{})
	e.working = func() {
		working <- struct{}{}
		<-goOn
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := m.Put(ctx, []uint64{1}, []uint64{2}); err != nil {
			t.Error(err)
		}
	})
	<-working
	vals := make([]uint64, 1)
	if hits, err := m.Get(ctx, []uint64{1}, vals, nil); hits != 1 || vals[0] != 1 || err != nil {
		t.Errorf("Get beside a change: %d, %d, %v", hits, vals[0], err)
	}
	ended, cancel := context.WithCancel(ctx)
	time.AfterFunc(5*time.Millisecond, cancel)
	if _, err := table.Snapshot(ended, "Snapshot"); !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot beside a change: %v", err)
	}
	close(goOn)
	wg.Wait()
	if _, err := m.Get(ctx, []uint64{1}, vals, nil); vals[0] != 2 || err != nil {
		t.Errorf("Get behind a change: %d, %v", vals[0], err)
	}
	for range m.All() {
		must(t, table.Close())
	}
}

// late is a stream on which work ends only when it is released.
type late struct {
	device.StreamDriver
	let chan struct{}
}

func (l *late) Sync(ctx context.Context) error {
	<-l.let
	return l.StreamDriver.Sync(ctx)
}

// A closed snapshot must release its version only after lookups that callers have submitted on it.
func TestFitSnapshotWaitsForStreams(t *testing.T) {
	dev := openHost(t)
	table, e := newFrozen(dev)
	e.streams = true
	_, err := weft.NewMap[uint64, uint64](table).Put(ctx, []uint64{1}, []uint64{10})
	must(t, err)
	s, err := table.Snapshot(ctx, "Snapshot")
	must(t, err)
	real, err := dev.NewStream()
	must(t, err)
	stream := &late{real.Driver(), make(chan struct{})}
	keys, err := device.Make[uint64](dev, 1)
	must(t, err)
	vals, err := device.Make[uint64](dev, 1)
	must(t, err)
	keys.Host()[0] = 1
	must(t, table.GetOn(device.NewStream(dev, stream), "GetOn", s, &batch.Batch{N: 1, Columns: batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.OutputOn(vals),
	}}))
	var done, unpinned atomic.Bool
	e.unpin = func() {
		unpinned.Store(true)
		if !done.Load() {
			t.Error("a version is let go that a stream reads")
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(5 * time.Millisecond) // time for Close to release the version too early
	done.Store(true)
	close(stream.let)
	wg.Wait()
	if !unpinned.Load() || vals.Host()[0] != 10 {
		t.Errorf("unpinned %v, value %d", unpinned.Load(), vals.Host()[0])
	}
	must(t, errors.Join(table.Close(), real.Close(), keys.Free(), vals.Free()))
}

// Readers, writers, iterations, snapshots and Close run concurrently. Every result must come from
// one moment or be ErrClosed, and all memory must be freed.
func TestFitSnapshotRace(t *testing.T) {
	for range 10 {
		dev := openHost(t)
		table, _ := newFrozen(dev)
		m := weft.NewMap[uint64, uint64](table)
		same := func(vals []uint64, err error) bool {
			closed := errors.Is(err, op.ErrClosed)
			if !closed && (err != nil || slices.Min(vals) != slices.Max(vals)) {
				t.Errorf("%v, %v", vals, err)
			}
			return !closed
		}
		keys := []uint64{1, 2, 3}
		_, err := m.Put(ctx, keys, []uint64{0, 0, 0})
		must(t, err)
		var wg sync.WaitGroup
		var rounds atomic.Uint64
		for range 2 {
			wg.Go(func() {
				for i := uint64(1); ; i++ {
					rounds.Add(1)
					if _, err := m.Put(ctx, keys, []uint64{i, i, i}); !same([]uint64{0}, err) {
						return
					}
				}
			})
			wg.Go(func() {
				vals := make([]uint64, 3)
				for {
					_, err := m.Get(ctx, keys, vals, nil)
					if !same(vals, err) {
						return
					}
				}
			})
			wg.Go(func() {
				for {
					var vals []uint64
					var err error
					for page, e := range m.Pages(ctx) {
						vals, err = append(vals, page.Vals...), e
					}
					if !same(append(vals, vals...), err) {
						return
					}
				}
			})
			wg.Go(func() {
				for {
					s, err := table.Snapshot(ctx, "Snapshot")
					if !same([]uint64{0}, err) {
						return
					}
					was, err := getAt(table, s, keys...)
					same(was, err)
					now, err := getAt(table, s, keys...)
					if err == nil && !slices.Equal(was, now) {
						t.Errorf("a snapshot changed from %v to %v", was, now)
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for rounds.Load() < 50 {
			time.Sleep(time.Millisecond)
		}
		must(t, table.Close())
		wg.Wait()
		if n := devicetest.Live(dev).Buffers; n != 0 {
			t.Errorf("%d arrays are left", n)
		}
	}
}
