package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
)

var kinds = map[string]func(string, Options) (*Index, error){"clevel": CreateClevel, "slab": CreateSlab}

// openGPU opens the GPU of the tests, or a simulated one.
func openGPU(t *testing.T) device.Device {
	t.Helper()
	if dev := devicetest.Open(t); dev.Properties().Kind != device.CPU {
		return dev
	}
	return devicetest.OpenSim(t, &sim.Options{Arch: 90})
}

// forEachIndex runs a test on both indexes, on the host and on a GPU. On a GPU Clevel hashing does
// not grow, so its capacity is the maximum.
func forEachIndex(t *testing.T, o Options, maxKeys int, body func(t *testing.T, x *Index)) {
	for name, create := range kinds {
		for _, dev := range []device.Device{nil, openGPU(t)} {
			o := o
			if o.Device = dev; dev != nil && name == "clevel" {
				o.Capacity = maxKeys
			}
			t.Run(fmt.Sprintf("%s,GPU=%v", name, dev != nil), func(t *testing.T) {
				if dev != nil && testing.Short() {
					t.Skip("interprets kernels")
				}
				x, err := create(filepath.Join(t.TempDir(), "pool"), o)
				must(t, err)
				defer func() { must(t, x.Close()) }()
				body(t, x)
			})
		}
	}
}

// column makes keys of 12 bytes and values of 20 from numbers.
func column(numbers []uint64, version uint64) (keys, vals []byte) {
	for _, n := range numbers {
		keys = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(keys, n*0x9e3779b97f4a7c15), uint32(n))
		vals = append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(vals, n), version), 1, 2, 3, 4)
	}
	return keys, vals
}

// Batches of all kinds have the same effect as on a Go map, while Clevel hashing grows fourfold and
// chains of the slab hash grow.
func TestIndexIsAMap(t *testing.T) {
	forEachIndex(t, Options{KeySize: 12, ValueSize: 20, Capacity: 500, Size: 8 << 20, Seed: 3}, 1500, func(t *testing.T, x *Index) {
		first := uint(0)
		if c, ok := x.table.(*clevel); ok {
			first = c.span().low()
		}
		ctx, rng, model := t.Context(), rand.New(rand.NewPCG(1, 2)), map[uint64]uint64{}
		for version := range uint64(60) {
			numbers := make([]uint64, 0, 200)
			for _, i := range rng.Perm(1500)[:200] { // no key twice, because a batch has no order
				numbers = append(numbers, uint64(i))
			}
			keys, vals := column(numbers, version)
			ops, ok := make([]weft.OpKind, len(numbers)), make([]bool, len(numbers))
			for i := range ops {
				ops[i] = [...]weft.OpKind{weft.OpPut, weft.OpPut, weft.OpGet, weft.OpDelete}[rng.IntN(4)]
			}
			must(t, x.Apply(ctx, ops, keys, vals, ok))
			for i, n := range numbers {
				is, present := model[n]
				if want := present != (ops[i] == weft.OpPut); ok[i] != want {
					t.Fatalf("%v of %d: %v, want %v", ops[i], n, ok[i], want)
				}
				switch ops[i] {
				case weft.OpPut:
					model[n] = version
				case weft.OpDelete:
					delete(model, n)
				case weft.OpGet:
					if got := binary.LittleEndian.Uint64(vals[20*i+8:]); present && got != is {
						t.Fatalf("%d has version %d, want %d", n, got, is)
					}
				}
			}
		}
		numbers := make([]uint64, 1600)
		for i := range numbers {
			numbers[i] = uint64(i)
		}
		keys, vals := column(numbers, 0)
		found := make([]bool, len(numbers))
		if x.gpu != nil { // the host reads what the GPU has written
			for i, n := range numbers {
				it, value := x.item(keys, i), make([]byte, 20)
				ok := x.table.get(&thread{alone: true}, &it, value)
				if is, present := model[n]; ok != present || ok && binary.LittleEndian.Uint64(value[8:]) != is {
					t.Fatalf("the host finds key %d: %v, %x", n, ok, value)
				}
			}
		}
		hits, err := x.Get(ctx, keys, vals, found)
		must(t, err)
		if hits != len(model) || x.Len() != len(model) {
			t.Fatalf("%d keys are found, %d counted, %d there", hits, x.Len(), len(model))
		}
		for i, n := range numbers {
			if is, present := model[n]; found[i] != present || present && binary.LittleEndian.Uint64(vals[20*i+8:]) != is {
				t.Fatalf("key %d: %v", n, found[i])
			}
		}
		n, err := x.Delete(ctx, keys, found)
		must(t, err)
		if n != len(model) || x.Len() != 0 {
			t.Fatalf("%d keys are deleted, %d left, of %d", n, x.Len(), len(model))
		}
		if c, ok := x.table.(*clevel); ok && x.gpu == nil && c.span().low() == first {
			t.Error("it has not grown")
		}
	})
}

// Two threads insert the same keys concurrently, in the same order. Afterwards each key is present
// once, with a complete value.
func TestThreadsOnOneKey(t *testing.T) {
	const maxKeys = 8192
	forEachIndex(t, Options{KeySize: 12, ValueSize: 20, Capacity: maxKeys, Size: 16 << 20, Seed: 3}, maxKeys, func(t *testing.T, x *Index) {
		n, rounds := maxKeys, uint64(20)
		if x.gpu != nil {
			n, rounds = maxKeys/4, 1 // it is interpreted; TestKernelsMeet runs them concurrently
		}
		for round := range rounds {
			var numbers []uint64
			for i := range uint64(n) {
				numbers = append(numbers, round<<32|i/(2*grain)*grain|i%grain)
			}
			keys, vals := column(numbers, 9)
			inserted, err := x.Put(t.Context(), keys, vals)
			must(t, err)
			hits, err := x.Get(t.Context(), keys, vals, nil)
			must(t, err)
			deleted, err := x.Delete(t.Context(), keys, nil)
			must(t, err)
			again, err := x.Get(t.Context(), keys, vals, nil)
			must(t, err)
			if inserted != n/2 || hits != n || deleted != n/2 || again != 0 || x.Len() != 0 {
				t.Fatalf("%d inserted, %d found, %d deleted, %d left and %d found", inserted, hits, deleted, x.Len(), again)
			}
		}
	})
}

// If a pool has no space left, a batch returns an error and the contents remain. If the context
// ends, the batch ends.
func TestEndsEarly(t *testing.T) {
	forEachIndex(t, Options{KeySize: 12, ValueSize: 20, Capacity: 100, Size: 4<<20 + 128<<10, Seed: 3}, 100, func(t *testing.T, x *Index) {
		numbers := make([]uint64, 8000)
		for i := range numbers {
			numbers[i] = uint64(i)
		}
		keys, vals := column(numbers, 0)
		inserted, err := x.Put(t.Context(), keys, vals)
		if !errors.Is(err, op.ErrFull) {
			t.Fatalf("%d keys inserted: %v", inserted, err)
		}
		hits, err := x.Get(t.Context(), keys, vals, nil)
		must(t, err)
		if hits < inserted || hits < 100 {
			t.Errorf("%d keys inserted, %d are there", inserted, hits)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := x.Get(ctx, keys, vals, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	})
}

func TestCreateRefuses(t *testing.T) {
	for name, create := range kinds {
		if x, err := create(filepath.Join(t.TempDir(), "pool"), Options{KeySize: 12, ValueSize: 20}); err == nil {
			t.Errorf("%s: a pool of no bytes: %v", name, x.Close())
		}
	}
}

// Slots equals the count of a walk through the index: the slots of all levels, or of all slabs.
func TestSlots(t *testing.T) {
	for name, create := range kinds {
		x, err := create(filepath.Join(t.TempDir(), "pool"), Options{KeySize: 12, ValueSize: 20, Capacity: 500, Size: 8 << 20, Seed: 3})
		must(t, err)
		before := x.Slots()
		numbers := make([]uint64, 1500)
		for i := range numbers {
			numbers[i] = uint64(i)
		}
		keys, vals := column(numbers, 1)
		_, err = x.Put(t.Context(), keys, vals)
		must(t, err)
		if is := x.Slots(); is <= before || is < len(numbers) || is > 8*len(numbers) {
			t.Errorf("%s: %d slots, and %d with %d keys", name, before, is, len(numbers))
		}
		must(t, x.Close())
	}
}
