package beam

import (
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

// openHost opens the cores of this machine, once for all DoFns of the process. It stays open.
var openHost = sync.OnceValues(func() (device.Host, error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	return dev, nil
})
