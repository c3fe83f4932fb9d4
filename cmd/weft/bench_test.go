package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/experiment"
)

// bench runs weft bench on the CPU and returns what it prints.
func bench(t *testing.T, asJSON bool, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, device: "cpu", json: asJSON}
	cmd := newBenchCommand(a)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestBenchTable(t *testing.T) {
	stdout, stderr, err := bench(t, false, "linear-probe-length", "host", "--n", "4096", "--runs", "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"linear-probe-length: ", "mean probe", "of limit", "host: ", "limits: cas64 "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output lacks %q:\n%s", want, stdout)
		}
	}
	if stderr != "" {
		t.Errorf("progress without a terminal: %q", stderr)
	}
}

func TestBenchJSON(t *testing.T) {
	stdout, _, err := bench(t, true, "host", "--n", "4096", "--runs", "1")
	if err != nil {
		t.Fatal(err)
	}
	var one experiment.Result
	if err := json.Unmarshal([]byte(stdout), &one); err != nil || one.Experiment != "host" || len(one.Rows) != 2 {
		t.Errorf("one experiment: %v in %s", err, stdout)
	}
	stdout, _, err = bench(t, true, "host", "linear-probe-length", "--n", "4096", "--runs", "1")
	if err != nil {
		t.Fatal(err)
	}
	var several []experiment.Result
	if err := json.Unmarshal([]byte(stdout), &several); err != nil || len(several) != 2 {
		t.Errorf("two experiments: %v in %s", err, stdout)
	}
}

func TestBenchWritesFiles(t *testing.T) {
	dir := t.TempDir()
	page, plots := filepath.Join(dir, "page.html"), filepath.Join(dir, "new", "plots")
	_, _, err := bench(t, false, "linear-insert-load", "--n", "4096", "--runs", "1", "--html", page, "--svg", plots)
	if err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "weft bench linear-insert-load --device=cpu --n=4096 --runs=1 --seed=1 --html=page.html"; !strings.Contains(string(html), want) {
		t.Errorf("the page doesn't say %q", want)
	}
	svg, err := os.ReadFile(filepath.Join(plots, "insert-load.svg"))
	if err != nil || !bytes.Contains(svg, []byte("published: GTX 1060")) {
		t.Errorf("plot: %v, %d bytes", err, len(svg))
	}
}

func TestBenchList(t *testing.T) {
	stdout, _, err := bench(t, false, "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range experiment.All() {
		if !strings.Contains(stdout, e.Name+" ") || !strings.Contains(stdout, e.Title) {
			t.Errorf("list lacks %s:\n%s", e.Name, stdout)
		}
	}
	stdout, _, err = bench(t, false, "--list", "launch")
	if err != nil || !strings.Contains(stdout, "256 keys") || strings.Contains(stdout, "linear-insert-load") {
		t.Errorf("list of one: %v\n%s", err, stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"no-such-experiment"},
		{"host", "--quick", "--full"},
		{"host", "--n", "-1"},
		{"host", "--runs", "-1"},
	} {
		if _, _, err := bench(t, false, args...); !errors.As(err, new(usageError)) {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
	if _, _, err := bench(t, false, "linear-insert-load", "--n", "4096", "--html", filepath.Join(t.TempDir(), "no", "page.html")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("page in a missing folder: %v", err)
	}
}
