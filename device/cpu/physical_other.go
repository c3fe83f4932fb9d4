//go:build !linux && !darwin

package cpu

// physicalMemory returns 0: the size is unknown here.
func physicalMemory() uint64 { return 0 }
