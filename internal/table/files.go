package table

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/weftgo/weft/internal/progress"
)

// Files opens files by name. By default they are local files.
type Files interface {
	// Size returns the length of a file, or -1 if the file has no random access, like a pipe.
	Size(ctx context.Context, name string) (int64, error)
	// Open opens a file. ReadAt is called only if Size returned a length.
	Open(ctx context.Context, name string) (File, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// osFiles opens local files.
type osFiles struct{}

// Size implements Files.
func (osFiles) Size(_ context.Context, name string) (int64, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, syscall.EISDIR
	case !info.Mode().IsRegular():
		return -1, nil
	}
	return info.Size(), nil
}

// Open implements Files. For a named pipe it waits until a writer opens the pipe, or ctx ends.
func (osFiles) Open(ctx context.Context, name string) (File, error) {
	f, err := progress.Interruptible(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err // f would be a non-nil File
	}
	return f, nil
}
