// Command durable compares weft's persistent index with pebble and bbolt, the stores in which Go
// programs keep state today. In one run on one machine it runs YCSB LOAD, C and A in batches. When
// a call returns, its batch is as durable as the store promises.
//
//	GOWORK=off go run ./peers/durable
//	GOWORK=off go run ./peers/durable -n 1000000 -batch 65536 -json
//
// The promises differ. Batches that gphash has acknowledged survive the end of the process, because
// its pool is a mapped file. They would survive a power failure only in persistent memory, which
// this machine lacks. pebble (a batch, Sync) and bbolt (a transaction) have written a batch to the
// disk when they return, and a batch is atomic. bbolt without sync promises the same as gphash, for
// whole batches. All stores are measured on a disk, and in a file system in memory, where no store
// survives a failure of the machine. Every result is checked.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("durable", run) }

// report is the JSON that durable prints.
type report struct {
	command.Head
	Cores int   `json:"cores"`
	Rows  []Row `json:"rows"`
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("durable", flag.ContinueOnError)
	flags.SetOutput(stderr)
	n := flags.Int("n", 1<<17, "records, and operations of each workload")
	batch := flags.Int("batch", 1<<12, "operations in a batch")
	runs := flags.Int("runs", 3, "runs, of which the median counts")
	seed := flags.Uint64("seed", 1, "seed of the records")
	disk := flags.String("disk", os.TempDir(), "folder on a disk")
	memory := flags.String("memory", "/dev/shm", "folder in a file system in memory")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *batch < 1 || *runs < 1 {
		return fmt.Errorf("-n %d, -batch %d, -runs %d: want at least 1", *n, *batch, *runs)
	}
	var rows []Row
	for _, place := range []Place{{"disk", *disk, false}, {"memory", *memory, true}} {
		more, err := measure(context.Background(), Stores(), place, *n, *batch, *runs, *seed)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if *asJSON {
		return command.WriteJSON(stdout, report{command.NewHead(*runs), runtime.GOMAXPROCS(0), rows})
	}
	return table(stdout, rows)
}

func table(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "place\tstore\tsurvives\tworkload\tn\tbatch\top/s\tp50 ms\tp99 ms\tx gphash\t")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.3f\t\n",
			r.Place, r.Store, r.Survives, r.Workload, r.N, r.Batch, r.OpsPerS, r.P50*1e3, r.P99*1e3, r.Speedup)
	}
	return tw.Flush()
}
