package linear_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/linear"
)

// mode selects a variant of the kernels of maps and sets.
type mode struct {
	arch      int
	scheme    linear.Tombstones
	unordered bool
}

func (m mode) String() string {
	s := fmt.Sprintf("sm_%d,%s", m.arch, map[linear.Tombstones]string{linear.Keep: "keep", linear.Reuse: "reuse"}[m.scheme])
	if m.unordered {
		s += ",unordered"
	}
	return s
}

func (m mode) options(s dst.Shape) *linear.Options {
	return &linear.Options{Capacity: s.Capacity, Fixed: s.Fixed, Tombstones: m.scheme, Unordered: m.unordered, Seed: 1}
}

// troubles are shapes of programs for linear tables. They include the default shapes and full
// tables with few lines, so that many paths wrap around. In these tables many keys are deleted, and
// batches of one kind insert them again.
var troubles = append(slices.Clip(dst.Shapes),
	dst.Shape{Name: "refill", Capacity: 120, Fixed: true, Keys: 180, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpPutNew}},
	dst.Shape{Name: "refill by Put", Capacity: 120, Fixed: true, Keys: 120, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpDelete, weft.OpPut, weft.OpPutNew}},
	dst.Shape{Name: "two blocks", Capacity: 60, Fixed: true, Keys: 30, Hot: 40, Cold: 260, Batches: 2},
)

// A key may take the slot of another, deleted key, although a dead slot farther on its path holds
// the key itself. While the earlier slot is changing, a search that sees the dead slot must not
// conclude that the key is absent. (Without a 128-bit compare-and-swap, a slot that is changing
// shows no key for a moment.)
func TestTombstoneBesidePendingSlot(t *testing.T) {
	cfg := schedules[uint64, uint64](mode{arch: 80, scheme: linear.Reuse, unordered: true})
	cfg.Seeds, cfg.Shapes = 60, []dst.Shape{{Name: "come back", Capacity: 40, Fixed: true, Keys: 40, Hot: 60, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpDelete, weft.OpPutNew, dst.Mixed, weft.OpDelete, weft.OpPutNew, dst.Mixed}}}
	dst.Run(t, cfg)
}

// Under any schedule of threads, some order of a batch's operations must explain their results.
func TestSchedules(t *testing.T) {
	for _, arch := range []int{80, 90} {
		for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
			for _, unordered := range []bool{false, true} {
				m := mode{arch, scheme, unordered}
				dst.Explore(t, m, schedules[uint32, uint64](m).WithSeeds(someSeeds/2))
				dst.Explore(t, m, schedules[uint64, uint32](m).WithSeeds(someSeeds/2))
				dst.Explore(t, m, schedules[uint64, uint64](m).WithSeeds(someSeeds))
				if arch == 80 {
					continue // see TestSameKernels
				}
				dst.Explore(t, m, schedules[uint32, uint32](m).WithSeeds(someSeeds))
				dst.Explore(t, m, setSchedules[uint32](m).WithSeeds(someSeeds))
				dst.Explore(t, m, setSchedules[uint64](m).WithSeeds(someSeeds))
			}
		}
	}
}

// someSeeds is the number of seeds per mode and width. Half as many run if other widths have the
// same slots, and so the same memory orders, because every test has its own programs. fewSeeds is
// the number for reductions.
const someSeeds, fewSeeds = 8, 5

// Under any schedule, some order must explain the results, also with GetOrPuts instead of PutNews.
func TestSchedulesOfGetOrPut(t *testing.T) {
	for _, m := range []mode{{arch: 80}, {arch: 90, scheme: linear.Reuse}, {arch: 90, unordered: true}} {
		dst.Explore(t, m, loading(schedules[uint32, uint32](m)).WithSeeds(someSeeds))
		dst.Explore(t, m, loading(schedules[uint64, uint64](m)).WithSeeds(someSeeds))
	}
}

func loading[K weft.Key, V weft.Value](cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Loads = true
	return cfg
}

// The kernels for both architectures must be equal, except for slots of 16 bytes.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "linear_32_32", "linear_32_0", "linear_64_0", "linear_mixed_32_32")
}

// impossible reports whether no table can have these statistics.
func impossible(s linear.Stats) bool {
	return s.MeanProbe > float64(s.MaxProbe) || s.MaxProbe >= s.Slots
}

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return withMode(m, dst.Maps(func(dev device.Device, s dst.Shape) (*linear.Map[K, V], error) {
		t, err := linear.New[K, V](dev, m.options(s))
		if err == nil {
			t.SmallLaunches()
		}
		return t, err
	}, impossible))
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	return withMode(m, dst.Sets(func(dev device.Device, s dst.Shape) (*linear.Set[K], error) {
		t, err := linear.NewSet[K](dev, m.options(s))
		if err == nil {
			t.SmallLaunches()
		}
		return t, err
	}, impossible))
}

func withMode[K weft.Key, V weft.Value](m mode, cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Arch, cfg.Unordered, cfg.Shapes = m.arch, m.unordered, troubles
	return cfg
}

// A replayed seed must execute the same instructions of the same lanes in the same order, including
// growth of the table.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	trace := func(seed uint64) []byte {
		file := filepath.Join(t.TempDir(), "trace")
		t.Setenv("WEFT_SIM_TRACE", file)
		cfg := schedules[uint64, uint32](mode{arch: 80})
		cfg.First, cfg.Seeds, cfg.Shapes = seed, 1, []dst.Shape{{Name: "small", Keys: 9, Hot: 40, Batches: 3}}
		if f, _ := dst.Find(cfg); f != nil {
			t.Fatal(f.Err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	launches := regexp.MustCompile(`linear_(mixed_)?change_(wide_)?64_32`)
	for seed := range uint64(4) {
		one := trace(seed)
		if !bytes.Equal(one, trace(seed)) {
			t.Errorf("two traces of seed %d differ", seed)
		}
		if !launches.Match(one) || bytes.Equal(one, trace(seed+1)) {
			t.Errorf("seed %d: a trace of %d bytes says little", seed, len(one))
		}
	}
}

// A lookup with more keys than can have a tile each must return the same results as lookups with
// few keys, by sectors and by lines.
func TestLargeLookupsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, arch := range []int{80, 90} {
		for load, capacity := range map[string]int{"low": 4000, "high": 400} {
			t.Run(fmt.Sprintf("sm_%d,%s load", arch, load), func(t *testing.T) {
				t.Parallel()
				dev := devicetest.OpenSim(t, &sim.Options{Arch: arch})
				lookUpMany[uint32, uint32](t, dev, capacity)
				lookUpMany[uint64, uint64](t, dev, capacity)
			})
		}
	}
}

func lookUpMany[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, capacity int) {
	m := conformance.Open(t, linear.New[K, V], dev, &linear.Options{Capacity: capacity, Fixed: true, MaxLoad: .95})
	const n, every = linear.SpreadKeys + 100, 41
	keys, vals, found := make([]K, n), make([]V, n), make([]bool, n)
	var put []K
	var with []V
	for i := range keys {
		keys[i] = K(i)
		if i%every == 0 {
			put, with = append(put, K(i)), append(with, V(i)+7)
		}
	}
	if got, err := m.Put(t.Context(), put, with); got != len(put) || err != nil {
		t.Fatal(got, err)
	}
	if hits, err := m.Get(t.Context(), keys, vals, found); hits != len(put) || err != nil {
		t.Errorf("%d of %d keys found: %v", hits, len(put), err)
	}
	for i, k := range keys {
		want := V(0)
		if i%every == 0 {
			want = V(i) + 7
		}
		if vals[i] != want || found[i] != (want != 0) {
			t.Fatalf("key %d: %v, %v, want %v", k, vals[i], found[i], want)
		}
	}
}

// The kernels for both architectures must pass the suites on a simulated GPU under random
// schedules. The kernels for one architecture must also pass in lockstep.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{{Arch: 90}, {Arch: 80, Scheduler: sim.Random, Seed: 1, L2: 1}, {Arch: 90, Scheduler: sim.Random, Seed: 2}} {
		t.Run(fmt.Sprintf("sm_%d,%s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &opts)
			size, without := conformance.Slow, []string(nil)
			if opts.Scheduler == sim.Random {
				size, without = 150, conformance.HostCases
			}
			suite[uint64, uint64](t, dev, size, &linear.Options{Tombstones: linear.Reuse, Capacity: 10, MaxLoad: .97}, without...)
			if opts.Arch == 90 { // see TestSameKernels
				suite[uint32, uint32](t, dev, size, nil, conformance.HostCases...)
				setSuite[uint32](t, dev, size, nil, conformance.HostCases...)
			}
			if opts.Scheduler == sim.Random {
				if opts.Arch == 90 {
					reductions[int32, float32](t, dev, size)
				}
				reductions[int64, float64](t, dev, size)
				reductions[uint32, int64](t, dev, size)
			}
		})
	}
}

// reductions tests the kernels that interpret values as numbers.
func reductions[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale) {
	conformance.Reductions(t, dev, size, conformance.MapOf(linear.New[K, V], nil))
}

// All values must be combined, in some order, whatever is put, deleted and looked up concurrently.
func TestReduceSchedules(t *testing.T) {
	for _, m := range []mode{{arch: 80}, {arch: 90, scheme: linear.Reuse}} {
		dst.Explore(t, m, schedules[uint32, uint32](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint32, uint64](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint64, uint32](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint64, uint64](m).Reducing().WithSeeds(fewSeeds))
	}
}
