//go:build !linux

package cuda

// threadID returns 0, so that the fake driver has one current context for all threads.
func threadID() int { return 0 }
