package linear_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/linear"
)

// Each call by which the host orders streams, or waits for them, is needed:
// left out, programs go wrong.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	ordered, unordered := schedules[uint32, uint64](mode{arch: 90}), schedules[uint64, uint64](mode{arch: 90, unordered: true})
	ordered.Shapes, unordered.Shapes = dst.Overlapping(), dst.Overlapping()
	dst.Omit(t, ".", nil, useClosedStream, ordered.Try(), unordered.Try())
	dst.Omit(t, "../internal/gpu", nil, updateFullMap, ordered.Try(), unordered.Try())
}

// onMap opens a map on a device, and a stream with a batch of keys.
func onMap(dev device.Device, o *linear.Options, f func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error) error {
	m, err := linear.New[uint32, uint32](dev, o)
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	many := make([]uint32, 1000)
	for i := range many {
		many[i] = uint32(i)
	}
	keys, err := device.Upload(s, many)
	if err != nil {
		return err
	}
	return errors.Join(f(m, s, keys), m.Sync(context.Background()), keys.Free())
}

// A batch on a stream that is closed is refused.
func useClosedStream(wrap func(device.Device) device.Device) error {
	dev, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer dev.Close()
	return onMap(wrap(dev), nil, func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error {
		if err := s.Close(); err != nil {
			return err
		}
		get, put := m.GetOn(s, keys, keys, device.Slice[bool]{}), m.PutOn(s, keys, keys)
		if !errors.Is(get, device.ErrClosed) || !errors.Is(put, device.ErrClosed) {
			return fmt.Errorf("GetOn on a closed stream: %v; PutOn: %v", get, put)
		}
		return nil
	})
}

// A map does not grow for updates.
func updateFullMap(wrap func(device.Device) device.Device) error {
	dev, err := sim.Open(nil)
	if err != nil {
		return err
	}
	defer dev.Close()
	return onMap(wrap(dev), &linear.Options{Capacity: 1000}, func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error {
		var slots [2]int
		for i := range slots {
			if err := m.PutOn(s, keys, keys); err != nil {
				return err
			}
			stats, err := m.Stats(context.Background())
			if err != nil {
				return err
			}
			slots[i] = stats.Slots
		}
		if slots[0] != slots[1] {
			return fmt.Errorf("a map of %d slots has %d after its keys were put again", slots[0], slots[1])
		}
		return nil
	})
}
