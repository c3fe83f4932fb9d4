package weft

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

// SetWorkspaceLimit sets how much memory the calls under way on a GPU may take up
// together, in bytes: page-locked memory of the host, which batches in Go slices
// travel through, and as much again of the device, which duplicates are resolved
// with. 0 is the default, 256 MiB. It is a property of the device because all
// structures on it share that memory; what calls have stays until the last
// structure on the device is closed.
//
// At the limit a call gets a smaller part, which makes it slower, or waits until
// another call ends or its own context does. A call that is alone always runs,
// with as much as it cannot do without. A device that works in memory of the host
// needs none.
func SetWorkspaceLimit(dev device.Device, bytes int) { gpu.Limit(dev, bytes) }
