//go:build !linux

package cuda

// threadID returns 0: the fake driver has one current context here.
func threadID() int { return 0 }
