//go:build linux

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// tally counts what happened to the stores of a structure.
type tally struct {
	name                                  string
	changes, checkpoints, writes, flushes int
	cuts, recoveries, recovered, losses   int
	images                                map[uint64]bool // digests of disks after a power cut
}

func newTally(name string) *tally { return &tally{name: name, images: map[uint64]bool{}} }

// count adds what a guest did with a disk.
func (t *tally) count(d *disk, s *story) {
	for _, e := range d.log {
		if e.data == nil {
			t.flushes++
		} else {
			t.writes++
		}
	}
	t.changes += s.changes
	t.checkpoints += len(s.checkpoints)
	t.recovered += s.recovered
}

// table prints a row for each tally.
func table(w io.Writer, tallies []*tally) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "store\tchanges\tcheckpoints\twrites\tflushes\tcuts\tof recoveries\t",
		"distinct images\twith unacknowledged change\tlosses\t\n")
	for _, t := range tallies {
		fmt.Fprint(tw, t.name, "\t")
		for _, n := range []int{t.changes, t.checkpoints, t.writes, t.flushes, t.cuts,
			t.recoveries, len(t.images), t.recovered, t.losses} {
			fmt.Fprint(tw, n, "\t")
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
