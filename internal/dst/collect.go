package dst

import (
	"os"
	"runtime/debug"
)

// Each program uses a simulated device for a few milliseconds, and little of its memory survives.
// Tests that run programs therefore collect garbage half as often as Go does by default. GOGC takes
// precedence.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
