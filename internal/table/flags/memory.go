package flags

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/spill"
	"github.com/weftgo/weft/internal/table"
)

// Memory holds the flags of verbs that use a temporary file when they exceed their memory limit.
type Memory struct {
	Limit   Bytes // 0 means no limit
	TempDir string
}

// defaultMemory stands for an unset --memory until Check is called.
const defaultMemory = -1

// Add adds the flags to a flag set.
func (f *Memory) Add(flags *pflag.FlagSet) {
	f.Limit = defaultMemory
	flags.Var(&f.Limit, "memory",
		"memory limit, such as 8GiB; more goes to a temporary file; 0: none; default: half of all")
	flags.Lookup("memory").DefValue = "" // depends on the machine
	flags.StringVar(&f.TempDir, "temp-dir", "",
		"directory of the temporary file; default: $TMPDIR, or /var/tmp")
}

// Check sets the default of --memory. It returns an error if the limit is too low, or if no file
// can be created in --temp-dir. It runs before anything is read.
//
// A directory in memory is an error, too. A file there would take memory that weft could use
// directly with a higher --memory.
func (f *Memory) Check(verb string) error {
	if f.Limit == defaultMemory {
		if f.Limit = Bytes(hostmem.Limit() / 2); f.Limit > 0 {
			f.Limit = max(f.Limit, group.MinMemory)
		}
	}
	if f.Limit > 0 && f.Limit < group.MinMemory {
		return Usage(
			"%s: --memory %d: want at least %d bytes, or 0 for no limit",
			verb,
			f.Limit,
			group.MinMemory,
		)
	}
	if f.TempDir == "" { // errors of the default directory are reported when it is used
		return nil
	}
	file, err := spill.Create(f.TempDir, nil)
	if err == nil {
		err = file.Close()
	}
	switch {
	case errors.Is(err, weft.ErrOptions):
		return Usage("%s: --temp-dir %s is in memory, so a file there saves none; "+
			"name a directory on a disk, or raise --memory", verb, f.TempDir)
	case err != nil:
		return Usage("%s: --temp-dir %s: %w", verb, f.TempDir, Reason(err))
	}
	return nil
}

// Reason removes the operation and the path from a file error, because the caller adds the name.
func Reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

const (
	// Readers of text take 1/readerShare of --memory.
	readerShare = 4

	// blocksOfCore is the number of blocks in memory per core. It includes blocks that Go's garbage
	// collector has not freed yet: 20 were seen on two cores.
	blocksOfCore = 10

	minBlock, maxBlock = 256 << 10, 8 << 20
)

// Apply sets the memory limits in the options for reading files.
func (f *Memory) Apply(o *table.Options) {
	o.MaxBytes, o.TempDir = int64(f.Limit), f.TempDir
	if f.Limit > 0 {
		o.BlockSize, o.Memory = f.blockSize(), int64(f.Limit)/readerShare
	}
}

// blockSize returns the size of a block of text, so that all blocks fit into readerShare.
func (f *Memory) blockSize() int {
	size := int64(f.Limit) / readerShare / int64(blocksOfCore*runtime.GOMAXPROCS(0))
	return int(max(minBlock, min(size, maxBlock)))
}

// Remaining returns the part of --memory that readers do not take.
func (f *Memory) Remaining() int64 {
	return int64(f.Limit) - int64(f.blockSize()*blocksOfCore*runtime.GOMAXPROCS(0))
}

// names maps the names of options in error texts to flags.
var names = strings.NewReplacer("Options.Memory", "--memory", "Options.TempDir", "--temp-dir",
	"set Memory ", "set --memory ", "set TempDir ", "set --temp-dir ")

// Named returns an error with a text that names flags instead of options.
func Named(err error) error { return named{err} }

type named struct{ error }

func (e named) Error() string { return names.Replace(e.error.Error()) }
func (e named) Unwrap() error { return e.error }
