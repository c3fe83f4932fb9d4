package triangles

import "github.com/weftgo/weft/device"

// Image is the image of the kernels, for tests of broken ones.
var Image *device.Image = &trianglesImage
