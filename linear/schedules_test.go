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

// A mode selects kernels of maps and sets that differ.
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

// troubles are shapes of programs for linear tables: those of all structures, and full tables of a
// few lines, so that many paths wrap. Many keys are deleted from them and come back in batches of
// one kind.
var troubles = append(slices.Clip(dst.Shapes),
	dst.Shape{Name: "refill", Capacity: 120, Fixed: true, Keys: 180, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpPutNew}},
	dst.Shape{Name: "refill by Put", Capacity: 120, Fixed: true, Keys: 120, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpDelete, weft.OpPut, weft.OpPutNew}},
	dst.Shape{Name: "two blocks", Capacity: 60, Fixed: true, Keys: 30, Hot: 40, Cold: 260, Batches: 2},
)

// A key that takes the slot of another, deleted key leaves its own dead slot, which remembers it,
// farther on its path. While the earlier slot changes, that dead slot must not be taken for the
// key's absence. (Without a compare-and-swap of 128 bits, a slot that changes shows no key for a
// moment.)
func TestTombstoneBesidePendingSlot(t *testing.T) {
	cfg := schedules[uint64, uint64](mode{arch: 80, scheme: linear.Reuse, unordered: true})
	cfg.Seeds, cfg.Shapes = 60, []dst.Shape{{Name: "come back", Capacity: 40, Fixed: true, Keys: 40, Hot: 60, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpDelete, weft.OpPutNew, dst.Mixed, weft.OpDelete, weft.OpPutNew, dst.Mixed}}}
	dst.Run(t, cfg)
}

// Under any schedule of their threads, some order of a batch's operations explains their results.
func TestSchedules(t *testing.T) {
	for _, arch := range []int{80, 90} {
		for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
			for _, unordered := range []bool{false, true} {
				m := mode{arch, scheme, unordered}
				dst.Explore(t, m, schedules[uint32, uint64](m).WithSeeds(someSeeds/2))
				dst.Explore(t, m, schedules[uint64, uint32](m).WithSeeds(someSeeds/2))
				dst.Explore(t, m, schedules[uint64, uint64](m).WithSeeds(someSeeds))
				if arch == 80 {
					continue // TestSameKernels
				}
				dst.Explore(t, m, schedules[uint32, uint32](m).WithSeeds(someSeeds))
				dst.Explore(t, m, setSchedules[uint32](m).WithSeeds(someSeeds))
				dst.Explore(t, m, setSchedules[uint64](m).WithSeeds(someSeeds))
			}
		}
	}
}

// someSeeds is the number of seeds for each mode and width, half of them where slots, and so all
// orders of memory, are those of other widths: every test has its own programs. fewSeeds is that
// for reductions.
const someSeeds, fewSeeds = 8, 5

// The same with GetOrPuts instead of PutNews.
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

// The kernels of the architectures differ only for slots of 16 bytes.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "linear_32_32", "linear_32_0", "linear_64_0", "linear_mixed_32_32")
}

// impossible reports statistics that no table has.
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

// A seed stands for one run: replayed, it executes the same instructions of the same lanes in the
// same order, growth of the table included.
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

// A lookup of more keys than get a tile each returns the same for each key as one of few, by
// sectors and by lines.
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

// The kernels of both architectures pass the suites on a simulated GPU under random schedules, and
// those of one in lockstep.
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
			if opts.Arch == 90 { // TestSameKernels
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

// reductions runs the kernels that interpret values as more than bits.
func reductions[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale) {
	conformance.Reductions(t, dev, size, conformance.MapOf(linear.New[K, V], nil))
}

// All combined values are present, in some order, whatever is put, deleted and looked up
// concurrently.
func TestReduceSchedules(t *testing.T) {
	for _, m := range []mode{{arch: 80}, {arch: 90, scheme: linear.Reuse}} {
		dst.Explore(t, m, schedules[uint32, uint32](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint32, uint64](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint64, uint32](m).Reducing().WithSeeds(fewSeeds))
		dst.Explore(t, m, schedules[uint64, uint64](m).Reducing().WithSeeds(fewSeeds))
	}
}
