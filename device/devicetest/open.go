package devicetest

import (
	"os"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
)

// Variable is the environment variable that names the device of [Open].
const Variable = "WEFT_DEVICE"

// Open opens the device that WEFT_DEVICE names, as [auto.Open] takes it
// (default "cpu"), wrapped by [Checked]. It is closed at the end of the test.
// A device that cannot be opened fails the test.
func Open(t testing.TB) device.Device {
	t.Helper()
	choice := os.Getenv(Variable)
	if choice == "" {
		choice = "cpu"
	}
	dev, _, err := auto.Open(choice)
	if err != nil {
		t.Fatalf("%s=%s: %v", Variable, choice, err)
	}
	// Cleanups run last in, first out: Checked looks for leaks before this.
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
	})
	return Checked(t, dev)
}
