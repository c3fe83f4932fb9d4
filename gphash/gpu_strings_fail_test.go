package gphash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// Any operation of a device may fail in a batch of byte strings. Each operation of the batch is
// then done or not. An atomic batch is done as a whole or not at all. Later batches work, and
// exactly the records of existing keys are in use.
func TestStringsFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "what fails does so in one goroutine")
	smallParts(t)
	for name, o := range map[string]Options{"single": {}, "atomic": {AtomicBatch: 60}, "tail": {AtomicBatch: 60, AtomicTail: 200}} {
		t.Run(name, func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
			n := 0
			for failStrings(t, dev, o, n) {
				n++
			}
			t.Logf("%d operations", n)
		})
	}
}

// failStrings makes operation n of a device fail in a batch. It reports whether operation n
// occurred.
func failStrings(t *testing.T, dev device.Device, o Options, n int) (fired bool) {
	o.Slots, o.Size, o.Capacity, o.Seed = 2, 8<<20, 1, [2]uint64{1, 2}
	x, err := CreateStrings(filepath.Join(memoryDir(t), fmt.Sprint("pool", n)), dev, o)
	must(t, err)
	rng, shape := rand.New(rand.NewPCG(3, 4)), smallShape{keys: 60}
	is := make([][]byte, shape.keys)
	batch := func() error {
		after := slices.Clone(is)
		err := shape.change(x, rng, after)
		devicetest.ClearFailures(dev)
		is = shape.checkEither(t, x, is, after, err == nil, o.AtomicBatch > 0)
		return err
	}
	must(t, errors.Join(batch(), batch()))
	hit := devicetest.FailAfter(dev, n)
	failure := batch()
	if fired = hit(); failure != nil && !fired {
		t.Fatal(failure)
	}
	must(t, errors.Join(batch(), batch(), batch()))
	must(t, x.Compact(ctx))
	used := 0
	for i := range x.engine.values.space.owner {
		if e := x.engine.values.space.owner[i].extent.Load(); e != nil && e.unit == uint64(i) {
			used += int(e.layout.perUnit - e.nFree)
		}
	}
	if used != x.Len() {
		t.Errorf("failure %d: %d records for %d keys (%v)", n, used, x.Len(), failure)
	}
	if err := x.Check(ctx); err != nil {
		t.Errorf("failure %d: %v", n, err)
	}
	must(t, x.Close())
	return fired
}

// An atomic batch of byte strings stays one batch even if its keys are long.
func TestAtomicStringsOfLongKeys(t *testing.T) {
	dev := simulated(t)
	was := stringsBytes
	stringsBytes = 1000
	t.Cleanup(func() { stringsBytes = was })
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), dev, Options{AtomicBatch: 100})
	must(t, err)
	var keys, values Bytes
	for i := range 40 {
		keys.Append(fmt.Appendf(nil, "%0100d", i))
		values.Append(nil)
	}
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	if n, err := x.Contains(ctx, keys, nil); n != 40 || err != nil { // in several launches
		t.Errorf("%d keys are there, %v", n, err)
	}
	if n := x.engine.redo.firstBatch(0, 0).sequence - 1; n != 1 {
		t.Errorf("it was %d batches", n)
	}
	must(t, x.Close())
}

// A slot that a batch has deleted is reused only once, even if an operation of the device fails.
func TestFailureBeforeReuse(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "what fails does so in one goroutine")
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 1, Slots: 4})
	must(t, err)
	var keys []byte
	for i := range 10 {
		keys = append(keys, denseKey(8, i)...)
	}
	put := func() error {
		_, err := x.Put(ctx, keys, keys)
		return err
	}
	for n, fired := 0, true; fired; n++ {
		must(t, put())
		_, err := x.Delete(ctx, keys, nil)
		must(t, err)
		hit := devicetest.FailAfter(dev, n)
		err = put()
		devicetest.ClearFailures(dev)
		if fired = hit(); err != nil && !fired {
			t.Fatal(err)
		}
		must(t, errors.Join(put(), put()))
		if is, err := x.Contains(ctx, keys, nil); is != 10 || err != nil {
			t.Fatalf("failure %d: %d keys are there, %v", n, is, err)
		}
		if err := x.Check(ctx); err != nil {
			t.Fatalf("failure %d: %v", n, err)
		}
	}
	must(t, x.Close())
}
