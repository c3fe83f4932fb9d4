// Command larger runs jobs that need more memory than a limit allows. It runs weft and DuckDB, each
// in its own process, one after another:
//
//	GOWORK=off CGO_ENABLED=1 go run -tags duckdb ./peers/larger
//	GOWORK=off go run ./peers/larger -job join -rows 100000000 -keys 20000000 -memory 512000000
//
// Both peers compute rows on the fly: row i has a value, and a key from a multiplicative hash of i.
// Job group is SELECT key, COUNT(*), SUM(value) GROUP BY key. Job distinct is SELECT DISTINCT key.
// Job join is an inner join with a table that has each key once. Results are counted and added up
// as they arrive, and compared. The peak is the maximum resident memory of the process, less that
// of a process that runs the same job on one row.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("larger", run) }

// task is one job of one peer.
type task struct {
	Job    string
	Skew   string // uniform; half: one key has half of all rows; or zipf, with exponent 1
	Rows   int64
	Keys   int64
	Memory int64 // bytes; 0: no limit
	Dir    string
}

// result is the output of a process.
type result struct {
	Rows, Sum int64 // number of result rows, and the sum over them
	Seconds   float64
	Peak      int64 // bytes
	Spilled   int64 // bytes
}

// peers run a task. DuckDB is absent unless it is built in.
var peers = map[string]func(task) (result, error){"weft": runWeft}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("larger", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var t task
	flags.StringVar(&t.Job, "job", "group", "group, distinct or join")
	flags.StringVar(&t.Skew, "skew", "uniform", "uniform, half or zipf")
	flags.Int64Var(&t.Rows, "rows", 200_000_000, "rows; of a join, those of the left side")
	flags.Int64Var(&t.Keys, "keys", 100_000_000,
		"keys that rows draw from; of a join, rows of the right side")
	flags.StringVar(&t.Dir, "dir", "/var/tmp", "directory of temporary files")
	limits := flags.String("memory", "0,512000000", "limits in bytes, separated by commas; 0: none")
	only := flags.String("peer", "weft,duckdb", "peers, separated by commas")
	child := flags.Bool("child", false, "run one peer in this process, and print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "job\tkeys\trows\tof\tlimit, MB\tpeer\tseconds\tpeak, MB\t"+
		"spilled, MB\tresult\t")
	for limit := range strings.SplitSeq(*limits, ",") {
		var err error
		if t.Memory, err = strconv.ParseInt(limit, 10, 64); err != nil {
			return err
		}
		for peer := range strings.SplitSeq(*only, ",") {
			switch f := peers[peer]; {
			case f == nil:
				fmt.Fprintf(stderr, "%s is not built in\n", peer)
			case *child:
				r, err := f(t)
				if err != nil {
					return err
				}
				return json.NewEncoder(stdout).Encode(r)
			default:
				if err := measure(w, t, peer); err != nil {
					return err
				}
			}
		}
	}
	return w.Flush()
}

// measure runs a task in one process and, for comparison, one row in another.
func measure(w io.Writer, t task, peer string) error {
	one := t
	one.Rows, one.Keys = 1, 1
	base, err := spawn(one, peer)
	if err != nil {
		return err
	}
	r, err := spawn(t, peer)
	if err != nil {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%v\t\t\t\t\n", t.Job, t.Skew, t.Rows,
			t.Keys, t.Memory/1e6, peer, err)
		return nil
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%.1f\t%d\t%d\t%d, %d\t\n", t.Job, t.Skew, t.Rows,
		t.Keys,
		t.Memory/1e6, peer, r.Seconds, (r.Peak-base.Peak)/1e6, r.Spilled/1e6, r.Rows, r.Sum)
	return nil
}

func spawn(t task, peer string) (r result, err error) {
	n := func(x int64) string { return strconv.FormatInt(x, 10) }
	return r, command.Child([]string{"-child", "-job", t.Job, "-skew", t.Skew, "-dir", t.Dir,
		"-peer", peer, "-rows", n(t.Rows), "-keys", n(t.Keys), "-memory", n(t.Memory)}, nil, &r)
}

// finish sets the time and the peak memory of the process.
func (r *result) finish(start time.Time) (err error) {
	r.Seconds = time.Since(start).Seconds()
	r.Peak, err = command.Memory(os.Getpid(), "VmHWM")
	return err
}
