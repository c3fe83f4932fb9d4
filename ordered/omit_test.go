package ordered_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/ordered"
)

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	same := func(dev device.Device) device.Device { return dev }
	if err := errors.Join(failAllocations(same), closeSnapshots(same)); err != nil {
		t.Fatal(err)
	}
	programs := schedules[uint32, uint64]().WithSeeds(20)
	programs.Shapes = dst.OverlappingAtomic()
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*gpuEngine).publish":             "only where a launch fails: TestFailsWhole",
		"s.Sync(context.Background()) in (*gpuEngine).change":              "only where a launch fails: TestFailsWhole",
		"e.Stream.Sync(context.Background()) in (*gpuEngine).collectFree":  "only where a launch fails: TestFailsWhole",
		"s.Wait(e.Visible) in (*gpuEngine).view":                           "for kernels of users: TestOrderedViewBehindChanges of package refs",
		"e.Stream.CopyOut(ctx, all[:block.Size], block.Ptr) in copyToHost": "the copy of the index behind it waits for both",
	}, failAllocations, closeSnapshots, programs.Try())
}

// closeSnapshots closes snapshots while a running batch reads the index that follows them. Their
// memory is freed, except for two indexes that are kept.
func closeSnapshots(wrap func(device.Device) device.Device) error {
	ctx := context.Background()
	simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random})
	if err != nil {
		return err
	}
	defer simulated.Close()
	dev := wrap(simulated)
	m, err := ordered.New[uint32, uint32](dev, nil)
	if err != nil {
		return err
	}
	const n = 100
	keys, err := device.Make[uint32](dev, n)
	if err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	err = keys.CopyFrom(s, conformance.Sequence[uint32](0, n))
	put := func() error { return m.PutOn(s, keys, keys) }
	if err := errors.Join(err, put()); err != nil {
		return err
	}
	first, err := m.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := put(); err != nil {
		return err
	}
	second, err := m.Snapshot(ctx)
	if err != nil {
		return err
	}
	return errors.Join(put(), put(), first.Close(), second.Close(), m.Close(), s.Close(), keys.Free(), simulated.Sync(ctx))
}

// failAllocations lets allocations fail in New and in Compact. Memory that is then freed must not
// be in use.
func failAllocations(wrap func(device.Device) device.Device) error {
	for limit := range 12 {
		simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: uint64(limit)})
		if err != nil {
			return err
		}
		defer simulated.Close()
		scarce := &scarceDevice{simulated, limit}
		if err := errors.Join(useScarceDevice(wrap(scarce), scarce, limit), simulated.Sync(context.Background())); err != nil {
			return err
		}
	}
	return nil
}

// useScarceDevice makes a map and compacts it, with memory for some allocations only.
func useScarceDevice(dev device.Device, scarce *scarceDevice, limit int) error {
	const plenty = 1000
	ctx, opts := context.Background(), &ordered.Options{Capacity: 5000}
	m, err := ordered.New[uint32, uint32](dev, opts)
	if scarce.left = plenty; err != nil {
		if !errors.Is(err, device.ErrMemory) {
			return err
		}
		if m, err = ordered.New[uint32, uint32](dev, opts); err != nil {
			return err
		}
	}
	keys := conformance.Sequence[uint32](0, 300)
	if _, err := m.Put(ctx, keys, keys); err != nil {
		return err
	}
	scarce.left = limit
	if err := m.Compact(ctx); err != nil && !errors.Is(err, device.ErrMemory) {
		return err
	}
	return m.Close()
}

// scarceDevice has memory for a limited number of allocations.
type scarceDevice struct {
	device.Device
	left int
}

// Alloc implements device.Device.
func (d *scarceDevice) Alloc(n int) (device.Buffer, error) {
	if d.left--; d.left < 0 {
		return device.Buffer{}, device.ErrMemory
	}
	return d.Device.Alloc(n)
}

// NewStream implements device.Device.
func (d *scarceDevice) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, s.Driver()), nil
}
