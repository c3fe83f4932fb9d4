package durable

import (
	"os"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// openGPU opens the device that WEFT_DEVICE names, or a simulated GPU.
func openGPU(t *testing.T) device.Device {
	if os.Getenv("WEFT_DEVICE") != "" {
		return devicetest.Open(t)
	}
	return devicetest.OpenSim(t, &sim.Options{Arch: 90})
}
