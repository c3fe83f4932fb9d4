package beam

import (
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

// openHost returns the cores of this machine as a device. All DoFns of the process share the
// device, which stays open.
var openHost = sync.OnceValues(func() (device.Host, error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	return dev, nil
})
