package pool

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
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
func Create(path string, first *Superblock, size int64) (*Pool, error) {
	s := *first
	s.Size = uint64(max(size, 0))
	fill(&s)
	if err := s.illegal(s.Size); err != nil {
		return nil, fmt.Errorf("pool: create %s: %w: superblock: %w", path, op.ErrOptions, err)
	}
	p, err := create(path, &s)
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
}

func create(path string, s *Superblock) (*Pool, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fs.ErrExist // before the blocks are allocated; below, for good
	}
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, fmt.Sprintf(".%s.%s.tmp", base, rand.Text()))
	f, err := openFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, false)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp)
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
	if err := f.load(size); err != nil {
		return nil, err
	}
	p, err := Format(pm.New(f.mapped, nil), s)
	if err != nil {
		return nil, err
	}
	p.hold(f)
	return p, f.sync()
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
