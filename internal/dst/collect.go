package dst

import (
	"os"
	"runtime/debug"
)

// Each program takes a simulated device for some milliseconds, and little of what it
// makes stays: so tests that run programs collect that half as often as Go does. GOGC has
// the last word.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
