package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/progress"
)

func newStoreBackupCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR TO",
		Short: "Copy a store to a folder, also while a program has it open",
		Long: `Backup copies the store in folder DIR to folder TO, which must be empty or not exist.
A program may have the store open and change it: the backup has every change that had returned
before, and may have later ones. The backup is a store itself.

Files that never change are not copied but linked where the file system can, so that a backup takes
little time and space. Damage to the disk under such a file damages both: to be safe from it, back
up to another disk. Backup compares the checksums of the log, but not those of the checkpoint; see
weft store check.

With --json the output is one object: folder (TO), from, holds, files and bytes.`,
		Example: `  weft store backup data/visits /mnt/backups/visits-monday
  weft store check /mnt/backups/visits-monday`,
		Args:              requireFolders("DIR", "TO"),
		ValidArgsFunction: folders(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStoreCopy(cmd.Context(), a, "backup", args[0], args[1], durable.Backup)
		},
	}
}

func newStoreRestoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Copy a backup to the folder of a store",
		Long: `Restore copies the backup in folder BACKUP to folder DIR, which must be empty or not
exist. Programs can then open DIR as the store that was backed up. The backup stays as it is. No
file is linked, so later damage to one of the two does not matter to the other.

Restore compares the checksums of the log, but not those of the checkpoint; see weft store check.

With --json the output is one object: folder (DIR), from, holds, files and bytes.`,
		Example: `  mv data/visits data/visits.damaged
  weft store restore /mnt/backups/visits-monday data/visits`,
		Args:              requireFolders("BACKUP", "DIR"),
		ValidArgsFunction: folders(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStoreCopy(cmd.Context(), a, "restore", args[0], args[1], durable.Restore)
		},
	}
}

// storeCopy is the output of weft store backup and weft store restore.
type storeCopy struct {
	Folder string `json:"folder"`
	From   string `json:"from"`
	Holds  string `json:"holds"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// runStoreCopy copies a store by calling run.
func runStoreCopy(
	ctx context.Context,
	a *app,
	verb, from, to string,
	run func(ctx context.Context, from, to string) error,
) error {
	files, _, err := inspectStore(from)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		end := a.showCopied(to, bytesOf(&files))
		err = run(ctx, from, to)
		end()
	}
	if err == nil {
		files, err = durable.Inspect(to)
	}
	if err != nil {
		return storeError(verb, from, err)
	}
	c := storeCopy{to, from, files.Holds, 1 + len(files.Segments), bytesOf(&files)}
	if files.Checkpoint.Name != "" {
		c.Files++
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(c)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s, %d files, %s\n", progress.Printable(to),
		progress.Printable(c.Holds), c.Files, binaryUnits(uint64(c.Bytes)))
	return err
}

// showCopied shows how much of a folder has been copied, until end is called.
func (a *app) showCopied(to string, total int64) (end func()) {
	bar := progress.Show(a.stderr, a.isTerminal, "copying")
	if bar == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.Tick(100 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick:
			}
			n := int64(0)
			entries, _ := os.ReadDir(to) // the copy reports errors
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					n += info.Size()
				}
			}
			bar.Set(n, total)
		}
	}()
	return func() {
		close(done)
		<-ended
		bar.Close()
	}
}
