//go:build !linux

package cpu

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
)

// Reserve returns ErrUnsupported, because ranges use mappings that only Linux has.
func (d *Device) Reserve(size int) (device.Range, error) {
	if size <= 0 {
		return nil, fmt.Errorf("cpu: Reserve: %w: size %d", device.ErrInvalid, size)
	}
	if d.closed.Load() {
		return nil, errClosed("Reserve")
	}
	return nil, fmt.Errorf("cpu: Reserve: %w: ranges need Linux, this is %s; use Alloc and copy", device.ErrUnsupported, runtime.GOOS)
}
