// Command ordered compares weft's ordered maps `ordered` and `btree` on a CPU with the B-trees that
// Go programs use today, tidwall/btree and google/btree. It measures all maps in one run on one
// core. It prints nanoseconds of CPU time per operation and weft's speedup, or JSON.
//
//	GOWORK=off go run ./peers/ordered -n 10000000
//	GOWORK=off go run ./peers/ordered -json >ordered.json
//
// Keys and values are uint64. The results of all maps are compared.
package main

import (
	"flag"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("ordered", run) }

// report is the JSON that the command prints.
type report struct {
	command.Head
	N    int   `json:"n"`
	Rows []row `json:"rows"`
}

// row is the result of one operation: by map, the median of the runs in nanoseconds per operation.
type row struct {
	Operation string             `json:"operation"`
	NS        map[string]float64 `json:"ns"`
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("ordered", flag.ContinueOnError)
	flags.SetOutput(stderr)
	n := flags.Int("n", 10_000_000, "number of keys")
	runs := flags.Int("runs", 3, "runs, of which the median counts")
	seed := flags.Uint64("seed", 1, "seed of the keys")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *runs < 1 {
		return fmt.Errorf("-n %d, -runs %d: want at least 1", *n, *runs)
	}
	rows, err := measure(*n, *runs, *seed)
	if err != nil {
		return err
	}
	if *asJSON {
		return command.WriteJSON(stdout, report{command.NewHead(*runs), *n, rows})
	}
	return table(stdout, rows)
}

func table(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "ns per operation\t")
	for _, m := range maps {
		fmt.Fprintf(w, "%s\t", m.name)
	}
	for _, m := range maps[:ours] {
		fmt.Fprintf(w, "%s ahead of the best\t", m.name)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t", r.Operation)
		best := 0.
		for i, m := range maps {
			fmt.Fprintf(w, "%.1f\t", r.NS[m.name])
			if i >= ours && (best == 0 || r.NS[m.name] < best) {
				best = r.NS[m.name]
			}
		}
		for _, m := range maps[:ours] {
			fmt.Fprintf(w, "%.2f x\t", best/r.NS[m.name])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
