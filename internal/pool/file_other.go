//go:build !linux

package pool

import (
	"fmt"
	"os"
	"runtime"

	"github.com/weftgo/weft/device"
)

// Create returns an error, since pools require Linux.
func Create(path string, _ *Superblock, _ int64) (*Pool, error) {
	return nil, unsupported("create", path)
}

// Open returns an error, since pools require Linux.
func Open(path string, _ bool) (*Pool, error) { return nil, unsupported("open", path) }

// Inspect returns an error, since pools require Linux.
func Inspect(path string) (Info, error) { return Info{}, unsupported("inspect", path) }

// CreateWith returns an error, since pools require Linux.
func CreateWith(path string, _ *Superblock, _ int64, _ Requirements) (*Pool, error) {
	return nil, unsupported("create", path)
}

// OpenWith returns an error, since pools require Linux.
func OpenWith(path string, _ bool, _ Requirements) (*Pool, error) {
	return nil, unsupported("open", path)
}

// Remove removes a file.
func Remove(path string) error { return os.Remove(path) }

func unsupported(verb, path string) error {
	return fmt.Errorf("pool: %s %s: %w: pools need Linux, this is %s", verb, path, device.ErrUnsupported, runtime.GOOS)
}
