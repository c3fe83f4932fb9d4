package dst

import (
	"os"
	"runtime/debug"
)

// Each program takes a simulated device for some milliseconds, and little of what it
// makes stays: to collect that half as often as Go does takes a tenth of the time off
// the tests that run programs. GOGC has the last word.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
