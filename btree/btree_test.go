package btree_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func open[K weft.Key, V weft.Value](t testing.TB, dev device.Device) *btree.Map[K, V] {
	t.Helper()
	m, err := btree.New[K, V](dev, nil)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// openDevice is the device that tests run on.
func openDevice(t testing.TB) device.Device {
	t.Helper()
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); ok {
		t.Skip("there are only kernels so far")
	}
	return dev
}
