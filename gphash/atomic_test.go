package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
	"github.com/weftgo/weft/internal/pool"
)

// atomicTrial is a trial of atomic batches. After a crash, either all its keys are as before the
// running batch, or all are as after it.
type atomicTrial struct {
	*trial
	policy        *policy
	before, after [][]byte // by key; nil if absent
	refused       int      // number of batches
}

// domainHost is a host that runs the threads of a domain as its cores.
type domainHost struct {
	serialHost
	*atomicTrial
	units int
}

const domainThreads = 8

func (h domainHost) Properties() device.Properties { return device.Properties{Units: h.units} }

func (h domainHost) Parallel(n, grain int, body func(lo, hi int)) {
	if h.units == 1 || n <= grain || n > domainThreads*grain {
		body(0, n)
		return
	}
	var threads []func()
	for lo := 0; lo < n; lo += grain {
		threads = append(threads, func() { body(lo, min(lo+grain, n)) })
	}
	h.d.Run(h.rng, threads...)
}

func newAtomicTrial(seed uint64) *atomicTrial {
	shape := [...]smallShape{
		{keySize: 8, valueSize: 8, slots: 2, hashes: 2, levels: 2, top: 3, threads: 1, batches: 8, ops: 10, keys: 24},
		{keySize: 8, valueSize: 8, slots: 4, hashes: 2, levels: 1, top: 1, threads: 1, batches: 8, ops: 8, keys: 8},
		// all in one bucket
		{keySize: 20, valueSize: 24, slots: 8, hashes: 1, levels: 1, top: 0, threads: 1, batches: 8, ops: 6, keys: 9},
		{keySize: 12, valueSize: 130, slots: 2, hashes: 2, levels: 3, top: 3, threads: 1, batches: 6, ops: 8, keys: 16},
		{slots: 2, hashes: 2, levels: 2, top: 3, threads: 1, batches: 8, ops: 8, keys: 16},
		{keySize: 11, slots: 4, hashes: 2, levels: 1, top: 1, threads: 1, batches: 8, ops: 8, keys: 8},
	}[seed%6]
	tr := &atomicTrial{trial: newTrial(shape, seed)}
	tr.maxImages = 8
	words, capacity := uint64(pool.DataStart/pm.Word+40*growthUnit), 1
	// about as many slots as keys, and memory for the log and one unit of values
	if tr.rng.IntN(2) == 0 {
		capacity = []int{12, 4, 4, 7, 12, 4}[seed%6]
		words = pool.DataStart/pm.Word + uint64(shape.levels+2)*growthUnit
	}
	tr.d = pmtest.New(words, domainThreads)
	tr.images = &tr.d.Images
	tr.mem = pm.New(make([]byte, words*pm.Word), tr.d)
	o := Options{KeySize: shape.keySize, ValueSize: shape.valueSize, Slots: shape.slots, Hashes: shape.hashes, Levels: shape.levels,
		Capacity: capacity, Hash: SipHash, Seed: tr.seed, Size: int64(words * pm.Word), AtomicBatch: shape.ops}
	first, err := o.plan(growthUnit)
	if err != nil {
		panic(err)
	}
	p, err := pool.Format(tr.mem, first)
	if err != nil {
		panic(err)
	}
	for at := first.Areas[redoArea].Offset/pm.Word + headWords; at < words; at++ {
		// free memory and the rest of the log may contain anything
		tr.mem.Store(at, tr.rng.Uint64())
	}
	tr.mem.Fence()
	e, _, err := recoverPool(ctx, p, domainHost{serialHost{}, tr, 1 + tr.rng.IntN(2)}, OpenOptions{})
	if err != nil {
		panic(err)
	}
	tr.table, tr.policy = e.table, &policy{e, e, Resize(tr.rng.IntN(2))}
	tr.reopenImage = func(resume bool) (*table, *Report) { return tr.reopen(tr.mem, resume) }
	tr.checkContents, tr.revert = tr.checkWhole, tr.images.RevertUnfenced
	tr.before = make([][]byte, shape.keys)
	tr.after = tr.before
	return tr
}

// checkWhole fails unless all keys are as before or all as after the batch. It counts the keys.
func (tr *atomicTrial) checkWhole(t *table) (nKeys int) {
	is := make([][]byte, len(tr.keys))
	for i, key := range tr.keys {
		it := t.item(key)
		if value, ok := t.get(&it, make([]byte, tr.shape.valueSize)); ok {
			is[i] = value
			nKeys++
		}
	}
	same := func(want [][]byte) bool {
		return slices.EqualFunc(is, want, func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })
	}
	if !same(tr.before) && !same(tr.after) {
		tr.fail("%x is neither %x nor %x", is, tr.before, tr.after)
	}
	return nKeys
}

// run runs batches and checks possible crashes after a sample of the stores.
func (tr *atomicTrial) run() {
	for range tr.shape.batches { // fill the index, or nearly, before the first check
		tr.runBatch(tr.shape.ops)
		tr.before = tr.after
	}
	tr.d.Step = func() {
		// if many words are dirty, one more hardly matters
		if tr.rng.IntN(max(1, tr.d.Dirty()/4)) == 0 {
			tr.d.Crash(tr.rng, tr.maxImages, tr.checkImage)
		}
	}
	for range tr.shape.batches {
		if tr.rng.IntN(10) == 0 {
			tr.after = make([][]byte, len(tr.keys))
			if err := tr.policy.Clear(ctx); err != nil {
				tr.fail("Clear: %v", err)
			}
		} else {
			tr.runBatch(1 + tr.rng.IntN(tr.shape.ops))
		}
		tr.before = tr.after
	}
}

// runBatch runs operations as package core does and compares their results with serial execution.
func (tr *atomicTrial) runBatch(n int) {
	kinds, oks, wantOKs := make([]op.Kind, n), make([]bool, n), make([]bool, n)
	keys, values, results := Bytes{}, Bytes{}, make([][]byte, n)
	tr.after = slices.Clone(tr.before)
	for i := range n {
		k, value := tr.rng.IntN(len(tr.keys)), tr.shape.value(tr.rng)
		kinds[i] = [...]op.Kind{op.Put, op.Put, op.Put, op.PutNew, op.Update, op.Delete, op.Get, op.Sum}[tr.rng.IntN(8)]
		if kinds[i] == op.Sum && tr.shape.valueSize != 8 {
			kinds[i] = op.Put
		}
		keys.Append(tr.keys[k])
		values.Append(value)
		old := tr.after[k]
		if old != nil && (kinds[i] == op.Get || kinds[i] == op.PutNew) {
			results[i] = old
		}
		wantOKs[i] = (old == nil) != (kinds[i] == op.Get || kinds[i] == op.Update || kinds[i] == op.Delete)
		switch {
		case kinds[i] == op.Delete:
			tr.after[k] = nil
		case kinds[i] == op.Sum && old != nil:
			tr.after[k] = slices.Clone(old)
			sum := batch.View[uint64](tr.after[k])
			sum[0] += batch.View[uint64](bytes.Clone(value))[0]
		case kinds[i] == op.Update && old == nil:
		case kinds[i] == op.Put || kinds[i] == op.Update || kinds[i] != op.Get && old == nil:
			tr.after[k] = value
		}
	}
	b := tr.shape.columns(keys, values)
	b.Columns[batch.Kinds], b.Columns[batch.OK] = batch.Input(kinds), batch.Output(oks)
	ran := tr.change(b)
	switch {
	case !ran:
		tr.after = tr.before
		tr.refused++
	case !slices.Equal(oks, wantOKs):
		tr.fail("%v: %v, want %v", kinds, oks, wantOKs)
	}
	for i := 0; ran && i < n; i++ {
		got := b.Columns[batch.Out].Row(i)
		if want := results[i]; !bytes.Equal(got, want) && (want != nil || !bytes.Equal(got, make([]byte, tr.shape.valueSize))) {
			tr.fail("%v: result %d is %x, want %x", kinds, i, got, want)
		}
	}
}

func (s *smallShape) columns(keys, values Bytes) *batch.Batch {
	n := keys.Len()
	if s.records() {
		all := func(int) bool { return true }
		k, err := keys.column("key", lengths{0, maxLongKey}, all)
		v, err2 := values.column("value", lengths{0, maxValue}, all)
		if err != nil || err2 != nil {
			panic(errors.Join(err, err2))
		}
		return &batch.Batch{N: n, Columns: batch.Columns{batch.Keys: k, batch.Vals: v, batch.Out: batch.StringsTo(new([]byte), make([]batch.Span, n))}}
	}
	return &batch.Batch{N: n, Columns: batch.Columns{
		batch.Keys: batch.Input(keys.Data).WithWidth(s.keySize), batch.Vals: batch.Input(values.Data).WithWidth(s.valueSize),
		batch.Out: batch.Output(make([]byte, n*s.valueSize)).WithWidth(s.valueSize),
	}}
}

// change runs a batch and reports whether capacity sufficed.
func (tr *atomicTrial) change(b *batch.Batch) bool {
	p := tr.policy
	now := func() core.Counters {
		c, _ := p.ReadCounters(ctx)
		return c
	}
	if n, _, err := p.Prepare(ctx, now(), nil, b); err != nil || n != b.N {
		tr.fail("room for %d of %d, %v", n, b.N, err)
	}
	_, failed, err := p.Change(ctx, nil, b)
	for retry := true; err == nil && len(failed) > 0 && retry; {
		if len(failed) != b.N {
			tr.fail("%d of %d operations have no room", len(failed), b.N)
		}
		failed, retry, err = p.Retry(ctx, now(), b)
	}
	return err == nil && len(failed) == 0
}

// exploreAtomic runs programs until about the given number of images has been checked.
func exploreAtomic(t *testing.T, states int, change func(*atomicTrial)) (images, resizes, refused int, failed string) {
	regions, minOps := minRegionBits, minParallelOps
	minRegionBits, minParallelOps = 1, 1
	defer func() { minRegionBits, minParallelOps = regions, minOps }()
	for seed := uint64(0); images < states; seed++ {
		tr := newAtomicTrial(seed)
		if change != nil {
			change(tr)
		}
		tr.run()
		images, resizes, refused = images+tr.nImages, resizes+int(tr.policy.nResizes), refused+tr.refused
		if tr.failed != "" {
			return images, resizes, refused, fmt.Sprintf("seed %d: %s", seed, tr.failed)
		}
	}
	return images, resizes, refused, ""
}

// After a crash, even during recovery, either all operations of the running batch are done or none,
// and all earlier batches are done. Batches run on one core or several, with growth in between.
func TestAtomicCrashes(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	images, resizes, refused, failed := exploreAtomic(t, *crashStates/20, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	if resizes == 0 || refused == 0 {
		t.Error("no index has grown, or none was full")
	}
	t.Logf("%d images of crashes, %d resizes, %d batches refused", images, resizes, refused)
}

func TestAtomicMutants(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	noFence := func(function string, number int) func(*atomicTrial) {
		return func(tr *atomicTrial) { tr.d.Mutant = pmtest.NoFence(function, number) }
	}
	head := func(tr *atomicTrial) uint64 { return tr.table.redo.first + headSum }
	for name, change := range map[string]func(*atomicTrial){
		"published before its records": noFence("gphash.(*engine).publishLog.func1", 0),
		"no fence before publication":  noFence("gphash.(*redoLog).publish", 0),
		"no fence behind publication":  noFence("gphash.(*redoLog).publish", 1),
		"retired before its slots":     noFence("gphash.(*images).apply", 0),
		"no fence behind its end":      noFence("gphash.(*redoLog).truncate", 0),
		"applied before publication": func(tr *atomicTrial) {
			tr.d.Mutant = func(a *pmtest.Access) bool {
				return a.Kind == pmtest.Store && a.At == head(tr) && a.New != unpublished && a.New != applied
			}
		},
		"retired before it is applied": func(tr *atomicTrial) {
			tr.d.Mutant = func(a *pmtest.Access) bool {
				if a.Kind == pmtest.Store && a.At == head(tr) && a.New != unpublished {
					a.New = applied
				}
				return false
			}
		},
		"the log has no end": func(tr *atomicTrial) {
			tr.d.Mutant = func(a *pmtest.Access) bool {
				return a.Kind == pmtest.Store && a.At != head(tr) && a.New == unpublished && inLog(tr, a.At)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			images, _, _, failed := exploreAtomic(t, 1_000_000, change)
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}

// inLog reports whether publish is storing to a word of the log. at is the index of the word.
func inLog(tr *atomicTrial, at uint64) bool {
	f, _ := pmtest.Site()
	return f == "gphash.(*redoLog).publish" && at >= tr.table.redo.first && at < tr.table.redo.last && (at-tr.table.redo.first)%redoLine == headSum
}
