package devicetest

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
)

// OpenCPU opens a CPU with the given number of workers, wrapped by [Checked]. It is closed at the
// end of the test.
func OpenCPU(t testing.TB, workers int) device.Host {
	t.Helper()
	dev, err := cpu.Open(&cpu.Options{Workers: workers})
	return opened(t, dev, err).(device.Host)
}

// OpenSim opens a simulated GPU, wrapped by [Checked]. It is closed at the end of the test.
func OpenSim(t testing.TB, opts *sim.Options) device.Device {
	t.Helper()
	dev, err := sim.Open(opts)
	return opened(t, dev, err)
}

// opened wraps a device by Checked and closes it at the end of the test. An error fails the test.
func opened(t testing.TB, dev device.Device, err error) device.Device {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	// Cleanups run in reverse order, so Checked looks for leaks before this Close.
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
	})
	return Checked(t, dev)
}

// NewStream opens a stream that is closed at the end of the test.
func NewStream(t testing.TB, dev device.Device) *device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Upload copies src to the stream's device. The copy is freed at the end of the test, after the
// stream's work has completed.
func Upload[T device.Elem](t testing.TB, s *device.Stream, src []T) device.Slice[T] {
	t.Helper()
	d, err := device.Upload(s, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Sync(context.Background()), d.Free()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Download waits for the work submitted to the stream and returns the contents of d.
func Download[T device.Elem](t testing.TB, s *device.Stream, d device.Slice[T]) []T {
	t.Helper()
	dst := make([]T, d.Len())
	if err := d.CopyTo(t.Context(), s, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}
