package gphash

import (
	"bytes"
	"flag"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// These tests detect the defects of the code published with the paper, on a CPU and, if kernels do
// the work, on a simulated GPU. One defect concerns the GPU alone: the flag of the cache that is
// never set (TestCachePolicies). Two concern the order of stores, and tests try all orders: the
// lost superblock (TestCrashInCommit in package pool, TestCrashesInGrowth), and the missing fence
// between value and key (TestCrashMutants and TestKernelCrashMutants).

// widths are sizes of keys and values: with keys that are their own tags, and with longer keys.
var widths = []Options{
	{KeySize: 8, ValueSize: 128}, {KeySize: 4, ValueSize: 4}, {KeySize: 24, ValueSize: 20},
}

var allWidths = append(slices.Clip(widths), Options{}, Options{ValueSize: 16})

// forEachWidth runs a test on a CPU, on an empty image of each width.
func forEachWidth(t *testing.T, o Options, test func(t *testing.T, im *image)) {
	forEachOf(t, openCPU(t), allWidths, o, test)
}

func forEachFixedWidth(t *testing.T, o Options, test func(t *testing.T, im *image)) {
	forEachOf(t, openCPU(t), widths, o, test)
}

// forEachDevice runs a test as forEachWidth does, and on a simulated GPU with part of the widths.
func forEachDevice(t *testing.T, offset int, o Options, test func(t *testing.T, im *image)) {
	forEachWidth(t, o, test)
	forEachOnGPU(t, offset, allWidths, o, test)
}

func forEachFixedDevice(t *testing.T, offset int, o Options, test func(t *testing.T, im *image)) {
	forEachFixedWidth(t, o, test)
	forEachOnGPU(t, offset, widths, o, test)
}

func forEachOnGPU(t *testing.T, offset int, widths []Options, o Options, test func(t *testing.T, im *image)) {
	t.Run("GPU", func(t *testing.T) {
		if testing.Short() {
			t.Skip("interprets kernels")
		}
		forEachOf(t, devicetest.OpenSim(t, &sim.Options{Arch: 80}), rotate(offset, widths), o, test)
	})
}

var gpuWidths = flag.Int("gpu-widths", 2, "in so many widths tests of growth and iterations run on simulated GPUs, each test in others")

// rotate returns the widths for a test on simulated GPUs. It begins with one fixed and one variable
// width, chosen by offset; they use different code in host and kernels. Six tests with distinct
// offsets cover all pairs of these.
func rotate(offset int, all []Options) []Options {
	from := func(w []Options) []Options {
		if len(w) == 0 {
			return nil
		}
		return slices.Concat(w[offset%len(w):], w[:offset%len(w)])
	}
	fixed, variable := from(all[:len(widths)]), from(all[len(widths):])
	return slices.Concat(fixed[:1], variable, fixed[1:])[:min(*gpuWidths, len(all))]
}

func forEachOf(t *testing.T, dev device.Device, widths []Options, o Options, test func(t *testing.T, im *image)) {
	for _, w := range widths {
		t.Run(fmt.Sprintf("%d,%d", w.KeySize, w.ValueSize), func(t *testing.T) {
			w.Capacity, w.Size, w.Slots, w.Hashes, w.Levels, w.AtomicBatch = o.Capacity, o.Size, o.Slots, o.Hashes, o.Levels, o.AtomicBatch
			im, err := formatted(t, dev, w, nil)
			must(t, err)
			test(t, im)
			if im.gpu() { // to free its memory
				for _, x := range im.opened {
					must(t, x.Close())
				}
			}
		})
	}
}

func (im *image) gpu() bool {
	_, host := im.dev.(device.Host)
	return !host
}

// crash leaves the image as the end of the process would.
func (im *image) crash(t testing.TB, x *Index) {
	t.Helper()
	if !im.gpu() {
		return // the open index does not affect other openings
	}
	im.save()
	must(t, x.Close())
	im.restore()
}

// put stores keys lo to hi-1 with values of a version in one batch, and records them in the model.
func (im *image) put(t testing.TB, x *Index, lo, hi int, version uint64) {
	t.Helper()
	var keys, values Bytes
	for i := lo; i < hi; i++ {
		key := denseKey(int(x.engine.keySize), i)
		value := valueOf(int(x.engine.valueSize), key, version)
		keys.Append(key)
		values.Append(value)
		im.want[string(key)] = string(value)
	}
	_, err := putRows(x, keys, values)
	must(t, err)
}

func neverAbsent(string) bool { return false }

// checkWhole fails unless the index equals the model and passes Check.
func (im *image) checkWhole(t testing.TB, x *Index) {
	t.Helper()
	im.compare(t, x, neverAbsent)
	must(t, x.Check(ctx))
}

const mebibyte = 1 << 20

// Values stay in place even if the pool was not closed, and later values do not overwrite them. In
// the published code, recovery placed values elsewhere than creation, and the end of the used
// values was stored too late.
func TestValuesOutliveTheWriter(t *testing.T) {
	forEachDevice(t, 0, Options{Capacity: 10, Size: 8 * mebibyte}, func(t *testing.T, im *image) {
		rounds := 12
		if im.gpu() {
			rounds = 4
		}
		for round := range rounds {
			x := im.mustOpen(t, OpenOptions{Verify: round%2 == 0 || !im.gpu(), Mirror: round%3 == 0})
			im.checkWhole(t, x)
			im.put(t, x, round*100, round*100+150, uint64(round))
			im.put(t, x, 0, 20, uint64(round))
			im.crash(t, x)
		}
		x := im.mustOpen(t, OpenOptions{Verify: true})
		im.checkWhole(t, x)
		must(t, x.Close())
		im.checkWhole(t, im.mustOpen(t, OpenOptions{Verify: true}))
	})
}

// Recovery finds unfinished slots in all levels, for any key size, and does not count free slots as
// taken. The published code checked the bottom level once per level, compared only fingerprints,
// and treated empty slots as full.
func TestRecoveryOfEachLevel(t *testing.T) {
	forEachDevice(t, 1, Options{Capacity: 150, Levels: 3, Slots: 4}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		im.put(t, x, 0, 100, 0)
		im.crash(t, x)
		tb := im.table(t)
		planted, tombs, slots := uint64(0), uint64(0), uint64(0)
		for i, l := range tb.live {
			for b := range uint64(1) << l.bits {
				for slot := range tb.slots {
					at := slotRef{l.base + b*tb.bucketWords, slot}
					slots++
					switch c := control(tb.mem.Load(tb.control(at))); {
					case c.state() != empty:
					case (b+uint64(i))%2 == 0:
						tb.mem.Store(tb.control(at), uint64(c.next(writing, 0)))
						planted++
					default:
						tb.mem.Store(tb.control(at), uint64(c.next(tomb, 0)))
						tombs++
					}
				}
			}
		}
		x, report, err := im.open(OpenOptions{Verify: !im.gpu()})
		must(t, err)
		report.Times = Times{}
		want := Report{Keys: 100, Slots: slots, Unfinished: planted, Tombs: tombs}
		if fmt.Sprint(*report) != fmt.Sprint(want) || len(tb.live) != 3 || planted+tombs != slots-100 {
			t.Fatalf("%+v, want %+v", *report, want)
		}
		im.checkWhole(t, x)
		im.put(t, x, 100, 150, 0) // fits only if the slots are free again
		im.checkWhole(t, x)
		if s, err := x.Stats(ctx); err != nil || s.Slots != int(slots) || s.Keys != 150 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// testGrowth fills an index until a crash leaves a partly drained level.
func (im *image) testGrowth(t *testing.T) {
	t.Helper()
	x := im.mustOpen(t, OpenOptions{})
	for i := 0; x.engine.closed == 0 || x.engine.drained > 0; i += 10 {
		if i > 5000 {
			t.Fatal("the index does not grow")
		}
		im.put(t, x, i, i+10, 0)
	}
	im.crash(t, x)
}

// A crash while keys move loses no key, and the index continues to grow. The published code did not
// search the new level and never began another resize.
func TestCrashOfAResize(t *testing.T) {
	for offset, resize := range []Resize{Beside, Stop} {
		forEachDevice(t, 4+offset, Options{Capacity: 100, Size: 8 * mebibyte}, func(t *testing.T, im *image) {
			im.testGrowth(t)
			x, report, err := im.open(OpenOptions{Verify: !im.gpu(), Resize: resize})
			must(t, err)
			if !report.Resumed || report.Keys != uint64(len(im.want)) {
				t.Fatalf("%+v of %d keys", report, len(im.want))
			}
			im.checkWhole(t, x)
			s, err := x.Stats(ctx)
			must(t, err)
			if (s.Draining == 0) != (resize == Stop) {
				t.Fatalf("resize %v: %+v", resize, s)
			}
			for i := range 20 {
				im.put(t, x, 10_000+i*50, 10_000+i*50+50, 0)
			}
			im.checkWhole(t, x)
			must(t, x.Compact(ctx))
			im.checkWhole(t, x)
			after, err := x.Stats(ctx)
			must(t, err)
			if after.Draining != 0 || after.Slots <= s.Slots {
				t.Errorf("%d slots and then %d", s.Slots, after.Slots)
			}
		})
	}
}

// A pool opens even if some of its keys cannot move up: the next level takes them.
func TestCrowdedAtOpening(t *testing.T) {
	forEachWidth(t, Options{Capacity: 100, Slots: 1, Hashes: 1, Levels: 1}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		must(t, x.engine.addLevel())
		tb, bottom := x.engine.table, x.engine.live[1]
		insert := func(i int, l level) {
			key := denseKey(int(tb.keySize), i)
			it := tb.item(key)
			at := slotRef{tb.buckets(l, it.hash, nil)[0], 0}
			c := control(tb.mem.Load(tb.control(at)))
			if c.state() == full {
				return
			}
			w := writer{table: tb, region: x.engine.values.regionOf(0, 0)}
			value := valueOf(int(tb.valueSize), key, 0)
			block, err := w.storeValue(&it, value)
			must(t, err)
			tb.publish(at, c, &it, block)
			im.want[string(key)] = string(value)
		}
		for i := range 20 {
			insert(i, bottom)
		}
		for i := range 200 {
			insert(1000+i, tb.live[0])
		}
		if crowded, err := x.engine.drain(ctx, 1<<20); err != nil || !crowded {
			t.Fatalf("all keys move up: %v", err)
		}
		for range 2 {
			x, report, err := im.open(OpenOptions{Verify: true, Resize: Stop})
			must(t, err)
			if !report.Resumed || report.Damaged > 0 {
				t.Fatalf("%+v", report)
			}
			im.checkWhole(t, x)
		}
	})
}

// A level stays until all iterations end. In the published code a user count went from two to zero.
func TestTwoIterations(t *testing.T) {
	forEachDevice(t, 2, Options{Capacity: 100, Size: 8 * mebibyte}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		im.put(t, x, 0, 100, 0)
		started := len(im.want)
		var next [2]func() ([]byte, []byte, bool)
		var stop [2]func()
		for i := range next {
			next[i], stop[i] = iter.Pull2(allRows(x))
			defer stop[i]()
			if _, _, ok := next[i](); !ok {
				t.Fatal("nothing to iterate over")
			}
		}
		for i := 0; x.engine.closed == 0; i++ {
			im.put(t, x, 1000+i*10, 1010+i*10, 0)
		}
		closed := x.engine.closed
		stop[0]()
		for i := range 40 {
			im.put(t, x, i*20, i*20+20, 1)
		}
		if s, err := x.Stats(ctx); err != nil || s.Resizes != 0 || s.Draining < closed {
			t.Fatalf("a level has gone: %+v, %v", s, err)
		}
		n := 1
		for _, _, ok := next[1](); ok; _, _, ok = next[1]() {
			n++
		}
		if n < started {
			t.Errorf("%d of %d keys seen", n, started)
		}
		stop[1]()
		for i := range 60 {
			im.put(t, x, 5000+i*20, 5000+i*20+20, 2)
		}
		im.checkWhole(t, x)
		if s, err := x.Stats(ctx); err != nil || s.Resizes < closed {
			t.Errorf("levels are still there: %+v, %v", s, err)
		}
	})
}

// A batch may have any number of keys. In the published code, warps with idle last lanes hung or
// did their work twice.
func TestBatchSizes(t *testing.T) {
	forEachDevice(t, 3, Options{Capacity: 10_000, Size: 16 * mebibyte}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		at := 0
		for _, n := range []int{1, 31, 32, 33, 1, 63, 65, 1023, 1025, 2047, 2049, 31} {
			if n > 1000 && n != 1025 && im.gpu() {
				continue
			}
			im.put(t, x, at, at+n, 0)
			at += n
		}
		im.checkWhole(t, x)
	})
}

// Deleting an absent key and inserting an existing one are reported, and neither takes memory.
func TestResultsOfChanges(t *testing.T) {
	forEachFixedDevice(t, 0, Options{Capacity: 100}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		im.put(t, x, 0, 50, 0)
		keys, values := make([]byte, 0, 800), make([]byte, 100*x.engine.valueSize)
		for i := range 100 {
			keys = append(keys, denseKey(int(x.engine.keySize), i)...)
		}
		ok := make([]bool, 100)
		n, err := x.Delete(ctx, keys[50*x.engine.keySize:], ok[50:])
		if err != nil || n != 0 || slices.Contains(ok, true) {
			t.Errorf("50 absent keys: deleted %d, %v, %v", n, ok, err)
		}
		n, err = x.PutNew(ctx, keys[:50*x.engine.keySize], values[:50*x.engine.valueSize], ok[:50])
		if err != nil || n != 0 || slices.Contains(ok, true) {
			t.Errorf("50 keys that are there: inserted %d, %v, %v", n, ok, err)
		}
		im.checkWhole(t, x)
		if n, err = x.Put(ctx, keys, values); err != nil || n != 50 {
			t.Errorf("100 keys, 50 of them there: inserted %d, %v", n, err)
		}
	})
}

func (v *values) inUse() (n uint64) {
	for i := range v.space.owner {
		if e := v.space.owner[i].extent.Load(); e != nil {
			n += v.perUnit - e.nFree
		}
	}
	return n
}

// Memory use depends only on the contents. The test runs 10,000 batches (150 on a GPU) of updates,
// deletes, inserts of existing keys and lookups.
func TestMemoryIsBounded(t *testing.T) {
	forEachFixedDevice(t, 1, Options{Capacity: 200}, func(t *testing.T, im *image) {
		batches, n := 3_000**thorough, 40
		if im.gpu() {
			batches = 75 * *thorough
		}
		x := im.mustOpen(t, OpenOptions{})
		im.put(t, x, 0, 2*n, 0)
		var first Stats
		var err error
		ks, vs := int(x.engine.keySize), int(x.engine.valueSize)
		keys, values := make([]byte, 0, n*ks), make([]byte, n*vs)
		for i := range n {
			keys = append(keys, denseKey(ks, i)...)
		}
		for b := range batches {
			if b == 50 {
				first, err = x.Stats(ctx)
				must(t, err)
			}
			switch b % 5 {
			case 0, 4:
				_, err = x.Put(ctx, keys, values)
			case 1:
				_, err = x.PutNew(ctx, keys, values, nil)
			case 2:
				_, err = x.Delete(ctx, keys, nil)
			case 3:
				_, err = x.Get(ctx, keys, values, nil)
			}
			must(t, err)
			if is := x.engine.values.inUse(); is > uint64(5*n) && !im.gpu() {
				t.Fatalf("batch %d: %d values are in use, of %d keys", b, is, x.Len())
			}
		}
		last, err := x.Stats(ctx)
		must(t, err)
		if last.ValueBytes != first.ValueBytes || last.Slots != first.Slots || last.FreeBytes != first.FreeBytes {
			t.Errorf("%+v has become %+v", first, last)
		}
		must(t, x.Check(ctx))
	})
}

// A batch that inserts and deletes one key repeatedly needs the slots of one key.
func TestTombsWithinABatch(t *testing.T) {
	forEachFixedDevice(t, 2, Options{Capacity: 100}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		im.put(t, x, 0, 20, 0)
		first, err := x.Stats(ctx)
		must(t, err)
		const n = 1000
		kinds, ok := make([]weft.OpKind, n), make([]bool, n)
		keys := bytes.Repeat(denseKey(int(x.engine.keySize), 77), n)
		values := make([]byte, n*int(x.engine.valueSize))
		for i := range kinds {
			kinds[i] = []weft.OpKind{weft.OpPut, weft.OpDelete}[i%2]
		}
		must(t, x.Apply(ctx, kinds, keys, values, ok))
		for i := range ok {
			if !ok[i] {
				t.Fatalf("operation %d, %v, did nothing", i, kinds[i])
			}
		}
		im.checkWhole(t, x)
		if last, err := x.Stats(ctx); err != nil || last.Slots != first.Slots {
			t.Errorf("%d slots have become %d, %v", first.Slots, last.Slots, err)
		}
	})
}
