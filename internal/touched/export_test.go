package touched

import "github.com/weftgo/weft/device"

// Image is the kernels, for tests of broken ones.
var Image *device.Image = &touchedImage

const TileVertices = tileVertices
