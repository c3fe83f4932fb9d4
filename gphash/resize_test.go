package gphash

import (
	"fmt"
	"math"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
	"github.com/weftgo/weft/internal/pool"
)

// serialHost is a host with one core, for domains, which run one thread at a time.
type serialHost struct{ device.Host }

func (serialHost) Properties() device.Properties                { return device.Properties{Units: 1} }
func (serialHost) Close() error                                 { return nil }
func (serialHost) Parallel(n, grain int, body func(lo, hi int)) { body(0, n) }

// growth is a trial of an index that grows, in a pool with a superblock.
type growth struct {
	*trial
	policy *policy
}

// growthUnit is the allocation unit of the trial's pool in words. Levels must begin at pages.
const growthUnit = pool.Page / pm.Word

func newGrowth(seed uint64) *growth {
	shape := [...]smallShape{
		{slots: 2, hashes: 1, levels: 1, top: 0, threads: 1, ops: 16, keys: 12},
		{keySize: 8, valueSize: 8, slots: 2, hashes: 2, levels: 2, top: 1, threads: 1, ops: 20, keys: 16},
		{keySize: 20, valueSize: 24, slots: 2, hashes: 1, levels: 1, top: 0, threads: 1, ops: 16, keys: 12},
		{keySize: 8, valueSize: 130, slots: 4, hashes: 2, levels: 3, top: 2, threads: 1, ops: 32, keys: 32},
	}[seed%4]
	g := &growth{trial: newTrial(shape, seed)}
	g.maxImages = 8
	const words = pool.DataStart/pm.Word + 40*growthUnit
	g.d = pmtest.New(words, 1)
	g.images = &g.d.Images
	g.mem = pm.New(make([]byte, words*pm.Word), g.d)
	o := Options{KeySize: shape.keySize, ValueSize: shape.valueSize, Slots: shape.slots, Hashes: shape.hashes, Levels: shape.levels,
		Capacity: 1, Hash: SipHash, Seed: g.seed, Size: words * pm.Word}
	first, err := o.plan(growthUnit)
	if err != nil {
		panic(err)
	}
	p, err := pool.Format(g.mem, first)
	if err != nil {
		panic(err)
	}
	for at := first.Levels[first.Top].Offset/pm.Word + growthUnit; at < words; at++ {
		g.mem.Store(at, g.rng.Uint64()) // free memory may contain anything
	}
	g.mem.Fence()
	g.policy = g.openPolicy(p)
	g.reopenImage = func(resume bool) (*table, *Report) { return g.reopen(g.mem, resume) }
	return g
}

// reopen opens a pool that a crash has left. If resume is true, it may also finish a resize in
// progress.
func (tr *trial) reopen(m *pm.Memory, resume bool) (*table, *Report) {
	p, err := pool.OpenMemory(m)
	if err != nil {
		tr.fail("%v", err)
		return nil, nil
	}
	e, report, err := recoverPool(ctx, p, serialHost{}, OpenOptions{Verify: true})
	if err != nil {
		tr.fail("%v", err)
		return nil, nil
	}
	if resume && tr.rng.IntN(2) == 0 {
		if _, err := e.drain(ctx, math.MaxUint64); err != nil {
			tr.fail("drain: %v", err)
		}
	}
	return e.table, report
}

func (g *growth) openPolicy(p *pool.Pool) *policy {
	e, _, err := recoverPool(ctx, p, serialHost{}, OpenOptions{})
	if err != nil {
		panic(err)
	}
	g.table = e.table
	return &policy{e, e, Resize(g.rng.IntN(2))}
}

// run runs batches of a few operations. Each batch drains one or two buckets.
func (g *growth) run() {
	g.d.Step = func() {
		// if many words are dirty, one more hardly matters
		if g.rng.IntN(max(1, g.d.Dirty()/4)) == 0 {
			g.d.Crash(g.rng, g.maxImages, g.checkImage)
		}
	}
	for range g.shape.ops {
		g.policy.recycle()
		if _, err := g.policy.drain(ctx, 1+g.rng.Uint64N(2)); err != nil {
			g.fail("drain: %v", err)
		}
		if err := g.zeroBuckets(); err != nil {
			g.fail("the next level: %v", err)
		}
		for range 3 {
			g.change(g.rng.IntN(len(g.keys)))
		}
	}
}

func (g *growth) zeroBuckets() error {
	if g.policy.resize == Stop || g.shape.records() {
		return nil
	}
	if g.policy.next == nil {
		if err := g.policy.preallocLevel(&batch.Batch{}, 0); err != nil || g.policy.next == nil {
			return err
		}
	}
	return g.policy.zeroNext(1)
}

// change runs one operation and grows the index if necessary.
func (g *growth) change(i int) {
	kind, next := op.Put, g.shape.value(g.rng)
	if g.rng.IntN(6) == 0 {
		kind, next = op.Delete, nil
	}
	is := g.possible[i][0]
	g.possible[i] = [][]byte{is, next}
	for {
		w := g.table.newWriter(g.table.values.regionOf(0, 0), true)
		it := g.table.item(g.keys[i])
		o := w.change(kind, &it, next, nil, nil)
		tally := &g.policy.Parts().(*parts).counters
		tally.Live, tally.Used = tally.Live+uint64(w.live), tally.Used+uint64(w.live+w.dead)
		if o.err == nil {
			break
		}
		if err := g.policy.enlarge(ctx, uint64(g.table.slotsIn(g.table.live))); err != nil {
			g.fail("growth: %v", err)
			return
		}
	}
	g.possible[i] = [][]byte{next}
}

// exploreGrowth runs programs, beginning with the seed from, until about the given number of images
// has been checked.
func exploreGrowth(from uint64, states int, change func(*growth)) (images, resizes int, failed string) {
	for seed := from; images < states; seed++ {
		g := newGrowth(seed)
		if change != nil {
			change(g)
		}
		g.run()
		images, resizes = images+g.nImages, resizes+int(g.policy.nResizes)
		if g.failed != "" {
			return images, resizes, fmt.Sprintf("seed %d: %s", seed, g.failed)
		}
	}
	return images, resizes, ""
}

// A crash at any point of a growth, even in a write of the superblock, loses no key and leaves no
// key twice. The next opening continues the growth.
func TestCrashesInGrowth(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	images, resizes, failed := exploreGrowth(0, *crashStates/48, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	if resizes == 0 {
		t.Error("no index has grown")
	}
	t.Logf("%d images of crashes, in %d resizes", images, resizes)
}

func TestGrowthMutants(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	for name, change := range map[string]func(*growth){
		"the superblock is written before what it names": func(g *growth) {
			g.d.Mutant = pmtest.NoFence("pool.(*Pool).store", 0)
		},
		"a level is not cleared": func(g *growth) {
			g.d.Mutant = func(a *pmtest.Access) bool {
				f, _ := pmtest.Site()
				return a.Kind == pmtest.Store && f == "gphash.(*engine).clearWords.func1"
			}
		},
		"keys have not arrived when they leave": func(g *growth) {
			g.d.Mutant = func(a *pmtest.Access) bool {
				f, _ := pmtest.Site()
				return a.Kind == pmtest.Fence && f == "gphash.(*table).publish"
			}
		},
		"keys do not arrive": func(g *growth) {
			g.d.Mutant = func(a *pmtest.Access) bool {
				f, _ := pmtest.Site()
				return a.Kind == pmtest.Store && f == "gphash.(*table).publish" && a.New != 0 && control(a.New).state() == full && g.table.isControl(a.At)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			// seed 34 detects the first mutant
			images, _, failed := exploreGrowth(33, 400_000, change)
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.120s", images, failed)
		})
	}
}

// The count of units in levels stays correct while an index grows, compacts and is opened again.
func TestUnitsOfLevels(t *testing.T) {
	forEachWidth(t, Options{Capacity: 20, Levels: 2, Slots: 4, Hashes: 2}, func(t *testing.T, im *image) {
		count := func(x *Index) {
			t.Helper()
			s, n := &x.engine.values.space, 0
			for i := range s.owner {
				if s.owner[i].isLevel {
					n++
				}
			}
			if n != s.levels || n < len(x.engine.live) {
				t.Fatalf("%d units belong to %d levels, %d are counted", n, len(x.engine.live), s.levels)
			}
		}
		x := im.mustOpen(t, OpenOptions{})
		for i := 0; i < 200; i += 20 {
			im.put(t, x, i, i+20, 0)
			count(x)
		}
		for i := 20; i < 200; i++ {
			_, err := deleteRows(x, BytesOf(denseKey(int(x.engine.keySize), i)))
			must(t, err)
		}
		must(t, x.Compact(ctx))
		for n := 1; x.engine.records() && n <= maxRunUnits; n *= 2 {
			x.engine.freeRuns(n, maxRunUnits)
			count(x)
		}
		if x.engine.nResizes == 0 {
			t.Error("it has not grown")
		}
		must(t, x.Clear(ctx))
		count(x)
		must(t, x.Close())
		x, _, err := im.open(OpenOptions{})
		must(t, err)
		count(x)
		must(t, x.Close())
	})
}
