package dst

import (
	"os"
	"runtime/debug"
)

// init lets tests that simulate use more memory and less time: they allocate much and keep little.
// A collection also empties the pools in which simulated devices find what others left. The
// variables GOGC and GOMEMLIMIT come first.
func init() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(400)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2 << 30)
	}
}
