package refs

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// Outcomes of operations (twin: Outcome in change.cuh).
const (
	nothing = iota
	present
	replaced
	inserted
	revived
	deleted
	full
)

// Ways to run operations (twin: How in ops.cuh).
const (
	singleLane = iota
	warps
	apart
)

var modes = map[string]uint32{"alone": singleLane, "warps": warps}

// onGPUs runs a test on simulated GPUs, in lockstep and under schedules of several seeds. It also
// runs it on the device of the environment if that is a GPU.
func onGPUs(t *testing.T, seeds uint64, test func(t *testing.T, dev device.Device)) {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	run := func(name string, o *sim.Options) {
		t.Run(name, func(t *testing.T) {
			dev, err := sim.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			narrow := o.Seed%2 == 1 || o.Arch == 80 // lanes without a cache pass lookups to tiles
			if dev := devicetest.Checked(t, dev); narrow {
				test(t, devicetest.Narrow(dev))
			} else {
				test(t, dev)
			}
		})
	}
	run("sm_80", &sim.Options{Arch: 80})
	run("sm_90", &sim.Options{})
	for seed := range seeds {
		o := sim.Schedule(seed)
		o.Arch = []int{80, 90}[seed/2%2]
		run("seed "+string(rune('0'+seed)), o)
	}
	t.Run("default", func(t *testing.T) {
		dev := devicetest.Open(t)
		if dev.Properties().Kind == device.CPU {
			t.Skip("runs no kernels")
		}
		test(t, dev)
	})
}

// must returns a value, or fails the test on an error.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// columns holds operations in device memory.
type columns[K weft.Key, V weft.Value] struct {
	kinds, outcomes device.Slice[uint32]
	keys            device.Slice[K]
	vals, sums      device.Slice[V]
	n               int
}

func upload[K weft.Key, V weft.Value](t testing.TB, s *device.Stream, kinds []op.Kind, keys []K, vals []V) *columns[K, V] {
	t.Helper()
	dev, n := s.Device(), len(keys)
	c := &columns[K, V]{
		kinds: must[device.Slice[uint32]](t)(device.Make[uint32](dev, n)), outcomes: must[device.Slice[uint32]](t)(device.Make[uint32](dev, n)),
		keys: must[device.Slice[K]](t)(device.Make[K](dev, n)), vals: must[device.Slice[V]](t)(device.Make[V](dev, n)),
		sums: must[device.Slice[V]](t)(device.Make[V](dev, n+32)), n: n,
	}
	words := make([]uint32, n)
	for i, k := range kinds {
		words[i] = uint32(k)
	}
	check(t, s.CopyIn(c.kinds.Ptr(), device.Bytes(words)))
	check(t, s.CopyIn(c.keys.Ptr(), device.Bytes(keys)))
	check(t, s.CopyIn(c.vals.Ptr(), device.Bytes(vals)))
	check(t, s.Fill(c.sums.Ptr(), 0, c.sums.Len()*batch.MapWidths[K, V]().Val/4))
	check(t, s.Fill(c.outcomes.Ptr(), ^uint32(0), n))
	return c
}

func (c *columns[K, V]) ops(mode uint32) ops {
	return ops{kinds: c.kinds.Ptr(), keys: c.keys.Ptr(), vals: c.vals.Ptr(), outcomes: c.outcomes.Ptr(), n: uint32(c.n), how: mode}
}

// download reads the results of operations and frees their memory.
func (c *columns[K, V]) download(t testing.TB, s *device.Stream) (outcomes []uint32, vals, sums []V) {
	t.Helper()
	outcomes, vals, sums = make([]uint32, c.n), make([]V, c.n), make([]V, c.n)
	ctx := context.Background()
	check(t, s.CopyOut(ctx, device.Bytes(outcomes), c.outcomes.Ptr()))
	check(t, s.CopyOut(ctx, device.Bytes(vals), c.vals.Ptr()))
	check(t, s.CopyOut(ctx, device.Bytes(sums), c.sums.Ptr()))
	for _, err := range []error{c.kinds.Free(), c.outcomes.Free(), c.keys.Free(), c.vals.Free(), c.sums.Free()} {
		check(t, err)
	}
	return outcomes, vals, sums
}

func kernel(t testing.TB, dev device.Device, images map[string]*device.Image, w batch.Widths, name string) (k device.Kernel) {
	t.Helper()
	check(t, gpu.Load(dev, images[gpu.Variant(w)], []gpu.Entry{{Name: name, To: &k}}))
	return k
}

// keysOf returns n random distinct keys. The parameter of is the length of the range from which it
// draws them. Some equal sentinels.
func keysOf[K uint32 | uint64](rng *rand.Rand, n, of int) []K {
	keys := make([]K, n)
	for i, j := range rng.Perm(of)[:n] {
		keys[i] = K(j) - 4
	}
	return keys
}
