package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/progress"
)

// repairVerb is the name of weft store check --repair in errors.
const repairVerb = "check --repair"

func newStoreCheckCommand(a *app) *cobra.Command {
	repair := false
	cmd := &cobra.Command{
		Use:   "check [flags] DIR",
		Short: "Check a store, and repair it if asked to",
		Long: `Check verifies a store: it loads the checkpoint, replays the log, compares all
checksums, and checks the structure in memory. The store stays as it is. Other readers may use it
meanwhile, and no program may have it open. The content must fit in memory.

A crash causes no damage. Changes that had not returned may be torn; check reports and ignores them.
Everything else is damage. --repair opens the store, drops what is damaged, and closes it: in a log,
the first damaged change and all later ones; in a checkpoint, the rows after the damage. It cannot
repair a store without its MANIFEST or the first file of its log. A backup may be better.

With --json the output is one object: folder, verdict (ok, repaired or corrupt), error, and, if the
store could be loaded: holds, rows, checkpoint_rows, changes and log_bytes (replayed from the log),
torn_frames (parts of incomplete changes), and what --repair has dropped: lost_frames (of
the log), lost_rows (of the checkpoint) and damage (in words).

Exit status: 0 the store is whole; 1 it was repaired; 2 it is corrupt; 3 it could not be checked,
for instance because a program has it open.`,
		Example: `  weft store check data/visits
  weft store check --repair data/visits
  weft store check --json data/visits`,
		Args:              requireFolders("DIR"),
		ValidArgsFunction: folders(1),
		Annotations:       map[string]string{"judges": "store"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStoreCheck(cmd.Context(), a, args[0], repair)
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "drop damaged changes and rows, keep the others")
	return cmd
}

// storeCheck is the output of weft store check.
type storeCheck struct {
	Folder  string `json:"folder"`
	Verdict string `json:"verdict"`
	*storeContent
	Error string `json:"error,omitempty"`
}

// storeContent describes a store that could be loaded.
type storeContent struct {
	Holds          string `json:"holds"`
	Rows           int    `json:"rows"`
	CheckpointRows int    `json:"checkpoint_rows"`
	Changes        int    `json:"changes"`
	LogBytes       int64  `json:"log_bytes"`
	TornFrames     int    `json:"torn_frames"`
	LostFrames     int    `json:"lost_frames"`
	LostRows       int    `json:"lost_rows"`
	Damage         string `json:"damage,omitempty"`
}

func runStoreCheck(ctx context.Context, a *app, dir string, repair bool) error {
	verb, label, opts := "check", "checking", (*durable.Options)(nil)
	if repair {
		verb, label, opts = repairVerb, "repairing", &durable.Options{Repair: true}
	}
	c := &storeCheck{Folder: dir, Verdict: "ok"}
	err := a.loadStore(ctx, dir, label, opts, func(l *loadedStore) error {
		c.storeContent = contentOf(l)
		if checker, ok := l.stored.(interface{ Check(context.Context) error }); ok {
			return checker.Check(ctx)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return err
	case errors.Is(err, weft.ErrCorrupt):
		c.Verdict, err = "corrupt", &verdict{storeError(verb, dir, err), exitCorrupt}
		c.Error = err.Error()
	case err != nil:
		return storeError(verb, dir, err)
	case c.Damage != "":
		c.Verdict = "repaired"
		err = &verdict{storeError(verb, dir, errors.New("repaired: "+c.lost())), exitRepaired}
	}
	return cmp.Or(c.print(a), err)
}

func contentOf(l *loadedStore) *storeContent {
	f := l.found
	return &storeContent{
		Holds: l.files.Holds, Rows: l.logged().Len(), CheckpointRows: f.Pairs, Changes: f.Changes,
		LogBytes: f.Bytes, TornFrames: f.Torn, LostFrames: f.Lost, LostRows: f.LostPairs,
		Damage: withoutOptions(f.Damage),
	}
}

// lost says what a repair has dropped.
func (c *storeContent) lost() string {
	return fmt.Sprintf("%s of the log and %s of the checkpoint were dropped",
		counted(c.LostFrames, "frame"), counted(c.LostRows, "row"))
}

func counted(n int, thing string) string { return progress.Counted(int64(n), thing) }

func (c *storeCheck) print(a *app) error {
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(c)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", progress.Printable(c.Folder), c.Verdict)
	if s := c.storeContent; s != nil {
		fmt.Fprintf(&text, "%s\n%s\n", progress.Printable(s.Holds), counted(s.Rows, "row"))
		fmt.Fprintf(&text, "%s in the checkpoint, %s replayed from %s of the log\n",
			counted(s.CheckpointRows, "row"), counted(s.Changes, "change"),
			binaryUnits(uint64(s.LogBytes)))
		if s.TornFrames > 0 {
			fmt.Fprintf(&text, "%s ignored, of incomplete changes\n",
				counted(s.TornFrames, "frame"))
		}
		if s.Damage != "" {
			fmt.Fprintf(&text, "%s: %s\n", s.lost(), progress.Printable(s.Damage))
		}
	}
	_, err := io.WriteString(a.stdout, text.String())
	return err
}
