package device_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
)

// The sentinel errors are distinct, even when wrapped.
func TestErrorsAreDistinct(t *testing.T) {
	all := []error{
		device.ErrNoDriver, device.ErrDriver, device.ErrDriverTooOld, device.ErrNoDevice, device.ErrUnsupported,
		device.ErrClosed, device.ErrMemory, device.ErrLost, device.ErrNoKernels, device.ErrKernel, device.ErrInvalid,
	}
	for i, a := range all {
		for j, b := range all {
			if got := errors.Is(fmt.Errorf("cuda: Alloc: %w", a), b); got != (i == j) {
				t.Errorf("wrapped %q is %q: %v", a, b, got)
			}
			if i != j && a.Error() == b.Error() {
				t.Errorf("two errors say %q", a)
			}
		}
	}
}
