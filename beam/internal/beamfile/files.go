// Package beamfile implements table.Files for all file systems of Beam's package filesystem.
package beamfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/spill"
	"github.com/weftgo/weft/internal/table"
)

// Files implements table.Files. A file without random access, for example in an object store, is
// copied to a temporary file when ReadAt is first called.
type Files struct {
	TempDir string // directory of temporary files; empty: default of spill.OpenTemp
}

// List returns the names of the files that match patterns, in the order of patterns. The matches of
// one pattern are in the order of the file system. A pattern that is the name of an existing file
// matches only this file. A pattern with wildcards that matches no file is [weft.ErrOptions].
func List(ctx context.Context, patterns []string) (names []string, err error) {
	for _, pattern := range patterns {
		found, err := list(ctx, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no file given", weft.ErrOptions)
	}
	return names, nil
}

func list(ctx context.Context, pattern string) ([]string, error) {
	system, err := filesystem.New(ctx, pattern)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", weft.ErrOptions, err)
	}
	defer system.Close()
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}, nil
	}
	if r, err := system.OpenRead(ctx, pattern); err == nil {
		return []string{pattern}, r.Close()
	}
	names, err := system.List(ctx, pattern)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", pattern, err)
	case len(names) == 0:
		return nil, fmt.Errorf("%w: no file matches %q", weft.ErrOptions, pattern)
	}
	return names, nil
}

// sampled is the number of files that determine the types of text columns, by their first bytes.
// Opening a file takes some 10 ms, and one or two requests to an object store.
const sampled = 100

// Sample opens the first files, which determine columns and types, and returns how many it opened.
// One file suffices if its columns have types, because all files must have the same types.
func Sample(ctx context.Context, names []string, opts *table.Options) (*table.Table, int, error) {
	first := *opts
	first.Text, first.Number = nil, nil
	t, err := table.Open(ctx, names[:1], nil, &first)
	if err != nil {
		return nil, 0, err
	}
	if t.Typed() && len(opts.Text)+len(opts.Number) == 0 {
		return t, 1, nil
	}
	if err := t.Close(); err != nil {
		return nil, 0, err
	}
	n := min(len(names), sampled)
	t, err = table.Open(ctx, names[:n], nil, opts)
	return t, n, err
}

// Size implements table.Files.
func (Files) Size(ctx context.Context, name string) (int64, error) {
	system, err := filesystem.New(ctx, name)
	if err != nil {
		return 0, err
	}
	defer system.Close()
	r, err := system.OpenRead(ctx, name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	f, ok := r.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return system.Size(ctx, name)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, syscall.EISDIR
	case !info.Mode().IsRegular():
		return 0, errors.New("is a stream, which only one worker could read: write it to a file")
	}
	return info.Size(), nil
}

// Open implements table.Files.
func (f Files) Open(ctx context.Context, name string) (table.File, error) {
	r, err := read(ctx, name)
	if err != nil {
		return nil, err
	}
	if at, ok := r.ReadCloser.(table.File); ok {
		return at, r.system.Close()
	}
	return &stream{reader: r, copied: sync.OnceValues(func() (*os.File, error) {
		return f.copy(ctx, name)
	})}, nil
}

// Random reports whether a file has random access.
func Random(ctx context.Context, name string) (bool, error) {
	r, err := read(ctx, name)
	if err != nil {
		return false, err
	}
	_, ok := r.ReadCloser.(io.ReaderAt)
	return ok, r.Close()
}

// reader is an open file with its file system, which some readers need until they are closed.
type reader struct {
	io.ReadCloser
	system filesystem.Interface
}

func read(ctx context.Context, name string) (*reader, error) {
	system, err := filesystem.New(ctx, name)
	if err != nil {
		return nil, err
	}
	r, err := system.OpenRead(ctx, name)
	if err != nil {
		return nil, errors.Join(err, system.Close())
	}
	return &reader{r, system}, nil
}

// Close closes the file and its file system.
func (r *reader) Close() error { return errors.Join(r.ReadCloser.Close(), r.system.Close()) }

// copy copies a file to a temporary file.
func (f Files) copy(ctx context.Context, name string) (*os.File, error) {
	r, err := read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	to, _, err := spill.OpenTemp(f.TempDir)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(to, r); err != nil {
		return nil, errors.Join(fmt.Errorf("copy to a temporary file: %w", err), to.Close())
	}
	return to, nil
}

// stream is an open file without random access.
type stream struct {
	*reader
	copied func() (*os.File, error)
	used   atomic.Bool // atomic, because goroutines read columns of Parquet concurrently
}

// ReadAt implements io.ReaderAt. It reads the temporary file.
func (s *stream) ReadAt(b []byte, at int64) (int, error) {
	s.used.Store(true)
	f, err := s.copied()
	if err != nil {
		return 0, err
	}
	return f.ReadAt(b, at)
}

// Close closes the file and the temporary file.
func (s *stream) Close() error {
	err := s.reader.Close()
	if !s.used.Load() {
		return err
	}
	f, failed := s.copied()
	if failed != nil { // ReadAt has already returned this error
		return err
	}
	return errors.Join(err, f.Close())
}
