// Package atomicfile writes files that get their names once they are complete.
//
// Until then an existing file keeps its name, and a failed write leaves no trace. Devices, pipes
// and descriptors such as /dev/stdout have no content to keep, so they are written directly.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file under construction. The caller ends it with Commit or Abort.
type File struct {
	*os.File
	target string      // final name; empty if the file is written directly
	old    fs.FileInfo // existing file with that name; nil if none
	temp   string      // name until Commit; empty if none
	ended  bool
}

// Create begins a file that Commit gives the given name. It follows symbolic links, even to a
// target that does not exist, and creates the temporary file in the folder of the target. If name
// is a named pipe, Create waits for a reader.
func Create(name string) (*File, error) {
	target, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	if n, ok := descriptor(target); ok {
		file, err := openDescriptor(n, target)
		return &File{File: file}, err
	}
	info, err := os.Stat(target)
	f := &File{target: target}
	mode := fs.FileMode(0o666)
	switch {
	case target == "":
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		// Do not replace a file without write permission, even if the folder would allow it.
		direct, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return &File{File: direct}, nil
		}
		if err := direct.Close(); err != nil {
			return nil, err
		}
		if err := replaceable(target, info, os.Geteuid()); err != nil {
			return nil, err
		}
		f.old, mode = info, info.Mode().Perm()
	}
	f.File, f.temp, err = temporary(target, mode)
	return f, err
}

// WriteFile writes content to a file and commits it.
func WriteFile(name string, content []byte) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Commit()
}

// Commit gives the file its final name. The file also gets the mode of the file that it replaces
// and, if the system allows it, the owner. Commit syncs the content first. Otherwise the rename
// could reach the disk before the content, and a power failure would leave neither the old content
// nor the new.
func (f *File) Commit() (err error) {
	if f.target == "" {
		f.ended = true
		return f.Close()
	}
	defer f.Abort()
	if f.old != nil {
		if err := f.resemble(f.old); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if f.temp == "" {
		temp := tempName(f.target)
		if err := linkTemporary(f.File, temp); err != nil {
			return err
		}
		f.temp = temp
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.temp, f.target); err != nil {
		return err
	}
	f.ended = true
	return nil
}

// Abort drops the file. It does nothing after Commit or another Abort.
func (f *File) Abort() {
	if f.ended {
		return
	}
	f.ended = true
	f.Close() // may be closed already by Commit
	if f.temp != "" {
		os.Remove(f.temp)
	}
}

// resemble sets the owner and the mode of f to those of another file.
func (f *File) resemble(old fs.FileInfo) error {
	keepOwner(f.File, old)
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() == old.Mode().Perm() {
		return err
	}
	return f.Chmod(old.Mode().Perm())
}

// maxLinks is the maximum length of a chain of symbolic links, as in Linux.
const maxLinks = 40

// Resolve returns the name at the end of a chain of symbolic links, whether or not a file of that
// name exists. It stops at a descriptor such as /dev/fd/1, since the file of a descriptor is
// already open.
func Resolve(name string) (string, error) {
	for range maxLinks {
		if _, ok := descriptor(name); ok {
			return name, nil
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		to, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = folder(name) + to
		}
		name = to
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}

// IsDescriptor reports whether name refers to a descriptor of this process, as /dev/fd/1 does.
func IsDescriptor(name string) bool {
	_, ok := descriptor(name)
	return ok
}

// folder returns the part of name before its last element. Unlike filepath.Dir it does not clean
// the path, because link/.. need not be the folder that contains link.
func folder(name string) string {
	dir, _ := filepath.Split(name)
	return dir
}

func tempName(target string) string {
	return fmt.Sprintf("%s.weft-%016x", folder(target), rand.Uint64())
}

func visible(target string, mode fs.FileMode) (*os.File, string, error) {
	name := tempName(target)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	// the error concerns the folder, not target
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return nil, "", fmt.Errorf("make a file in %s: %w", cmp.Or(folder(target), "."), path.Err)
	}
	return f, name, err
}
