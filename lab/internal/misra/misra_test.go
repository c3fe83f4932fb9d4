package misra

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// devices returns the devices of the tests: the one of the environment and, without -short,
// simulated ones.
func devices(t *testing.T) map[string]device.Device {
	all := map[string]device.Device{"default": devicetest.Open(t)}
	if testing.Short() {
		return all
	}
	all["sim"] = devicetest.OpenSim(t, &sim.Options{Arch: 90})
	return all
}

// fixture is a set on a device with a stream.
type fixture struct {
	*Set
	t      *testing.T
	stream *device.Stream
}

func newFixture(t *testing.T, dev device.Device, opts Options) *fixture {
	t.Helper()
	s, err := New(dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stream.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{s, t, stream}
	f.clear()
	return f
}

func (f *fixture) clear() {
	if err := f.ClearOn(f.stream); err != nil {
		f.t.Fatal(err)
	}
}

// apply runs a batch and returns its flags.
func (f *fixture) apply(kinds []weft.OpKind, keys []uint32) []bool {
	f.t.Helper()
	ok := make([]bool, len(keys))
	dk, err1 := device.Upload(f.stream, kinds)
	dn, err2 := device.Upload(f.stream, keys)
	do, err3 := device.Upload(f.stream, ok)
	if err := errors.Join(err1, err2, err3); err != nil {
		f.t.Fatal(err)
	}
	if err := f.ApplyOn(f.stream, dk, dn, do); err != nil {
		f.t.Fatal(err)
	}
	if err := do.CopyTo(f.t.Context(), f.stream, ok); err != nil {
		f.t.Fatal(err)
	}
	if err := errors.Join(dk.Free(), dn.Free(), do.Free()); err != nil {
		f.t.Fatal(err)
	}
	return ok
}

// Batches without duplicates have the same results as Go's map, including extreme keys.
func TestAgainstMap(t *testing.T) {
	for name, dev := range devices(t) {
		for _, buckets := range []int{1, 7, 300} {
			t.Run(fmt.Sprintf("%s,%d buckets", name, buckets), func(t *testing.T) {
				const rounds, n, space = 6, 400, 600
				f := newFixture(t, dev, Options{Buckets: buckets, Nodes: rounds * n, Seed: 3})
				rng := rand.New(rand.NewPCG(1, uint64(buckets)))
				for range 2 { // the second after a clear
					model := map[uint32]bool{}
					for range rounds {
						kinds, keys := make([]weft.OpKind, n), make([]uint32, n)
						for i, k := range rng.Perm(space)[:n] {
							kinds[i], keys[i] = weft.OpKind(rng.IntN(4)), uint32(k-space/2)
						}
						for i, got := range f.apply(kinds, keys) {
							k, want := keys[i], model[keys[i]]
							switch kinds[i] {
							case weft.OpPut, weft.OpPutNew:
								model[k], want = true, !want
							case weft.OpDelete:
								model[k] = false
							}
							if got != want {
								t.Fatalf("%v of %#x: %t, want %t", kinds[i], k, got, want)
							}
						}
					}
					f.clear()
				}
			})
		}
	}
}

// Of many threads that insert or delete one key, exactly one succeeds.
func TestExactlyOnce(t *testing.T) {
	for name, dev := range devices(t) {
		t.Run(name, func(t *testing.T) {
			const n = 700
			f := newFixture(t, dev, Options{Buckets: 2, Nodes: 4 * n})
			keys, kinds := make([]uint32, n), make([]weft.OpKind, n)
			for i := range keys {
				keys[i] = uint32(i % 7)
			}
			for _, kind := range []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpPutNew, weft.OpDelete} {
				for i := range kinds {
					kinds[i] = kind
				}
				done := map[uint32]int{}
				for i, ok := range f.apply(kinds, keys) {
					if ok {
						done[keys[i]]++
					}
				}
				for k := range uint32(7) {
					if done[k] != 1 {
						t.Errorf("%v of key %d succeeded %d times", kind, k, done[k])
					}
				}
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	dev := devicetest.Open(t)
	for _, opts := range []Options{{}, {Buckets: 1}, {Nodes: 1}, {Buckets: 1 << 30, Nodes: 1 << 30}} {
		if _, err := New(dev, opts); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	f := newFixture(t, dev, Options{Buckets: 1, Nodes: 3})
	f.apply([]weft.OpKind{weft.OpPut, weft.OpGet}, []uint32{1, 2})
	kinds, err := device.Upload(f.stream, make([]weft.OpKind, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer kinds.Free()
	keys, err := device.Upload(f.stream, make([]uint32, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Free()
	if err := f.ApplyOn(f.stream, kinds, keys, device.Slice[bool]{}); !errors.Is(err, weft.ErrFull) {
		t.Errorf("operations beyond the nodes: %v", err)
	}
	if err := f.ApplyOn(f.stream, kinds.Sub(0, 1), keys.Sub(0, 1), device.Slice[bool]{}); err != nil {
		t.Errorf("the last node, without flags: %v", err)
	}
	if err := f.ApplyOn(f.stream, kinds.Sub(0, 0), keys.Sub(0, 0), device.Slice[bool]{}); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

func TestAllocationFails(t *testing.T) {
	dev := devicetest.Open(t)
	devicetest.FailAfter(dev, 0)
	defer devicetest.ClearFailures(dev)
	if _, err := New(dev, Options{Buckets: 1, Nodes: 1}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("without memory: %v", err)
	}
}
