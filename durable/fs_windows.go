package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// SyncDir does nothing: Windows syncs names with its journal.
func (d osDir) SyncDir() error { return nil }

// lock locks the folder against being opened again, until the returned file is closed.
func (d osDir) lock() (*os.File, error) {
	f, err := os.OpenFile(d.path(lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{}); err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			err = fmt.Errorf("%w: %s is open in another process, or twice in this one", ErrLocked, d)
		}
		return nil, err
	}
	return f, nil
}
