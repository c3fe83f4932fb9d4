package dst

import (
	"os"
	"runtime/debug"
)

// init makes tests that simulate devices collect garbage less often, because they allocate much and
// retain little. A collection also empties the pools of memory that simulated devices reuse. The
// variables GOGC and GOMEMLIMIT take precedence.
func init() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(400)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2 << 30)
	}
}
