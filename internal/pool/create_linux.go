package pool

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// Create makes a pool of size bytes, a multiple of [Page], and opens it. Of first, a
// zero UUID, time or seed is filled in, and Size, Generation, Clean and UncleanOpens
// are set.
//
// The file appears under its name once it is complete, with all its blocks allocated
// and its superblocks on the disk; it is for its owner alone. If the process is killed
// before, a file .NAME.*.tmp may stay beside it. Errors: weft's ErrOptions, fs.ErrExist
// (nothing is ever replaced, a link neither), and what the system says: unix.ENOSPC of
// a full file system.
//
// On a device of persistent memory (devdax) the pool takes all that there is, and PMem is
// granted, or [ErrNotDurable] returned; where there is a pool already, fs.ErrExist.
func Create(path string, first *Superblock, size int64) (*Pool, error) {
	return CreateOn(path, first, size, Terms{})
}

// CreateOn is Create on some terms. Error: [ErrNotDurable], with the condition of [PMem]
// that is not met.
func CreateOn(path string, first *Superblock, size int64, terms Terms) (*Pool, error) {
	s := *first
	s.Size = uint64(max(size, 0))
	fill(&s)
	if err := s.illegal(s.Size); err != nil {
		return nil, fmt.Errorf("pool: create %s: %w: superblock: %w", path, op.ErrOptions, err)
	}
	p, err := create(path, &s, terms)
	if err != nil {
		return nil, fmt.Errorf("pool: create %s: %w", path, err)
	}
	return p, nil
}

// fill draws what tells pools apart, unless the caller has.
func fill(s *Superblock) {
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
		s.Tool = tool(info)
	}
}

func create(path string, s *Superblock, terms Terms) (*Pool, error) {
	switch stat, err := os.Lstat(path); {
	case err == nil && stat.Mode()&fs.ModeCharDevice != 0:
		return createOnDevice(path, s, terms)
	case err == nil:
		return nil, fs.ErrExist // before the blocks are allocated; below, for good
	}
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, fmt.Sprintf(".%s.%s.tmp", base, rand.Text()))
	defer os.Remove(temp)
	f, err := openFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, false, terms)
	if err != nil {
		return nil, err
	}
	p, err := f.format(s)
	if err == nil {
		err = publish(temp, path)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return p, nil
}

// format makes a pool of an empty file.
func (f *file) format(s *Superblock) (*Pool, error) {
	size := int64(s.Size)
	if err := f.allocate(size); err != nil {
		return nil, err
	}
	if err := f.sync(); err != nil {
		return nil, err
	}
	if err := f.load(); err != nil {
		return nil, err
	}
	p, err := Format(f.memory(), s)
	if err != nil {
		return nil, err
	}
	p.hold(f)
	return p, f.sync()
}

// Remove undoes Create: a file goes, of a device the superblocks do.
func Remove(path string) error {
	stat, err := os.Lstat(path)
	if err != nil || stat.Mode()&fs.ModeCharDevice == 0 {
		return os.Remove(path)
	}
	f, err := openFile(path, unix.O_RDWR, false, Terms{Said: Asserted{Persistent: true}})
	if err != nil {
		return fmt.Errorf("pool: remove %s: %w", path, err)
	}
	defer f.close()
	if err := f.load(); err != nil {
		return fmt.Errorf("pool: remove %s: %w", path, err)
	}
	erase(f.memory(), &Superblock{})
	return nil
}

// publish gives a file its name. A link, unlike a rename, never replaces what has come
// to be there.
func publish(temp, path string) error {
	if err := os.Link(temp, path); err != nil {
		return err
	}
	err := syncDir(filepath.Dir(path))
	if err != nil {
		os.Remove(path)
	}
	return err
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
