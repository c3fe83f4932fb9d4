//go:build !linux

package cpu

import (
	"runtime"

	"github.com/weftgo/weft/device"
)

func processorName() string { return runtime.GOARCH }

func lastLevelCache() int { return 0 }

// readMemory takes all memory for free: how much is, the system does not say.
func readMemory() device.Memory {
	total := physicalMemory()
	return device.Memory{Free: total, Total: total}
}
