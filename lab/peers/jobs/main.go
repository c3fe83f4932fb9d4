// Command jobs compares what weft's packages do with rows of columns with what a Go program would
// do without them, in one run on one machine: Go's maps, one or one for each part of the keys on all
// cores, sorting, and DuckDB.
//
//	GOWORK=off go run ./peers/jobs
//	GOWORK=off go run ./peers/jobs -rows 1000000 -json
//	GOWORK=off CGO_ENABLED=1 go run -tags duckdb ./peers/jobs
//
// group is SELECT key, COUNT(*), SUM(value) GROUP BY key of int64 columns, once of keys 0, 1, 2, …, distinct is COUNT(DISTINCT
// key), dedup is COUNT(DISTINCT line) of lines of some 60 bytes, a fifth as many, join is the numbers of the rows of two tables that have equal keys. All peers have the columns
// in memory before the time is taken, DuckDB in tables of its own, and all cores; all leave their result in
// memory. Every result is compared. A peer that is not there is a line that says why.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("jobs", run) }

// report is the JSON that jobs prints.
type report struct {
	command.Head
	Cores int   `json:"cores"`
	Rows  []Row `json:"rows"`
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("jobs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rows := flags.Int("rows", 20_000_000, "rows to group and to look for distinct keys in; half of them are joined with a quarter")
	groups := flags.String("groups", "1000,1000000,8646747", "numbers of keys that rows draw from, separated by commas; some draw none of the largest")
	runs := flags.Int("runs", 3, "runs, of which the median counts")
	seed := flags.Uint64("seed", 1, "seed of the rows")
	only := flags.String("job", "", "only jobs whose names contain this: group, distinct, dedup, join")
	peer := flags.String("peer", "", "only peers whose names contain one of these, separated by commas")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rows < 4 || *runs < 1 {
		return fmt.Errorf("-rows %d -runs %d: want at least 4 and 1", *rows, *runs)
	}
	var sizes []int
	for s := range strings.SplitSeq(*groups, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("-groups %s: want positive numbers separated by commas", *groups)
		}
		sizes = append(sizes, n)
	}
	names := strings.Split(*peer, ",")
	peers := slices.DeleteFunc(Peers(), func(p Peer) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(p.Name, name) })
	})
	var all []Row
	for _, j := range Jobs(*rows, sizes, *seed) {
		if strings.Contains(j.Name, *only) {
			more, err := Measure(j, peers, *runs)
			if err != nil {
				return err
			}
			all = append(all, more...)
		}
	}
	if *asJSON {
		return command.WriteJSON(stdout, report{command.NewHead(*runs), cores(), all})
	}
	return table(stdout, all)
}

// cores is how many all peers may use.
func cores() int { return runtime.GOMAXPROCS(0) }

func table(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "job\trows\tof keys\tpeer\tms\tleast\tmost\ttimes as fast as the Go map\t")
	skipped := make(map[string]string)
	for _, r := range rows {
		if r.Skipped != "" {
			skipped[r.Peer] = r.Skipped
			continue
		}
		job := r.Job
		if r.Close {
			job += " of 0, 1, 2, …"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t\n", job, r.N, r.Keys, r.Peer, r.MS, r.LeastMS, r.MostMS, r.Speedup)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, peer := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(out, "%s: skipped: %s\n", peer, skipped[peer])
	}
	return nil
}
