package touched

import "github.com/weftgo/weft/device"

// Image is the kernels, for tests of broken ones.
var Image *device.Image = &touchedImage

const (
	TileVertices = tileVertices
	OwnVertices  = ownVertices
)

// Gather sets the minimum number of edges to mark in shared memory.
func (l *Lister) Gather(edges int) { l.gathered = edges }
