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

// temporary makes a nameless file, which disappears with its process however that ends. It makes a
// named one where the file system has no nameless files. It also does so without /proc, which
// linkTemporary uses to find the file.
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
	return visible(target, mode) // reports what is wrong with the folder, too
}

// inProc returns a name of an open file.
func inProc(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// linkTemporary gives a nameless file a name.
func linkTemporary(f *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, inProc(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: name, Err: err}
	}
	return nil
}

// replaceable returns an error if a rename over a writable file would fail. Callers check it before
// the work that such a failure would waste.
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

// keepOwner gives f the owner of old, or at least its group, as far as the system allows.
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
		_ = f.Chown(-1, int(was.Gid)) // a file of ours in the old group is the best possible
	}
}

var descriptors = regexp.MustCompile(`^/(?:dev|proc/(?:self|thread-self|([0-9]+)))/fd/([0-9]+)$`)

// descriptor returns the descriptor of this process that name stands for.
func descriptor(name string) (n int, ok bool) {
	m := descriptors.FindStringSubmatch(filepath.Clean(name))
	if m == nil || m[1] != "" && m[1] != strconv.Itoa(os.Getpid()) {
		return 0, false
	}
	n, err := strconv.Atoi(m[2])
	return n, err == nil
}

// openDescriptor duplicates a descriptor. Both share the position, so a file that a shell opened to
// append is appended to.
func openDescriptor(n int, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
