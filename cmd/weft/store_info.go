package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/progress"
)

func newStoreInfoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info DIR",
		Short: "Describe a store as it is: open, damaged or whole",
		Long: `Info prints what a store holds and which files it has. It reads MANIFEST and the
lengths of the other files, takes no lock, and writes nothing. A program may have the store open.

A checkpoint has the content of an earlier moment, and the log the changes since. The last file of
an open store's log is larger than its content, because space for later changes is reserved.

With --json the output is one object: folder, holds (in words), kind (map, set, multimap, ordered
map, graph, table graph or ids), key and value (types; vertices and weights of a graph), ordered
(batches run in order), directed, self_loops and parallel_edges (of graphs), checkpoint_rows,
next_id (of Assign, at the checkpoint), bytes (of all files), checkpoint (name and bytes, if there
is one), log (name and bytes of each file, the oldest first), and error if a file is missing.

Exit status: 0 all files are there; 1 they are not, or the folder holds no store; 2 wrong usage.`,
		Example: `  weft store info data/visits
  weft store info --json data/visits`,
		Args:              requireFolders("DIR"),
		ValidArgsFunction: folders(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runStoreInfo(a, args[0])
		},
	}
}

// storeInfo is the output of weft store info.
type storeInfo struct {
	Folder         string      `json:"folder"`
	Holds          string      `json:"holds"`
	Kind           string      `json:"kind"`
	Key            string      `json:"key,omitempty"`
	Value          string      `json:"value,omitempty"`
	Ordered        bool        `json:"ordered"`
	Directed       bool        `json:"directed,omitempty"`
	SelfLoops      bool        `json:"self_loops,omitempty"`
	ParallelEdges  bool        `json:"parallel_edges,omitempty"`
	CheckpointRows int         `json:"checkpoint_rows"`
	NextID         uint64      `json:"next_id,omitempty"`
	Bytes          int64       `json:"bytes"`
	Checkpoint     *storeFile  `json:"checkpoint,omitempty"`
	Log            []storeFile `json:"log"`
	Error          string      `json:"error,omitempty"`
}

type storeFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func runStoreInfo(a *app, dir string) error {
	files, missing, err := inspectStore(dir)
	if err != nil {
		return storeError("info", dir, err)
	}
	if missing != nil {
		missing = storeError("info", dir, missing)
	}
	d := describeStore(dir, &files, missing)
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(d)
	} else {
		err = d.write(a.stdout)
	}
	if err == nil {
		err = missing
	}
	return err
}

func describeStore(dir string, f *durable.Files, missing error) *storeInfo {
	d := &storeInfo{
		Folder: dir, Holds: f.Holds, Kind: f.Kind, Key: f.Key, Value: f.Value, Ordered: f.Ordered,
		Directed: f.Directed, SelfLoops: f.SelfLoops, ParallelEdges: f.ParallelEdges,
		CheckpointRows: f.Rows, NextID: f.NextID, Bytes: bytesOf(f), Log: []storeFile{},
	}
	if f.Checkpoint.Name != "" {
		d.Checkpoint = &storeFile{f.Checkpoint.Name, f.Checkpoint.Bytes}
	}
	for _, s := range f.Segments {
		d.Log = append(d.Log, storeFile{s.Name, s.Bytes})
	}
	if missing != nil {
		d.Error = missing.Error()
	}
	return d
}

// bytesOf returns the length of all files of a store.
func bytesOf(f *durable.Files) int64 {
	n := f.Checkpoint.Bytes
	for _, s := range f.Segments {
		n += s.Bytes
	}
	return n
}

func (d *storeInfo) write(w io.Writer) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fact("folder", "%s", progress.Printable(d.Folder))
	fact("holds", "%s", progress.Printable(d.Holds))
	fact("size", "%s (%d bytes)", binaryUnits(uint64(d.Bytes)), d.Bytes)
	if c := d.Checkpoint; c != nil {
		fact("checkpoint", "%s, %s, %s", c.Name, binaryUnits(uint64(c.Bytes)),
			counted(d.CheckpointRows, "row"))
	} else {
		fact("checkpoint", "none")
	}
	for _, s := range d.Log {
		fact("log", "%s, %s", s.Name, binaryUnits(uint64(s.Bytes)))
	}
	if d.NextID > 0 {
		fact("next id", "%d at the checkpoint", d.NextID)
	}
	t.Flush() // writes to memory and cannot fail
	_, err := io.WriteString(w, text.String())
	return err
}
