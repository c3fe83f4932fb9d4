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

// Memory holds the flags of verbs that continue in a temporary file when their memory is used up.
type Memory struct {
	Limit   Bytes // 0: no limit
	TempDir string
}

// defaultMemory is the value of a missing --memory, until Check.
const defaultMemory = -1

// Add adds the flags.
func (f *Memory) Add(flags *pflag.FlagSet) {
	f.Limit = defaultMemory
	flags.Var(&f.Limit, "memory",
		"memory limit, such as 8GiB; more goes to a temporary file; 0: none; default: half of all")
	flags.Lookup("memory").DefValue = "" // it differs by machine
	flags.StringVar(&f.TempDir, "temp-dir", "",
		"directory of the temporary file; default: $TMPDIR, or /var/tmp")
}

// Check sets the default of --memory, and refuses limits that are too low and directories that take
// no file. At that time nothing has been read.
//
// A file cannot be forced into a directory in memory. It would take the memory that --memory leaves
// free, and a higher --memory uses that without the detour.
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
	if f.TempDir == "" { // the default fails when it is needed
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

// Reason strips the operation and path from an error of a file, which the caller names.
func Reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

const (
	// readerShare is the part of --memory that readers of text take.
	readerShare = 4

	// blocksOfCore is the number of blocks in memory for each core that reads, including those that
	// the collector has not freed yet: 20 were seen on two cores.
	blocksOfCore = 10

	minBlock, maxBlock = 256 << 10, 8 << 20
)

// Apply bounds the memory of reading files.
func (f *Memory) Apply(o *table.Options) {
	o.MaxBytes, o.TempDir = int64(f.Limit), f.TempDir
	if f.Limit > 0 {
		o.BlockSize, o.Memory = f.blockSize(), int64(f.Limit)/readerShare
	}
}

// blockSize returns the bytes of text to read at a time, within --memory.
func (f *Memory) blockSize() int {
	size := int64(f.Limit) / readerShare / int64(blocksOfCore*runtime.GOMAXPROCS(0))
	return int(max(minBlock, min(size, maxBlock)))
}

// Remaining returns the memory that readers leave of --memory.
func (f *Memory) Remaining() int64 {
	return int64(f.Limit) - int64(f.blockSize()*blocksOfCore*runtime.GOMAXPROCS(0))
}

// names replaces the options of packages by flags.
var names = strings.NewReplacer("Options.Memory", "--memory", "Options.TempDir", "--temp-dir",
	"set Memory ", "set --memory ", "set TempDir ", "set --temp-dir ")

// Named returns an error whose text names flags instead of the options of packages.
func Named(err error) error { return named{err} }

type named struct{ error }

func (e named) Error() string { return names.Replace(e.error.Error()) }
func (e named) Unwrap() error { return e.error }
