// Command maps compares weft's CPU engine with the maps that Go programs use today, in one run on
// one machine. They are Go's builtin map, 256 locked shards of it, sync.Map, xsync and swiss. It
// prints a table with times and the speedup over the builtin map, or JSON.
//
//	GOWORK=off go run ./peers/maps -n 1000000,10000000
//	GOWORK=off go run ./peers/maps -json >peers.json
//
// All maps are preallocated for all keys. Every result is checked.
package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("maps", run) }

// report is the JSON that maps prints.
type report struct {
	command.Head
	Cores int   `json:"cores"`
	Rows  []Row `json:"rows"`
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("maps", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizes := flags.String("n", "1000000,10000000", "numbers of keys, separated by commas")
	runs := flags.Int("runs", 3, "runs, of which the median counts")
	seed := flags.Uint64("seed", 1, "seed of the keys")
	only := flags.String("peer", "", "measure only peers whose names contain this, and the builtin map")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 {
		return fmt.Errorf("-runs %d: want at least 1", *runs)
	}
	var ns []int
	for _, s := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("-n %s: want positive numbers separated by commas", *sizes)
		}
		ns = append(ns, n)
	}
	peers := Peers()
	peers = append(peers[:1], slices.DeleteFunc(peers[1:], func(p Peer) bool { return !strings.Contains(p.Name, *only) })...)
	rows, err := measureAll(peers, ns, *runs, *seed)
	if err != nil {
		return err
	}
	if *asJSON {
		return command.WriteJSON(stdout, report{command.NewHead(*runs), allCores(), rows})
	}
	return table(stdout, rows)
}

func measureAll(peers []Peer, sizes []int, runs int, seed uint64) ([]Row, error) {
	cores := []int{1}
	if all := allCores(); all > 1 {
		cores = append(cores, all)
	}
	var rows []Row
	for _, n := range sizes {
		b := newBatch(n, seed)
		for _, c := range cores {
			for _, p := range peers {
				row, err := Measure(p, b, c, runs)
				if err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
		}
	}
	compare(rows)
	return rows, nil
}

func table(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "peer\tn\tcores\tinsert ns\thit ns\tmiss ns\tB/entry\tGC ms\tinsert x\thit x\tmiss x\t")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t\n", r.Peer, r.N, r.Cores,
			r.InsertNS, r.HitNS, r.MissNS, r.BytesPerEntry, r.GCMS, r.InsertSpeedup, r.HitSpeedup, r.MissSpeedup)
	}
	return tw.Flush()
}
