package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/spill"
)

// memoryFlags are those of verbs that go on in a temporary file when their memory is used up.
type memoryFlags struct {
	memory  byteSize // 0: no limit
	tempDir string
}

// defaultMemory stands for a --memory that is not given, until check.
const defaultMemory = -1

func (f *memoryFlags) add(flags *pflag.FlagSet) {
	f.memory = defaultMemory
	flags.Var(&f.memory, "memory",
		"memory for what is kept, such as 8GiB; the rest goes to a temporary file; 0: no limit; "+
			"default: half of what the machine or its cgroup has")
	flags.Lookup("memory").DefValue = "" // which differs by machine
	flags.StringVar(&f.tempDir, "temp-dir", "",
		"directory of the temporary file, on a disk; default: $TMPDIR, or /var/tmp")
}

// check finds the default of --memory, and refuses limits that are too low and directories that
// take no file: nothing has been read then.
//
// There is no way to force a file into a directory in memory. It would take the memory that
// --memory leaves free, and a higher --memory uses that without the detour.
func (f *memoryFlags) check(verb string) error {
	if f.memory == defaultMemory {
		if f.memory = byteSize(hostmem.Limit() / 2); f.memory > 0 {
			f.memory = max(f.memory, group.MinMemory)
		}
	}
	if f.memory > 0 && f.memory < group.MinMemory {
		return usageError{fmt.Errorf("%s: --memory %d: want at least %d bytes, or 0 for no limit",
			verb, f.memory, group.MinMemory)}
	}
	if f.tempDir == "" { // the default fails when it is needed
		return nil
	}
	file, err := spill.Create(f.tempDir, nil)
	if err == nil {
		err = file.Close()
	}
	switch {
	case errors.Is(err, weft.ErrOptions):
		return usageError{fmt.Errorf("%s: --temp-dir %s is in memory, so a file there saves none; "+
			"name a directory on a disk, or raise --memory", verb, f.tempDir)}
	case err != nil:
		return usageError{fmt.Errorf("%s: --temp-dir %s: %w", verb, f.tempDir, reason(err))}
	}
	return nil
}

// flagNames replaces the options of packages by flags.
var flagNames = strings.NewReplacer("Options.Memory", "--memory", "Options.TempDir", "--temp-dir",
	"set Memory ", "set --memory ", "set TempDir ", "set --temp-dir ")

// flagError is an error whose text names flags.
type flagError struct{ error }

func (e flagError) Error() string { return flagNames.Replace(e.error.Error()) }
func (e flagError) Unwrap() error { return e.error }
