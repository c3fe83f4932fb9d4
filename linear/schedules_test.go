package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/linear"
)

// Under any schedule of their threads, what the operations of a batch return
// is explained by some order of them.
func TestSchedules(t *testing.T) {
	for _, arch := range []int{80, 90} {
		for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
			name := fmt.Sprintf("sm_%d,%s", arch, map[linear.Tombstones]string{linear.Keep: "keep", linear.Reuse: "reuse"}[scheme])
			t.Run("uint32,uint32,"+name, func(t *testing.T) { dst.Run(t, schedules[uint32, uint32](arch, scheme)) })
			t.Run("uint32,uint64,"+name, func(t *testing.T) { dst.Run(t, schedules[uint32, uint64](arch, scheme)) })
			t.Run("uint64,uint32,"+name, func(t *testing.T) { dst.Run(t, schedules[uint64, uint32](arch, scheme)) })
			t.Run("uint64,uint64,"+name, func(t *testing.T) { dst.Run(t, schedules[uint64, uint64](arch, scheme)) })
			t.Run("set uint32,"+name, func(t *testing.T) { dst.Run(t, setSchedules[uint32](arch, scheme)) })
			t.Run("set uint64,"+name, func(t *testing.T) { dst.Run(t, setSchedules[uint64](arch, scheme)) })
		}
	}
}

func schedules[K weft.Key, V weft.Value](arch int, scheme linear.Tombstones) dst.Config[K, V] {
	return dst.Config[K, V]{Arch: arch, New: func(dev device.Device, s dst.Shape) (dst.Subject[K, V], error) {
		m, err := linear.New[K, V](dev, &linear.Options{Capacity: s.Capacity, Fixed: s.Fixed, Tombstones: scheme, Seed: 1})
		if err != nil {
			return nil, err
		}
		return dst.Map(m), nil
	}}
}

func setSchedules[K weft.Key](arch int, scheme linear.Tombstones) dst.Config[K, uint32] {
	return dst.Config[K, uint32]{Arch: arch, Uniform: true, New: func(dev device.Device, s dst.Shape) (dst.Subject[K, uint32], error) {
		m, err := linear.NewSet[K](dev, &linear.Options{Capacity: s.Capacity, Fixed: s.Fixed, Tombstones: scheme, Seed: 1})
		if err != nil {
			return nil, err
		}
		return dst.Set(m), nil
	}}
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
