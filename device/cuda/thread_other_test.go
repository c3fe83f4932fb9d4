//go:build !linux

package cuda

// threadID is not known here: the fake driver has one current context.
func threadID() int { return 0 }
