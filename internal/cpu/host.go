package cpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Host is a device as one whose memory Go code works on, for what has no other engine.
func Host(dev device.Device, what string) (device.Host, error) {
	if host, ok := dev.(device.Host); ok {
		return host, nil
	}
	if dev == nil {
		return nil, fmt.Errorf("%w: no device for %s", device.ErrInvalid, what)
	}
	return nil, fmt.Errorf("%w: %s are worked on by CPUs only so far", device.ErrUnsupported, what)
}
