package devicetest

import "github.com/weftgo/weft/device"

// Narrow is dev with a single multiprocessor and no cache, as far as it says: launches
// that fill a device are small then, and what their threads go through in strides
// need not be large for them to take more than one.
func Narrow(dev device.Device) device.Device { return Units(dev, 1) }

// Units is Narrow with so many multiprocessors.
func Units(dev device.Device, n int) device.Device { return &narrow{dev, n, 0} }

// Small is Narrow with the cache that dev has.
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

// NewStream opens a stream whose device is n, so that launches ask n.
func (n *narrow) NewStream() (*device.Stream, error) {
	s, err := n.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(n, s.Driver()), nil
}
