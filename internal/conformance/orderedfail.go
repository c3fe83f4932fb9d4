package conformance

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Failures says which operations of a device [OrderedFails] has fail.
type Failures struct {
	After         func(dev device.Device, n int) (fired func() bool) // [devicetest.FailAfter], [Twice]
	First, Stride int
	Most          int // operations of a batch
}

// Twice has two operations fail that take memory, one behind the other: who asks for less then gets none either.
func Twice(dev device.Device, n int) (fired func() bool) {
	devicetest.FailMemoryAfter(dev, n)
	return devicetest.FailMemoryAfter(dev, n)
}

// OrderedFails has operations of a device fail, one in each life of an ordered map that goes through batches of all kinds
// while snapshots come and go. A call that fails has done as many of its
// operations as it says, the outputs of the others are zero, and snapshots are what they were; where it is not memory that there
// is none of, it may have done all, and not know. What did not work does
// when it is called again, and in the end nothing stays behind. open makes an empty map of its own for each life.
func OrderedFails(t *testing.T, dev device.Device, what Failures, open func(t testing.TB) *weft.OrderedMap[uint32, uint32]) {
	t.Helper()
	orderedLife(t, dev, what, -1, open) // what structures share is as large as a life takes
	before := devicetest.Live(dev)
	for step := what.First; orderedLife(t, dev, what, step, open); step += what.Stride {
		if now := devicetest.Live(dev); now != before {
			t.Fatalf("operation %d failed; %+v is left, was %+v", step, now, before)
		}
	}
}

// failingLife is a history some call of which fails.
type failingLife struct {
	OrderedHistory[uint32, uint32]
	step  int
	fired func() bool
	seen  bool // all has been compared since
}

// orderedLife lives with a failure at a step, and reports whether there was one.
func orderedLife(t *testing.T, dev device.Device, what Failures, step int, open func(t testing.TB) *weft.OrderedMap[uint32, uint32]) bool {
	t.Helper()
	f := &failingLife{step: step, fired: func() bool { return false }}
	f.Map, f.Most = open(t), what.Most
	f.Begin(t, 1)
	if step >= 0 {
		f.fired = what.After(dev, step)
	}
	f.live()
	devicetest.Heal(dev)
	f.compare()
	for _, s := range f.held {
		f.must(s.Close())
	}
	f.held = nil
	f.must(f.Map.Compact(t.Context()))
	f.compare()
	f.must(f.Map.Close())
	return f.fired()
}

func (f *failingLife) live() {
	t, m := f.Context(), f.Map
	build := f.keys(2 * f.Most)
	f.changes("Build", len(build), func(lo int) error { _, err := m.Build(t, build[lo:], build[lo:]); return err },
		func(i int, _ bool) { f.want[build[i]] = build[i] }, nil)
	f.snapshot()
	f.mixed(weft.OpPut, weft.OpDelete, weft.OpSum, weft.OpPutNew, weft.OpGet)
	f.deleteRanges()
	f.snapshot()
	f.mixed(weft.OpPut)
	f.ask()
	f.delete()
	f.close(0)
	f.again("Compact", func() error { return m.Compact(t) })
	f.again("Clear", func() error { return m.Clear(t) })
	clear(f.want)
	f.mixed(weft.OpPut, weft.OpPutNew)
	f.deleteRanges()
	f.snapshot()
	f.close(0)
	f.mixed(weft.OpDelete, weft.OpPut)
	f.again("Sync", func() error { return m.Sync(t) })
}

// keys are some that are drawn.
func (f *failingLife) keys(n int) []uint32 {
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = f.key()
	}
	return keys
}

// again calls until it works, which is at once or the next time.
func (f *failingLife) again(what string, do func() error) {
	f.Helper()
	for range 6 {
		err := do()
		f.compareOnce()
		if err == nil {
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			f.Fatalf("operation %d failed: %s: %v", f.step, what, err)
		}
	}
	f.Fatalf("operation %d failed: %s fails again and again", f.step, what)
}

// changes runs a batch of n operations, what is left of it again. Operation i does to the model what one does, and wants its outputs to
// be right where out is set; zero reports whether they are zero.
func (f *failingLife) changes(what string, n int, do func(lo int) error, one func(i int, out bool), zero func(i int) bool) {
	f.Helper()
	lo := 0
	f.again(what, func() error {
		err := do(lo)
		end := n
		var p *weft.PartialError
		if errors.As(err, &p) {
			end = lo + p.Done
		} else if err != nil {
			f.Fatalf("operation %d failed: %s does not say what it has done: %v", f.step, what, err)
		}
		for i := lo; i < end; i++ {
			one(i, true)
		}
		for i := end; i < n && zero != nil; i++ {
			if !zero(i) {
				f.Fatalf("operation %d failed: %s did %d operations of %d, and number %d has outputs", f.step, what, end, n, i)
			}
		}
		if lo = end; err == nil || f.holds() || devicetest.TakesMemory(err) {
			return err
		}
		for ; lo < n; lo++ { // all has been done, and did not arrive
			one(lo, false)
		}
		return nil
	})
}

// holds reports whether the map holds what it should.
func (f *failingLife) holds() bool { return maps.Equal(maps.Collect(f.Map.All()), f.want) }

// mixed runs a batch of operations of some kinds.
func (f *failingLife) mixed(kinds ...weft.OpKind) {
	f.Helper()
	ops := make([]weft.Op[uint32, uint32], f.Most)
	for i, k := range f.keys(f.Most) {
		ops[i] = weft.Op[uint32, uint32]{Kind: kinds[f.rng.IntN(len(kinds))], Key: k, Value: f.rng.Uint32N(1000)}
	}
	res := slices.Repeat([]weft.Result[uint32]{{Value: 7, OK: true}}, len(ops))
	f.changes("Apply", len(ops), func(lo int) error { return f.Map.Apply(f.Context(), ops[lo:], res[lo:]) }, func(i int, out bool) {
		if want := f.want.run(ops[i : i+1])[0]; out && res[i] != want {
			f.Fatalf("operation %d failed: %v returns %v, want %v", f.step, ops[i], res[i], want)
		}
	}, func(i int) bool { return res[i] == weft.Result[uint32]{} })
}

// delete deletes half of the keys, and as many that are not there.
func (f *failingLife) delete() {
	f.Helper()
	keys := f.keys(f.Most)
	for k := range f.want {
		if k%2 == 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	there := slices.Repeat([]bool{true}, len(keys))
	f.changes("Delete", len(keys), func(lo int) error { _, err := f.Map.Delete(f.Context(), keys[lo:], there[lo:]); return err }, func(i int, out bool) {
		if _, want := f.want[keys[i]]; out && there[i] != want {
			f.Fatalf("operation %d failed: Delete of %d reports %v", f.step, keys[i], there[i])
		}
		delete(f.want, keys[i])
	}, func(i int) bool { return !there[i] })
}

// deleteRanges deletes ranges, of which the last is the other way round.
func (f *failingLife) deleteRanges() {
	f.Helper()
	lo, hi := f.keys(4), make([]uint32, 4)
	for i, k := range lo {
		hi[i] = k + uint32(f.Most)
	}
	lo[3], hi[3] = hi[3], lo[3]
	removed := slices.Repeat([]uint32{7}, len(lo))
	f.changes("DeleteRange", len(lo), func(from int) error {
		_, err := f.Map.DeleteRange(f.Context(), lo[from:], hi[from:], removed[from:])
		return err
	}, func(i int, out bool) {
		if n := f.want.deleteRange(lo[i], hi[i]); out && removed[i] != n {
			f.Fatalf("operation %d failed: DeleteRange from %d to %d reports %d, want %d", f.step, lo[i], hi[i], removed[i], n)
		}
	}, func(i int) bool { return removed[i] == 0 })
}

func (f *failingLife) snapshot() {
	f.Helper()
	f.again("Snapshot", func() error {
		s, err := f.Map.Snapshot(f.Context())
		if err == nil {
			f.held = append(f.held, heldSnapshot[uint32, uint32]{s, maps.Clone(f.want)})
		}
		return err
	})
}

// close closes a snapshot, which is closed whatever it returns.
func (f *failingLife) close(i int) {
	f.Helper()
	s := f.held[i]
	f.held = slices.Delete(f.held, i, i+1)
	if err := s.Close(); err != nil && !errors.Is(err, device.ErrMemory) {
		f.Fatalf("operation %d failed: Close: %v", f.step, err)
	}
	f.compareOnce()
}

// ask asks map and snapshots for what calls of lookups find.
func (f *failingLife) ask() {
	f.Helper()
	keys := f.keys(f.Most)
	lo, hi := keys[1:], keys[:len(keys)-1]
	const limit = 3
	for _, m := range append([]hostSeeker[uint32, uint32]{f.Map}, f.seekers()...) {
		vals, ok, ranks, next := make([]uint32, len(keys)), make([]bool, len(keys)), make([]uint64, len(keys)), make([]uint32, len(keys))
		counts, some, of := make([]uint32, len(lo)), make([]uint32, limit*len(lo)), make([]uint32, limit*len(lo))
		rows := weft.PairRows[uint32, uint32]{Offsets: []uint64{0, 1}, Keys: []uint32{5}, Vals: []uint32{6}}
		for _, c := range []struct {
			what string
			do   func() (int, error)
		}{
			{"Get", func() (int, error) { return m.Get(f.Context(), keys, vals, ok) }},
			{"Rank", func() (int, error) { return 0, m.Rank(f.Context(), keys, ranks) }},
			{"Select", func() (int, error) { return m.Select(f.Context(), ranks, next, vals, ok) }},
			{"Successor", func() (int, error) { return m.Successor(f.Context(), keys, next, vals, ok) }},
			{"Count", func() (int, error) { return m.Count(f.Context(), lo, hi, counts) }},
			{"RangeFirst", func() (int, error) { return m.RangeFirst(f.Context(), lo, hi, limit, counts, some, of) }},
			{"RangeBackward", func() (int, error) { return 0, m.RangeBackward(f.Context(), lo, hi, 0, &rows) }},
			{"Min", func() (int, error) { _, _, _, err := m.Min(f.Context()); return 0, err }},
			{"Pages", func() (int, error) { return 0, lastError(m.Pages(f.Context())) }},
			{"Between", func() (int, error) { return 0, lastError(m.Between(f.Context(), 0, ^uint32(0))) }},
		} {
			f.again(c.what, func() error {
				n, err := c.do()
				if err != nil && (n != 0 || rows.Len() > 1 && c.what == "RangeBackward") {
					f.Fatalf("operation %d failed: %s finds %d: %v", f.step, c.what, n, err)
				}
				return err
			})
		}
	}
}

func lastError[P any](pages func(yield func(P, error) bool)) (last error) {
	for _, err := range pages {
		last = err
	}
	return last
}

func (f *failingLife) seekers() (all []hostSeeker[uint32, uint32]) {
	for _, s := range f.held {
		all = append(all, s.Snapshot)
	}
	return all
}

// compareOnce compares all, right behind the failure.
func (f *failingLife) compareOnce() {
	f.Helper()
	if f.fired() && !f.seen {
		f.seen = true
		f.compare()
	}
}

func (f *failingLife) compare() {
	f.Helper()
	if err := f.Map.Check(f.Context()); err != nil {
		f.Fatalf("operation %d failed: %v", f.step, err)
	}
	if f.Map.Len() != len(f.want) {
		f.Fatalf("operation %d failed: %d pairs, want %d", f.step, f.Map.Len(), len(f.want))
	}
	f.Seek()
	for _, s := range f.held {
		f.seek(s, s.historyModel)
	}
}
