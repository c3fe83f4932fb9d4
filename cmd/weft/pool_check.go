package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/pool"
	"github.com/weftgo/weft/internal/progress"
)

// Exit statuses of weft pool check, in addition to 0.
const (
	exitRepaired = 1
	exitCorrupt  = 2
	exitUnknown  = 3 // the pool could not be checked
)

// verdict is the error of a check that has found damage.
type verdict struct {
	err    error
	status int
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// reportsVerdict reports whether the exit status of a verb describes the pool. Such verbs return
// exitUnknown for other failures.
func reportsVerdict(cmd *cobra.Command) bool { return cmd.Annotations["judges"] != "" }

func newPoolCheckCommand(a *app) *cobra.Command {
	var o gphash.OpenOptions
	var durable durabilityFlags
	cmd := &cobra.Command{
		Use:   "check [flags] FILE",
		Short: "Check a pool, and repair it if asked to",
		Long: `Check tells whether a pool is whole: it opens the pool, recovers what a crash left unfinished, reads
all keys and values, and compares them with their checksums. It writes to the pool and locks it.

A crash causes no damage. These are recovered: insertions without acknowledgement, slots of deleted
keys, keys that were being moved, one torn superblock, and atomic batches, which are applied whole
or not at all. Everything else is damage. --repair drops damaged slots with their keys and values,
and keeps all others. A pool without a whole superblock cannot be repaired.

A closed pool stores the number of its keys and checksums of its pages, so check finds missing keys
and pages. A pool that was not closed has none. If it was open when the machine stopped, and its
memory is not persistent, it is corrupt: acknowledged changes may be missing. --repair keeps what
matches its checksum; a backup may be better.

A check on the CPU writes all stored data back from the CPU's caches, as persistent memory needs.
The pool does not record what its memory is. A check on a GPU does so only with
--assert-pmem persistent,ddio-off.

With --json the output is one object: file, verdict (ok, repaired or corrupt), clean (the last user
closed it), superblock (why one copy was not whole), durability (none, process or pmem, as the file
system, the device or --assert-pmem say), error, and, if the pool could be opened: keys, slots,
unfinished, tombs, moved, resumed (a resize was under way), compared (with the checksums of a closed
pool), power_lost, replayed (atomic batches applied), torn (an atomic batch dropped), damaged, damage
(the first one in words), and times (nanoseconds of the steps of opening).

Exit status:
  0    the pool is whole
  1    damage has been repaired
  2    the pool is corrupt
  3    it could not be checked: wrong usage, no such file, open elsewhere, of a later version
  130  interrupted
  141  the reader of the output has gone`,
		Example: `  weft pool check /dev/shm/users.pool
  weft pool check --repair --json /dev/shm/users.pool
  weft pool check --assert-pmem persistent /mnt/nvdimm/users.pool`,
		Annotations: map[string]string{"judges": "true"},
		Args:        a.onePool,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Durability, o.AssertPMem, err = durable.options("check"); err != nil {
				return err
			}
			return runPoolCheck(cmd.Context(), a, args[0], o)
		},
	}
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "drop damaged slots, and keep the others")
	cmd.Flags().BoolVar(&o.Verify, "verify", true, "read values, too, and not only slots")
	durable.add(cmd.Flags())
	return cmd
}

// poolCheck is the output of weft pool check.
type poolCheck struct {
	File       string `json:"file"`
	Verdict    string `json:"verdict"`
	Clean      bool   `json:"clean"`
	Superblock string `json:"superblock,omitempty"`
	Durability string `json:"durability"`
	*gphash.Report
	Error string `json:"error,omitempty"`
}

func runPoolCheck(ctx context.Context, a *app, path string, o gphash.OpenOptions) error {
	before, err := pool.Inspect(path)
	if err != nil {
		return poolError("check", path, err)
	}
	c := newPoolCheck(path, &before)
	if o.Durability == gphash.PMem { // otherwise opening fails
		c.Durability = o.Durability.String()
	}
	c.Report, err = checkPool(ctx, a, path, o, &before)
	switch damaged := c.Report != nil && c.Damaged > 0; {
	case errors.Is(err, weft.ErrCorrupt), errors.Is(err, gphash.ErrPowerLost):
		c.Verdict, err = "corrupt", &verdict{poolError("check", path, err), exitCorrupt}
		c.Error = err.Error()
	case err != nil:
		return poolError("check", path, err)
	case c.Report != nil && c.PowerLost:
		c.Verdict, err = "repaired", &verdict{poolError("check", path, fmt.Errorf("repaired: power was lost while the pool was open; "+
			"%d damaged slots were dropped, and some acknowledged operations may be missing", c.Damaged)), exitRepaired}
	case damaged:
		c.Verdict, err = "repaired", &verdict{poolError("check", path,
			fmt.Errorf("repaired: %d damaged slots were dropped", c.Damaged)), exitRepaired}
	}
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		return cmp.Or(encoder.Encode(c), err)
	}
	return cmp.Or(c.write(a.stdout), err)
}

func newPoolCheck(path string, before *pool.Info) *poolCheck {
	c := &poolCheck{File: path, Verdict: "ok", Durability: before.Durability.String()}
	if before.Current >= 0 {
		c.Clean = before.Copies[before.Current].Superblock.Clean
		if err := before.Copies[1-before.Current].Err; err != nil {
			c.Superblock = fmt.Sprintf("copy %c: %v", 'B'-rune(before.Current), err)
		}
	}
	return c
}

// checkPool opens a pool and reads all of its data. The report is nil if the pool could not be
// opened.
func checkPool(ctx context.Context, a *app, path string, o gphash.OpenOptions, before *pool.Info) (report *gphash.Report, err error) {
	dev, err := a.openPoolDevice(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	defer progress.Show(a.stderr, a.isTerminal, "checking").Close()
	x, report, err := openWrittenBack(ctx, path, dev, o, before)
	if err != nil {
		return report, err
	}
	if o.Verify {
		err = x.Check(ctx)
	}
	return report, errors.Join(err, x.Close())
}

// rounded rounds a time for display.
func rounded(d time.Duration) time.Duration { return d.Round(max(d/1000, time.Microsecond)) }

func (c *poolCheck) write(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", progress.Printable(c.File), c.Verdict)
	fmt.Fprintf(&text, "durability %s\n", c.Durability)
	if c.Superblock != "" {
		fmt.Fprintf(&text, "superblock %s\n", progress.Printable(c.Superblock))
	}
	if r := c.Report; r != nil {
		fmt.Fprintf(&text, "%d keys in %d slots\n", r.Keys, r.Slots)
		if !c.Clean {
			text.WriteString("not closed by whoever had it last\n")
		}
		if !r.Compared {
			text.WriteString("no sums to compare: keys that are gone without a trace are not missed\n")
		}
		if r.PowerLost {
			text.WriteString("power was lost while it was open: what had been acknowledged may be missing\n")
		}
		if r.Unfinished+r.Tombs+r.Moved > 0 {
			fmt.Fprintf(&text, "freed slots: %d of unfinished insertions, %d of deleted keys, %d of keys that had moved\n", r.Unfinished, r.Tombs, r.Moved)
		}
		fmt.Fprintf(&text, "recovered in %v, mapped in %v\n", rounded(r.Times.Recovery()), rounded(r.Times.File+r.Times.Map))
		if r.Resumed {
			text.WriteString("a resize goes on\n")
		}
		if r.Replayed > 0 {
			fmt.Fprintf(&text, "%d atomic batches of the redo log applied\n", r.Replayed)
		}
		if r.Torn {
			text.WriteString("an atomic batch had been begun: nothing of it is there\n")
		}
		if r.Damaged > 0 {
			fmt.Fprintf(&text, "%d damaged slots\n", r.Damaged)
		}
		for _, finding := range r.Damage {
			fmt.Fprintf(&text, "  %s\n", finding)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
