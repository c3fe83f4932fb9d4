//go:build !linux

package cpu

import (
	"runtime"

	"github.com/weftgo/weft/device"
)

func processorName() string { return runtime.GOARCH }

func lastLevelCache() int { return 0 }

// readMemory reports all memory as free, because the system does not report the free memory.
func readMemory() device.Memory {
	total := physicalMemory()
	return device.Memory{Free: total, Total: total}
}
