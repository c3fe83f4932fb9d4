package dst

import (
	"os"
	"runtime/debug"
)

// init makes simulating tests trade memory for time: they allocate much and retain little. A
// collection also empties the pools of memory that simulated devices reuse. The variables GOGC and
// GOMEMLIMIT take precedence.
func init() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(400)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2 << 30)
	}
}
