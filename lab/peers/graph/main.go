// Command graph compares weft's graphs on a CPU with gonum's graph packages, used in the obvious
// way, in one run. It builds a graph from edges in memory, counts all triangles, and deletes and
// reinserts edges. It prints milliseconds and weft's speedup, or JSON.
//
//	GOWORK=off go run ./peers/graph soc-Epinions1.txt.gz
//	GOWORK=off go run ./peers/graph -json soc-Epinions1.txt.gz >graph.json
//
// The gonum graph is a simple.UndirectedGraph, to which edges are added one by one. Its triangles
// are found by calls of HasEdgeBetween for pairs of neighbors. Both libraries must find the same
// number.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("graph", run) }

// report is the JSON that the command prints.
type report struct {
	command.Head
	Cores     int    `json:"cores"`
	File      string `json:"file"`
	Vertices  int    `json:"vertices"`
	Edges     int    `json:"edges"`
	Triangles uint64 `json:"triangles"`
	Rows      []row  `json:"rows"`
}

// row is the result of one operation: the median of the runs in milliseconds.
type row struct {
	Operation string  `json:"operation"`
	Weft      float64 `json:"weft_ms"`
	Gonum     float64 `json:"gonum_ms"`
}

func run(args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("graph", flag.ContinueOnError)
	flags.SetOutput(stderr)
	runs := flags.Int("runs", 3, "runs, of which the median counts")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || flags.NArg() != 1 {
		return fmt.Errorf("want one file, and -runs 1 or more")
	}
	dev, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer dev.Close()
	ctx := context.Background()
	f, err := load.Open(ctx, dev, flags.Arg(0), &load.Options{Unweighted: true})
	if err != nil {
		return err
	}
	r, err := measure(ctx, dev, f.Edges, *runs)
	if err != nil {
		return err
	}
	r.Head, r.Cores, r.File = command.NewHead(*runs), runtime.GOMAXPROCS(0), filepath.Base(flags.Arg(0))
	if *asJSON {
		return command.WriteJSON(stdout, r)
	}
	return table(stdout, r)
}

func table(out io.Writer, r *report) error {
	fmt.Fprintf(out, "%d vertices, %d edges, %d triangles, %d cores\n", r.Vertices, r.Edges, r.Triangles, r.Cores)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms\tweft\tgonum\tweft is ahead\t")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f x\t\n", x.Operation, x.Weft, x.Gonum, x.Gonum/x.Weft)
	}
	return w.Flush()
}
