// Command jobs compares weft's packages for columns with other ways to do the same work. These are
// one Go map, a Go map per part of the keys on all cores, DuckDB, and Polars.
//
//	GOWORK=off go run ./peers/jobs
//	GOWORK=off go run ./peers/jobs -rows 1000000 -job group -runs 20 -cores 1,2 -json
//	GOWORK=off CGO_ENABLED=1 go run -tags duckdb ./peers/jobs
//
// Each peer does each job in its own process, one after another. The process makes the rows from
// the seed and loads them into the peer; DuckDB and Polars have their own tables. It then does the
// job -runs times, without a warm-up. All peers use all cores, or as many as -cores says, and leave
// their result in memory. The results of all runs and peers are compared.
//
// The jobs:
//
//   - group is SELECT key, COUNT(*), SUM(value) GROUP BY key of int64 columns. Keys are 0, 1, 2 and
//     so on, any numbers (uniform or Zipf-distributed), or two columns of short strings. A group of
//     few rows has a twentieth of the rows. In a group in batches, weft's group.Groups receives a
//     twentieth of the rows at a time. Other peers receive all rows at once, as in the group with
//     the same rows and number of keys.
//   - distinct is COUNT(DISTINCT key).
//   - dedup is COUNT(DISTINCT line) of lines of about 60 bytes. It has a fifth of the rows.
//   - join returns the row numbers of two tables in rows with equal keys.
//
// The peak is the maximum resident memory of the process while it runs the job, less the memory
// after loading the rows. GOGC and GOMEMLIMIT affect it for peers in Go.
//
// A line shows why a peer is absent. Polars, which is measured with both of its engines, needs node
// and its package nodejs-polars where node finds it. If node is older than the package requires,
// npm omits the library itself; then name the library, too, as nodejs-polars-linux-x64-gnu:
//
//	npm install --prefix DIR nodejs-polars && NODE_PATH=DIR/node_modules go run ./peers/jobs
package main

import (
	"errors"
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
	Rows []Row `json:"rows"`
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("jobs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	child := flags.Int("child", -1, "do the job of this number in this process, and print JSON")
	rows := flags.Int("rows", 20_000_000, "rows to group and to look for distinct keys in; "+
		"half of them are joined with a quarter")
	groups := flags.String("groups", "1000,10000,100000,1000000,8646747",
		"numbers of keys that rows draw from, separated by commas")
	runs := flags.Int("runs", 5, "runs of each peer")
	seed := flags.Uint64("seed", 1, "seed of the rows")
	only := flags.String("job", "", "only jobs whose names contain this, such as group, batches or join")
	peer := flags.String("peer", "", "only peers whose names contain one of these, separated by commas")
	coresOf := flags.String("cores", strconv.Itoa(cores()),
		"numbers of cores that peers may use, separated by commas")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rows < batches || *runs < 1 {
		return fmt.Errorf("-rows %d -runs %d: want at least %d and 1", *rows, *runs, batches)
	}
	sizes, err := numbers(*groups)
	if err != nil {
		return fmt.Errorf("-groups %s: %w", *groups, err)
	}
	widths, err := numbers(*coresOf)
	if err != nil {
		return fmt.Errorf("-cores %s: %w", *coresOf, err)
	}
	jobs := Jobs(*rows, sizes, *seed)
	if *child >= 0 && *child < len(jobs) {
		return measure(stdout, jobs[*child], *peer, *runs)
	}
	jobs = slices.DeleteFunc(jobs, func(j Job) bool { return !strings.Contains(j.Name, *only) })
	names := strings.Split(*peer, ",")
	peers := slices.DeleteFunc(Peers(), func(p Peer) bool {
		in := func(name string) bool { return strings.Contains(p.Name, name) }
		return !slices.ContainsFunc(names, in)
	})
	all, err := compareAll(jobs, peers, widths, []string{"-rows", strconv.Itoa(*rows), "-groups", *groups,
		"-runs", strconv.Itoa(*runs), "-seed", strconv.FormatUint(*seed, 10)})
	if *asJSON {
		return errors.Join(err, command.WriteJSON(stdout, report{command.NewHead(*runs), all}))
	}
	return errors.Join(err, table(stdout, all))
}

// compareAll compares peers at jobs with each number of cores. Each process gets the flags. After
// an error, compareAll returns the rows so far.
func compareAll(jobs []Job, peers []Peer, widths []int, flags []string) (rows []Row, err error) {
	for _, cores := range widths {
		for _, j := range jobs {
			more, err := Compare(j, peers, cores, func(p Peer) (m Measured, err error) {
				args := append([]string{"-child", strconv.Itoa(j.number), "-peer", p.Name}, flags...)
				err = command.Child(args, []string{"GOMAXPROCS=" + strconv.Itoa(cores)}, &m)
				return m, err
			})
			if err != nil {
				return rows, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// cores returns the number of cores that a peer may use in this process.
func cores() int { return runtime.GOMAXPROCS(0) }

func numbers(list string) (all []int, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want positive numbers separated by commas")
		}
		all = append(all, n)
	}
	return all, nil
}

func table(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "job\trows\tkeys\tcores\tpeer\tfirst ms\tmedian ms\tmax ms\tmax/median\tpeak MB\t"+
		"best rival/weft: first\tmedian\t")
	skipped := make(map[string]string)
	for _, r := range rows {
		if r.Skipped != "" {
			skipped[r.Peer] = r.Skipped
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t", r.Job, r.N, r.Keys, r.Cores, r.Peer)
		fmt.Fprintf(w, "%.1f\t%.1f\t%.1f\t%.2f\t%.0f\t", r.FirstMS, r.MedianMS, r.MaxMS,
			r.MaxMS/r.MedianMS, float64(r.Peak)/1e6)
		if r.First > 0 {
			fmt.Fprintf(w, "%.2f\t%.2f\t\n", r.First, r.Median)
		} else {
			fmt.Fprint(w, "\t\t\n")
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, peer := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(out, "%s: skipped: %s\n", peer, skipped[peer])
	}
	return nil
}
