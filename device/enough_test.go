package device_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// CheckFree accepts exactly the free memory. It refuses one byte more and overflowed sizes.
func TestCheckFree(t *testing.T) {
	dev, err := sim.Open(&sim.Options{Memory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	m, err := dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	for bytes, want := range map[int]bool{0: true, int(m.Free): true, int(m.Free) + 1: false, math.MaxInt: false, -1: false} {
		err := device.CheckFree(dev, bytes)
		if err == nil != want || !want && (!errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), " bytes requested, 1048576 free")) {
			t.Errorf("%d bytes of %d: %v", bytes, m.Free, err)
		}
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := device.CheckFree(dev, 1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("on a closed device: %v", err)
	}
}
