package traversal

import "github.com/weftgo/weft/device"

// FollowingImage is the kernels of what follows a graph, for tests of broken ones.
var FollowingImage *device.Image = &followingImage
