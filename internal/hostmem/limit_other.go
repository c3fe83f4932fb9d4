//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package hostmem

func limit() int64 { return 0 }
