package devicetest

import "github.com/weftgo/weft/device"

// Narrow returns dev with Properties that report a single multiprocessor and no cache. Launches
// that fill such a device are small, and their threads loop several times even over small inputs.
func Narrow(dev device.Device) device.Device { return Units(dev, 1) }

// Units returns dev with Properties that report n multiprocessors and no cache.
func Units(dev device.Device, n int) device.Device { return &narrow{dev, n, 0} }

// Small returns dev with Properties that report a single multiprocessor and the cache of dev.
func Small(dev device.Device) device.Device { return &narrow{dev, 1, dev.Properties().L2} }

type narrow struct {
	device.Device
	units, l2 int
}

func (n *narrow) Properties() device.Properties {
	p := n.Device.Properties()
	p.Units, p.L2 = n.units, n.l2
	return p
}

// NewStream opens a stream that belongs to n, so that launches read the properties of n.
func (n *narrow) NewStream() (*device.Stream, error) {
	s, err := n.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(n, s.Driver()), nil
}
