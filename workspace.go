package weft

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

// SetWorkspaceLimit sets how much memory the running calls on a GPU may use together, in bytes. The
// limit covers page-locked host memory, which batches in Go slices travel through, and the same
// amount again of device memory, which resolves duplicates. 0 is the default, 256 MiB. It is a
// property of the device because all structures on it share that memory. The memory stays allocated
// until the last structure on the device is closed.
//
// At the limit a call gets a smaller part, which makes it slower, or waits until another call or
// its own context ends. A call that is alone always runs, with at least the memory that it
// requires. A device that works in host memory needs none.
func SetWorkspaceLimit(dev device.Device, bytes int) { gpu.Limit(dev, bytes) }
