package traversal

import "github.com/weftgo/weft/device"

// FollowingImage is the image of the kernels that follow a graph, for tests of broken ones.
var FollowingImage *device.Image = &followingImage
