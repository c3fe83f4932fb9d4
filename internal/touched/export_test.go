package touched

import "github.com/weftgo/weft/device"

// Image is the image of the kernels. Tests replace it by broken kernels.
var Image *device.Image = &touchedImage

const (
	TileVertices = tileVertices
	OwnVertices  = ownVertices
)

// Gather sets the minimum number of edges to mark in shared memory.
func (l *Lister) Gather(edges int) { l.gathered = edges }
