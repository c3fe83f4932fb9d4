package pool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// Create creates a pool of size bytes, a multiple of [Page], and opens it. The superblock of the
// pool is a copy of first. If first has no UUID, time, tool or seed, Create chooses them. It
// ignores the Size, Generation, Clean, Boot and UncleanOpens of first.
//
// The file gets its name once it is complete, with all blocks allocated and both superblocks on the
// disk. Only the owner of the file has access. If the process is killed earlier, nothing remains.
// On file systems without nameless files, such as network file systems, a file .NAME.*.tmp may
// remain until the next Create of that name. Create returns weft's ErrOptions, fs.ErrExist, and
// errors of the system, such as unix.ENOSPC if the file system is full. It never replaces a file or
// a link.
//
// On a device of persistent memory (devdax) the pool takes the whole device. Create then provides
// PMem or returns [ErrNotDurable]. If the device already contains a pool, Create returns
// fs.ErrExist.
func Create(path string, first *Superblock, size int64) (*Pool, error) {
	return CreateWith(path, first, size, Requirements{})
}

// CreateWith creates a pool that meets requirements. It returns [ErrNotDurable] with the condition
// of [PMem] that is not met. See [Create].
func CreateWith(path string, first *Superblock, size int64, req Requirements) (*Pool, error) {
	s := *first
	s.Size = uint64(max(size, 0))
	setDefaults(&s)
	if err := s.validate(s.Size); err != nil {
		return nil, fmt.Errorf("pool: create %s: %w: superblock: %w", path, op.ErrOptions, err)
	}
	p, err := create(path, &s, req)
	if err != nil {
		return nil, fmt.Errorf("pool: create %s: %w", path, err)
	}
	return p, nil
}

func setDefaults(s *Superblock) {
	if s.UUID == [16]byte{} {
		rand.Read(s.UUID[:])
		s.UUID[6], s.UUID[8] = s.UUID[6]&0x0f|0x40, s.UUID[8]&0x3f|0x80 // version 4, RFC 9562
	}
	if s.Geometry.Seed == [2]uint64{} {
		var seed [16]byte
		rand.Read(seed[:])
		s.Geometry.Seed = [2]uint64{binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])}
	}
	if s.Created.IsZero() {
		s.Created = time.Now().UTC()
	}
	if s.Tool == "" {
		info, _ := debug.ReadBuildInfo()
		s.Tool = toolVersion(info)
	}
}

func create(path string, s *Superblock, req Requirements) (*Pool, error) {
	switch stat, err := os.Lstat(path); {
	case err == nil && stat.Mode()&fs.ModeCharDevice != 0:
		return createOnDevice(path, s, req)
	case err == nil:
		return nil, fs.ErrExist // detected before blocks are allocated; link detects it later
	}
	p, err := createUnnamed(path, s, req)
	if errors.Is(err, errNeedsName) {
		p, err = createNamed(path, s, req)
	}
	return p, err
}

// errNeedsName reports that the file system cannot create nameless files, or cannot name such files
// later.
var errNeedsName = errors.New("a file needs a name from the beginning")

// beforeLink runs when a pool is complete except for its name. Tests replace it.
var beforeLink = func() {}

// useUnnamed enables nameless files. Tests turn it off.
var useUnnamed = true

// createUnnamed creates a pool in a nameless file and links the file when the pool is complete
// (O_TMPFILE, open(2)).
func createUnnamed(path string, s *Superblock, req Requirements) (*Pool, error) {
	if !useUnnamed {
		return nil, errNeedsName
	}
	f, err := openFile(filepath.Dir(path)+"/.", unix.O_RDWR|unix.O_TMPFILE, false, req)
	if err != nil {
		if errors.Is(err, ErrNotDurable) {
			return nil, err
		}
		return nil, errNeedsName // other errors occur again with a named file
	}
	self := fmt.Sprintf("/proc/self/fd/%d", f.fd())
	if _, err := os.Lstat(self); err != nil {
		f.close()
		return nil, errNeedsName
	}
	return f.formatAndLink(s, path, func() error {
		err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EEXIST):
			return &os.LinkError{Op: "link", Old: self, New: path, Err: err}
		}
		return fmt.Errorf("%w: %w", errNeedsName, err)
	})
}

// createNamed creates a pool in a temporary file with another name.
func createNamed(path string, s *Superblock, req Requirements) (*Pool, error) {
	removeStale(path)
	f, temp, err := openTemporary(path, req)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp)
	return f.formatAndLink(s, path, func() error { return os.Link(temp, path) })
}

// openTemporary creates a hidden file in the folder of path. A concurrent removeStale may remove
// the file before it is locked; then openTemporary retries.
func openTemporary(path string, req Requirements) (f *file, temp string, err error) {
	dir, base := filepath.Split(path)
	for range 100 {
		temp = filepath.Join(dir, "."+base+"."+rand.Text()+".tmp")
		f, err = openFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, false, req)
		if errors.Is(err, ErrLocked) {
			continue
		}
		if err != nil {
			os.Remove(temp)
			return nil, "", err
		}
		stat, err := f.stat()
		if err == nil && stat.Nlink > 0 {
			return f, temp, nil
		}
		f.close()
	}
	return nil, "", fmt.Errorf("%s is removed again and again: %w", temp, err)
}

// removeStale removes temporary files of processes that were killed while they created path. Files
// of running processes are locked and stay.
func removeStale(path string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // creating the file returns the error
	}
	for _, e := range entries {
		random, hidden := strings.CutPrefix(e.Name(), "."+base+".")
		random, temporary := strings.CutSuffix(random, ".tmp")
		if !hidden || !temporary || len(random) != len(rand.Text()) || !e.Type().IsRegular() {
			continue
		}
		temp := filepath.Join(dir, e.Name())
		f, err := openPath(temp, unix.O_RDWR)
		if err != nil {
			continue
		}
		if l := (&file{f: f}); l.lock() == nil {
			os.Remove(temp)
			l.close()
		} else {
			f.Close()
		}
	}
}

// formatAndLink writes a pool to an empty file and then calls link, which gives the file its name
// path. The caller uses a link for that, since a rename could replace an existing file.
func (f *file) formatAndLink(s *Superblock, path string, link func() error) (*Pool, error) {
	p, err := f.format(s)
	if err == nil {
		beforeLink()
		err = link()
	}
	if err == nil {
		if err = syncDir(filepath.Dir(path)); err != nil {
			os.Remove(path)
		}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return p, nil
}

func (f *file) format(s *Superblock) (*Pool, error) {
	size := int64(s.Size)
	if err := f.allocate(size); err != nil {
		return nil, err
	}
	if err := f.sync(); err != nil {
		return nil, err
	}
	if err := f.mapFile(); err != nil {
		return nil, err
	}
	p, err := Format(f.memory(), s)
	if err != nil {
		return nil, err
	}
	p.attach(f)
	return p, f.sync()
}

// Remove deletes the file of a pool. On a device it erases both superblocks instead.
func Remove(path string) error {
	stat, err := os.Lstat(path)
	if err != nil || stat.Mode()&fs.ModeCharDevice == 0 {
		return os.Remove(path)
	}
	f, err := openFile(path, unix.O_RDWR, false, Requirements{Asserted: Assertions{Persistent: true}})
	if err != nil {
		return fmt.Errorf("pool: remove %s: %w", path, err)
	}
	defer f.close()
	if err := f.mapFile(); err != nil {
		return fmt.Errorf("pool: remove %s: %w", path, err)
	}
	erase(f.memory(), &Superblock{})
	return nil
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
