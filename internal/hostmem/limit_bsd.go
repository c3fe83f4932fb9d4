//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package hostmem

import (
	"math"
	"runtime"

	"golang.org/x/sys/unix"
)

// limit returns the memory of the machine. It ignores limits of address space, since some of these
// systems do not enforce them.
func limit() int64 {
	name := map[string]string{"darwin": "hw.memsize", "netbsd": "hw.physmem64"}[runtime.GOOS]
	if name == "" {
		name = "hw.physmem"
	}
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return int64(min(n, math.MaxInt64))
}
