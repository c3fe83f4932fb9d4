package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves n bytes of disk space at offset at. It returns errors.ErrUnsupported if the
// file system cannot reserve space.
func allocate(f *os.File, at, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, at, n)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err
	}
}

// Sync syncs the content and the size of the file, but no other attributes.
func (f osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err
	}
}
