package conformance

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Failures selects the device operations that [OrderedFails] makes fail.
type Failures struct {
	// FailAfter is [devicetest.FailAfter] or [FailTwoAllocations].
	FailAfter     func(dev device.Device, n int) (fired func() bool)
	First, Stride int
	MaxOps        int // maximum number of operations per batch
}

// FailTwoAllocations makes two consecutive memory allocations fail, so that a retry with a smaller
// size fails, too.
func FailTwoAllocations(dev device.Device, n int) (fired func() bool) {
	devicetest.FailMemoryAfter(dev, n)
	return devicetest.FailMemoryAfter(dev, n)
}

// OrderedFailsOnDevices runs [OrderedFails] on two devices. On a CPU, two consecutive allocations
// fail, at each point of a life. Without -short, the operations that simulated selects fail on a
// simulated GPU.
func OrderedFailsOnDevices(t *testing.T, open Maker[AnyOrderedMap[uint32, uint32]], simulated ...Failures) {
	SkipRaced(t, "the simulator has goroutines of its own")
	OrderedFails(t, devicetest.OpenCPU(t, 2), Failures{FailAfter: FailTwoAllocations, Stride: 1, MaxOps: 200}, open)
	if testing.Short() {
		return
	}
	dev := devicetest.OpenSim(t, nil)
	for _, desc := range simulated {
		OrderedFails(t, dev, desc, open)
	}
}

// OrderedFails makes device operations fail, one in each life of an ordered map. A life has batches
// of all kinds while snapshots are taken and closed. A call that fails must have done exactly the
// operations that it reports, and must zero the outputs of the others. Snapshots must be unchanged.
// Only after a failure other than lack of memory may a failed call have done everything. A failed
// call must succeed when repeated, and nothing may leak. open makes an empty map for each life.
func OrderedFails(t testing.TB, dev device.Device, desc Failures, open Maker[AnyOrderedMap[uint32, uint32]]) {
	t.Helper()
	// Allocate the memory that structures share, at its full size.
	runFailingHistory(t, dev, desc, -1, open)
	before := devicetest.Live(dev)
	step := desc.First
	for ; runFailingHistory(t, dev, desc, step, open); step += desc.Stride {
		if now := devicetest.Live(dev); now != before {
			t.Fatalf("operation %d failed; %+v is left, was %+v", step, now, before)
		}
	}
	if step == desc.First {
		t.Fatalf("a life asks for no more than %d operations: none has failed", step)
	}
}

// failingHistory is a history in which one device operation fails.
type failingHistory struct {
	history
	step     int
	fired    func() bool
	compared bool // everything has been compared after the failure
}

// runFailingHistory runs a life in which device operation number step fails. It reports whether the
// failure occurred.
func runFailingHistory(t testing.TB, dev device.Device, desc Failures, step int, open Maker[AnyOrderedMap[uint32, uint32]]) bool {
	t.Helper()
	f := &failingHistory{step: step, fired: func() bool { return false }}
	f.history = history{types: typesOf[uint32, uint32](), m: eraseOrderedMap(open(t, dev)), maxOps: desc.MaxOps}
	f.begin(t, 1)
	if step >= 0 {
		f.fired = desc.FailAfter(dev, step)
	}
	f.runAll()
	devicetest.ClearFailures(dev)
	f.compare()
	for _, s := range f.openSnapshots {
		f.must(s.Close())
	}
	f.openSnapshots = nil
	f.must(f.m.Compact(t.Context()))
	f.compare()
	f.must(f.m.Close())
	return f.fired()
}

func (f *failingHistory) runAll() {
	t, m := f.Context(), f.m
	build := f.drawKeys(2 * f.maxOps)
	f.runBatch("Build", len(build), func(lo int) error { _, err := m.Build(t, build[lo:], build[lo:]); return err },
		func(i int, _ bool) { f.want[build[i]] = build[i] }, nil)
	f.takeSnapshot()
	f.applyMixed(weft.OpPut, weft.OpDelete, weft.OpSum, weft.OpPutNew, weft.OpGet)
	f.deleteRanges()
	f.takeSnapshot()
	f.applyMixed(weft.OpPut)
	f.lookUpAll()
	f.deleteHalf()
	f.closeSnapshotAt(0)
	f.retry("Compact", func() error { return m.Compact(t) })
	f.retry("Clear", func() error { return m.Clear(t) })
	clear(f.want)
	f.applyMixed(weft.OpPut, weft.OpPutNew)
	f.deleteRanges()
	f.takeSnapshot()
	f.closeSnapshotAt(0)
	f.applyMixed(weft.OpDelete, weft.OpPut)
	f.retry("Sync", func() error { return m.Sync(t) })
}

func (f *failingHistory) drawKeys(n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = f.drawKey()
	}
	return keys
}

// retry repeats a call until it succeeds. If two operations fail, that is the third attempt at the
// latest.
func (f *failingHistory) retry(desc string, do func() error) {
	f.Helper()
	for range 3 {
		err := do()
		f.compareAfterFailure()
		if err == nil {
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			f.Fatalf("operation %d failed: %s: %v", f.step, desc, err)
		}
	}
	f.Fatalf("operation %d failed: %s fails again and again", f.step, desc)
}

// runBatch runs a batch of n operations and after a failure runs the operations that were not done.
// do runs the operations from lo on. one applies operation i to the model and, if out is set,
// checks its outputs. zero reports whether the outputs of operation i are zero.
func (f *failingHistory) runBatch(desc string, n int, do func(lo int) error, one func(i int, out bool), zero func(i int) bool) {
	f.Helper()
	lo := 0
	f.retry(desc, func() error {
		err := do(lo)
		end := n
		var p *weft.PartialError
		if errors.As(err, &p) {
			if end = lo + p.Done; p.Failed != 0 || len(p.Rows) != 0 {
				f.Fatalf("operation %d failed: %s says that rows %v failed: %v", f.step, desc, p.Rows, err)
			}
		} else if err != nil {
			f.Fatalf("operation %d failed: %s does not say what it has done: %v", f.step, desc, err)
		}
		for i := lo; i < end; i++ {
			one(i, true)
		}
		for i := end; i < n && zero != nil; i++ {
			if !zero(i) {
				f.Fatalf("operation %d failed: %s did %d operations of %d, and number %d has outputs", f.step, desc, end, n, i)
			}
		}
		if lo = end; err == nil || f.equalsModel() || devicetest.IsMemoryFailure(err) {
			return err
		}
		for ; lo < n; lo++ { // all operations are done, but the results are unknown
			one(lo, false)
		}
		return nil
	})
}

func (f *failingHistory) equalsModel() bool { return maps.Equal(maps.Collect(f.m.All()), f.want) }

func (f *failingHistory) applyMixed(kinds ...weft.OpKind) {
	f.Helper()
	ops := make([]weft.Op[uint64, uint64], f.maxOps)
	for i, k := range f.drawKeys(f.maxOps) {
		ops[i] = weft.Op[uint64, uint64]{Kind: kinds[f.rng.IntN(len(kinds))], Key: k, Value: f.rng.Uint64N(1000)}
	}
	res := slices.Repeat([]weft.Result[uint64]{{Value: 7, OK: true}}, len(ops))
	f.runBatch("Apply", len(ops), func(lo int) error { return f.m.Apply(f.Context(), ops[lo:], res[lo:]) }, func(i int, out bool) {
		if want := f.want.apply(&f.types, ops[i:i+1])[0]; out && res[i] != want {
			f.Fatalf("operation %d failed: %v returns %v, want %v", f.step, ops[i], res[i], want)
		}
	}, func(i int) bool { return res[i] == weft.Result[uint64]{} })
}

// deleteHalf deletes half of the keys, and some absent keys.
func (f *failingHistory) deleteHalf() {
	f.Helper()
	keys := f.drawKeys(f.maxOps)
	for k := range f.want {
		if k%2 == 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	present := slices.Repeat([]bool{true}, len(keys))
	f.runBatch("Delete", len(keys), func(lo int) error { _, err := f.m.Delete(f.Context(), keys[lo:], present[lo:]); return err }, func(i int, out bool) {
		if _, want := f.want[keys[i]]; out && present[i] != want {
			f.Fatalf("operation %d failed: Delete of %d reports %v", f.step, keys[i], present[i])
		}
		delete(f.want, keys[i])
	}, func(i int) bool { return !present[i] })
}

func (f *failingHistory) deleteRanges() {
	f.Helper()
	lo, hi := f.drawKeys(4), make([]uint64, 4)
	for i, k := range lo {
		hi[i] = f.keyAfter(k, f.maxOps)
	}
	lo[3], hi[3] = hi[3], lo[3]
	removed := slices.Repeat([]uint32{7}, len(lo))
	f.runBatch("DeleteRange", len(lo), func(from int) error {
		_, err := f.m.DeleteRange(f.Context(), lo[from:], hi[from:], removed[from:])
		return err
	}, func(i int, out bool) {
		if n := f.want.deleteRange(lo[i], hi[i]); out && removed[i] != n {
			f.Fatalf("operation %d failed: DeleteRange from %d to %d reports %d, want %d", f.step, lo[i], hi[i], removed[i], n)
		}
	}, func(i int) bool { return removed[i] == 0 })
}

func (f *failingHistory) takeSnapshot() {
	f.Helper()
	f.retry("Snapshot", func() error {
		s, err := snapshotOf(f, f.Context(), f.m)
		if err == nil {
			f.openSnapshots = append(f.openSnapshots, modeledSnapshot{s, maps.Clone(f.want)})
		}
		return err
	})
}

// closeSnapshotAt closes a snapshot. The snapshot counts as closed even if Close returns an error.
func (f *failingHistory) closeSnapshotAt(i int) {
	f.Helper()
	s := f.openSnapshots[i]
	f.openSnapshots = slices.Delete(f.openSnapshots, i, i+1)
	if err := s.Close(); err != nil && !errors.Is(err, device.ErrMemory) {
		f.Fatalf("operation %d failed: Close: %v", f.step, err)
	}
	f.compareAfterFailure()
}

func (f *failingHistory) lookUpAll() {
	f.Helper()
	keys := f.drawKeys(f.maxOps)
	f.checkLookups("the map", f.m, f.want, &seeks{lo: keys[1:], hi: keys[:len(keys)-1]})
	for i, s := range f.openSnapshots {
		f.checkLookups(fmt.Sprintf("snapshot %d", i), s, s.historyModel, &seeks{lo: keys[1:], hi: keys[:len(keys)-1], limit: 3})
	}
}

func (f *failingHistory) checkLookups(where string, m erasedSeeker, want historyModel, x *seeks) {
	f.Helper()
	where = fmt.Sprintf("operation %d failed: %s", f.step, where)
	o := f.newModel()
	o.pairs = want
	o.sort()
	for _, k := range x.lo {
		x.ranks = append(x.ranks, uint64(o.rank(k)))
	}
	a, byKey := f.newSeekResults(x), f.newFoundPairs(len(x.lo))
	minPair, pages, between := f.newFoundPairs(1), f.newModel(), f.newModel()
	c := f.Context()
	for _, call := range append(a.seekCalls(c, m, x),
		seekCall{"Get", func() (int, error) { return m.Get(c, x.lo, byKey.vals, byKey.ok) }},
		seekCall{"Min", func() (n int, err error) {
			minPair.keys[0], minPair.vals[0], minPair.ok[0], err = m.Min(c)
			return btoi(minPair.ok[0]), err
		}},
		seekCall{"Pages", func() (int, error) { return 0, pages.collect(m.Pages(c)) }},
		seekCall{"Between", func() (int, error) { return 0, between.collect(m.Between(c, 0, f.keyMask)) }},
	) {
		f.retry(call.name, func() error {
			n, err := call.run()
			if err != nil && n != 0 {
				f.Fatalf("%s: %s finds %d: %v", where, call.name, n, err)
			}
			return err
		})
	}
	a.checkEqual(f, where, x, o.seekResults(x))
	for i, k := range x.lo {
		if v, ok := want[k]; byKey.vals[i] != v || byKey.ok[i] != ok {
			f.Fatalf("%s: Get of %d: %d, %v, want %d, %v", where, k, byKey.vals[i], byKey.ok[i], v, ok)
		}
	}
	if k, v, ok := o.pairAt(0); minPair.keys[0] != k || minPair.vals[0] != v || minPair.ok[0] != ok {
		f.Fatalf("%s: Min is %d: %d, %v, want %d: %d, %v", where, minPair.keys[0], minPair.vals[0], minPair.ok[0], k, v, ok)
	}
	for desc, is := range map[string]*erasedModel{"Pages": pages, "Between": between} {
		if !slices.Equal(is.keys, o.keys) || !maps.Equal(is.pairs, want) {
			f.Fatalf("%s: %s have %d pairs, want %d, or others", where, desc, len(is.keys), len(o.keys))
		}
	}
}

// collect replaces the content of a model by the pairs in pages, with the keys in order of arrival.
func (o *erasedModel) collect(pages iter.Seq2[weft.Page[uint64, uint64], error]) error {
	o.pairs, o.keys = map[uint64]uint64{}, nil
	for p, err := range pages {
		if err != nil {
			return err
		}
		for i, k := range p.Keys {
			o.pairs[k], o.keys = p.Vals[i], append(o.keys, k)
		}
	}
	return nil
}

// compareAfterFailure compares everything with the model, once after the failure.
func (f *failingHistory) compareAfterFailure() {
	f.Helper()
	if f.fired() && !f.compared {
		f.compared = true
		f.compare()
	}
}

func (f *failingHistory) compare() {
	f.Helper()
	if err := f.m.Check(f.Context()); err != nil {
		f.Fatalf("operation %d failed: %v", f.step, err)
	}
	if f.m.Len() != len(f.want) {
		f.Fatalf("operation %d failed: %d pairs, want %d", f.step, f.m.Len(), len(f.want))
	}
	f.seek(f.m, f.want)
	for _, s := range f.openSnapshots {
		f.seek(s, s.historyModel)
	}
}
