package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/table/flags"
)

func newStoreCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Describe, check, dump, back up and compact durable stores",
		Long: `Store describes, checks, dumps, copies and compacts stores: folders in which programs
keep a map, set, multimap, ordered map, graph or table of ids by package durable. Stores need a Unix
system.

Check, dump and compact load the content on the CPU, unless --device names a GPU. Multimaps and
ordered maps are always loaded into the memory of the host.`,
		Example: `  weft store info data/visits
  weft store check data/visits
  weft store dump data/visits | head
  weft store backup data/visits /mnt/backups/visits`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := unknownCommand(cmd, args); err != nil {
				return flags.Usage("store %w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// As in the root command.
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(
		newStoreInfoCommand(a), newStoreCheckCommand(a), newStoreDumpCommand(a),
		newStoreBackupCommand(a), newStoreRestoreCommand(a), newStoreCompactCommand(a),
	)
	return cmd
}

// requireFolders requires one argument per name.
func requireFolders(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) || args[i] == "" {
				return flags.Usage("store %s: no folder %s given", cmd.Name(), name)
			}
		}
		if len(args) > len(names) {
			return flags.Usage("store %s %s: takes only %s", cmd.Name(), strings.Join(args, " "),
				strings.Join(names, " and "))
		}
		return nil
	}
}

// inspectStore describes the store in a folder. missing is an error if a file other than the
// manifest is missing. If the folder holds no store, err says what it holds.
func inspectStore(dir string) (files durable.Files, missing, err error) {
	files, err = durable.Inspect(dir)
	if err == nil || files.Holds != "" {
		return files, err, nil
	}
	if other := otherThanStore(dir); other != nil {
		return files, nil, other
	}
	switch {
	case errors.Is(err, weft.ErrCorrupt):
		err = fmt.Errorf("%w: %w", errBeyondRepair, err)
	case errors.Is(err, weft.ErrFormat):
		err = fmt.Errorf("%w: %w", errLaterFormat, err)
	}
	return files, nil, err
}

// errLaterFormat marks the manifest of a store that this program does not know.
var errLaterFormat = errors.New("a later program is needed")

// errBeyondRepair marks damage that "weft store check --repair" cannot repair.
var errBeyondRepair = errors.New("a backup is needed")

// storeFileName matches the names of the files of a store, except for LOCK and MANIFEST.
var storeFileName = regexp.MustCompile(`^(log|checkpoint)-[0-9a-f]{16}$`)

// otherThanStore returns an error that says what a path is, or nil if it is a folder with files of
// a store.
func otherThanStore(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("not a folder but %s", kindOfFile(path, info))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	manifest, other := false, ""
	for _, e := range entries {
		switch name := e.Name(); {
		case storeFileName.MatchString(name):
			return missingManifest(path)
		case name == manifestName:
			manifest = true
		case e.IsDir() && isFile(filepath.Join(path, name, manifestName)):
			return fmt.Errorf("not a store, but its folder %s may be one", name)
		default:
			other = cmp.Or(other, name)
		}
	}
	switch {
	case manifest && isManifest(filepath.Join(path, manifestName)):
		return nil
	case len(entries) == 0:
		return errors.New("not a store but an empty folder")
	case other == "":
		return fmt.Errorf("not a store: its %s is of another program", manifestName)
	}
	return fmt.Errorf("not a store but a folder of other files, such as %s", other)
}

// missingManifest returns an error if a folder with files of a store has no manifest.
func missingManifest(dir string) error {
	_, err := os.Stat(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w: %s is missing", errBeyondRepair, weft.ErrCorrupt, manifestName)
	}
	return nil
}

// manifestName is the name of the file that names the other files of a store.
const manifestName = "MANIFEST"

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isManifest reports whether a file begins like the manifest of a store.
func isManifest(path string) bool {
	return strings.Contains(string(headOf(path)), `"format": "weft store `)
}

// headOf returns the first bytes of a regular file, or nil.
func headOf(path string) []byte {
	if !isFile(path) { // opening a pipe would wait for its writer
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, 64))
	return head
}

// kindOfFile says what a path is that is no folder.
func kindOfFile(path string, info fs.FileInfo) string {
	base, dir := filepath.Base(path), filepath.Dir(path)
	named := base == manifestName || storeFileName.MatchString(base)
	head := headOf(path)
	magic := string(head[:min(len(head), binary.Size(uint64(0)))])
	switch {
	case !info.Mode().IsRegular():
		return "a special file"
	case named && isManifest(filepath.Join(dir, manifestName)):
		return "a file of the store " + dir
	case magic == "WEFTPOOL":
		return "a pool: see weft pool"
	case magic == "WEFTTAB1" || magic == "WEFTGRF1" || magic == "WEFTINT1":
		return "a saved structure, which programs load by Load"
	case len(head) == 0:
		return "an empty file"
	}
	return "a file"
}

// storeFailure is the error of a verb on a store.
type storeFailure struct {
	verb, path string
	err        error
}

func storeError(verb, path string, err error) error { return &storeFailure{verb, path, err} }

func (e *storeFailure) Unwrap() error { return e.err }

// Error returns the text without the names of package durable and its options, and adds what helps.
func (e *storeFailure) Error() string {
	text, hint := e.err.Error(), e.hint()
	if system := (*fs.PathError)(nil); errors.As(e.err, &system) && system.Path == e.path {
		text = system.Err.Error()
	}
	if errors.Is(e.err, durable.ErrLocked) {
		text = durable.ErrLocked.Error() + ": open in another process"
	}
	prefixes := []string{errBeyondRepair.Error(), errLaterFormat.Error(), "durable", e.path}
	if abs, err := filepath.Abs(e.path); err == nil {
		prefixes = append(prefixes, abs)
	}
	for _, verb := range []string{"read", "inspect", "backup", "restore"} {
		prefixes = append(prefixes, verb+" "+e.path)
	}
	for cut := true; cut; {
		cut = false
		for _, prefix := range prefixes {
			if rest, ok := strings.CutPrefix(text, prefix+": "); ok {
				text, cut = rest, true
			}
		}
	}
	return fmt.Sprintf("store %s %s: %s%s", e.verb, e.path, withoutOptions(text), hint)
}

// withoutOptions removes the name of an option of package durable from a message.
func withoutOptions(text string) string {
	return strings.ReplaceAll(text, " (Options.Repair drops them)", "")
}

// hint returns what helps against the error.
func (e *storeFailure) hint() string {
	reads, repairs := e.verb == "check" || e.verb == "dump", e.verb == repairVerb
	switch {
	case errors.Is(e.err, durable.ErrLocked) && reads:
		return "; weft store backup copies it meanwhile, and the copy can be read"
	case errors.Is(e.err, durable.ErrLocked):
		return "; end that process first"
	case errors.Is(e.err, errBeyondRepair), errors.Is(e.err, weft.ErrCorrupt) && repairs:
		return "; restore a backup"
	case errors.Is(e.err, weft.ErrCorrupt) && e.verb == "check":
		return "; restore a backup, or drop what is damaged by weft store check --repair"
	case errors.Is(e.err, weft.ErrCorrupt):
		return "; see weft store check"
	case errors.Is(e.err, errLaterFormat):
		return "; a later version of weft may read it"
	}
	return ""
}
