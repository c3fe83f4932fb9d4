package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// If a pool is larger than the disk, Create returns an error and leaves no file.
func TestFullDisk(t *testing.T) {
	for _, dir := range []string{t.TempDir(), tmpfs(t)} {
		path := filepath.Join(dir, "pool")
		if _, err := Create(path, sample(), maxSize); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%d bytes: %v", uint64(maxSize), err)
		}
		checkDirectory(t, path)
	}
}

// Allocation fails halfway.
func TestLimitedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	if _, output := start(t, "limited", path, nil); !strings.HasPrefix(output, "true pool: create") || !strings.Contains(output, "allocating") {
		t.Error(output)
	}
	checkDirectory(t, path)
}

// A small tmpfs fits one pool up to its last page, and refuses a second one.
func TestSmallTmpfs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	attributes := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	switch _, output := start(t, "small", path, attributes); {
	case strings.HasPrefix(output, "mount:"):
		t.Skip("no file system can be mounted here: ", output)
	case output != "<nil>":
		t.Error(output)
	}
}

func onSmallSystem(path string) error {
	dir := filepath.Dir(path)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=10m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	s := sample()
	p, err := Create(path, s, 6<<20)
	if err != nil {
		return err
	}
	if _, err := Create(path+"2", s, 6<<20); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("a second pool of 6 MiB: %w", err)
	}
	filler := make([]byte, 16<<20)
	if err := os.WriteFile(path+".rest", filler, 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("filling the rest: %w", err)
	}
	for at := DataStart; at < 6<<20; at++ {
		p.Bytes()[at] = 1 // kills the process if the page is missing
	}
	return p.Close()
}

func tmpfs(t *testing.T) string {
	t.Helper()
	var system unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &system); err != nil || system.Type != unix.TMPFS_MAGIC {
		t.Skip("there is no tmpfs")
	}
	dir, err := os.MkdirTemp("/dev/shm", "weft-pool-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sparse creates a pool with holes instead of zero blocks, as in copies of pools.
func sparse(t *testing.T, dir string) string {
	t.Helper()
	_, mapped := newFormatted(t)
	path := filepath.Join(dir, "pool")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{0, copyB} {
		if _, err := f.WriteAt(mapped[at:at+blockSize], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Truncate(testSize), f.Sync()); err != nil {
		t.Fatal(err)
	}
	return path
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := Inspect(path)
	if err != nil || info.Err != nil {
		t.Fatal(err, info.Err)
	}
	return info.Allocated
}

// When a file with holes is opened for changing, its missing blocks are allocated. Opening it for
// reading fails if reading a hole would take memory.
func TestHoles(t *testing.T) {
	path := sparse(t, t.TempDir())
	mustOpen(t, path, true).Close()
	mustOpen(t, path, false)
	if is := allocated(t, path); is < testSize {
		t.Errorf("%d of %d bytes are allocated", is, testSize)
	}
}

func TestHolesOnTmpfs(t *testing.T) {
	path := sparse(t, tmpfs(t))
	if is := allocated(t, path); is >= testSize {
		t.Fatalf("%d of %d bytes are allocated: no holes", is, testSize)
	}
	if _, err := Open(path, true); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "holes") {
		t.Errorf("for reading: %v", err)
	}
	p := mustOpen(t, path, false)
	if is := allocated(t, path); is < testSize || p.Durability() != Process {
		t.Errorf("%d of %d bytes are allocated; %v", is, testSize, p.Durability())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, true)
}

// The size of a pool on huge pages must be a multiple of their size.
func TestHugePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	attributes := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	switch _, output := start(t, "huge", path, attributes); {
	case strings.HasPrefix(output, "mount:"), strings.Contains(output, "no space"), strings.Contains(output, "cannot allocate"):
		t.Skip("no huge pages are reserved, or none can be had here: ", output)
	case output != "<nil>":
		t.Error(output)
	}
}

func onHugePages(path string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := unix.Mount("hugetlbfs", filepath.Dir(path), "hugetlbfs", 0, "pagesize=2M"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if p, err := Create(path, sample(), 6<<20+Page); err == nil {
		p.Abandon()
		return errors.New("a pool of three pages and a bit")
	}
	p, err := Create(path, sample(), 6<<20)
	if err != nil {
		return err
	}
	p.Bytes()[6<<20-1] = 1
	if err := p.Close(); err != nil {
		return err
	}
	if p, err = Open(path, false); err != nil {
		return err
	}
	if !p.WasClean() || p.Bytes()[6<<20-1] != 1 || p.Durability() != Process {
		return errors.New("something else comes back")
	}
	return p.Close()
}

// retry repeats a call that a signal interrupts.
func TestRetry(t *testing.T) {
	answers := []error{unix.EINTR, unix.EINTR, unix.EIO, nil}
	if err := retry(func() error { err := answers[0]; answers = answers[1:]; return err }); err != unix.EIO || len(answers) != 1 {
		t.Errorf("%v, %d answers left", err, len(answers))
	}
}

// Network file systems and file systems in user space provide no durability.
func TestDurabilityOn(t *testing.T) {
	for system, want := range map[int64]Durability{
		unix.TMPFS_MAGIC: Process, unix.EXT4_SUPER_MAGIC: Process, unix.HUGETLBFS_MAGIC: Process, unix.XFS_SUPER_MAGIC: Process,
		unix.NFS_SUPER_MAGIC: None, unix.FUSE_SUPER_MAGIC: None, unix.SMB2_SUPER_MAGIC: None, int64(int32(-0x1acb2be)): None, unix.V9FS_MAGIC: None,
	} {
		if is := durabilityOn(system); is != want {
			t.Errorf("file system %#x: %v, want %v", uint64(system), is, want)
		}
	}
}

// All blocks of a pool are allocated, even if that takes several steps.
func TestLargerThanAStep(t *testing.T) {
	path := filepath.Join(tmpfs(t), "pool")
	p, err := Create(path, sample(), allocStep+Page)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Abandon()
	if is := allocated(t, path); is < allocStep+Page {
		t.Errorf("%d of %d bytes are allocated", is, allocStep+Page)
	}
}
