package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/pool"
)

// The paper's default configuration, with moves of keys, accepts insertions up to a load of .95
// before it grows (.92 in figure 7), for any seed. The same holds with regions.
func TestLoadFactor(t *testing.T) {
	conformance.SkipRaced(t, oneCore)
	smallParts(t)
	for seed := range uint64(3) {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 8, Capacity: 80_000, Size: 64 << 20, Seed: [2]uint64{seed + 1, 7}})
		must(t, err)
		must(t, os.Remove(path))
		slots := x.engine.slotsIn(x.engine.live)
		load := 0.0
		for n := uint64(0); x.engine.slotsIn(x.engine.live) == slots; n++ {
			load = float64(x.Len()) / float64(slots)
			keys := make([]byte, 8*256)
			for i := range uint64(256) {
				binary.NativeEndian.PutUint64(keys[8*i:], hash.Uint64(n<<8|i, seed))
			}
			_, err := x.Put(ctx, keys, keys)
			must(t, err)
		}
		if t.Logf("seed %d: it grows from %d slots at a load of %.3f", seed, slots, load); load < .94 {
			t.Errorf("seed %d: it grows at a load of %.3f", seed, load)
		}
		must(t, x.Close())
	}
}

// Without moves, the first key without a slot comes later if each level has separate candidate
// places. In the paper, neighbors share a bucket of the level below.
func TestPlaces(t *testing.T) {
	conformance.SkipRaced(t, "is about the hash")
	for _, bits := range []uint{13, 16, 18} {
		for seed := range uint64(3) {
			separate, shared := crowdedAt(bits, seed, false), crowdedAt(bits, seed, true)
			if t.Logf("2^%d and 2^%d buckets, seed %d: places of its own %.3f, shared %.3f", bits, bits-1, seed, separate, shared); separate <= shared {
				t.Errorf("2^%d buckets, seed %d: shared places bear %.3f, those of its own %.3f", bits, seed, shared, separate)
			}
		}
	}
}

// crowdedAt returns the load at which a random key first finds no slot in two buckets of eight in
// each of two levels.
func crowdedAt(bits uint, seed uint64, shared bool) float64 {
	const slots = 8
	top, below := level{bits: bits}, level{bits: bits - 1}
	fill := [2][]uint8{make([]uint8, 1<<bits), make([]uint8, 1<<(bits-1))}
	for n := uint64(0); ; n++ {
		h := hash.Uint64(seed<<40|n, 1)
		var emptiest *uint8
		for i, l := range []level{top, below} {
			for j := range 2 {
				b := l.bucket(h, j)
				if shared && i == 1 {
					b = top.bucket(h, j) / 2
				}
				if at := &fill[i][b]; emptiest == nil || *at < *emptiest {
					emptiest = at
				}
			}
		}
		if *emptiest == slots {
			return float64(n) / float64(slots*len(fill[0])+slots*len(fill[1]))
		}
		*emptiest++
	}
}

// The memory of removed values is free. After all values are deleted, each region keeps a unit.
// After Clear, all memory is free.
func TestUnitsComeBack(t *testing.T) {
	path := filepath.Join(memoryDir(t), "pool")
	x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 1000, Size: 64 << 20})
	must(t, err)
	keys := make([]byte, 8*20_000)
	for i := range uint64(20_000) {
		binary.NativeEndian.PutUint64(keys[8*i:], i)
	}
	valueUnits := func() int {
		s, err := x.Stats(ctx)
		must(t, err)
		return s.ValueBytes / (8 * int(unit))
	}
	put := func() {
		_, err := x.Put(ctx, keys, make([]byte, 125*len(keys)))
		must(t, err)
	}
	if put(); valueUnits() < 20 {
		t.Errorf("20 MB of values lie in %d units", valueUnits())
	}
	_, err = x.Delete(ctx, keys, nil)
	must(t, err)
	must(t, x.Compact(ctx))
	if n := valueUnits(); n > 1<<x.engine.bits() {
		t.Errorf("%d units have no values in use", n)
	}
	x.engine.values.releaseEmptyUnits()
	if n := valueUnits(); n != 0 {
		t.Errorf("%d units are kept for values", n)
	}
	put()
	must(t, x.Clear(ctx))
	if n := valueUnits(); n != 0 || x.Len() != 0 {
		t.Errorf("%d units and %d keys are left by Clear", n, x.Len())
	}
	put()
	must(t, x.Check(ctx))
	must(t, x.Close())
}

// Keys that collide in all places cause an error, in bounded memory, and the index keeps the
// accepted keys. Atomic batches accept none. The test inverts the fast hash.
func TestSkewed(t *testing.T) {
	onAllDevices(t, skewed)
}

// onAllDevices runs a test on a CPU and on a simulated GPU, with different options.
func onAllDevices(t *testing.T, test func(t *testing.T, dev device.Device, o Options)) {
	smallParts(t)
	for _, m := range []struct {
		name string
		o    Options
		cpu  bool
	}{
		{"plain", Options{}, true},
		{"atomic", Options{AtomicBatch: 300}, true},
		{"stop", Options{Resize: Stop}, true},
		{"mirror", Options{Mirror: true}, false},
		{"cache", Options{Cache: .4}, false},
		{"tail", Options{AtomicBatch: 300, AtomicTail: 1000}, false},
	} {
		if m.cpu {
			t.Run("CPU/"+m.name, func(t *testing.T) {
				t.Parallel()
				test(t, openCPU(t), m.o)
			})
		}
		if !testing.Short() {
			t.Run("GPU/"+m.name, func(t *testing.T) {
				t.Parallel()
				test(t, devicetest.OpenSim(t, &sim.Options{Arch: 80}), m.o)
			})
		}
	}
}

func skewed(t *testing.T, dev device.Device, o Options) {
	path := filepath.Join(memoryDir(t), "pool")
	o.KeySize, o.ValueSize, o.Hash, o.Seed, o.Size = 16, 8, Fast, [2]uint64{3, 5}, pool.DataStart+4<<20
	x, err := Create(path, dev, o)
	must(t, err)
	other := bytes.Repeat([]byte{7}, 16)
	_, err = x.Put(ctx, other, make([]byte, 8))
	must(t, err)
	var keys []byte
	for i := range uint64(300) {
		first := hash.Uint64(i, 9)
		keys = binary.LittleEndian.AppendUint64(keys, first)
		keys = binary.LittleEndian.AppendUint64(keys, 77^hash.Uint64(o.Seed[0]^16^first, o.Seed[1]))
	}
	n, err := x.Put(ctx, keys, make([]byte, 8*300))
	if !errors.Is(err, ErrSkewed) || !errors.Is(err, weft.ErrFull) || n < 32 && o.AtomicBatch == 0 || n > 0 && o.AtomicBatch > 0 {
		t.Errorf("%d keys of 300 that collide: %v", n, err)
	}
	if hits, err := x.Contains(ctx, keys, nil); err != nil || hits != n || x.Len() != n+1 {
		t.Errorf("%d keys are there, of %d that were inserted: %v", hits, n, err)
	}
	if s, err := x.Stats(ctx); err != nil || s.Slots > 1<<14 {
		t.Errorf("it has grown to %d slots for 300 keys: %v", s.Slots, err)
	}
	if hits, err := x.Contains(ctx, other, nil); hits != 1 || err != nil {
		t.Errorf("the key of before: %d, %v", hits, err)
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
}

// A full pool accepts as many operations as fit and reports those that failed. Deletes free memory.
// The contents match the reports, on any device, and after the pool is opened again.
func TestPoolIsUsedUp(t *testing.T) {
	onAllDevices(t, usedUp)
}

func usedUp(t *testing.T, dev device.Device, o Options) {
	path, want := filepath.Join(memoryDir(t), "pool"), model{}
	o.KeySize, o.ValueSize, o.Capacity, o.Size = 8, 200, 20, pool.DataStart+1<<19
	x, err := Create(path, dev, o)
	must(t, err)
	put := func(lo, hi int) (p *weft.PartialError) {
		t.Helper()
		var keys, values []byte
		for i := lo; i < hi; i++ {
			keys, values = append(keys, denseKey(8, i)...), append(values, valueOf(200, denseKey(8, i), 0)...)
		}
		n, err := x.Put(ctx, keys, values)
		if err != nil && (!errors.Is(err, weft.ErrFull) || errors.Is(err, ErrSkewed) || !errors.As(err, &p)) {
			t.Fatal(err)
		}
		is := make([]bool, hi-lo)
		hits, err := x.Contains(ctx, keys, is)
		must(t, err)
		if left := hi - lo - hits; hits != n || p != nil && (p.Done != hi-lo || p.Failed != left || p.Failed == 0) || p == nil && left > 0 {
			t.Fatalf("%d of %d keys are there, %d are said to be inserted, %+v", hits, hi-lo, n, p)
		}
		for i, there := range is {
			if there {
				want[string(denseKey(8, lo+i))] = string(valueOf(200, denseKey(8, lo+i), 0))
			}
		}
		return p
	}
	end, refused := 0, (*weft.PartialError)(nil)
	for ; refused == nil; end += 300 {
		if end > 10_000 {
			t.Fatal("it is never used up")
		}
		refused = put(end, end+300)
	}
	if o.AtomicBatch > 0 && refused.Failed != 300 {
		t.Errorf("of an atomic batch without room for all: %+v", *refused)
	}
	want.equal(t, x)
	must(t, x.Check(ctx))
	var deleted []byte
	for i := range 100 {
		deleted = append(deleted, denseKey(8, i)...)
		delete(want, string(denseKey(8, i)))
	}
	if n, err := x.Delete(ctx, deleted, nil); n != 100 || err != nil {
		t.Fatalf("deleted %d of 100: %v", n, err)
	}
	if p := put(end, end+60); p != nil {
		t.Errorf("behind 100 deletes 60 insertions: %+v", *p)
	}
	want.equal(t, x)
	must(t, x.Close())
	x, report, err := Open(ctx, path, openCPU(t), OpenOptions{Verify: true})
	must(t, err)
	if report.Damaged > 0 || report.Keys != uint64(len(want)) {
		t.Errorf("%+v of %d keys", report, len(want))
	}
	want.equal(t, x)
	must(t, x.Close())
}

// During insertions, an iteration returns every key that stays exactly once: no key moves to make a
// slot, and no level is drained.
func TestIterationBesideInsertions(t *testing.T) {
	was := core.PageBytes
	core.PageBytes = 4 << 10
	defer func() { core.PageBytes = was }()
	path := filepath.Join(memoryDir(t), "pool")
	x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 8, Capacity: 10_000, Size: 64 << 20})
	must(t, err)
	put := func(lo, hi uint64) {
		var keys []byte
		for i := lo; i < hi; i++ {
			keys = binary.NativeEndian.AppendUint64(keys, i)
		}
		_, err := x.Put(ctx, keys, keys)
		must(t, err)
	}
	slots := x.engine.slotsIn(x.engine.live)
	there := slots * 8 / 10
	put(0, there)
	seen, pages := map[uint64]int{}, uint64(0)
	for k := range x.All(ctx) {
		seen[binary.NativeEndian.Uint64(k)]++
		if pages++; pages%(slots/20) == 0 {
			put(there+pages, there+pages+slots/20)
		}
	}
	for i := range there {
		if seen[i] != 1 {
			t.Fatalf("key %d is seen %d times", i, seen[i])
		}
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
}

// A batch may need the memory that its own deletes and updates free. Then it runs again once, not
// once for each operation.
func TestBatchReusesItsOwn(t *testing.T) {
	path := filepath.Join(memoryDir(t), "pool")
	x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 128, Size: 7 << 20})
	must(t, err)
	const n = 40_000
	kinds, keys := make([]weft.OpKind, n), make([]byte, 8*n)
	for i := range kinds {
		kinds[i] = [...]weft.OpKind{weft.OpPut, weft.OpDelete}[i%2]
	}
	retries := x.engine.nRetries
	must(t, x.Apply(ctx, kinds, keys, make([]byte, 128*n), nil))
	var all []byte // as many keys as fit in the memory
	for i := uint64(1); ; i++ {
		key := binary.NativeEndian.AppendUint64(nil, i)
		if _, err := x.Put(ctx, key, make([]byte, 128)); errors.Is(err, weft.ErrFull) {
			break
		} else {
			must(t, err)
		}
		all = append(all, key...)
	}
	_, err = x.Delete(ctx, all[:8], nil)
	must(t, err)
	_, err = x.Put(ctx, all[8:], make([]byte, 16*len(all[8:])))
	must(t, err)
	if r := x.engine.nRetries - retries; r > 20 {
		t.Errorf("%d batches were run again", r)
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
}

// Invalid devices and options are refused before a file is created.
func TestNoDevice(t *testing.T) {
	path := filepath.Join(memoryDir(t), "pool")
	if _, err := Create(path, nil, Options{KeySize: 8, ValueSize: 8}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
	if _, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 8, Durability: PMem}); !errors.Is(err, ErrNotDurable) {
		t.Errorf("PMem: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file is left")
	}
	for _, o := range []Options{{Slots: 8, Hashes: 1, Levels: 1}, {Slots: 1, Hashes: 2, Levels: 2}, {Resize: 7}} {
		o.KeySize, o.ValueSize = 8, 8
		if _, err := Create(path, openCPU(t), o); !errors.Is(err, weft.ErrOptions) {
			t.Error(fmt.Sprint(o), err)
		}
	}
}
