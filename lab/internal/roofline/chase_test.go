package roofline_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// A chase visits all lines and ends at the right one, on a CPU and on a simulated GPU.
func TestChase(t *testing.T) {
	for _, dev := range []device.Device{devicetest.OpenCPU(t, 2), devicetest.OpenSim(t, nil)} {
		for _, c := range []roofline.Chase{{Region: 128, Steps: 10, Runs: 1}, {Region: 1 << 13, Steps: 1000, Runs: 2}, {Region: 1 << 12, Steps: 45, Runs: 1, Weak: true}} {
			if took, err := c.Measure(t.Context(), dev); err != nil || took < 0 {
				t.Errorf("%+v on %s: %v, %v", c, dev.Properties().Name, took, err)
			}
		}
		for _, c := range []roofline.Chase{{Region: 64, Steps: 1, Runs: 1}, {Region: 384, Steps: 1, Runs: 1}, {Region: 128, Runs: 1}, {Region: 128, Steps: 1}} {
			if _, err := c.Measure(t.Context(), dev); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}
