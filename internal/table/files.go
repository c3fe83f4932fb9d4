package table

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/weftgo/weft/internal/progress"
)

// Files opens files by their names. By default they are those of this machine.
type Files interface {
	// Size returns the length of a file. It returns -1 for one without random access, such as a
	// pipe.
	Size(ctx context.Context, name string) (int64, error)
	// Open opens a file. ReadAt is called for files that have a length.
	Open(ctx context.Context, name string) (File, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// osFiles are the files of this machine.
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

// Open implements Files. A named pipe waits for its writer, or until ctx ends.
func (osFiles) Open(ctx context.Context, name string) (File, error) {
	f, err := progress.Interruptible(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err // not a File that is a nil pointer
	}
	return f, nil
}
