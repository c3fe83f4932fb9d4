// Command durable compares weft's persistent index with pebble and bbolt, the stores in which Go
// programs keep state today. In one run on one machine it runs YCSB LOAD, C and A in batches. When
// a call returns, its batch is as durable as the store promises.
//
//	GOWORK=off go run ./peers/durable
//	GOWORK=off go run ./peers/durable -n 1000000 -batch 65536 -json
//	GOWORK=off go run ./peers/durable -maps -n 1048576
//
// The promises differ. Batches that gphash has acknowledged survive the end of the process, because
// its pool is a mapped file. They would survive a power failure only in persistent memory, which
// this machine lacks. pebble (a batch, Sync) and bbolt (a transaction) have written a batch to the
// disk when they return, and a batch is atomic. bbolt without sync promises the same as gphash, for
// whole batches. All stores are measured on a disk, and in a file system in memory, where no store
// survives a failure of the machine. Every result is checked.
//
// With -maps, the command measures durable maps of 64-bit keys and values on the disk, each promise
// beside the same promise. It also measures what the log costs, how long a map takes to open, and
// the space of its files. Stores that survive something are opened again and checked.
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
	// Restart is the result of -maps.
	Restart *Restart `json:"restart,omitempty"`
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
	maps := flags.Bool("maps", false, "measure durable maps, on the disk")
	pairs := flags.Int("pairs", 10_000_000, "pairs in the checkpoint that a durable map opens")
	logBytes := flags.Int64("log", 256<<20, "bytes in the log that a durable map opens")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *batch < 1 || *runs < 1 || *pairs < 1 || *logBytes < 0 {
		return fmt.Errorf("-n %d, -batch %d, -runs %d, -pairs %d: want at least 1; -log %d: want at least 0", *n, *batch, *runs, *pairs, *logBytes)
	}
	rep := report{Head: command.NewHead(*runs), Cores: runtime.GOMAXPROCS(0)}
	ctx, z := context.Background(), sizes{*n, *batch, *runs, *seed}
	places, comparisons := []Place{{"disk", *disk, false}, {"memory", *memory, true}}, []comparison{{Stores(), jobs, valueSize}}
	if *maps {
		places, comparisons = places[:1], Comparisons()
		restart, err := measureRestart(ctx, places[0], *pairs, *logBytes, z)
		if err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		rep.Restart = &restart
	}
	for _, place := range places {
		for _, x := range comparisons {
			rows, err := x.measure(ctx, place, z)
			if err != nil {
				return err
			}
			rep.Rows = append(rep.Rows, rows...)
		}
	}
	if *asJSON {
		return command.WriteJSON(stdout, rep)
	}
	if err := table(stdout, rep.Rows, *maps); err != nil || rep.Restart == nil {
		return err
	}
	return rep.Restart.table(stdout)
}

func table(w io.Writer, rows []Row, maps bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	ratio := "x gphash"
	if maps {
		ratio = "first/this\tby p50\ttarget"
	}
	fmt.Fprintf(tw, "place\tstore\tsurvives\tworkload\tn\tbatch\top/s\tp50 ms\tp99 ms\t%s\t\n",
		ratio)
	for _, r := range rows {
		ratio := fmt.Sprintf("%.3f", r.Speedup)
		if maps {
			ratio = fmt.Sprintf("%.2f\t%.2f\t", 1/r.Speedup, 1/r.SpeedupP50)
			if r.Target > 0 {
				ratio += fmt.Sprint(r.Target)
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%s\t\n",
			r.Place, r.Store, r.Survives, r.Workload, r.N, r.Batch, r.OpsPerS, r.P50*1e3, r.P99*1e3, ratio)
	}
	return tw.Flush()
}
