//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func (d osDir) SyncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lock locks the folder against being opened again, until the returned file is closed.
func (d osDir) lock() (*os.File, error) {
	f, err := os.OpenFile(d.path(lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is open in another process, or twice in this one", ErrLocked,
				d)
		}
		return nil, err
	}
	return f, nil
}
