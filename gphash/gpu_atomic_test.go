package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/pool"
)

// Atomic batches of kernels have the same results as batches of the host's engine. Each device
// opens the pools of the other.
func TestAtomicKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	for _, o := range []Options{
		{KeySize: 8, ValueSize: 8, Slots: 2}, {KeySize: 4, ValueSize: 4, AtomicTail: 500, Cache: .4}, {KeySize: 16, ValueSize: 128, Hash: Fast, AtomicTail: 5000, Cache: .4},
		{KeySize: 13, ValueSize: 300, Slots: 4, Hashes: 4, AtomicTail: 100}, {KeySize: 128, ValueSize: 1, Slots: 16, Levels: 1},
	} {
		t.Run(fmt.Sprintf("%d,%d,%d", o.KeySize, o.ValueSize, o.AtomicTail), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
			o.Size, o.Capacity, o.AtomicBatch = smallPool, 20, 300
			path, model := filepath.Join(memoryDir(t), "pool"), map[string][]byte{}
			x, err := Create(path, dev, o)
			must(t, err)
			program(t, x, model, 6**thorough)
			must(t, x.Clear(t.Context()))
			clear(model)
			program(t, x, model, 4**thorough)
			must(t, x.Close())
			for i, dev := range []device.Device{openCPU(t), dev} { // the other device continues
				x, report, err := Open(t.Context(), path, dev, OpenOptions{Verify: i == 1, AtomicTail: o.AtomicTail, Cache: o.Cache})
				must(t, err)
				if int(report.Keys) != len(model) || report.Replayed > 0 || report.Torn {
					t.Errorf("%v: opening found %+v, want %d keys", dev.Properties().Kind, report, len(model))
				}
				program(t, x, model, 3**thorough)
				must(t, x.Close())
			}
		})
	}
}

// If any operation of a device fails in a refused batch, the batch has no effect. Slots that it has
// claimed are released at once, or before the next change.
func TestFailureInRefusal(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "what fails does so in one goroutine")
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	o := Options{KeySize: 8, ValueSize: 8, Slots: 4, Capacity: 20, Size: pool.DataStart + 1<<16, AtomicBatch: 100, AtomicTail: 300}
	for n, fired := 0, true; fired; n++ {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, dev, o)
		must(t, err)
		want := model{}
		put := func(lo, hi int) error {
			var keys []byte
			for i := lo; i < hi; i++ {
				keys = append(keys, denseKey(8, i)...)
			}
			_, err := x.PutNew(ctx, keys, keys, nil)
			for i := lo; err == nil && i < hi; i++ {
				want[string(denseKey(8, i))] = string(denseKey(8, i))
			}
			return err
		}
		must(t, put(0, 10))
		hit := devicetest.FailAfter(dev, n)
		err = put(10, 60)
		devicetest.ClearFailures(dev)
		if fired = hit(); !errors.Is(err, weft.ErrFull) && !(fired && errors.Is(err, device.ErrMemory)) {
			t.Fatalf("failure %d: %v", n, err)
		}
		must(t, put(200, 205))
		want.equal(t, x)
		must(t, errors.Join(x.Check(ctx), x.Close()))
		x, report, err := Open(ctx, path, dev, OpenOptions{Verify: true})
		must(t, err)
		if report.Unfinished+report.Damaged > 0 {
			t.Errorf("failure %d: %+v", n, report)
		}
		want.equal(t, x)
		must(t, x.Close())
	}
}

// A GPU that opens a pool with a batch in the log applies it and continues. If the last batch has
// not been published, the report says so.
func TestReplayOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	for _, o := range fixedPools {
		for _, torn := range []bool{false, true} {
			dir, host, dev := memoryDir(t), openCPU(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})
			o.Size, o.Capacity, o.AtomicBatch = smallPool, 100, 50
			live, killed := filepath.Join(dir, "live"), filepath.Join(dir, "killed")
			x, err := Create(live, host, o)
			must(t, err)
			key := func(i int) []byte { return denseKey(o.KeySize, i) }
			value := func(i int) []byte { return valueOf(o.ValueSize, key(i), 1) }
			for i := range 3 {
				_, err := x.Put(t.Context(), key(i), valueOf(o.ValueSize, key(i), 0))
				must(t, err)
			}
			want := map[string][]byte{string(key(2)): valueOf(o.ValueSize, key(2), 0)}
			planting(x).plant(nil, postImage{key(0), value(0)}, postImage{key: key(1)}, postImage{key(7), value(7)})
			if torn {
				want[string(key(0))], want[string(key(1))] = valueOf(o.ValueSize, key(0), 0), valueOf(o.ValueSize, key(1), 0)
				x.engine.mem.Store(x.engine.redo.first+headSum, unpublished)
			} else {
				want[string(key(0))], want[string(key(7))] = value(0), value(7)
			}
			content, err := os.ReadFile(live)
			must(t, err)
			must(t, os.WriteFile(killed, content, 0o600))
			must(t, x.Close())
			x, report, err := Open(t.Context(), killed, dev, OpenOptions{})
			must(t, err)
			if report.Torn != torn || report.Replayed == 1 == torn || int(report.Keys) != len(want) || report.Damaged > 0 {
				t.Errorf("torn %v: %+v", torn, report)
			}
			must(t, x.Check(t.Context()))
			for k, v := range want {
				is := make([]byte, o.ValueSize)
				if n, err := x.Get(t.Context(), []byte(k), is, nil); n != 1 || err != nil || !bytes.Equal(is, v) {
					t.Errorf("torn %v: key %x has %x, want %x, %v", torn, k, is, v, err)
				}
			}
			must(t, x.Clear(t.Context()))
			program(t, x, map[string][]byte{}, 5)
			must(t, x.Close())
		}
	}
}

// Slots of the pool lag by at most AtomicTail operations, which iterations and lookups do not see.
// A CPU finds the missing operations in the log.
func TestAtomicTail(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dir, dev := memoryDir(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})
	live, killed := filepath.Join(dir, "live"), filepath.Join(dir, "killed")
	const n, tail, batches = 60, 200, 8
	x, err := Create(live, dev, Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 1000, AtomicBatch: n, AtomicTail: tail})
	must(t, err)
	want, lacks, logged := model{}, 0, 0 // numbers of operations and of batches
	ran := func(n int) {
		if lacks, logged = lacks+n, logged+1; lacks > tail {
			lacks, logged = 0, 0
		}
		if lag := x.engine.accel.(*gpuEngine).k.tail.nOps; lag != lacks {
			t.Errorf("the pool lacks %d operations, want %d", lag, lacks)
		}
	}
	for b := range batches {
		var keys, values []byte
		for i := range n {
			key := denseKey(8, b*n/2+i) // half of the keys exist
			keys, values = append(keys, key...), append(values, valueOf(8, key, uint64(b))...)
			want[string(key)] = string(valueOf(8, key, uint64(b)))
		}
		_, err := x.Put(t.Context(), keys, values)
		must(t, err)
		ran(n)
		deleted := denseKey(8, b*n/2)
		_, err = x.Delete(t.Context(), deleted, nil)
		must(t, err)
		delete(want, string(deleted))
		ran(1)
		seen := model{}
		for k, v := range x.All(t.Context()) {
			seen[string(k)] = string(v)
		}
		if !maps.Equal(seen, want) {
			t.Errorf("batch %d: %d pairs are seen, want %d", b, len(seen), len(want))
		}
		content, err := os.ReadFile(live)
		must(t, err)
		must(t, os.WriteFile(killed, content, 0o600))
		y, report, err := Open(t.Context(), killed, openCPU(t), OpenOptions{Verify: true})
		must(t, err)
		if int(report.Replayed) != logged || int(report.Keys) != len(want) {
			t.Errorf("batch %d: %+v", b, report)
		}
		want.equal(t, y)
		must(t, y.Close())
	}
	must(t, x.Close())
	y, report, err := Open(t.Context(), live, openCPU(t), OpenOptions{ReadOnly: true})
	must(t, err)
	if report.Replayed > 0 {
		t.Errorf("closed with batches in the log: %+v", report)
	}
	must(t, y.Close())
}

// While a level is drained, replay of the log does not restore slots of keys that have moved.
func TestAtomicTailBesideGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dir, dev := memoryDir(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})
	live, killed := filepath.Join(dir, "live"), filepath.Join(dir, "killed")
	x, err := Create(live, dev, Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 200, AtomicBatch: 1000, AtomicTail: 10_000, Seed: [2]uint64{1, 2}})
	must(t, err)
	rng, want, drained := rand.New(rand.NewPCG(1, 5)), model{}, 0
	for b := range 60 {
		n := 100 // until an index has a draining level
		if x.engine.closed > 0 {
			n = 1 + rng.IntN(8)
		}
		kinds, keys, values := make([]weft.OpKind, n), []byte(nil), []byte(nil)
		for i := range n {
			key := denseKey(8, 100*b+i)
			if n < 100 {
				key = denseKey(8, rng.IntN(100*b))
			}
			keys, values = append(keys, key...), append(values, valueOf(8, key, uint64(b*100+i))...)
			if kinds[i] = weft.OpPut; n < 100 && rng.IntN(2) == 0 {
				kinds[i] = weft.OpDelete
				delete(want, string(key))
			} else {
				want[string(key)] = string(values[8*i:])
			}
		}
		must(t, x.Apply(t.Context(), kinds, keys, values, nil))
		if x.engine.closed == 0 {
			continue
		}
		drained++
		content, err := os.ReadFile(live)
		must(t, err)
		must(t, os.WriteFile(killed, content, 0o600))
		y, _, err := Open(t.Context(), killed, openCPU(t), OpenOptions{Verify: true})
		must(t, err)
		want.equal(t, y)
		must(t, y.Close())
	}
	if drained < 10 {
		t.Errorf("%d batches beside a level that is drained", drained)
	}
	must(t, x.Check(t.Context()))
	must(t, x.Close())
}
