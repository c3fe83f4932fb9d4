package dst

import (
	"os"
	"runtime/debug"
)

// init makes tests that run programs collect garbage half as often as Go does by default. Each
// program uses a simulated device for a few milliseconds and retains little memory. The variable
// GOGC takes precedence.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
