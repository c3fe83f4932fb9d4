package spill

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weftgo/weft/internal/op"
)

// Disk is the file that holds the blocks. *os.File implements it. Tests wrap it in a [Faulty].
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	io.Closer
}

// OpenTemp makes a temporary file in a directory, as Create does. If no directory on a disk accepts
// a file, it makes a file in memory and sets inMemory.
func OpenTemp(dir string) (f *os.File, inMemory bool, err error) {
	if f, _, err = openDisk(dir, false); err != nil {
		inMemory = true
		f, _, err = openDisk(dir, true)
	}
	return f, inMemory, err
}

// openDisk makes a temporary file in dir or a default directory, and returns that directory.
func openDisk(dir string, allowMemory bool) (*os.File, string, error) {
	candidates := []string{dir}
	if dir == "" {
		candidates = defaultDirs()
	}
	var err error
	for _, dir := range candidates {
		if !allowMemory && inMemory(dir) {
			err = fmt.Errorf(
				"spill: %w: the directory %s is in memory; set TempDir to a directory on a disk",
				op.ErrOptions, dir)
			continue
		}
		f, openErr := temporary(dir)
		if openErr == nil {
			return f, dir, nil
		}
		err = fmt.Errorf("spill: make a temporary file in %s: %w; set TempDir to another directory",
			dir, openErr)
	}
	return nil, "", err
}

// tempName returns a random file name in a directory.
func tempName(dir string) string {
	return filepath.Join(dir, fmt.Sprintf(".weft-spill-%016x", rand.Uint64()))
}
