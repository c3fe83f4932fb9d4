package cpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Host returns dev as a device.Host, or an error if dev is not one, because so far only Go code on
// host memory can do the work. The error names the work by the text in what.
func Host(dev device.Device, what string) (device.Host, error) {
	if host, ok := dev.(device.Host); ok {
		return host, nil
	}
	if dev == nil {
		return nil, fmt.Errorf("%w: no device for %s", device.ErrInvalid, what)
	}
	return nil, fmt.Errorf("%w: %s run only on CPUs so far", device.ErrUnsupported, what)
}
