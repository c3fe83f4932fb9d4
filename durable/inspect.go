package durable

import (
	"fmt"
	"path/filepath"

	"github.com/weftgo/weft/internal/core"
)

// Files describes the files of a store.
type Files struct {
	// Holds says in words what the store holds, such as "a map of uint64 and uint32".
	Holds string
	// Kind is "map", "set", "multimap", "ordered map", "graph", "table graph" (package slab) or
	// "ids" (package intern).
	Kind string
	// Key and Value are types, such as "uint64" or "float32". For a graph they are the types of
	// vertices and of weights. Value is empty if there are none.
	Key, Value string
	// Ordered reports that batches run in order, and not by the option Unordered. The others are
	// options of graphs.
	Ordered, Directed, SelfLoops, ParallelEdges bool

	Rows       int    // pairs, arcs or keys in the checkpoint
	Checkpoint File   // without a name: there is none yet
	Segments   []File // of the log, the oldest first
	NextID     uint64 // next id of Assign when the checkpoint began
}

// File is a file of a store. Bytes is its length, which for the last segment includes space that is
// reserved for later changes.
type File struct {
	Name  string
	Bytes int64
}

// Inspect describes the store in folder dir. It reads the manifest and the lengths of the files,
// and takes no lock. The store may be open elsewhere.
func Inspect(dir string) (Files, error) {
	f, err := inspect(osDir(filepath.Clean(dir)))
	if err != nil {
		return f, fmt.Errorf("durable: inspect %s: %w", dir, err)
	}
	return f, nil
}

func inspect(fs fileSystem) (f Files, err error) {
	err = withManifest(fs, func(text []byte) error {
		f, err = inspectFiles(fs, text)
		return err
	})
	return f, err
}

// inspectFiles describes the files that the text of a manifest names.
func inspectFiles(fs fileSystem, text []byte) (f Files, err error) {
	m, err := decodeManifest(text)
	if err != nil {
		return f, err
	}
	s, err := decodeShape(m.Shape)
	if err != nil {
		return f, err
	}
	f = Files{Holds: m.Holds, Kind: kindName(s.Kind), Rows: m.Pairs, NextID: m.NextID}
	if s.Types.Key.Bits > 0 {
		f.Key = s.Types.Key.String()
	}
	if s.Types.Val.Bits > 0 {
		f.Value = s.Types.Val.String()
	}
	f.Ordered, f.Directed = s.Flags&core.Ordered != 0, s.Flags&core.Directed != 0
	f.SelfLoops, f.ParallelEdges = s.Flags&core.SelfLoops != 0, s.Flags&core.ParallelEdges != 0
	if m.Checkpoint > 0 {
		if f.Checkpoint, err = lengthOf(fs, checkpointName(m.Checkpoint)); err != nil {
			return f, err
		}
	}
	l, err := list(fs)
	if err != nil {
		return f, err
	}
	segments, err := m.segments(l)
	for _, n := range segments {
		file, err := lengthOf(fs, segmentName(n))
		if err != nil {
			return f, err
		}
		f.Segments = append(f.Segments, file)
	}
	return f, err
}

func kindName(kind uint8) string {
	switch kind {
	case core.RowGraph:
		return "graph"
	case core.TableGraph:
		return "table graph"
	case core.ItemIDs:
		return "ids"
	}
	return core.Kind(kind).String()
}

func lengthOf(fs fileSystem, name string) (File, error) {
	f, err := fs.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	n, err := f.Size()
	return File{name, n}, err
}
