package devicetest

import (
	"fmt"
	"os"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
)

// Variable is the environment variable that names the device of [Open].
const Variable = "WEFT_DEVICE"

// Open opens the device that WEFT_DEVICE names (see [auto.Open]; default "cpu"), wrapped by
// [Checked]. The device is closed at the end of the test. A failure to open fails the test.
func Open(t testing.TB) device.Device {
	t.Helper()
	choice := os.Getenv(Variable)
	if choice == "" {
		choice = "cpu"
	}
	dev, _, err := auto.Open(choice)
	if err != nil {
		err = fmt.Errorf("%s=%s: %w", Variable, choice, err)
	}
	return opened(t, dev, err)
}

// OpenGPU opens the device of [Open], or a simulated GPU if that device is a CPU. It skips the test
// under -short, since interpreting kernels takes long.
func OpenGPU(t testing.TB) device.Device {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	if dev := Open(t); dev.Properties().Kind != device.CPU {
		return dev
	}
	return OpenSim(t, nil)
}
