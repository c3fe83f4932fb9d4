//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io/fs"
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

// lock locks the folder against being opened again, until the returned file is closed. A shared
// lock allows other shared locks.
func (d osDir) lock(shared bool) (*os.File, error) {
	how, flags := unix.LOCK_EX, os.O_RDWR|os.O_CREATE
	if shared {
		how, flags = unix.LOCK_SH, os.O_RDONLY
	}
	f, err := os.OpenFile(d.path(lockName), flags, 0o666)
	if shared && errors.Is(err, fs.ErrNotExist) { // a backup
		f, err = os.OpenFile(d.path(lockName), flags|os.O_CREATE, 0o666)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			// No process can open the store for changes.
			f, err = os.Open(string(d))
		}
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is open in another process, or twice in this one", ErrLocked,
				d)
		}
		return nil, err
	}
	return f, nil
}
