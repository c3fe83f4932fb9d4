package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// weftBench runs a command line.
func weftBench(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs})
	return out.String(), errs.String(), status
}

// runs runs experiments quickly on the CPU.
func runs(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := weftBench(t, append([]string{"run", "--device=cpu", "--n=4096", "--runs=1"}, args...)...)
	if status != exitOK || stderr != "" {
		t.Fatalf("%q: status %d, says %q", args, status, stderr)
	}
	return stdout
}

func TestRunPrintsTables(t *testing.T) {
	stdout := runs(t, probeLength, "host")
	for _, want := range []string{probeLength + ": ", "mean probe", "of limit", "host: ", "limits: cas64 "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output lacks %q:\n%s", want, stdout)
		}
	}
}

// probeLength is an experiment that takes no time.
const probeLength = "simple-probe-length"

// Command report shows a saved result with the same table, page and plots as command run.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	one, several := filepath.Join(dir, "one.json"), filepath.Join(dir, "several.json")
	for file, names := range map[string][]string{one: {"simple-table1"}, several: {"host", probeLength}} {
		if err := os.WriteFile(file, []byte(runs(t, append(names, "--json")...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, plots := filepath.Join(dir, "page.html"), filepath.Join(dir, "new", "plots")
	stdout, stderr, status := weftBench(t, "report", one, several, "--html", page, "--svg", plots)
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, says %q", status, stderr)
	}
	for _, want := range []string{"simple-table1: ", "host: ", probeLength + ": "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output lacks %q:\n%s", want, stdout)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(html, []byte("weft-bench report "+one)) || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("page: %v, %d bytes", err, len(html))
	}
	svg, err := os.ReadFile(filepath.Join(plots, "simple-table1.svg"))
	if err != nil || !bytes.Contains(svg, []byte("published: GTX 1060")) {
		t.Errorf("plot: %v, %d bytes", err, len(svg))
	}
	stdout, _, status = weftBench(t, "report", "--json", several)
	var list []experiment.Result
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != exitOK || len(list) != 2 || list[0].Experiment != "host" || len(list[0].Rows) != 2 {
		t.Errorf("%d results, status %d, %v", len(list), status, err)
	}
}

func TestRunWritesFiles(t *testing.T) {
	dir := t.TempDir()
	page, plots := filepath.Join(dir, "page.html"), filepath.Join(dir, "new", "plots")
	for range 2 { // the second time over the output of the first
		runs(t, "simple-table1", "--html", page, "--svg", plots)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "weft-bench run simple-table1 --device=cpu --n=4096 --runs=1 --seed=1 --html=page.html"; !strings.Contains(string(html), want) {
		t.Errorf("the page doesn't say %q", want)
	}
	svg, err := os.ReadFile(filepath.Join(plots, "simple-table1.svg"))
	if err != nil || !bytes.Contains(svg, []byte("published: GTX 1060")) {
		t.Errorf("plot: %v, %d bytes", err, len(svg))
	}
}

func TestList(t *testing.T) {
	stdout, _, status := weftBench(t, "list")
	if status != exitOK {
		t.Fatalf("status %d", status)
	}
	for _, e := range experiment.All() {
		if !strings.Contains(stdout, e.Name+" ") || !strings.Contains(stdout, e.Title) {
			t.Errorf("list lacks %s:\n%s", e.Name, stdout)
		}
	}
	stdout, _, status = weftBench(t, "list", "launch")
	if status != exitOK || !strings.Contains(stdout, "256 keys") || strings.Contains(stdout, "simple-table1") {
		t.Errorf("list of one: status %d\n%s", status, stdout)
	}
	stdout, _, status = weftBench(t, "list", "--json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != exitOK || len(list) != len(experiment.All()) {
		t.Errorf("list as JSON: status %d, %d entries, %v", status, len(list), err)
	}
}

// Invalid flags and unwritable outputs are reported before anything is measured.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notes, graph := file("notes.html", "<p>notes\n"), file("in.el", "0 1\n")
	for _, c := range []struct {
		args    []string
		status  int
		message string
	}{
		{[]string{"measure"}, exitUsage, "unknown command"},
		{[]string{"run", "no-such-experiment"}, exitUsage, "no such experiment"},
		{[]string{"list", "no-such-experiment"}, exitUsage, "no such experiment"},
		{[]string{"run", "host", "--nope"}, exitUsage, "unknown flag"},
		{[]string{"run", "host", "--quick", "--full"}, exitUsage, "exclude each other"},
		{[]string{"run", "host", "--n", "-1"}, exitUsage, "must not be negative"},
		{[]string{"run", "host", "--runs", "-1"}, exitUsage, "must not be negative"},
		{[]string{"run", "host", "--device", "gpu"}, exitUsage, `--device "gpu": want auto`},
		{[]string{"run", "host", "--format", "xml"}, exitUsage, "--format xml: want one of table, json, benchstat"},
		{[]string{"run", "host", "--html="}, exitUsage, "want a name"},
		{[]string{"run", "host", "--html", notes}, exitUsage, "the file exists and is not an HTML page"},
		{[]string{"run", "host", "--graph", graph, "--html", graph}, exitUsage, "it is the input"},
		{[]string{"run", "host", "--graph", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"run", "host", "--graph", dir}, exitFailed, "is a directory"},
		{[]string{"run", "host", "--html", dir}, exitFailed, "is a directory"},
		{[]string{"run", "host", "--html", filepath.Join(dir, "none", "x.html")}, exitFailed, "no such file"},
		{[]string{"run", "host", "--svg", notes}, exitFailed, "not a directory"},
		{[]string{"report"}, exitUsage, "want at least one file"},
		{[]string{"report", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"report", notes}, exitFailed, "notes.html: invalid character"},
		{[]string{"report", file("other.json", `{"rows": []}`)}, exitFailed, "want the output of weft-bench run --json"},
	} {
		stdout, stderr, status := weftBench(t, c.args...)
		if status != c.status || stdout != "" || !strings.HasPrefix(stderr, "weft-bench: ") || !strings.Contains(stderr, c.message) {
			t.Errorf("%q: status %d, prints %q, says %q; want %d and %q", c.args, status, stdout, stderr, c.status, c.message)
		}
	}
}

// An interrupted run reports so.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if status := run(ctx, []string{"run", "host", "--device=cpu", "--n=4096"}, a); status != exitInterrupted {
		t.Errorf("status %d, says %q", status, errs.String())
	}
}

// The table of the papers lists exactly the experiments from papers.
func TestPapersTable(t *testing.T) {
	page, err := os.ReadFile("../../../docs/figures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## The papers\n")
	papers := regexp.MustCompile(`^(awad-|simple-|slabhash-(fig|alloc|light)|horton-fig|gphash-fig)`)
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\|[^|]*\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
		if _, err := experiment.Find(m[1]); err != nil {
			t.Error(err)
		}
	}
	for _, e := range experiment.All() {
		for _, name := range append([]string{e.Name}, e.Also...) {
			if papers.MatchString(name) != rows[name] {
				t.Errorf("%s: in the table %v", name, rows[name])
			}
		}
	}
}
