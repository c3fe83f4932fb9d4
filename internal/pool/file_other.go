//go:build !linux

package pool

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
)

// Create fails: pools are files of Linux.
func Create(path string, _ *Superblock, _ int64) (*Pool, error) {
	return nil, unsupported("create", path)
}

// Open fails: pools are files of Linux.
func Open(path string, _ bool) (*Pool, error) { return nil, unsupported("open", path) }

// Inspect fails: pools are files of Linux.
func Inspect(path string) (Info, error) { return Info{}, unsupported("inspect", path) }

// CheckPMem fails: so does persistent memory need Linux.
func CheckPMem(path string, _ Asserted) (Domain, error) {
	return "", unsupported("check", path)
}

func unsupported(what, path string) error {
	return fmt.Errorf("pool: %s %s: %w: pools need Linux, this is %s", what, path, device.ErrUnsupported, runtime.GOOS)
}
