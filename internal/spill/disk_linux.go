package spill

import (
	"os"

	"golang.org/x/sys/unix"
)

// temporary makes a file that never has a name. If the file system does not support this, the file
// has a name, which is removed at once.
func temporary(dir string) (*os.File, error) {
	flags := unix.O_TMPFILE | unix.O_RDWR | unix.O_EXCL | unix.O_CLOEXEC
	if fd, err := unix.Open(dir, flags, 0o600); err == nil {
		return os.NewFile(uintptr(fd), tempName(dir)), nil
	}
	return unnamed(dir)
}

// inMemory reports whether the files of a directory take memory.
func inMemory(dir string) bool {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return err == nil && (uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}
