package pool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// Open opens a pool for changing, or for reading alongside other readers. A pool opened for
// changing is marked as unclean until it is closed.
//
// If the file has holes, Open allocates the missing blocks. If such a file is on tmpfs or
// hugetlbfs, Open does not open it for reading, since reading a hole takes memory there.
//
// Open returns [ErrLocked], [ErrVersion], [ErrPowerLost], weft's ErrFormat and ErrCorrupt, and
// errors of the system. ErrFormat and ErrCorrupt describe the damage to each copy of the
// superblock.
func Open(path string, readOnly bool) (*Pool, error) { return OpenWith(path, readOnly, Requirements{}) }

// OpenWith opens a pool that meets requirements. It returns [ErrNotDurable] with the condition of
// [PMem] that is not met. See [Open].
func OpenWith(path string, readOnly bool, req Requirements) (*Pool, error) {
	p, err := open(path, readOnly, req)
	if err != nil {
		return nil, fmt.Errorf("pool: open %s: %w", path, err)
	}
	return p, nil
}

func open(path string, readOnly bool, req Requirements) (*Pool, error) {
	flags := unix.O_RDWR
	if readOnly {
		flags = unix.O_RDONLY
	}
	f, err := openFile(path, flags, readOnly, req)
	if err != nil {
		return nil, err
	}
	p, err := f.openPool(readOnly, req)
	if err != nil {
		f.close()
		return nil, err
	}
	return p, nil
}

func (f *file) openPool(readOnly bool, req Requirements) (*Pool, error) {
	stat, err := f.stat()
	if err != nil {
		return nil, err
	}
	if f.device { // a device cannot be read before it is mapped
		if err := f.mapFile(); err != nil {
			return nil, err
		}
	}
	copies := readCopies(f)
	p, err := poolOf(&copies, uint64(f.size))
	if err != nil {
		return nil, err
	}
	if unknown := p.last.Features.ReadOnly &^ known.ReadOnly; unknown != 0 && !readOnly {
		return nil, fmt.Errorf("%w: the pool has features %#x; open it for reading: %w", ErrVersion, unknown, ErrReadOnly)
	}
	if p.powerLost = f.powerLost(&p.last); p.powerLost && !req.Salvage {
		return nil, fmt.Errorf("%w: the pool was open when the machine stopped, or was copied from another one while it was open: "+
			"some acknowledged operations may be missing. Open it with OpenOptions.Repair (weft pool check --repair), "+
			"which keeps entries with a matching checksum, or restore a backup. If the memory is persistent, assert that", ErrPowerLost)
	}
	if !f.device {
		if err := f.fillHoles(stat, readOnly); err != nil {
			return nil, err
		}
		if err := f.mapFile(); err != nil {
			return nil, err
		}
	}
	p.memory = f.memory()
	p.attach(f)
	if readOnly {
		return p, nil
	}
	return p, p.markUnclean()
}

// powerLost reports whether stores may be lost because the machine stopped while the pool was open.
// In persistent memory, fenced stores survive, so the result is false. Files in a memory file
// system do not survive a stop. If a boot id is unknown, the result is therefore false for such a
// file, and true for others.
func (f *file) powerLost(s *Superblock) bool {
	now := Boot()
	switch {
	case s.Clean || f.persist != nil:
		return false
	case s.Boot == BootID{} || now == BootID{}:
		return !f.inMemory()
	}
	return s.Boot != now
}

// inMemory reports whether the file system keeps its files in memory.
func (f *file) inMemory() bool {
	return f.system.Type == unix.TMPFS_MAGIC || uint32(f.system.Type) == unix.HUGETLBFS_MAGIC
}

func (p *Pool) attach(f *file) {
	p.file, p.mapped, p.readOnly = f, f.mapped, f.readOnly
	p.durability = f.durability()
}

func (f *file) durability() Durability {
	switch {
	case f.persist != nil:
		return PMem
	case f.device:
		return None // PMem is required of a device, and was refused
	}
	return durabilityOn(int64(f.system.Type))
}

func (f *file) memory() *pm.Memory {
	if f.persist != nil {
		return pm.NewPersistent(f.mapped, f.persist)
	}
	return pm.New(f.mapped, nil)
}

// ReadAt reads the file, or the mapped memory if the file is mapped.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	if f.mapped != nil {
		return bytes.NewReader(f.mapped).ReadAt(b, at)
	}
	return f.f.ReadAt(b, at)
}

func readCopies(r io.ReaderAt) (copies [2]Copy) {
	for i := range copies {
		c := &copies[i]
		if n, err := r.ReadAt(c.block[:], int64(i)*copyB); err != nil {
			c.Err = fmt.Errorf("%w: %d of %d bytes at %d: %w", op.ErrCorrupt, n, blockSize, i*copyB, err)
		}
	}
	return copies
}

type file struct {
	f        *os.File
	id       fileID
	readOnly bool
	device   bool  // the file is a character device of memory
	size     int64 // size in bytes
	mapped   []byte
	system   unix.Statfs_t
	persist  pm.Persist // nil without PMem
}

// openFile opens and locks a file and reads its attributes. It does not follow symbolic links.
func openFile(path string, flags int, readOnly bool, req Requirements) (*file, error) {
	if flags&unix.O_CREAT != 0 && req.PMem {
		if _, err := domainOf(nil, req); err != nil {
			return nil, err // detected before the file is created
		}
	}
	f, err := openPath(path, flags)
	if err != nil {
		return nil, err
	}
	l := &file{f: f, readOnly: readOnly}
	if err := l.lock(); err != nil {
		f.Close()
		return nil, err
	}
	if err := l.readAttributes(req); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openPath opens a regular file or a character device. For other kinds its error names the kind.
func openPath(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err == nil {
		return f, nil
	}
	var stat unix.Stat_t
	if retry(func() error { return unix.Lstat(path, &stat) }) != nil {
		return nil, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, _ := os.Readlink(path)
		return nil, fmt.Errorf("a symbolic link, which is not followed: name its target, %q: %w", target, unix.ELOOP)
	case unix.S_IFREG, unix.S_IFCHR:
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s, not a pool", op.ErrFormat, kindOf(stat.Mode))
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFBLK:
		return "a block device"
	}
	return "a special file"
}

func (f *file) readAttributes(req Requirements) error {
	if err := retry(func() error { return unix.Fstatfs(f.fd(), &f.system) }); err != nil {
		return err
	}
	stat, err := f.stat()
	if err != nil {
		return err
	}
	if f.size = stat.Size; f.device {
		if f.size, err = deviceSize(stat); err != nil {
			return err
		}
	}
	return f.setPersist(stat, req)
}

// fileID identifies a file under all of its names. For a device, inode is 0.
type fileID struct{ device, inode uint64 }

// opened counts the readers of each file in this process. The count is the constant writer if the
// file is open for changing.
var opened struct {
	sync.Mutex
	files map[fileID]int
}

const writer = -1

// lock locks the file against other processes and against other openings in this process.
func (f *file) lock() error {
	stat, err := f.stat()
	if err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f.id = fileID{uint64(stat.Dev), stat.Ino}
	case unix.S_IFCHR: // flock treats each name of a device as a separate file
		f.device, f.id = true, fileID{device: uint64(stat.Rdev)}
	default:
		return fmt.Errorf("%w: %s, not a pool", op.ErrFormat, kindOf(stat.Mode))
	}
	opened.Lock()
	defer opened.Unlock()
	holders, next, mode := opened.files[f.id], writer, unix.LOCK_EX
	if f.readOnly {
		next, mode = holders+1, unix.LOCK_SH
	}
	if holders == writer || holders > 0 && !f.readOnly {
		return fmt.Errorf("%w: open in this process", ErrLocked)
	}
	switch err := retry(func() error { return unix.Flock(f.fd(), mode|unix.LOCK_NB) }); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: open in another process", ErrLocked)
	case err != nil:
		return fmt.Errorf("flock: %w", err)
	}
	if opened.files == nil {
		opened.files = make(map[fileID]int)
	}
	opened.files[f.id] = next
	return nil
}

// close unmaps, unlocks and closes the file. It unlocks explicitly, because a process that is being
// forked may keep the file open, and so the lock, slightly longer.
func (f *file) close() error {
	opened.Lock()
	defer opened.Unlock()
	var unmapErr error
	if f.mapped != nil {
		unmapErr = unix.Munmap(f.mapped)
		f.mapped = nil
	}
	unlockErr := retry(func() error { return unix.Flock(f.fd(), unix.LOCK_UN) })
	if opened.files[f.id]--; opened.files[f.id] <= 0 {
		delete(opened.files, f.id)
	}
	return errors.Join(unmapErr, unlockErr, f.f.Close())
}

func (f *file) fd() int { return int(f.f.Fd()) }

func (f *file) stat() (*unix.Stat_t, error) {
	var stat unix.Stat_t
	err := retry(func() error { return unix.Fstat(f.fd(), &stat) })
	return &stat, err
}

// sync writes the file to its disk. For a device it does nothing.
func (f *file) sync() error {
	if f.device {
		return nil
	}
	return retry(func() error { return unix.Fdatasync(f.fd()) })
}

// mapFile maps the file at an address that the system chooses, to suit the huge pages of a device.
func (f *file) mapFile() error {
	protection := unix.PROT_READ
	if !f.readOnly {
		protection |= unix.PROT_WRITE
	}
	if f.size > math.MaxInt {
		return fmt.Errorf("%w: %d bytes, more than this machine has addresses for", op.ErrOptions, f.size)
	}
	if page := int64(f.system.Bsize); uint32(f.system.Type) == unix.HUGETLBFS_MAGIC && f.size%page != 0 {
		return fmt.Errorf("%w: %d bytes, not a multiple of the huge pages of %d", op.ErrOptions, f.size, page)
	}
	var err error
	if f.mapped, err = unix.Mmap(f.fd(), 0, int(f.size), protection, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mapping %d bytes: %w", f.size, err)
	}
	return nil
}

// allocStep is the number of bytes to allocate per call. If a signal interrupts a call, tmpfs
// undoes the call, and Go sends itself signals. So long calls might never complete.
const allocStep = 64 << 20

// allocate allocates disk blocks for the first size bytes of the file.
func (f *file) allocate(size int64) error {
	stat, err := f.stat()
	if err != nil {
		return err
	}
	missing, free := size-stat.Blocks*512, int64(f.system.Bavail)*int64(f.system.Bsize)
	// Blocks is 0 if the size is not limited. Check the free space before allocating, since
	// otherwise a disk that is too small would be filled.
	if f.system.Blocks > 0 && missing > free {
		return fmt.Errorf("%w: %d bytes wanted, %d free", unix.ENOSPC, missing, free)
	}
	for at := int64(0); at < size; at += allocStep {
		n := min(allocStep, size-at)
		if err := retry(func() error { return unix.Fallocate(f.fd(), 0, at, n) }); err != nil {
			return fmt.Errorf("allocating blocks: %w", err)
		}
	}
	f.size = size
	return nil
}

func (f *file) fillHoles(stat *unix.Stat_t, readOnly bool) error {
	switch {
	case stat.Blocks*512 >= stat.Size:
		return nil
	case !readOnly:
		return f.allocate(stat.Size)
	case f.inMemory():
		return fmt.Errorf("%w: the file has holes, %d bytes in blocks of %d; open it once for changing, which allocates them",
			ErrReadOnly, stat.Blocks*512, stat.Size)
	}
	return nil
}

// retry calls do again until no signal interrupts the call, and returns the last error.
func retry(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}
