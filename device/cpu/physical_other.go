//go:build !linux && !darwin

package cpu

// physicalMemory returns 0, because the size is unknown on this system.
func physicalMemory() uint64 { return 0 }
