package linear_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/linear"
)

// A mode is a way in which the kernels of maps and sets differ.
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

// Under any schedule of their threads, what the operations of a batch return
// is explained by some order of them.
func TestSchedules(t *testing.T) {
	for _, arch := range []int{80, 90} {
		for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
			for _, unordered := range []bool{false, true} {
				m := mode{arch, scheme, unordered}
				explore(t, "uint32,uint32", schedules[uint32, uint32](m), m)
				explore(t, "uint32,uint64", schedules[uint32, uint64](m), m)
				explore(t, "uint64,uint32", schedules[uint64, uint32](m), m)
				explore(t, "uint64,uint64", schedules[uint64, uint64](m), m)
				explore(t, "set uint32", setSchedules[uint32](m), m)
				explore(t, "set uint64", setSchedules[uint64](m), m)
			}
		}
	}
}

func explore[K weft.Key, V weft.Value](t *testing.T, widths string, cfg dst.Config[K, V], m mode) {
	t.Run(fmt.Sprintf("%s,%v", widths, m), func(t *testing.T) {
		t.Parallel()
		dst.Run(t, cfg)
	})
}

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return dst.Config[K, V]{Arch: m.arch, Unordered: m.unordered, New: func(dev device.Device, s dst.Shape) (dst.Subject[K, V], error) {
		t, err := linear.New[K, V](dev, m.options(s))
		if err != nil {
			return nil, err
		}
		return dst.Map(t), nil
	}}
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	return dst.Config[K, uint32]{Arch: m.arch, Uniform: true, Unordered: m.unordered, New: func(dev device.Device, s dst.Shape) (dst.Subject[K, uint32], error) {
		t, err := linear.NewSet[K](dev, m.options(s))
		if err != nil {
			return nil, err
		}
		return dst.Set(t), nil
	}}
}

// A seed stands for one run: replayed, it executes the same instructions of the
// same lanes in the same order, growth of the table included.
func TestReplay(t *testing.T) {
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
	for seed := range uint64(4) {
		one := trace(seed)
		if !bytes.Equal(one, trace(seed)) {
			t.Errorf("two traces of seed %d differ", seed)
		}
		if !bytes.Contains(one, []byte("linear_change_64_32")) || bytes.Equal(one, trace(seed+1)) {
			t.Errorf("seed %d: a trace of %d bytes says little", seed, len(one))
		}
	}
}

// The kernels of both architectures pass the suites on a simulated GPU, in
// lockstep and under random schedules.
func TestConformanceSimulated(t *testing.T) {
	for _, opts := range []sim.Options{{Arch: 80}, {Arch: 90}, {Arch: 80, Scheduler: sim.Random, Seed: 1}, {Arch: 90, Scheduler: sim.Random, Seed: 2}} {
		t.Run(fmt.Sprintf("sm_%d,%s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev, err := sim.Open(&opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			checked := devicetest.Checked(t, dev)
			suite[uint32, uint32](t, checked, nil)
			suite[uint64, uint64](t, checked, &linear.Options{Tombstones: linear.Reuse, Capacity: 10, MaxLoad: .97})
			setSuite[uint32](t, checked, nil)
		})
	}
}
