package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// weftBeam runs a command line.
func weftBeam(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(ctx, args, &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs})
	return out.String(), errs.String(), status
}

// direct computes what the command weft prints, with packages table and group. The files must not
// contain a value that changes a type later.
func direct(t *testing.T, o *groupOptions, asJSON bool) string {
	t.Helper()
	ctx := t.Context()
	dev, err := cpu.Open(nil)
	check(t, err)
	defer dev.Close()
	tab, err := table.Open(ctx, o.names, nil, &o.Options)
	check(t, err)
	defer tab.Close()
	check(t, o.Group.Check("group"))
	check(t, o.Output.Check(asJSON))
	gr, err := o.Plan(ctx, tab)
	check(t, err)
	g, err := group.New(dev, gr.Aggs, &group.Options{SkipNulls: o.SkipNulls})
	check(t, err)
	defer g.Close()
	add := func(columns []column.Column) {
		keys, values := gr.Split(columns)
		check(t, g.Add(ctx, keys, values))
	}
	add(gr.Empty(tab))
	for b, err := range tab.Batches(ctx, gr.Columns) {
		check(t, err)
		add(b.Columns)
	}
	all, err := g.Result(ctx)
	check(t, err)
	pages := func(yield func([]column.Column, error) bool) {
		yield(slices.Concat(all.Keys, all.Values), nil)
	}
	_, sorted, err := gr.Look(ctx, tab, pages, true, func() (*extsort.Sorter, error) {
		if len(o.Sort) == 0 {
			return nil, nil
		}
		return o.Sorter(dev, gr.Fields, 0, "")
	})
	check(t, err)
	var b bytes.Buffer
	out, err := o.Begin(ctx, &b, gr.Fields, 0)
	check(t, err)
	if sorted != nil {
		defer sorted.Close()
		check(t, o.Copy(out, sorted.Pages(ctx)))
	} else {
		check(t, o.Copy(out, pages))
	}
	check(t, out.Close(struct{}{}))
	return b.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file creates a file. If the name ends in .gz, the file is compressed.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(text))
		check(t, errors.Join(err, w.Close()))
		text = b.String()
	}
	check(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// sales returns rows of CSV, followed by the text last.
func sales(rows int, last string) string {
	var b strings.Builder
	b.WriteString("city,amount,tag\n")
	for i := range rows {
		fmt.Fprintf(&b, "c%d,%d,%d.50\n", i*i%17, i%1000, i*31%11)
	}
	return b.String() + last
}

// The command prints the same as weft, in the same order.
func TestGroup(t *testing.T) {
	dir := t.TempDir()
	one := file(t, dir, "one.csv", sales(3000, ",,\nc1,5,007\n"))
	two := file(t, dir, "two.csv.gz", sales(100, ""))
	big := file(t, dir, "big.csv", sales(400_000, ""))
	truths := file(t, dir, "truths.csv", "amount,ok,n\n1,True,3\n1,,5\n2,FALSE,7\n")
	lines := file(
		t,
		dir,
		"x.jsonl",
		strings.Repeat("{\"k\":1,\"v\":2}\n{\"v\":3.25,\"k\":\"1.50\"}\n{\"k\":2.50}\n", 9_999),
	)
	numbers := file(t, dir, "y.jsonl", strings.Repeat("{\"k\":1.50}\n{\"k\":2.50}\n", 99))
	for _, tt := range []struct {
		args string
		o    groupOptions
		json bool
	}{
		{"group --by city --agg count,sum:amount,first:tag,last:tag,max:amount,count:tag", groupOptions{names: []string{one, two, one},
			Group: flags.Group{By: []string{"city"}, Aggs: []string{"count", "sum:amount", "first:tag", "last:tag", "max:amount", "count:tag"}}}, false},
		{"group --by amount --agg any_true:ok,stddev:n", groupOptions{names: []string{truths},
			Group: flags.Group{By: []string{"amount"}, Aggs: []string{"any_true:ok", "stddev:n"}}}, false},
		{"group --by tag,city --agg mean:amount,sum:tag --csv --skip-nulls", groupOptions{names: []string{one},
			Group:  flags.Group{By: []string{"tag", "city"}, Aggs: []string{"mean:amount", "sum:tag"}, SkipNulls: true},
			Output: flags.Output{CSV: true}}, false},
		{"group --by city,city,2 --sort count:desc,amount,city --top 9 --lines", groupOptions{names: []string{big},
			Group:  flags.Group{By: []string{"city", "city", "2"}, Aggs: []string{"count"}},
			Output: flags.Output{Sort: []string{"count:desc", "amount", "city"}, Top: 9}}, false},
		{"group --by city --agg last:amount --lines --top 3 --csv", groupOptions{names: []string{big, one},
			Group:  flags.Group{By: []string{"city"}, Aggs: []string{"last:amount"}},
			Output: flags.Output{Top: 3, CSV: true}}, false},
		{"group --by k --agg sum:v,count,min:k --text k", groupOptions{names: []string{lines},
			Read:  flags.Read{Options: table.Options{Text: []string{"k"}}},
			Group: flags.Group{By: []string{"k"}, Aggs: []string{"sum:v", "count", "min:k"}}}, false},
		{"group --by k --agg sum:v --json", groupOptions{names: []string{lines},
			Group: flags.Group{By: []string{"k"}, Aggs: []string{"sum:v"}}}, true},
		{"group --by k --json", groupOptions{names: []string{numbers},
			Group: flags.Group{By: []string{"k"}, Aggs: []string{"count"}}}, true},
		{"distinct --by tag --number tag", groupOptions{names: []string{one},
			Read:  flags.Read{Options: table.Options{Number: []string{"tag"}}},
			Group: flags.Group{By: []string{"tag"}}}, false},
		{"distinct --csv --sort amount,city", groupOptions{names: []string{one, one},
			Output: flags.Output{CSV: true, Sort: []string{"amount", "city"}}}, false},
	} {
		args := strings.Fields(tt.args)
		if tt.json {
			args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--json" })
			args = append(args, "--json")
		}
		got, stderr, status := weftBeam(t.Context(), append(args, tt.o.names...)...)
		want := direct(t, &tt.o, tt.json)
		if tt.json { // up to the summary
			got, _, _ = strings.Cut(got, "\n],")
			want, _, _ = strings.Cut(want, "\n],")
		}
		if status != exitOK || got != want || strings.Count(want, "\n") < 2 {
			t.Errorf(
				"%s: exit status %d, says %s, prints\n%s\nwant\n%s",
				tt.args,
				status,
				stderr,
				got,
				want,
			)
		}
	}
}

// If files have no rows, the names of columns are printed, or 0 with --count.
func TestDistinct(t *testing.T) {
	dir := t.TempDir()
	in := file(t, dir, "x.csv", sales(1000, ""))
	stdout, stderr, status := weftBeam(t.Context(), "distinct", "--by", "tag", "--count", in)
	if status != exitOK || stdout != "11\n" ||
		!strings.Contains(stderr, "weft-beam: 1000 rows, 11 distinct on prism in ") {
		t.Errorf("exit status %d, prints %s, says %s", status, stdout, stderr)
	}
	none := file(t, dir, "none.csv", "a,b\n")
	stdout, stderr, status = weftBeam(
		t.Context(),
		"group",
		"--by",
		"a",
		"--agg",
		"sum:b",
		"--csv",
		none,
	)
	if status != exitOK || stdout != "a,sum:b\n" {
		t.Errorf("exit status %d, prints %q, says %s", status, stdout, stderr)
	}
	stdout, _, _ = weftBeam(t.Context(), "distinct", "--count", none)
	if stdout != "0\n" {
		t.Errorf("prints %q", stdout)
	}
}

// --parquet writes files that together contain all groups, and leaves --temp-location empty.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	in := file(t, dir, "x.csv", sales(1000, ""))
	args := []string{"group", "--by", "city,tag", "--agg", "sum:amount"}
	_, stderr, status := weftBeam(
		t.Context(),
		append(args, "--parquet", dir+"/out/p", "--shards", "3", in)...)
	if status != exitOK {
		t.Fatal(stderr)
	}
	sorted := []string{"--sort", "city,tag", "--csv", "--temp-location", dir + "/temp"}
	got, stderr, status := weftBeam(
		t.Context(),
		append([]string{"group", "--by", "city,tag", "--agg", "sum:sum:amount",
			dir + "/out/p-*-of-00003.parquet"}, sorted...)...)
	want, _, _ := weftBeam(t.Context(), slices.Concat(args, sorted, []string{in})...)
	// Text in Parquet files is sorted by bytes.
	gotRows, wantRows := strings.Split(got, "\n")[1:], strings.Split(want, "\n")[1:]
	slices.Sort(gotRows)
	slices.Sort(wantRows)
	if status != exitOK || len(gotRows) != 100 || !slices.Equal(gotRows, wantRows) {
		t.Errorf("%s, %s, want %s", stderr, got, want)
	}
	for _, prefix := range []string{dir + "/out/p", dir + "/out/../out/p"} {
		_, stderr, status = weftBeam(
			t.Context(),
			"distinct",
			"--parquet",
			prefix,
			"--shards",
			"3",
			dir+"/out/p-*",
		)
		if status != exitUsage || !strings.Contains(stderr, "which would be overwritten") {
			t.Errorf("%s: exit status %d, says %s", prefix, status, stderr)
		}
	}
	other := file(t, dir, "y-00000-of-00001.parquet", "mine")
	_, stderr, status = weftBeam(t.Context(), "distinct", "--parquet", dir+"/y", in)
	if text, err := os.ReadFile(other); status == exitOK || err != nil || string(text) != "mine" {
		t.Errorf("exit status %d, says %s", status, stderr)
	}
	if left, err := os.ReadDir(dir + "/temp"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v left", err, left)
	}
}

// A result is read by the names of its files, even in a folder with a name that looks like a
// pattern. A missing file is an error.
func TestResult(t *testing.T) {
	dir := t.TempDir()
	in := file(t, dir, "x.csv", sales(1000, ""))
	temp := dir + "/run[1]"
	for _, tt := range []struct {
		args string
		want string
	}{{"distinct --by tag --count", "11\n"}, {"group --by tag --csv --top 1", "tag,count\n0.5,91\n"}} {
		stdout, stderr, status := weftBeam(t.Context(), append(strings.Fields(tt.args),
			"--temp-location", temp, in)...)
		if status != exitOK || strings.Count(stdout, "\n") != strings.Count(tt.want, "\n") ||
			stdout[:2] != tt.want[:2] {
			t.Errorf("%s: exit status %d, says %s, prints %q", tt.args, status, stderr, stdout)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v, %v left", err, left)
	}
	for name, files := range map[string]int{"none": 0, "some": resultFiles - 1, "empty": resultFiles} {
		r := &result{prefix: dir + "/" + name}
		for i := range files {
			check(t, os.WriteFile(fileName(r.prefix, i), nil, 0o600))
		}
		j := &job{groupOptions: &groupOptions{count: true}}
		if err := j.print(t.Context(), r); err == nil ||
			!strings.Contains(err.Error(), "--temp-location") {
			t.Errorf("%s: %v", name, err)
		}
		check(t, r.remove(t.Context()))
	}
}

// The summary of JSON counts rows, bad lines and groups of all workers.
func TestJSON(t *testing.T) {
	in := file(t, t.TempDir(), "x.csv", sales(100, "c1,x,2\n"))
	stdout, stderr, status := weftBeam(
		t.Context(),
		"group",
		"--by",
		"city",
		"--agg",
		"sum:amount",
		"--bad",
		"skip",
		"--json",
		in,
		in,
	)
	var got struct {
		summary
		Rows []map[string]any `json:"rows"`
	}
	err := json.Unmarshal([]byte(stdout), &got)
	if err != nil || status != exitOK || got.RowsRead != 200 || got.Skipped != 2 || got.Groups != int64(len(got.Rows)) ||
		got.Groups < 5 ||
		!strings.Contains(stderr, ", 2 bad lines skipped, ") {
		t.Errorf("exit status %d, %v, %+v, says %s", status, err, got, stderr)
	}
}

// Errors describe the fault without Beam's plan.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	good, bad := file(
		t,
		dir,
		"good.csv",
		sales(10, ""),
	), file(
		t,
		dir,
		"bad.csv",
		sales(100_000, "c1,2\n"),
	)
	late := file(t, dir, "late.csv", sales(100_000, "c1,2.5,1\n"))
	huge := file(t, dir, "huge.csv", "city,amount\nx,9000000000000000000\nx,9000000000000000000\n")
	members := file(t, dir, "m.json", strings.Repeat("{\"a\": 1}\n", 200_000)+"{\"b\": 1}\n")
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"group", "--by", "town", good}, exitFailed, `weft-beam: --by: no column "town"; `},
		{[]string{"group", "--by", "city", bad}, exitFailed, "weft-beam: read " + bad + ":100002: 2 fields, want 3\n"},
		{[]string{"group", "--by", "amount", late}, exitFailed, "weft-beam: read " + late + `:100002: column amount was int64 so far, and here is "2.5"; --text amount`},
		{[]string{"group", "--by", "city", "--agg", "sum:amount", huge}, exitFailed, "weft-beam: merge the groups of partition "},
		{[]string{"group", "--by", "amount", "--agg", "sum:city", good}, exitFailed, "weft-beam: read " + good + ":2: column city: \"c0\" is not a number; use --null c0 "},
		{[]string{"distinct", members}, exitFailed, "weft-beam: read " + members + ":200001: member \"b\" comes here first"},
		{[]string{"group", "--by", "city", dir + "/*.xml"}, exitFailed, "weft-beam: no file matches "},
		{[]string{"group", "--by", "city", dir}, exitFailed, "weft-beam: " + dir + ": is a directory\n"},
		{[]string{"group", "--by", "city", "nowhere://x"}, exitFailed, "weft-beam: "},
		{[]string{"group", "--by", "city", "--sort", "x", good}, exitFailed, "weft-beam: --sort x: "},
		{[]string{"group", good}, exitUsage, "weft-beam: group: --by is missing"},
		{[]string{"group", "--by", "city"}, exitUsage, "weft-beam: group: no file given"},
		{[]string{"group", "--by", "city", "-"}, exitUsage, "weft-beam: group -: is a stream"},
		{[]string{"group", "--by", "city", "--shards", "2", good}, exitUsage, "weft-beam: group --shards 2: "},
		{[]string{"group", "--by", "city", "--parquet", "x", "--top", "2", good}, exitUsage, "weft-beam: group: --parquet excludes"},
		{[]string{"group", "--by", "city", "--lines", "--lazy-quotes", good}, exitUsage, "weft-beam: --lines and --lazy-quotes"},
		{[]string{"group", "--by", "city", "--agg", "sum", good}, exitUsage, "weft-beam: group --agg: "},
		{[]string{"group", "--by", "city", "--runner", "tpu", good}, exitUsage, "weft-beam: group --runner \"tpu\": want prism, "},
		{[]string{"group", "--by", "city", "--temp-location", "nowhere://x", good}, exitUsage, "weft-beam: --temp-location nowhere://x: "},
		{[]string{"group", "--by", "city", "--async", good}, exitUsage, "weft-beam: unknown flag: --async"},
		{[]string{"group", "--by", "city", "--memory", "0", good}, exitUsage, "weft-beam: group --memory 0: want a size"},
		{[]string{"join"}, exitUsage, "weft-beam: join: no such command"},
	} {
		stdout, stderr, status := weftBeam(t.Context(), tt.args...)
		if status != tt.status || stdout != "" || !strings.HasPrefix(stderr, tt.stderr) {
			t.Errorf("%v: exit status %d, prints %s, says %s", tt.args, status, stdout, stderr)
		}
	}
}

// Errors for runners that need a service say so.
func TestRunners(t *testing.T) {
	set := *jobopts.EnvironmentType // Prism sets it
	defer func() { *jobopts.EnvironmentType = set }()
	*jobopts.EnvironmentType = ""
	for _, tt := range []struct {
		o    beamOptions
		want string
	}{
		{beamOptions{runner: "dataflow"}, "needs --temp-location"}, {beamOptions{runner: "dataflow", temp: "gs://x"}, ""},
		{beamOptions{runner: "prism"}, ""},
	} {
		err := tt.o.check("group", true)
		if (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
	for arg, want := range map[string]bool{"--worker": true, "-worker=true": true, "worker": false, "--worker_binary=x": false} {
		if isWorker([]string{"x", arg}) != want {
			t.Errorf("isWorker of %s is not %v", arg, want)
		}
	}
}

// A job service receives the pipeline, and this process is its worker.
func TestService(t *testing.T) {
	free, err := net.Listen("tcp", "localhost:0")
	check(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	check(t, free.Close())
	n, err := strconv.Atoi(port)
	check(t, err)
	_, err = prism.CreateJobServer(t.Context(), prism.Options{Port: n})
	check(t, err)
	endpoint, environment := *jobopts.Endpoint, *jobopts.EnvironmentType
	defer func() { *jobopts.Endpoint, *jobopts.EnvironmentType = endpoint, environment }()
	*jobopts.Endpoint, *jobopts.EnvironmentType = "", ""

	in := file(t, t.TempDir(), "x.csv", sales(100, ""))
	args := []string{"group", "--by", "city", "--csv", in}
	want, _, _ := weftBeam(t.Context(), args...)
	*jobopts.Endpoint, *jobopts.EnvironmentType = "", ""
	args = append(args, "--runner", "universal")
	_, stderr, status := weftBeam(t.Context(), args...)
	if status != exitUsage ||
		!strings.HasPrefix(stderr, "weft-beam: group --runner universal: needs --endpoint") {
		t.Errorf("exit status %d, says %s", status, stderr)
	}
	args = append(args, "--endpoint", "localhost:"+port)
	_, stderr, status = weftBeam(t.Context(), args...)
	if status != exitUsage ||
		!strings.HasPrefix(stderr, "weft-beam: group: needs --temp-location") {
		t.Errorf("exit status %d, says %s", status, stderr)
	}
	got, stderr, status := weftBeam(t.Context(), append(args, "--environment_type", "LOOPBACK")...)
	if status != exitOK || got != want || !strings.Contains(stderr, " on universal in ") {
		t.Errorf("exit status %d, prints %s, want %s, says %s", status, got, want, stderr)
	}
}

// An interrupted job ends with its own exit status.
func TestInterrupted(t *testing.T) {
	in := file(t, t.TempDir(), "x.csv", sales(10, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, stderr, status := weftBeam(ctx, "group", "--by", "city", in); status != exitInterrupted ||
		stderr != "weft-beam: interrupted\n" {
		t.Errorf("exit status %d, says %s", status, stderr)
	}
}

// The help of each verb lists flags of Beam.
func TestHelp(t *testing.T) {
	for _, verb := range []string{"group", "distinct"} {
		stdout, _, status := weftBeam(t.Context(), verb, "--help")
		for _, text := range []string{"--endpoint", "--environment_type", "--lines", "--temp-location", "weft-beam " + verb + " --by"} {
			if status != exitOK || !strings.Contains(stdout, text) {
				t.Errorf("help of %s has no %s", verb, text)
			}
		}
	}
}
