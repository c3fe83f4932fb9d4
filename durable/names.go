package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Names of the files of a store. A name that ends with tempSuffix belongs to an incomplete file.
const (
	lockName     = "LOCK"
	manifestName = "MANIFEST"
	tempSuffix   = ".tmp"
)

func checkpointName(number uint64) string { return fmt.Sprintf("checkpoint-%016x", number) }

// listing is the list of the store's files in a folder.
type listing struct {
	manifest              bool
	segments, checkpoints []uint64 // numbers of the files, ascending
	temporary             []string
}

// list lists the files of a store in a folder. It ignores other files.
func list(from fileSystem) (l listing, err error) {
	names, err := from.List()
	for _, name := range names {
		switch {
		case name == manifestName:
			l.manifest = true
		case name == manifestName+tempSuffix:
			l.temporary = append(l.temporary, name)
		default:
			l.add(name)
		}
	}
	slices.Sort(l.segments)
	slices.Sort(l.checkpoints)
	return l, err
}

// add adds a file to the listing if name is the name of a segment or of a checkpoint.
func (l *listing) add(name string) {
	whole, incomplete := strings.CutSuffix(name, tempSuffix)
	segment, isSegment := number(whole, "log-")
	checkpoint, isCheckpoint := number(whole, "checkpoint-")
	switch {
	case incomplete && (isSegment || isCheckpoint):
		l.temporary = append(l.temporary, name)
	case isSegment:
		l.segments = append(l.segments, segment)
	case isCheckpoint:
		l.checkpoints = append(l.checkpoints, checkpoint)
	}
}

// number returns the number that follows prefix in a file name, and whether name has this form.
func number(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && digits == strings.ToLower(digits)
}

// mustNotExist returns an error if the named file exists, since segment numbers are used only once.
func mustNotExist(from fileSystem, name string) error {
	f, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}, f.Close())
	}
	return err
}

func removeIfExists(from fileSystem, name string) error {
	if err := from.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
