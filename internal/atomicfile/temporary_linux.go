package atomicfile

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// temporary creates a nameless file, which disappears when its process ends for any reason. If the
// file system does not support nameless files, it creates a named file. It also creates a named
// file if /proc is missing, since linkTemporary needs /proc.
func temporary(target string, mode fs.FileMode) (*os.File, string, error) {
	dir := cmp.Or(folder(target), ".")
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err == nil {
		f := os.NewFile(uintptr(fd), target)
		if unix.Access(inProc(f), unix.F_OK) == nil {
			return f, "", nil
		}
		f.Close()
	}
	return visible(target, mode) // also returns errors that concern the folder
}

// inProc returns a path in /proc for an open file.
func inProc(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func linkTemporary(f *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, inProc(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: name, Err: err}
	}
	return nil
}

// replaceable returns an error if a rename cannot replace target, which is a writable file. Callers
// check this early, since the rename would only fail after all data is written. info describes
// target.
func replaceable(target string, info fs.FileInfo, user int) error {
	var attributes unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, target, 0, 0, &attributes) == nil && attributes.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("a mount point cannot be replaced: %w", unix.EBUSY)
	}
	dir, err := os.Stat(cmp.Or(folder(target), "."))
	if err != nil {
		return err
	}
	owns := func(of fs.FileInfo) bool { return int(of.Sys().(*syscall.Stat_t).Uid) == user }
	if dir.Mode()&fs.ModeSticky != 0 && user != 0 && !owns(dir) && !owns(info) {
		return fmt.Errorf("a file of another user in a sticky folder cannot be replaced: %w", unix.EPERM)
	}
	return nil
}

// keepOwner sets the owner and group of f to those of old. If the system forbids that, it sets only
// the group, if possible.
func keepOwner(f *os.File, old fs.FileInfo) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	is, was := info.Sys().(*syscall.Stat_t), old.Sys().(*syscall.Stat_t)
	if is.Uid == was.Uid && is.Gid == was.Gid {
		return
	}
	if f.Chown(int(was.Uid), int(was.Gid)) != nil {
		_ = f.Chown(-1, int(was.Gid)) // sets only the group; if that fails, too, f keeps its owner
	}
}

var descriptors = regexp.MustCompile(`^/(?:dev|proc/(?:self|thread-self|([0-9]+)))/fd/([0-9]+)$`)

// descriptor returns the descriptor of this process that name refers to.
func descriptor(name string) (n int, ok bool) {
	m := descriptors.FindStringSubmatch(filepath.Clean(name))
	if m == nil || m[1] != "" && m[1] != strconv.Itoa(os.Getpid()) {
		return 0, false
	}
	n, err := strconv.Atoi(m[2])
	return n, err == nil
}

// openDescriptor duplicates a descriptor. Both descriptors share the file position, so the output
// continues where earlier output of a shell ended.
func openDescriptor(n int, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
