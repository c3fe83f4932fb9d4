package slab

import (
	"context"
	"errors"
	"fmt"
	"github.com/weftgo/weft/internal/op"
	"slices"
	"testing"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/mutate"
)

// TestPoolGrowsBesideLookups grows the pool of a table and puts keys into new slabs while earlier
// lookups run. Nothing waits for the lookups. They must find the old keys, and each new pair
// completely or not at all. The simulator checks the memory order.
func TestPoolGrowsBesideLookups(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, arch := range []int{80, 90} {
		for seed := range uint64(growSeeds / 4) {
			for i := range 4 {
				multi, shared := i%2 > 0, i/2 > 0
				t.Run(fmt.Sprintf("sm_%d, seed %d, multi %v, shared %v", arch, seed, multi, shared), func(t *testing.T) {
					t.Parallel()
					growsAlongside(multi, shared)(t, devicetest.OpenSim(t, &sim.Options{Arch: arch, Scheduler: sim.Random, Seed: seed, Races: true}))
				})
			}
		}
	}
}

const (
	growSeeds = 40 // number of schedules for each broken kernel

	growThere = 25  // number of keys before the lookups
	growPut   = 40  // number of keys per growth of the pool
	growTimes = 2   // number of growths
	growAll   = 110 // number of keys to look up
	growTwice = 3   // number of consecutive lookups of each kind
)

// growing is a table with one chain, in which each key is its own value.
type growing struct {
	*table
	t      testing.TB
	stream *device.Stream
	keys   device.Slice[uint32]
	shows  []func() error
}

// growsAlongside runs lookups of all kinds while the chain of a table grows into new memory. When
// the lookups began, the pool did not have that memory, or another owner had it.
func growsAlongside(multi, shared bool) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		w := batch.Widths{Key: 4, Val: 4, Slot: 8}
		e, leases, err := newEngine(dev, w, geometry{seed: 5, buckets: 1}, 1, false, multi)
		if err != nil {
			t.Fatal(err)
		}
		opts, err := (&Options{Buckets: 1, MaxTombstones: -1}).check()
		if err != nil {
			t.Fatal(err)
		}
		p := &policy{opts: opts, widths: w, multi: multi, engine: e}
		c := core.New(core.Config{Name: "slab", Device: dev, Widths: w, Policy: p, Engine: e, Leases: leases, Logger: opts.Logger})
		g := &growing{table: &table{c, p}, t: t}
		g.stream, err = dev.NewStream()
		g.must(err)
		keys := make([]uint32, growAll)
		for i := range keys {
			keys[i] = uint32(i)
		}
		g.keys, err = device.Upload(g.stream, keys)
		g.must(err)
		g.put(0, growThere)
		g.must(g.core.Sync(context.Background()))

		other, err := e.units().Pool().Owner()
		g.must(err)
		if shared { // so that the table's memory is not the first of the pool
			g.must(other.Reserve(context.Background(), 1))
			g.must(e.units().Reserve(context.Background(), alloc.BlockUnits))
		}
		began := e.units().Ref(false)
		lookups := g.begin()
		g.must(other.Close())
		for i := range growTimes {
			g.scarce()
			g.put(growThere+i*growPut, growThere+(i+1)*growPut)
		}
		if now := e.units().Ref(false); now.Count < began.Count+growTimes || (now.Known == 0) != shared {
			t.Fatalf("the pool did not grow: %+v, then %+v", began, now)
		}
		for _, l := range lookups {
			g.must(l.stream.Sync(context.Background()))
			g.check(l)
		}
		g.end(lookups)
	}
}

func (g *growing) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("%v", err)
	}
}

// put submits insertions of the keys [lo,hi).
func (g *growing) put(lo, hi int) {
	g.t.Helper()
	k := batch.InputOn(g.keys.Sub(lo, hi))
	b := &batch.Batch{N: hi - lo, Kind: op.Put, Columns: batch.Columns{batch.Keys: k, batch.Vals: k}}
	g.must(g.core.ChangeOn(g.stream, "PutOn", b))
}

// scarce waits for the submitted changes and leaves one unit of the pool free.
func (g *growing) scarce() {
	g.t.Helper()
	_, err := g.policy.engine.ReadCounters(context.Background()) // waits for changes
	g.must(err)
	show, err := hide(g.core.Device, g.policy.engine.units(), 1)
	g.must(err)
	g.shows = append(g.shows, show)
	_, err = g.policy.countPool(context.Background())
	g.must(err)
}

// lookup is a lookup that runs on a separate stream. At first vals is all none.
type lookup struct {
	stream *device.Stream
	vals   device.Slice[uint32]
	more   []device.Slice[uint64]
	pairs  bool // whether vals has keys and values of pairs, in any order
}

const none = 0xffff_ff00

// begin launches lookups of each kind.
func (g *growing) begin() (all []*lookup) {
	e, lease := g.policy.engine.(*gpuEngine), g.core.Leases.Current()
	launch := map[string]func(l *lookup) error{
		"get": func(l *lookup) error {
			b := &batch.Batch{N: growAll, Flags: g.policy.MixedFlags()}
			b.Columns[batch.Keys], b.Columns[batch.Vals] = batch.InputOn(g.keys), batch.OutputOn(l.vals.Sub(0, growAll))
			_, _, err := e.Lookup(context.Background(), l.stream, lease, b, 0)
			return err
		},
		"export": func(l *lookup) error {
			count, err := device.Upload(l.stream, make([]uint64, 1))
			l.pairs, l.more = true, append(l.more, count)
			return errors.Join(err, device.Launch(l.stream, e.kernel.export, gpu.Grid(32), gpu.Block, &exportParams{
				table: refOf(lease.Parts),
				to: gpu.Export{
					Keys: l.vals.Ptr(), Vals: l.vals.Ptr() + 4*growAll, Count: count.Ptr(), Rows: growAll, Hi: 2, Step: g.gen().Order.Step(),
				},
			}))
		},
	}
	if g.policy.multi {
		starts := make([]uint64, growAll+1)
		for i := range starts {
			starts[i] = uint64(i)
		}
		launch["collect"] = func(l *lookup) error {
			rows, err := device.Upload(l.stream, starts)
			l.more = append(l.more, rows)
			return errors.Join(err, e.kernel.WriteRows(l.stream, lease.Parts, growAll, g.keys.Ptr(), rows.Ptr(), l.vals.Ptr(), 0, 0, growAll))
		}
	}
	for _, kind := range []string{"get", "export", "collect"} {
		if launch[kind] == nil {
			continue
		}
		l := new(lookup)
		var err error
		l.stream, err = g.core.Device.NewStream()
		g.must(err)
		l.vals, err = device.Upload(l.stream, slices.Repeat([]uint32{none}, 2*growAll))
		g.must(err)
		for range growTwice {
			g.must(launch[kind](l))
		}
		all = append(all, l)
	}
	return all
}

// check verifies that a lookup found the old keys, and for other keys only their new values.
func (g *growing) check(l *lookup) {
	g.t.Helper()
	vals := make([]uint32, 2*growAll)
	g.must(l.vals.CopyTo(context.Background(), l.stream, vals))
	found := make([]bool, growAll)
	for i, v := range vals[:growAll] {
		key := uint32(i)
		if l.pairs {
			key = v
			if v = vals[growAll+i]; v == none {
				continue
			}
		}
		if v == none || v == 0 && key != 0 {
			continue
		}
		if v != key || key >= growAll {
			g.t.Fatalf("key %d has the value %d", key, v)
		}
		found[key] = true
	}
	for key := range growThere {
		if !found[key] {
			g.t.Fatalf("key %d was there and is not found", key)
		}
	}
}

// end checks the final content and frees all memory.
func (g *growing) end(lookups []*lookup) {
	g.t.Helper()
	g.must(g.core.Sync(context.Background()))
	for _, show := range g.shows {
		g.must(show())
	}
	if n := g.core.Len(); n != growThere+growTimes*growPut {
		g.t.Fatalf("%d keys", n)
	}
	g.must(g.CheckInvariants())
	for _, l := range lookups {
		for i := range l.more {
			g.must(l.more[i].Free())
		}
		g.must(errors.Join(l.vals.Free(), l.stream.Close()))
	}
	g.must(errors.Join(g.keys.Free(), g.stream.Close(), g.core.Close()))
}

// TestMutantsGrowBesideLookups checks that each operation that orders a lookup after the host's
// work on new memory is needed.
func TestMutantsGrowBesideLookups(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const fence, sync = `fence\.acq_rel\.gpu;`, `bar\.warp\.sync [^;]*;`
	for _, m := range []struct {
		mutant
		multi, shared bool
	}{
		{mutant{"get does not acquire", "get_32_32", fence, ""}, false, false},
		{mutant{"lanes of get that did not read the link go on", "get_32_32", sync, ""}, false, false},
		{mutant{"get does not acquire in a multimap", "multi_get_32_32", fence, ""}, true, false},
		{mutant{"collect does not acquire", "multi_collect_32_32", fence, ""}, true, false},
		{mutant{"lanes of collect that did not read the link go on", "multi_collect_32_32", sync, ""}, true, false},
		{mutant{"get does not acquire in a shared pool", "get_32_32", fence, ""}, false, true},
		{mutant{"a slab is linked and not released in a shared pool", "change_32_32", fence, ""}, false, true},
		{mutant{"export does not acquire", "export_32_32", fence, ""}, false, false},
		{mutant{"a slab is linked and not released", "change_32_32", fence, ""}, false, false},
		{mutant{"a slab is linked and not released to those that append", "multi_append_32_32", fence, ""}, true, false},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var trials []mutate.Trial
			for seed := range uint64(growSeeds) {
				opts := sim.Options{Arch: 90, Scheduler: sim.Random, Seed: seed, Races: true}
				trials = append(trials, mutate.DeviceTrial(fmt.Sprintf("seed %d", seed), opts, growsAlongside(m.multi, m.shared)))
			}
			mutate.RequireDetected(t, trials, m.rewrite(t))
		})
	}
}
