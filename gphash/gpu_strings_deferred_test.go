package gphash

import (
	"bytes"
	"errors"
	"github.com/weftgo/weft"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// A GPU with byte strings is lost at a store of a kernel. All acknowledged operations are done, and
// the CPU continues to use the pool. Each operation of the interrupted batch is done or not. An
// atomic batch is done as a whole or not at all.
func TestStringsGPULost(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	nLost := 0
	for seed := range uint64(10) {
		o := Options{Slots: 2, Size: 8 << 20, Capacity: 1, Mirror: seed%3 == 0, AtomicBatch: int(seed%2) * 60}
		if stringsLost(t, o, seed) {
			nLost++
		}
	}
	if nLost < 5 {
		t.Errorf("%d GPUs have been lost", nLost)
	}
}

func stringsLost(t *testing.T, o Options, seed uint64) (lost bool) {
	f := &fuse{}
	dev, err := sim.Open(&sim.Options{Arch: 80, Scheduler: sim.Random, Seed: seed, Domain: f})
	must(t, err)
	path := filepath.Join(memoryDir(t), "pool")
	x, err := CreateStrings(path, dev, o)
	must(t, err)
	f.pool = x.engine.accel.(*gpuEngine).k.pool
	rng := rand.New(rand.NewPCG(seed, 3))
	f.remaining.Store(int64(1 + rng.IntN(900)))
	shape := smallShape{keys: 150}
	before := make([][]byte, shape.keys)
	for range 12 {
		after := slices.Clone(before)
		err := shape.change(x, rng, after)
		if err != nil && !errors.Is(err, device.ErrLost) {
			t.Fatal(err)
		}
		before = shape.checkEither(t, x, before, after, err == nil, o.AtomicBatch > 0)
		lost = lost || err != nil
	}
	must(t, x.Check(ctx))
	must(t, x.Compact(ctx))
	if err := x.Close(); errors.Is(err, device.ErrLost) != lost {
		t.Errorf("closed: %v", err)
	}
	must(t, dev.Close())
	x, report, err := OpenStrings(ctx, path, openCPU(t), OpenOptions{Verify: true})
	must(t, err)
	if report.Damaged+report.Unfinished+report.Moved > 0 {
		t.Errorf("opened: %+v", report)
	}
	shape.checkEither(t, x, before, before, true, true)
	must(t, x.Close())
	return lost
}

// change runs a batch of up to 60 operations and updates values with their effects.
func (s *smallShape) change(x *Strings, rng *rand.Rand, values [][]byte) error {
	kinds := make([]weft.OpKind, 1+rng.IntN(60))
	var keys, input Bytes
	for i := range kinds {
		k, value := rng.IntN(s.keys), s.value(rng)
		kinds[i] = [...]weft.OpKind{weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete}[rng.IntN(4)]
		keys.Append(s.key(k))
		input.Append(value)
		switch {
		case kinds[i] == weft.OpDelete:
			values[k] = nil
		case kinds[i] == weft.OpPut || values[k] == nil:
			values[k] = value
		}
	}
	return x.Apply(ctx, kinds, keys, input, nil, nil)
}

// checkEither checks that each key has its value of before or of after. If done is true, it must be
// the value of after. If whole is true, all values must be from one of the two. checkEither returns
// the values found.
func (s *smallShape) checkEither(t *testing.T, x *Strings, before, after [][]byte, done, whole bool) (current [][]byte) {
	t.Helper()
	var keys, got Bytes
	for i := range s.keys {
		keys.Append(s.key(i))
	}
	found := make([]bool, s.keys)
	_, err := x.Get(ctx, keys, &got, found)
	for deadline := time.Now().Add(time.Minute); errors.Is(err, device.ErrLost) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		_, err = x.Get(ctx, keys, &got, found) // until the CPU runs the batches
	}
	must(t, err)
	old, new := 0, 0
	for i := range s.keys {
		var value []byte
		if found[i] {
			value = bytes.Clone(got.Row(i))
		}
		same := func(v []byte) bool { return (v == nil) == (value == nil) && bytes.Equal(v, value) }
		switch {
		case !same(before[i]) && !same(after[i]) || done && !same(after[i]):
			t.Fatalf("key %d has %x, it had %x and was to have %x", i, value, before[i], after[i])
		case !same(after[i]):
			old++
		case !same(before[i]):
			new++
		}
		current = append(current, value)
	}
	if whole && old > 0 && new > 0 {
		t.Fatalf("of a batch %d keys are there and %d are not", new, old)
	}
	return current
}
