package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// fileSystem is the folder of a store. Tests replace it by a model that loses power.
type fileSystem interface {
	// Create makes a file that does not exist yet.
	Create(name string) (file, error)
	Open(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	List() ([]string, error)
	// SyncDir makes earlier changes of the folder durable: files created, renamed and removed.
	SyncDir() error
}

// file is an open file of a store.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Allocate reserves disk space up to size bytes, so that later writes within that size do not
	// fail on a full disk. The file grows to that size; the new bytes are zero.
	Allocate(size int64) error
	Truncate(size int64) error
	// Sync makes the content durable. After an error the content is unknown, even if a second Sync
	// succeeds.
	Sync() error
}

// osDir is a folder of the operating system.
type osDir string

func (d osDir) path(name string) string { return filepath.Join(string(d), name) }

func (d osDir) Create(name string) (file, error) {
	return wrapFile(os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666))
}

func (d osDir) Open(name string) (file, error) {
	info, err := os.Stat(d.path(name))
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		err = &fs.PathError{Op: "open", Path: d.path(name), Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return wrapFile(os.Open(d.path(name)))
}

func wrapFile(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d osDir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d osDir) Remove(name string) error { return os.Remove(d.path(name)) }

func (d osDir) List() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		if !e.IsDir() { // no folder is a file of a store, whatever its name
			names = append(names, e.Name())
		}
	}
	return names, err
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Allocate(size int64) error {
	old, err := f.Size()
	if err != nil || old >= size {
		return err
	}
	if err := allocate(f.File, old, size-old); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	zeros := make([]byte, min(size-old, 1<<20))
	for at := old; at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at); err != nil {
			return errors.Join(err, f.Truncate(old))
		}
	}
	return nil
}

// makeDir makes the folder of a store and missing folders above it, and makes their names durable.
func makeDir(dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil { // made by the caller, perhaps just now
		if err := osDir(parent).SyncDir(); !errors.Is(err, os.ErrPermission) {
			return err
		}
		return nil
	}
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return osDir(parent).SyncDir()
}
