package durable_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// Batches in device memory are durable after Sync, on a CPU and on a GPU. The store opens on
// another device.
func TestStreams(t *testing.T) {
	for name, dev := range map[string]device.Device{"CPU": devicetest.OpenCPU(t, 2), "GPU": devicetest.OpenSim(t, nil), "WEFT_DEVICE": devicetest.Open(t)} {
		t.Run(name, func(t *testing.T) {
			if name == "GPU" && testing.Short() {
				t.Skip("interprets kernels")
			}
			dir := t.TempDir()
			m, err := durable.Open(ctx, dir, func() (*linear.Map[uint32, uint32], error) { return linear.New[uint32, uint32](dev, nil) }, durable.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := dev.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			upload := func(v ...uint32) device.Slice[uint32] {
				d, err := device.Upload(s, v)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Free() })
				return d
			}
			kinds, err := device.Upload(s, []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpGet})
			if err != nil {
				t.Fatal(err)
			}
			defer kinds.Free()
			for i, err := range []error{
				m.PutOn(s, upload(1, 2, 3, 2), upload(10, 20, 30, 21)),
				m.DeleteOn(s, upload(3), device.Slice[bool]{}),
				m.ReduceOn(s, upload(1, 4), upload(5, 6), weft.Sum),
				m.PutNewOn(s, upload(1, 5), upload(0, 7), device.Slice[bool]{}),
				m.GetOrPutOn(s, upload(5, 6), upload(0, 8), device.Slice[bool]{}),
				m.ApplyOn(s, kinds, upload(7, 5, 1), upload(9, 0, 0), device.Slice[bool]{}),
				m.Sync(ctx),
			} {
				if err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			want := map[uint32]uint32{1: 15, 2: 21, 4: 6, 6: 8, 7: 9}
			if got := maps.Collect(m.All()); !maps.Equal(got, want) {
				t.Errorf("before: %v, want %v", got, want)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			other := devicetest.OpenCPU(t, 1)
			m, err = durable.Open(ctx, dir, func() (*linear.Map[uint32, uint32], error) { return linear.New[uint32, uint32](other, nil) }, durable.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := maps.Collect(m.All()); !maps.Equal(got, want) {
				t.Errorf("after: %v, want %v", got, want)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Kernels of users would change what the log does not see.
func TestUpdateIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	m, err := durable.Open(ctx, t.TempDir(), func() (*linear.Map[uint32, uint32], error) { return linear.New[uint32, uint32](dev, nil) }, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := m.Update(ctx, s, 1, func(linear.Ref) error { return nil }); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Update: %v", err)
	}
}

// The options, the types and the kind of a store are those that it was made with.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	dev := devicetest.OpenCPU(t, 1)
	m := openMap(t, dir, durable.Options{})
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if _, err := m.Put(ctx, keys, keys); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Open(ctx, dir, makeMap(t), durable.Options{}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second opener: %v", err)
	}
	copied, err := m.CopyTo(ctx, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if _, err := durable.Status(copied); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("the status of a copy: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(ctx, []uint64{1}, []uint64{4}); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Put after Close: %v", err)
	}
	refused := func(what string, want error, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err = durable.Open(ctx, dir, func() (*linear.Map[uint64, int64], error) { return linear.New[uint64, int64](dev, nil) }, durable.Options{})
	refused("other types", weft.ErrFormat, err)
	_, err = durable.Open(ctx, dir, func() (*linear.Set[uint64], error) { return linear.NewSet[uint64](dev, nil) }, durable.Options{})
	refused("another kind", weft.ErrFormat, err)
	_, err = durable.Open(ctx, dir, func() (*slab.MultiMap[uint64, uint64], error) {
		return slab.NewMultiMap[uint64, uint64](dev, nil)
	}, durable.Options{})
	refused("a multimap", weft.ErrFormat, err)
	_, err = durable.Open(ctx, dir, func() (*linear.Map[uint64, uint64], error) {
		return linear.New[uint64, uint64](dev, &linear.Options{Unordered: true})
	}, durable.Options{})
	refused("without order", weft.ErrFormat, err)
	_, err = durable.Open(ctx, dir, func() (*linear.Map[uint64, uint64], error) {
		return linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1, Fixed: true})
	}, durable.Options{})
	refused("too small", weft.ErrOptions, err)
	_, err = durable.Open(ctx, dir, makeMap(t), durable.Options{LogLimit: 1})
	refused("a small limit", weft.ErrOptions, err)
	_, err = durable.Open(ctx, dir, makeMap(t), durable.Options{Sync: durable.Interval(-1)})
	refused("a negative interval", weft.ErrOptions, err)
	_, err = durable.Open(ctx, dir, func() (*linear.Map[uint64, uint64], error) {
		m, err := linear.New[uint64, uint64](dev, nil)
		if err == nil {
			_, err = m.Put(ctx, []uint64{9}, []uint64{9})
		}
		return m, err
	}, durable.Options{})
	refused("a map with pairs", weft.ErrOptions, err)
	again := openMap(t, dir, durable.Options{})
	if again.Len() != len(keys) {
		t.Errorf("%d pairs after all that", again.Len())
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
