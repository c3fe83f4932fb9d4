package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/shard"
)

// TestMain makes the test binary behave as the command if TestMPI has started it.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_MPI_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// file makes a file.
func file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sales returns rows of CSV. The last row has a value of another type.
func sales(rows int, last string) string {
	var b strings.Builder
	b.WriteString("city,amount,tag\n")
	for i := range rows {
		fmt.Fprintf(&b, "c%d,%d,%d\n", i%7, i, i*31%11)
	}
	return b.String() + last
}

// Any number of ranks prints the same result in the same order.
func TestGroup(t *testing.T) {
	wide := file(t, "wide.csv", sales(400_000, "c1,2.5,x\n"))
	first := file(t, "first.csv", sales(3000, ""))
	lines := file(
		t,
		"x.jsonl",
		strings.Repeat("{\"k\":1,\"v\":2}\n{\"v\":3}\n", 99_999)+"{\"k\":\"z\",\"v\":2.5}\n",
	)
	for _, args := range [][]string{
		{"group", "--by", "city", "--agg", "count,sum:amount,first:tag,last:tag,max:amount", "--csv", first, first, first},
		{"group", "--by", "city,tag", "--agg", "mean:amount", "--csv", "--lines", first},
		{"group", "--by", "tag", "--agg", "sum:amount,count:tag", "--csv", "--lines", wide},
		{"group", "--by", "k", "--agg", "sum:v,count", "--csv", lines},
		{"group", "--by", "city", "--csv", "--sort", "count:desc,city:desc", "--top", "3", first},
		{"distinct", "--by", "tag,city", "--csv", first, first},
		{"distinct", "--by", "k", "--csv", "--skip-nulls", lines},
	} {
		want, _, status := weftMPI(t, append(slices.Clone(args), "--local", "1")...)
		if status != exitOK || strings.Count(want, "\n") < 3 {
			t.Fatalf("%v: exit status %d, prints %s", args, status, want)
		}
		for _, ranks := range []string{"2", "3", "16"} {
			got, stderr, status := weftMPI(t, append(slices.Clone(args), "--local", ranks)...)
			if status != exitOK || got != want {
				t.Errorf(
					"%v on %s ranks: exit status %d, %s, prints %s, want %s",
					args,
					ranks,
					status,
					stderr,
					got,
					want,
				)
			}
		}
	}
}

// With --parts each rank writes a file, and together the files contain all groups.
func TestParts(t *testing.T) {
	in, out := file(t, "x.csv", sales(9000, "")), filepath.Join(t.TempDir(), "parts")
	if _, stderr, status := weftMPI(t, "group", "--by", "city,tag", "--agg", "sum:amount", "--parts", out, "--local", "3", in); status != exitOK {
		t.Fatal(stderr)
	}
	parts, err := filepath.Glob(filepath.Join(out, "part-*.parquet"))
	if err != nil || len(parts) != 3 {
		t.Fatal(parts, err)
	}
	sorted := []string{"--sort", "city,tag", "--csv", "--local", "2"}
	got, _, _ := weftMPI(
		t,
		append(
			append([]string{"group", "--by", "city,tag", "--agg", "sum:sum:amount"}, sorted...),
			parts...)...)
	want, _, _ := weftMPI(
		t,
		append([]string{"group", "--by", "city,tag", "--agg", "sum:amount", in}, sorted...)...)
	if _, got, _ := strings.Cut(got, "\n"); got == "" || !strings.HasSuffix(want, got) {
		t.Errorf("%s, want %s", got, want)
	}
}

// A part must not replace an input or a file of another program. Parts of a job with more ranks are
// an error.
func TestPartsThere(t *testing.T) {
	in, dir := file(t, "x.csv", sales(100, "")), filepath.Join(t.TempDir(), "parts")
	group := func(ranks, input string) (stderr string, status int) {
		_, stderr, status = weftMPI(
			t,
			"group",
			"--by",
			"city",
			"--parts",
			dir,
			"--local",
			ranks,
			input,
		)
		return stderr, status
	}
	for range 2 { // the second run replaces the parts of the first
		if stderr, status := group("3", in); status != exitOK {
			t.Fatal(stderr)
		}
	}
	last := filepath.Join(dir, "part-00002.parquet")
	if stderr, status := group("2", in); status != exitFailed ||
		!strings.Contains(stderr, "part-00002.parquet") {
		t.Errorf("with a part more: exit status %d, says %s", status, stderr)
	}
	if stderr, status := group("3", last); status != exitUsage ||
		!strings.Contains(stderr, "is the input") {
		t.Errorf("with a part as input: exit status %d, says %s", status, stderr)
	}
	if err := os.WriteFile(last, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr, status := group("3", in)
	if text, err := os.ReadFile(last); status != exitUsage || err != nil || string(text) != "mine" {
		t.Errorf("exit status %d, says %s, leaves %q", status, stderr, text)
	}
}

// If ranks see different files, the result is an error, and not a part of the rows.
func TestDifferentFiles(t *testing.T) {
	for _, other := range []string{sales(99, ""), strings.Replace(sales(100, ""), "tag", "gat", 1)} {
		names := []string{file(t, "x.csv", sales(100, "")), file(t, "x.csv", other)}
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr}
		err := onGoroutines(t.Context(), 2, func(ctx context.Context, c comm.Comm) error {
			o := groupOptions{verb: "group", names: names[c.Rank() : c.Rank()+1]}
			o.add(&cobra.Command{})
			o.By, o.Aggs = []string{"city"}, []string{"count"}
			if err := o.check(a); err != nil {
				return err
			}
			return o.run(ctx, a, c)
		})
		if err == nil || !strings.Contains(err.Error(), "files of other sizes or columns") {
			t.Errorf("%v, prints %s", err, &stdout)
		}
	}
}

// Exactly one rank reports the reason, even if the others have ended before.
func TestErrorOfAll(t *testing.T) {
	in := file(t, "x.csv", sales(100, ""))
	a := &app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	for range 100 {
		err := onGoroutines(t.Context(), 3, func(ctx context.Context, c comm.Comm) error {
			o := groupOptions{verb: "group", names: []string{in}}
			o.add(&cobra.Command{})
			o.By, o.SkipNulls = []string{"city"}, c.Rank() == 1
			return o.run(ctx, a, c)
		})
		if !errors.Is(err, shard.ErrMismatch) {
			t.Fatal(err)
		}
	}
}

// The summary of JSON counts all ranks.
func TestGroupJSON(t *testing.T) {
	in := file(t, "x.csv", sales(100, "c1,x,2\n"))
	stdout, stderr, status := weftMPI(
		t,
		"group",
		"--by",
		"city",
		"--agg",
		"sum:amount",
		"--bad",
		"skip",
		"--json",
		"--local",
		"2",
		in,
		in,
	)
	var got struct {
		groupSummary
		Rows []map[string]any `json:"rows"`
	}
	err := json.Unmarshal([]byte(stdout), &got)
	if err != nil || status != exitOK || got.Ranks != 2 ||
		got.RowsRead != 202 && got.RowsRead != 200 ||
		got.Skipped != 2 ||
		got.Groups != 7 ||
		len(got.Rows) != 7 ||
		!strings.Contains(stderr, ", 2 bad lines skipped, 7 groups on 2 ranks; ") {
		t.Errorf("exit status %d, %v, %+v, says %s", status, err, got, stderr)
	}
}

// An error is reported once, on any rank, and no rank waits for the failed one.
func TestGroupErrors(t *testing.T) {
	good, bad := file(t, "good.csv", sales(10, "")), file(t, "bad.csv", sales(10, "c1,2\n"))
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"--by", "town", good}, exitFailed, `weft-mpi: --by: no column "town"; `},
		{[]string{"--by", "city", good, good, bad}, exitFailed, "weft-mpi: " + bad + ":12: "},
		{[]string{"--by", "city", filepath.Join(good, "none")}, exitFailed, "weft-mpi: "},
		{[]string{"--by", "city", "--sort", "x", good}, exitFailed, "weft-mpi: --sort x: "},
		{[]string{"--by", "city", "--parquet", good, good}, exitUsage, "weft-mpi: group --parquet "},
		{[]string{"--by", "city", "--parts", good, good}, exitFailed, "weft-mpi: "},
		{[]string{good}, exitUsage, "weft-mpi: group: --by is missing"},
		{[]string{"--by", "city"}, exitUsage, "weft-mpi: group: no file given"},
		{[]string{"--by", "city", "-"}, exitUsage, "weft-mpi: group -: is a stream"},
		{[]string{"--by", "city", "--parts", "x", "--csv", good}, exitUsage, "weft-mpi: group: --parts excludes"},
		{[]string{"--by", "city", "--lines", "--lazy-quotes", good}, exitUsage, "weft-mpi: --lines and --lazy-quotes"},
		{[]string{"--by", "city", "--agg", "sum", good}, exitUsage, "weft-mpi: group --agg: "},
	} {
		for _, ranks := range []string{"1", "3"} {
			stdout, stderr, status := weftMPI(
				t,
				append([]string{"group", "--local", ranks}, tt.args...)...)
			if status != tt.status || stdout != "" || !strings.HasPrefix(stderr, tt.stderr) {
				t.Errorf(
					"%v on %s ranks: exit status %d, prints %s, says %s",
					tt.args,
					ranks,
					status,
					stdout,
					stderr,
				)
			}
		}
	}
}

// The command runs on the ranks of MPI, and one of them reports an error.
func TestMPI(t *testing.T) {
	launcher, err := exec.LookPath("mpirun")
	if err != nil {
		if os.Getenv("WEFT_NEED_MPI") != "" {
			t.Fatal(err)
		}
		t.Skip("no mpirun")
	}
	start := func(args ...string) (stdout, stderr string, err error) {
		cmd := exec.CommandContext(
			t.Context(),
			launcher,
			append([]string{"-n", "2", "--oversubscribe", os.Args[0]}, args...)...)
		cmd.Env = append(
			os.Environ(),
			"WEFT_MPI_COMMAND=1",
			"OMPI_ALLOW_RUN_AS_ROOT=1",
			"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		return out.String(), errs.String(), err
	}
	in := file(t, "x.csv", sales(200_000, "c1,2.5,x\n"))
	args := []string{
		"group",
		"--by",
		"tag",
		"--agg",
		"sum:amount,first:city",
		"--csv",
		"--lines",
		in,
	}
	want, _, _ := weftMPI(t, append(slices.Clone(args), "--local", "1")...)
	got, stderr, err := start(args...)
	if err != nil || got != want || !strings.Contains(stderr, " on 2 ranks; ") {
		t.Errorf("%v, prints %s, want %s, says %s", err, got, want, stderr)
	}
	_, stderr, err = start("group", "--by", "town", in)
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed ||
		strings.Count(stderr, `weft-mpi: --by: no column "town"`) != 1 {
		t.Errorf("%v, says %s", err, stderr)
	}
}

// Text that was a JSON string is printed as a string, whichever rank has read it.
func TestGroupLiterals(t *testing.T) {
	numbers := file(t, "1.jsonl", strings.Repeat("{\"k\":12}\n{\"k\":1.5}\n", 9))
	text := file(t, "2.jsonl", strings.Repeat("{\"k\":\"7.5\"}\n", 18))
	var want []any
	for _, ranks := range []string{"1", "2", "3"} {
		stdout, stderr, status := weftMPI(
			t, "group", "--by", "k", "--json", "--local", ranks, numbers, text)
		var got struct {
			Rows []any `json:"rows"`
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK {
			t.Fatalf("exit status %d, %v, says %s", status, err, stderr)
		}
		if want == nil {
			want = got.Rows
		}
		if !reflect.DeepEqual(got.Rows, want) {
			t.Errorf("%s ranks: %v, want %v", ranks, got.Rows, want)
		}
	}
}
