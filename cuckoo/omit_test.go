package cuckoo_test

import (
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call. linear's programs cover the calls of the
// engine, except those in changes that move pairs.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	open := func(dev device.Device) (*cuckoo.Map[uint32, uint32], error) {
		return cuckoo.New[uint32, uint32](dev, &cuckoo.Options{Capacity: 1000, Seed: 1})
	}
	dst.Omit(t, "../internal/cpu", nil, dst.MapClosedStreamTry(open))
	dst.Omit(t, "../internal/gpu", dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs", func(c devicetest.Call) bool {
		return c.Func == "(*Engine).waitChanges"
	}), dst.IterateAfterChanges(open))
}
