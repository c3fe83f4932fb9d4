package cpu

import "golang.org/x/sys/unix"

// physicalMemory returns the size of the machine's memory in bytes, or 0 if unknown.
func physicalMemory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
