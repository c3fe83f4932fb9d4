package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// onDevice copies a column to the device of a stream.
func onDevice[T device.Elem](t *testing.T, s *device.Stream, column []T) device.Slice[T] {
	t.Helper()
	d, err := device.Make[T](s.Device(), len(column))
	must(t, err)
	t.Cleanup(func() { must(t, d.Free()) })
	must(t, d.CopyFrom(s, column))
	return d
}

// Batches on the device have the same effect as host batches, alongside them, and count. A used-up
// pool is reported by Sync, or by the next call.
func TestBatchesOnDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for name, create := range kinds {
		t.Run(name, func(t *testing.T) {
			const n = 60
			dev := openGPU(t)
			x, err := create(filepath.Join(t.TempDir(), "pool"), Options{KeySize: 12, ValueSize: 20, Capacity: 100, Size: 4<<20 + 128<<10, Seed: 3, Device: dev})
			must(t, err)
			defer func() { must(t, x.Close()) }()
			s := devicetest.NewStream(t, dev)
			numbers, ops := make([]uint64, n), make([]weft.OpKind, n)
			for i := range numbers {
				numbers[i] = uint64(i)
				ops[i] = [...]weft.OpKind{weft.OpPut, weft.OpGet, weft.OpDelete}[i%3]
			}
			old, was := column(numbers, 1)
			_, is := column(numbers, 2)
			keys, vals, values, kinds := onDevice(t, s, old), onDevice(t, s, was), onDevice(t, s, is), onDevice(t, s, ops)
			ok, count := onDevice(t, s, make([]bool, n)), onDevice(t, s, make([]uint64, 3))
			half := func(d device.Slice[byte]) device.Slice[byte] { return d.Sub(0, d.Len()/2) }

			must(t, x.PutOn(s, half(keys), half(vals), count.Sub(0, 1)))
			must(t, x.ContainsOn(s, keys, ok, count.Sub(1, 2)))
			must(t, x.ApplyOn(s, kinds, keys, values, device.Slice[bool]{}))
			found, got, counts := make([]bool, n), make([]byte, 20*n), make([]uint64, 3)
			must(t, values.CopyTo(t.Context(), s, got))
			must(t, x.GetOn(s, keys, vals, ok, count.Sub(2, 3)))
			must(t, errors.Join(x.Sync(t.Context()), count.CopyTo(t.Context(), s, counts), ok.CopyTo(t.Context(), s, found)))
			// Of each three keys, one is deleted, and one is new.
			if want := []uint64{n / 2, n / 2, n / 2}; !slices.Equal(counts, want) {
				t.Errorf("%d inserted, found and found, want %d", counts, want)
			}
			must(t, vals.CopyTo(t.Context(), s, was))
			for i := range n {
				version := func(vals []byte) uint64 { return binary.LittleEndian.Uint64(vals[20*i+8:]) }
				if ops[i] == weft.OpGet && i < n/2 && version(got) != 1 {
					t.Errorf("key %d: a lookup beside changes finds version %d", i, version(got))
				}
				want := map[op.Kind]uint64{op.Put: 2, op.Get: 1}[op.Kind(ops[i])]
				if present := ops[i] == weft.OpPut || ops[i] == weft.OpGet && i < n/2; found[i] != present || present && version(was) != want {
					t.Errorf("key %d: found %v, version %d", i, found[i], version(was))
				}
			}
			hits, err := x.Get(t.Context(), old, was, nil)
			must(t, err)
			if hits != n/2 || x.Len() != n/2 {
				t.Errorf("the host finds %d keys of %d", hits, x.Len())
			}

			must(t, x.DeleteOn(s, half(keys), ok.Sub(0, n/2), count.Sub(0, 1)))
			must(t, errors.Join(x.Sync(t.Context()), count.CopyTo(t.Context(), s, counts), ok.CopyTo(t.Context(), s, found)))
			if deleted := slices.Index(append(found[:n/2:n/2], true), false); deleted != 2 || int64(counts[0]) != -n/3 || x.Len() != n/2-n/3 {
				t.Errorf("of the first keys two of three are there, and then one is not: %v, %d more, %d left", found[:n/2], int64(counts[0]), x.Len())
			}

			many := make([]uint64, 8000)
			for i := range many {
				many[i] = uint64(i)
			}
			old, was = column(many, 1)
			must(t, x.PutOn(s, onDevice(t, s, old), onDevice(t, s, was)))
			if err := x.Sync(t.Context()); !errors.Is(err, op.ErrFull) {
				t.Errorf("too many keys: %v", err)
			}
		})
	}
}

func TestHostTakesNoBatchesOnDevice(t *testing.T) {
	x, err := CreateSlab(filepath.Join(t.TempDir(), "pool"), Options{KeySize: 12, ValueSize: 20, Capacity: 100, Size: 8 << 20})
	must(t, err)
	defer func() { must(t, x.Close()) }()
	if err := x.PutOn(nil, device.Slice[byte]{}, device.Slice[byte]{}); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("a batch on the device: %v", err)
	}
	must(t, x.Sync(context.Background()))
}
