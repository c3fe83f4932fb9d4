package cuda_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/device/devicetest"
)

func TestConformanceOnFakeDriver(t *testing.T) { devicetest.Conformance(t, cuda.OpenFake) }

// A device wrapped by Checked passes the conformance tests on the fake driver.
func TestCheckedOnFakeDriver(t *testing.T) { testChecked(t, devicetest.Checked(t, cuda.OpenFake(t))) }

func TestCheckedOnGPU(t *testing.T) {
	cuda.RequireGPU(t)
	t.Setenv(devicetest.Variable, "cuda")
	testChecked(t, devicetest.Open(t))
}

func testChecked(t *testing.T, dev device.Device) {
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fresh, err := device.Make[uint32](dev, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Free()
	got := make([]uint32, 1000)
	if err := fresh.CopyTo(t.Context(), s, got); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != 0xdbdbdbdb {
			t.Fatalf("element %d of fresh memory is %#x", i, v)
		}
	}
	e, err := dev.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := errors.Join(s.Record(e), s.Wait(e), e.Sync(t.Context()), dev.Sync(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestConformanceOnGPU(t *testing.T) {
	cuda.RequireGPU(t)
	devicetest.Conformance(t, func(t testing.TB) device.Device {
		d, err := cuda.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}
