package devicetest

import "github.com/weftgo/weft/device"

// Narrow returns dev with Properties of a single multiprocessor and no cache. Launches that fill a
// device are then small, and their threads take several strides over small inputs.
func Narrow(dev device.Device) device.Device { return Units(dev, 1) }

// Units is Narrow with n multiprocessors.
func Units(dev device.Device, n int) device.Device { return &narrow{dev, n, 0} }

// Small is Narrow with the cache of dev.
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

// NewStream opens a stream with n as its device, so that launches read the properties of n.
func (n *narrow) NewStream() (*device.Stream, error) {
	s, err := n.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(n, s.Driver()), nil
}
