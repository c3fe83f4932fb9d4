package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// If a file cannot be written completely, it is not created.
func TestParquetOfInvalidText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	_, stderr, status := runWeft(t, "k\n\xff\n", "distinct", "--parquet", name, "-")
	if status != exitFailed || !strings.Contains(stderr, `column k: "\xff" is not UTF-8`) {
		t.Errorf("exit status %d, says %q", status, stderr)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

// A Parquet file appears under its name when it is complete. Until then the name refers to the
// previous file.
func TestParquetOutput(t *testing.T) {
	dir := t.TempDir()
	left, link := filepath.Join(dir, "left.parquet"), filepath.Join(dir, "link")
	right := tableFile(t, "r.csv", "id,x\n2,b\n")
	run := func(want int, args ...string) {
		t.Helper()
		if _, stderr, status := runWeft(t, "", args...); status != want {
			t.Fatalf("%v: exit status %d, says %s", args, status, stderr)
		}
	}
	wantRows := func(want string) {
		t.Helper()
		if stdout, stderr, _ := runWeft(t, "", "distinct", "--csv", left); stdout != want {
			t.Errorf("the file has %q, want %q; %s", stdout, want, stderr)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 2 {
			t.Errorf("%v are left; %v", files, err)
		}
	}
	run(exitOK, "distinct", "--parquet", left, tableFile(t, "l.csv", "id\n1\n2\n"))
	must(t, os.Symlink(left, link))
	run(
		exitFailed,
		"join",
		"--on",
		"id",
		"--parquet",
		left,
		tableFile(t, "bad.csv", "id,y\n2,1\n3\n"),
		right,
	)
	wantRows("id\n1\n2\n")
	run(exitUsage, "join", "--on", "id", "--parquet", left, left, right)
	wantRows("id\n1\n2\n")
	run(
		exitOK,
		"join",
		"--on",
		"id",
		"--kind",
		"semi",
		"--parquet",
		link,
		tableFile(t, "l.csv", "id\n1\n2\n"),
		right,
	)
	wantRows("id\n2\n")
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	must(t, err)
	defer reader.Close()
	run(
		exitFailed,
		"join",
		"--on",
		"id",
		"--parquet",
		pipe,
		tableFile(t, "bad.csv", "id,y\n2,1\n3\n"),
		right,
	)
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v", err)
	}
}

// Sorting by a column with bytes that do not sort like its values is an error before rows are read.
func TestSortsOfBytes(t *testing.T) {
	f := flags.Output{Sort: []string{"d:desc"}}
	if _, err := f.Sorts([]table.Field{{Name: "d", Arrow: &goarrow.Decimal128Type{Precision: 5}}}); err == nil ||
		!strings.Contains(err.Error(), "--sort d:desc: ") {
		t.Errorf("decimals of 128 bits: %v", err)
	}
}

// An aligned table ends after a limited number of rows.
func TestAlignedEnds(t *testing.T) {
	stdout, _, status := runWeft(t, "k\n"+manyLines(1234), "distinct", "-")
	if status != exitOK || strings.Count(stdout, "\n") != 1002 ||
		!strings.HasSuffix(
			stdout,
			"\n… and 234 more rows: --csv, --json and --parquet write all, --top the first\n",
		) {
		t.Errorf("exit status %d, prints %d lines", status, strings.Count(stdout, "\n"))
	}
}
