package simulator_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/sim"
)

// A program that imports device/sim opens simulated GPUs by name.
func TestOpen(t *testing.T) {
	dev, _, err := auto.Open("sim:pct:7")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := dev.(*sim.Device); !ok {
		t.Errorf("opened a %T", dev)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if dev, _, err := auto.Open("sim:slow:1"); dev != nil || !errors.Is(err, device.ErrInvalid) {
		t.Errorf("opened %v, %v", dev, err)
	}
}
