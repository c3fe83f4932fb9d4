package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// What a block's threads do to one key they do as one.
func TestHotKeySimulated(t *testing.T) {
	conformance.NotRaced(t, "interprets kernels")
	for _, opts := range []sim.Options{{Arch: 90}, {Arch: 80, L2: 1}, {Arch: 90, L2: 1, Scheduler: sim.Random, Seed: 1, Races: true}} {
		dev := devicetest.OpenSim(t, &opts)
		hotKey[uint32, uint32](t, dev)
		hotKey[uint64, uint64](t, dev)
	}
}

// The same on the device of WEFT_DEVICE, if it runs kernels.
func TestHotKey(t *testing.T) {
	dev := devicetest.Open(t)
	if _, host := dev.(device.Host); host {
		t.Skip("a CPU does operations one by one")
	}
	hotKey[uint32, uint32](t, dev)
	hotKey[uint64, uint64](t, dev)
}

func hotKey[K, V uint32 | uint64](t *testing.T, dev device.Device) {
	conformance.HotKey(t, dev, conformance.Open(t, slab.New[K, V], dev, nil), 7)
	conformance.HotKey(t, dev, conformance.Open(t, slab.New[K, V], dev, nil), ^K(0))
}
