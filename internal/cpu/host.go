package cpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Host returns dev as a host device, for work that only Go code on host memory can do so far.
func Host(dev device.Device, what string) (device.Host, error) {
	if host, ok := dev.(device.Host); ok {
		return host, nil
	}
	if dev == nil {
		return nil, fmt.Errorf("%w: no device for %s", device.ErrInvalid, what)
	}
	return nil, fmt.Errorf("%w: %s are worked on by CPUs only so far", device.ErrUnsupported, what)
}
