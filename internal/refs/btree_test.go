package refs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

func btreeOps(r btree.Ref, o ops) btreeParams { return btreeParams{ref: r, ops: o} }

func openBtree[K, V uint32 | uint64](t *testing.T, dev device.Device, capacity int, _ bool) *table[K, V] {
	m := must[*btree.Map[K, V]](t)(btree.New[K, V](dev, &btree.Options{Capacity: capacity}))
	s := must[*device.Stream](t)(dev.NewStream())
	k := kernel(t, dev, refsBtreeImages, batch.MapWidths[K, V](), "run")
	return of(&table[K, V]{
		kernel: k, stream: s, get: m.Get,
		put: func(ctx context.Context, keys []K, vals []V) error { _, err := m.Put(ctx, keys, vals); return err },
		del: func(ctx context.Context, keys []K) error { _, err := m.Delete(ctx, keys, nil); return err },
	}, m, nil, btreeOps)
}

// User kernels on maps in B-link trees have the same results as on tables.
func TestBtree(t *testing.T) {
	for _, c := range []struct {
		name   string
		seeds  uint64
		narrow func(*testing.T, device.Device)
		wide   func(*testing.T, device.Device)
	}{
		{"beside a model", 1, againstModel(openBtree[uint32, uint32]), againstModel(openBtree[uint64, uint32])},
		{"contended", 1, contended(openBtree[uint32, uint32]), contended(openBtree[uint64, uint32])},
		{"beyond what is permitted", 0, overLimit(openBtree[uint32, uint32]), overLimit(openBtree[uint64, uint32])},
		{"view", 0, viewed(openBtree[uint32, uint32]), viewed(openBtree[uint64, uint32])},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("32,32", func(t *testing.T) { t.Parallel(); onGPUs(t, c.seeds, c.narrow) })
			t.Run("64,32", func(t *testing.T) { t.Parallel(); onGPUs(t, c.seeds, c.wide) })
		})
	}
}

// A CPU has no kernels.
func TestBtreeOnCPU(t *testing.T) {
	dev := must[device.Device](t)(cpu.Open(nil))
	defer dev.Close()
	s := must[*device.Stream](t)(dev.NewStream())
	defer s.Close()
	m := must[*btree.Map[int64, int64]](t)(btree.New[int64, int64](dev, nil))
	defer m.Close()
	for _, err := range []error{m.View(t.Context(), s, nil), m.Update(t.Context(), s, 1, nil)} {
		if !errors.Is(err, device.ErrNoKernels) {
			t.Errorf("%v", err)
		}
	}
}

// Kinds of the tasks of tiles (twins: refs_btree.cu).
const (
	taskRange = 100 + iota
	taskCount
	taskNext
	taskBefore
)

// task is an operation of a tile or the reading of a range, with its results.
type task struct {
	kind    uint32
	key, to uint32
	val     uint32
	outcome uint32
	keys    []uint32
	vals    []uint32
}

const tileLanes = 4 // for keys and values of 32 bits

// trees is a versioned map with user kernels.
type trees struct {
	m         *btree.Map[uint32, uint32]
	s         *device.Stream
	versioned device.Kernel
	hold      device.Kernel
	held      device.Kernel
}

func openTrees(t testing.TB, dev device.Device, v btree.Versions) *trees {
	t.Helper()
	x := &trees{m: must[*btree.Map[uint32, uint32]](t)(btree.New[uint32, uint32](dev, &btree.Options{Versions: v, Unordered: true}))}
	x.s = must[*device.Stream](t)(dev.NewStream())
	w := batch.MapWidths[uint32, uint32]()
	x.versioned = kernel(t, dev, refsBtreeImages, w, "versioned")
	x.hold, x.held = kernel(t, dev, refsBtreeImages, w, "hold"), kernel(t, dev, refsBtreeImages, w, "held")
	return x
}

// run runs tasks by tiles, in an Update that permits the given number of insertions. Each tile runs
// as many tasks one after the other as each says.
func (x *trees) run(ctx context.Context, all []task, each, threads, most, inserts, repeat int, present bool) (err error) {
	dev, n := x.s.Device(), len(all)
	kinds, keys, to, vals := make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n)
	for i, o := range all {
		kinds[i], keys[i], to[i], vals[i] = o.kind, o.key, o.to, o.val
	}
	var cols [7]device.Slice[uint32]
	for i := range cols {
		size := n
		if i > 4 {
			size = n * most
		}
		if cols[i], err = device.Make[uint32](dev, size); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cols[i].Free()) }()
		if err := x.s.Fill(cols[i].Ptr(), 0, size); err != nil {
			return err
		}
	}
	for i, c := range [][]uint32{kinds, keys, to, vals} {
		if err := x.s.CopyIn(cols[i].Ptr(), device.Bytes(c)); err != nil {
			return err
		}
	}
	p := versionedParams{tasks: tasks{
		kinds: cols[0].Ptr(), keys: cols[1].Ptr(), to: cols[2].Ptr(), vals: cols[3].Ptr(), outcomes: cols[4].Ptr(),
		keysOut: cols[5].Ptr(), valsOut: cols[6].Ptr(), n: uint32(n), each: uint32(each), most: uint32(most), repeat: uint32(repeat),
	}}
	if present {
		p.tasks.present = 1
	}
	tiles := (n + each - 1) / each
	err = x.m.Update(ctx, x.s, inserts, func(r btree.Ref) error {
		p.ref = r.Versioned()
		return device.Launch(x.s, x.versioned, device.Dim{X: (tiles*tileLanes + threads - 1) / threads}, device.Dim{X: threads}, &p)
	})
	if err != nil {
		return errors.Join(err, x.s.Sync(ctx))
	}
	outcomes, keysOut, valsOut := make([]uint32, n), make([]uint32, n*most), make([]uint32, n*most)
	for i, c := range [][]uint32{vals, outcomes, keysOut, valsOut} {
		if err := x.s.CopyOut(ctx, device.Bytes(c), cols[3+i].Ptr()); err != nil {
			return err
		}
	}
	for i := range all {
		o := &all[i]
		o.val, o.outcome = vals[i], outcomes[i]
		if o.kind == taskRange {
			o.keys, o.vals = keysOut[i*most:i*most+int(o.outcome)], valsOut[i*most:i*most+int(o.outcome)]
		}
		if o.kind == taskNext || o.kind == taskBefore {
			o.keys = keysOut[i*most : i*most+1]
		}
	}
	return nil
}

// In each round, writers put the number of the round into the first key and then into the last key.
// Other tiles meanwhile insert and erase keys between the two. So in a range that is read
// atomically, the value of the first key equals that of the last key, or is the next round. Later
// ranges must show later states.
const (
	writers      = 4
	rounds       = 5
	between      = 100 // number of keys from firstBetween on
	last         = 1000
	firstBetween = 10
)

// race runs the rounds in several launches. Each range is read repeat times at its snapshot. race
// returns the first inconsistency in the results. A launch reuses the memory that the previous
// launch copied.
func race(t testing.TB, o *sim.Options, launches, repeat int, present bool) error {
	t.Helper()
	dev, err := sim.Open(o)
	check(t, err)
	defer dev.Close()
	on := device.Device(dev)
	if launches > 1 {
		on = devicetest.Narrow(dev) // few block slots, so that epochs end
	}
	x := openTrees(t, on, btree.OutOfPlace)
	defer x.m.Close()
	var keys, vals []uint32
	for w := range uint32(writers) {
		keys, vals = append(keys, w, last+w), append(vals, 0, 0)
	}
	for i := range uint32(between) {
		if i%2 == 0 {
			keys, vals = append(keys, firstBetween+i), append(vals, i)
		}
	}
	if _, err := x.m.Put(t.Context(), keys, vals); err != nil {
		return err
	}
	for launch := range uint32(launches) {
		if err := x.race(t.Context(), launch*rounds, repeat, present); err != nil {
			return fmt.Errorf("launch %d: %w", launch, err)
		}
	}

	return x.m.Check(t.Context())
}

// race runs one launch, after the given number of rounds.
func (x *trees) race(ctx context.Context, before uint32, repeat int, present bool) error {
	const each = 2 * rounds
	var all, ranges []task
	for w := range uint32(writers) {
		for r := range uint32(rounds) {
			all = append(all, task{kind: uint32(op.Put), key: w, val: before + r + 1}, task{kind: uint32(op.Put), key: last + w, val: before + r + 1})
		}
		for r := range uint32(each) {
			o := task{kind: taskRange, to: ^uint32(0)}
			if w == 3 && r%2 == 0 {
				o = task{kind: taskCount, to: firstBetween - 1}
			}
			ranges = append(ranges, o)
		}
		for r := range uint32(each) {
			all = append(all, task{kind: []uint32{uint32(op.PutNew), uint32(op.Delete)}[r/2%2], key: firstBetween + (w*each+r*7)%between, val: r})
		}
	}
	all = append(all, ranges...) // another block runs these
	if err := x.run(ctx, all, each, 32, 256, 256, repeat, present); err != nil {
		return err
	}
	return moments(all)
}

// moments returns an error for a range that is not atomic.
func moments(all []task) error {
	var seen [][2 * writers]uint32
	for i, o := range all {
		if o.kind == taskCount && o.outcome != writers {
			return fmt.Errorf("task %d counts %d keys, of %d", i, o.outcome, writers)
		}
		if o.kind != taskRange {
			continue
		}
		var v [2 * writers]uint32
		n := 0
		for j, k := range o.keys {
			if j > 0 && o.keys[j-1] >= k {
				return fmt.Errorf("task %d lists key %d behind %d", i, k, o.keys[j-1])
			}
			switch {
			case k < writers:
				v[k], n = o.vals[j], n+1
			case k >= last:
				v[writers+k-last], n = o.vals[j], n+1
			}
		}
		if n != 2*writers {
			return fmt.Errorf("task %d lists %d of %d keys that are there", i, n, 2*writers)
		}
		for w := range writers {
			if a, b := v[w], v[writers+w]; a != b && a != b+1 {
				return fmt.Errorf("task %d sees round %d of writer %d, and round %d behind it", i, a, w, b)
			}
		}
		for _, u := range seen {
			less, more := false, false
			for k := range v {
				less, more = less || v[k] < u[k], more || v[k] > u[k]
			}
			if less && more {
				return fmt.Errorf("task %d sees %v, and another one %v: neither comes first", i, v, u)
			}
		}
		seen = append(seen, v)
	}
	return nil
}

// Ranges at snapshots that tiles take during changes are atomic under every schedule.
func TestSnapshotsOfTiles(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(6) {
		launches, repeat := 1, 1
		if seed > 2 { // the schedules that find mutants of reclamation
			launches, repeat = 3, 12
		}
		if err := race(t, sim.Schedule(seed), launches, repeat, false); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Without a snapshot, some schedule yields a range that is not atomic.
func TestRangesOutsideSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(100) {
		if err := race(t, sim.Schedule(seed), 1, 1, true); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("all ranges are of one moment")
}

// One launch takes a snapshot of a stream. Later launches read the snapshot during changes, until
// one of them drops it.
func TestSnapshotsOfStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(2) {
		sims := must[*sim.Device](t)(sim.Open(sim.Schedule(seed)))
		dev := devicetest.Narrow(devicetest.Checked(t, sims)) // few block slots, so that epochs end
		x := openTrees(t, dev, btree.OutOfPlace)
		const n, most = 60, 128
		keys, vals := make([]uint32, n), make([]uint32, n)
		for i := range keys {
			keys[i] = uint32(2 * i)
		}
		must[int](t)(x.m.Put(t.Context(), keys, vals))
		words := must[device.Slice[uint32]](t)(device.Make[uint32](dev, 8+2*most))
		p := holdParams{held: words.Ptr(), count: words.Sub(4, 5).Ptr(), keys: words.Sub(8, 8+most).Ptr(), vals: words.Sub(8+most, 8+2*most).Ptr(), most: most}
		launch := func(k device.Kernel) {
			t.Helper()
			check(t, x.m.View(t.Context(), x.s, func(r btree.Ref) error {
				p.ref = r.Versioned()
				return device.Launch(x.s, k, device.Dim{X: 1}, device.Dim{X: 32}, &p)
			}))
		}
		launch(x.hold)
		check(t, x.s.Sync(t.Context()))
		for round := range uint32(6) {
			for i := range keys {
				keys[i], vals[i] = (keys[i]+2*round+1)%(2*n), round+1
			}
			must[int](t)(x.m.Put(t.Context(), keys, vals))
			must[int](t)(x.m.Delete(t.Context(), keys[:n/2], nil))
			if round == 5 {
				p.drop = 1
			}
			launch(x.held)
			got := make([]uint32, 8+2*most)
			check(t, words.CopyTo(t.Context(), x.s, got))
			if got[4] != n {
				t.Fatalf("seed %d, round %d: %d pairs, want %d", seed, round, got[4], n)
			}
			for i := range uint32(n) {
				if got[8+i] != 2*i || got[8+most+i] != 0 {
					t.Fatalf("seed %d, round %d: pair %d is %d with %d", seed, round, i, got[8+i], got[8+most+i])
				}
			}
		}
		before := must[btree.Stats](t)(x.m.Stats(t.Context()))
		for range 3 { // epochs end again
			must[int](t)(x.m.Put(t.Context(), keys, vals))
		}
		if s := must[btree.Stats](t)(x.m.Stats(t.Context())); s.Freed == before.Freed || s.Epochs <= before.Epochs {
			t.Errorf("seed %d: %+v, before the end of the snapshot %+v", seed, s, before)
		}
		check(t, errors.Join(x.m.Check(t.Context()), words.Free(), x.m.Close(), x.s.Close(), sims.Close()))
	}
}
