package linear

import (
	"bytes"
	"context"
	"github.com/weftgo/weft/internal/op"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// tableWithTombstones makes a table of a few lines, and inserts and deletes random keys. In some
// tables keys crowd at the end, so that their paths wrap around.
func tableWithTombstones[K, V uint32 | uint64](t testing.TB, dev device.Device, set bool, seed uint64) *modelTest[K, V] {
	rng := rand.New(rand.NewPCG(seed, 1))
	lines := 1 + rng.Uint32N(20)
	s := newModelTest[K, V](t, dev, set, Options{Tombstones: Tombstones(rng.IntN(2)), Fixed: true}, lines)
	s.rng = rng
	im := image{s.engine.geometry(), conformance.Memory{Slots: conformance.Slots{Widths: s.policy.widths}}}
	crowd, slots := rng.IntN(3), s.policy.slots()
	var keys []K
	for have := map[K]bool{}; len(keys) < 2*slots; {
		k := K(rng.Uint64())
		if rng.IntN(50) == 0 {
			k = ^K(rng.IntN(lastSentinel + 1)) // looks like a sentinel
		}
		if !have[k] && (crowd == 0 || im.homeLine(uint64(k)) >= lines*3/4 || rng.IntN(4*crowd) == 0) {
			have[k] = true
			keys = append(keys, k)
		}
	}
	for range 1 + rng.IntN(6) {
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		s.changeKeys(weft.OpPutNew, keys[:rng.IntN(slots*5/4)])
		s.changeKeys(weft.OpDelete, keys[:rng.IntN(len(keys))])
	}
	return s
}

// changeKeys runs a batch on distinct keys on the table and on the model.
func (s *modelTest[K, V]) changeKeys(kind weft.OpKind, keys []K) {
	s.Helper()
	vals := make([]V, len(keys))
	for i := range vals {
		vals[i] = V(s.rng.Uint64())
	}
	b := &batch.Batch{N: len(keys), Kind: op.Kind(kind), Flags: s.policy.Flags(op.Kind(kind)), Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
	if s.policy.widths.Val > 0 && kind == weft.OpPutNew {
		b.Columns[batch.Vals] = batch.Input(vals)
	}
	_, failed, err := s.engine.Change(context.Background(), nil, b)
	if err != nil {
		s.Fatal(err)
	}
	for i, k := range keys {
		_, there := s.model[k]
		switch _, full := slices.BinarySearch(failed, uint32(i)); {
		case kind == weft.OpDelete:
			delete(s.model, k)
		case !full && !there:
			s.model[k] = vals[i]
		}
	}
}

// holds compares the table with its model: by lookups, by exports and by its memory.
func (s *modelTest[K, V]) holds() {
	s.Helper()
	keys := slices.Collect(maps.Keys(s.model))
	_, hits, err := s.engine.Lookup(context.Background(), nil, s.leases.Current(), &batch.Batch{
		N: len(keys), Columns: batch.Columns{batch.Keys: batch.Input(keys)},
	}, 0)
	if err != nil || hits != len(keys) {
		s.Fatalf("%d of %d keys are found: %v", hits, len(keys), err)
	}
	s.content()
	if err := s.image().check(s.policy.opts.Tombstones == Keep); err != nil {
		s.Fatal(err)
	}
}

func (im image) homeLine(key uint64) uint32 {
	for i := range im.path(false, key) {
		return uint32(i * im.Slot / lineBytes)
	}
	return 0
}

// distances returns the number of lines from each key's home line to the key.
func (im image) distances() map[uint64]uint32 {
	d := map[uint64]uint32{}
	for i := range int(im.lines) * lineBytes / im.Slot {
		if key, _ := im.slot(i); key < im.Sentinel(cpu.Pending) {
			d[key] = (uint32(i*im.Slot/lineBytes) + im.lines - im.homeLine(key)) % im.lines
		}
	}
	return d
}

// A rehash in place must keep all pairs and drop all dead slots (on a GPU except in the extra
// line). The layout must be valid afterward, and no path may get longer.
func TestRehashInPlace(t *testing.T) {
	dev := devicetest.Open(t)
	seeds := uint64(20)
	if dev.Properties().Kind == device.CPU && !conformance.Raced {
		seeds = 300
	}
	t.Run("uint32,uint32", func(t *testing.T) { rehashInPlace[uint32, uint32](t, dev, false, seeds) })
	t.Run("uint32,uint64", func(t *testing.T) { rehashInPlace[uint32, uint64](t, dev, false, seeds) })
	t.Run("uint64,uint64", func(t *testing.T) { rehashInPlace[uint64, uint64](t, dev, false, seeds) })
	t.Run("set uint32", func(t *testing.T) { rehashInPlace[uint32, uint32](t, dev, true, seeds) })
	t.Run("set uint64", func(t *testing.T) { rehashInPlace[uint64, uint64](t, dev, true, seeds) })
}

func rehashInPlace[K, V uint32 | uint64](t *testing.T, dev device.Device, set bool, seeds uint64) {
	wrapped := 0
	for seed := range seeds {
		s := tableWithTombstones[K, V](t, dev, set, seed)
		before := s.image()
		s.rehashInPlace()
		s.holds()
		after := s.image()
		old := before.distances()
		for key, lines := range after.distances() {
			if lines > old[key] {
				t.Fatalf("seed %d: key %#x lay %d lines behind its home, and now %d", seed, key, old[key], lines)
			}
			if home := after.homeLine(key); home+lines >= after.lines {
				wrapped++
			}
		}
		s.close()
	}
	if wrapped == 0 {
		t.Error("no path has wrapped around")
	}
}

// The number of cores must not affect the result, because the cores work independently.
func TestRehashInPlaceOnAnyCores(t *testing.T) {
	for seed := range uint64(50) {
		var first []byte
		for _, workers := range []int{1, 2, 7} {
			s := tableWithTombstones[uint64, uint64](t, devicetest.OpenCPU(t, workers), false, seed)
			s.rehashInPlace()
			s.holds()
			im := s.image()
			s.close()
			if first == nil {
				first = im.Mem
			}
			if !bytes.Equal(first, im.Mem) {
				t.Fatalf("seed %d: %d cores make another table", seed, workers)
			}
		}
	}
}

type limitedContext struct {
	context.Context
	looks atomic.Int32
}

func cancelAfter(t testing.TB, looks int32) *limitedContext {
	e := &limitedContext{Context: t.Context()}
	e.looks.Store(looks)
	return e
}

func (e *limitedContext) Err() error {
	if e.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A cancelled rehash in place must leave a valid table and correct counters.
func TestRehashInPlaceCancelled(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	m, err := New[uint64, uint64](dev, &Options{Capacity: 100_000, Fixed: true, MaxLoad: .9})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint64, 100_000)
	for i := range keys {
		keys[i] = uint64(i) * 3
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Delete(t.Context(), keys[:25_000], nil); err != nil {
		t.Fatal(err)
	}
	part := false
	for looks := int32(0); ; looks++ {
		done, err := m.policy.engine.rehashInPlace(cancelAfter(t, looks))
		if cerr := m.CheckInvariants(); cerr != nil {
			t.Fatalf("cancelled after %d looks at the context: %v", looks, cerr)
		}
		now, _ := m.policy.engine.ReadCounters(t.Context())
		if err == nil {
			if !done || now.Used != now.Live {
				t.Fatalf("done is %v, %+v", done, now)
			}
			break
		}
		part = part || now.Used > now.Live && now.Used < 100_000
	}
	if !part {
		t.Error("never cancelled in the middle")
	}
	if hits, err := m.Contains(t.Context(), keys, nil); hits != 75_000 || err != nil {
		t.Fatalf("%d keys are left: %v", hits, err)
	}
}

// A fixed table must not be rehashed in place while an iteration reads it, and the iteration must
// see each key once.
func TestIterationPutsOffRehashInPlace(t *testing.T) {
	dev := devicetest.Open(t)
	m, err := New[uint64, uint64](dev, &Options{Capacity: 400, Fixed: true, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint64, 400)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	turn := func() {
		if _, err := m.Delete(t.Context(), keys[:40], nil); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			keys[i] += 1000
		}
		if _, err := m.Put(t.Context(), keys[:40], keys[:40]); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]int{}
	for k := range m.All() {
		if seen[k]++; len(seen) == 20 {
			for range 2 {
				turn()
			}
			if s, err := m.Stats(t.Context()); s.Tombstones < 40 || err != nil {
				t.Errorf("rehashed under an iteration: %v, %v", s, err)
			}
		}
	}
	for _, k := range keys[40:] {
		if seen[k] != 1 {
			t.Fatalf("key %d, never changed, has been seen %d times", k, seen[k])
		}
	}
	turn()
	if s, err := m.Stats(t.Context()); s.Tombstones > 40 || err != nil {
		t.Errorf("not rehashed after the iteration: %v, %v", s, err)
	}
}

// An iteration that begins after the decision to rehash must also see each key once.
func TestIterationBeginsBesideRehashInPlace(t *testing.T) {
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := New[uint64, uint64](devicetest.Checked(t, s), &Options{Capacity: 400, Fixed: true, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	e := m.policy.engine.(*gpuEngine)
	if err := e.borders.Free(); err != nil { // so that the rehash allocates them again
		t.Fatal(err)
	}
	e.borders = device.Slice[uint32]{}
	var lease *core.Lease
	dev := e.Dev
	e.Dev = allocates{dev, func() { lease, err = e.Leases.Hold(t.Context()) }}
	done, rerr := e.rehashInPlace(t.Context())
	e.Dev = dev
	if done || rerr != nil || err != nil || lease == nil {
		t.Errorf("rehashed in place: %v, %v; the lease: %v, %v", done, rerr, lease, err)
	}
	if err := lease.End(); err != nil {
		t.Error(err)
	}
}

// allocates wraps a device and calls a function prior to each allocation.
type allocates struct {
	device.Device
	before func()
}

func (a allocates) Alloc(size int) (device.Buffer, error) {
	a.before()
	return a.Device.Alloc(size)
}
