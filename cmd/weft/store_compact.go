package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/progress"
)

func newStoreCompactCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "compact DIR",
		Short: "Replace the log of a store by a checkpoint",
		Long: `Compact makes a store small and quick to open: it loads the content, writes it to a
new checkpoint, and removes the old checkpoint and the log. No program may have the store open. The
content must fit in memory, and the old and the new files together on the disk. If compact ends
early, the store keeps its content.

With --json the output is one object: folder, holds, rows, bytes_before and bytes_after (of all
files).`,
		Example:           `  weft store compact data/visits`,
		Args:              requireFolders("DIR"),
		ValidArgsFunction: folders(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := runStoreCompact(cmd.Context(), a, args[0]); err != nil {
				return storeError("compact", args[0], err)
			}
			return nil
		},
	}
}

// storeCompacted is the output of weft store compact.
type storeCompacted struct {
	Folder string `json:"folder"`
	Holds  string `json:"holds"`
	Rows   int    `json:"rows"`
	Before int64  `json:"bytes_before"`
	After  int64  `json:"bytes_after"`
}

func runStoreCompact(ctx context.Context, a *app, dir string) error {
	c := storeCompacted{Folder: dir}
	err := a.loadStore(ctx, dir, "compacting", &durable.Options{}, func(l *loadedStore) error {
		c.Holds, c.Rows, c.Before = l.files.Holds, l.logged().Len(), bytesOf(&l.files)
		return durable.Checkpoint(ctx, l.stored)
	})
	var files durable.Files
	if err == nil {
		files, err = durable.Inspect(dir)
	}
	if err != nil {
		return err
	}
	if c.After = bytesOf(&files); a.json {
		return json.NewEncoder(a.stdout).Encode(c)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s before, %s after, %s\n", progress.Printable(dir),
		binaryUnits(uint64(c.Before)), binaryUnits(uint64(c.After)), counted(c.Rows, "row"))
	return err
}
