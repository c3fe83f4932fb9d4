package weft

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

// SetWorkspaceLimit limits the memory that all running calls on a GPU may use together, in bytes.
// The limit applies to the page-locked host memory through which batches in Go slices travel. It
// applies separately to the device memory that resolves duplicates. 0 selects the default, 256 MiB.
// The limit belongs to the device, because all structures on the device share that memory. The
// memory stays allocated until the last structure on the device is closed.
//
// At the limit, a call gets less memory, which makes it slower, or waits until another call or its
// own context ends. A call that runs alone always gets the memory that it requires. A device that
// works in host memory needs no such memory.
func SetWorkspaceLimit(dev device.Device, bytes int) { gpu.Limit(dev, bytes) }
