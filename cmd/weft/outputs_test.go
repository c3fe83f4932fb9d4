//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outputFiles creates a folder with inputs under several names, and with outputs of earlier runs.
func outputFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"in.csv": "k,v\na,1\na,2\n", "in2.csv": "k,v\nb,1\n", "in.el": "0 1\n1 2\n", "in2.txt": "0 1\n1 2\n", "empty": "",
		"old.html": "<!DOCTYPE html>\n<p>old", "notes.svg": "notes\n", "page.html": "<!DOCTYPE html>\n<p><svg></svg>", "image.svg": "<?xml?><!-- a --><svg><!doctype html>", "notes.html": "<p>notes\n", "notes.mtx": "notes\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must(t, os.Link(filepath.Join(dir, "in.csv"), filepath.Join(dir, "hard")))
	must(t, os.Symlink("in.csv", filepath.Join(dir, "soft")))
	must(t, os.Symlink("../soft", filepath.Join(dir, "sub", "softer")))
	return dir
}

// runIn runs a shell command line in a folder. weft is the program under test.
func runIn(t *testing.T, dir, line string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `weft() { "`+os.Args[0]+`" "$@"; }; `+line)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	_ = cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// contents returns the files of a folder, with their modes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			all[path] = fmt.Sprint(info.Mode(), " ", string(content))
			return err
		}
		all[path] = info.Mode().String()
		return err
	}))
	return all
}

// It is a usage error, and nothing changes, if an output is an input, another output, or an
// existing file of another kind.
func TestOutputsRefused(t *testing.T) {
	const group, distinct, join = "weft group --by k --agg sum:v ", "weft distinct ", "weft join --on k "
	for _, tt := range []struct{ line, say string }{
		{group + "--parquet in.csv in2.csv", "group --parquet in.csv: the file exists and is not a Parquet file"},
		{group + "--parquet in2.csv in.csv in2.csv", "group --parquet in2.csv: it is the input in2.csv"},
		{group + "--parquet in.csv ./sub/../in.csv", "--parquet in.csv: it is the input ./sub/../in.csv"},
		{group + "--parquet hard in.csv", "--parquet hard: it is the input in.csv"},
		{group + "--parquet sub/softer in.csv", "--parquet sub/softer: it is the input in.csv"},
		{group + "--parquet in.csv sub/softer", "--parquet in.csv: it is the input sub/softer"},
		{group + "--parquet in.csv - < in.csv", "--parquet in.csv: it is the input standard input"},
		{group + "--parquet in.csv /dev/stdin < hard", "--parquet in.csv: it is the input /dev/stdin"},
		{group + "--parquet in.csv /proc/self/fd/7 7< in.csv", "--parquet in.csv: it is the input /proc/self/fd/7"},
		{group + "--parquet /dev/fd/7 in.csv 7<> in.csv", "--parquet /dev/fd/7: it is the input in.csv"},
		{group + "--parquet /dev/stdout in.csv >> in.csv", "standard output: it is the input in.csv"},
		{distinct + "--parquet in.csv in.csv", "--parquet in.csv: it is the input in.csv"},
		{distinct + "--parquet notes.svg in.csv", "the file exists and is not"},
		{distinct + "--parquet - in.csv", "distinct --parquet -: write /dev/stdout for standard output"},
		{distinct + "--parquet \"$UNSET\" in.csv", `invalid argument "" for "--parquet" flag: want a name`},
		{"weft graph stats --svg - in.el", "--svg -: write /dev/stdout for standard output"},
		{"weft graph stats --svg= in.el", `"--svg" flag: want a name`},
		{"weft graph stats --svg page.html in.el", "not an SVG image"},
		{join + "--parquet in.csv in.csv in2.csv", "join --parquet in.csv: it is the input in.csv"},
		{join + "--parquet in2.csv in.csv in2.csv", "join --parquet in2.csv: it is the input in2.csv"},
		{join + "--parquet hard in2.csv in.csv", "join --parquet hard: it is the input in.csv"},
		{group + "in.csv >> in.csv", "group standard output: it is the input in.csv"},
		{distinct + "in.csv 1<> hard", "standard output: it is the input in.csv"},
		{join + "in.csv in2.csv >> in2.csv", "standard output: it is the input in2.csv"},
		{"weft count in.csv >> in.csv", "count standard output: it is the input in.csv"},
		{"weft count - < in.csv >> soft", "count standard output: it is the input standard input"},
		{"weft graph stats in.el >> in.el", "graph stats standard output: it is the input in.el"},
		{"weft graph bfs --values - < in.el >> in.el", "standard output: it is the input standard input"},
		{"weft graph convert --to csv in.el - >> in.el", "standard output: it is the input in.el"},
		{"weft graph convert in.el in.el", "write in.el: it is the input in.el"},
		{"weft graph convert --to el in.el ./in.el", "write ./in.el: it is the input in.el"},
		{"weft graph convert in.el in2.txt", "write in2.txt: the file exists and is not a .txt file as convert writes it"},
		{"weft graph convert in.el notes.mtx", "is not a .mtx file"},
		{"weft graph convert --to csv in.el in.csv", "is not a .csv file"},
		{"weft graph convert --to csv in.el /dev/stdout", "/dev/stdout: it is standard output, where other results go"},
		{"weft graph stats --svg in.el in.el", "--svg in.el: it is the input in.el"},
		{"weft graph stats --svg in.csv in.el", "--svg in.csv: the file exists and is not an SVG image"},
		{"weft graph stats --svg notes.svg in.el", "not an SVG image"},
		{"weft graph stats --svg /dev/stdout in.el", "it is standard output"},
		{"weft graph stats --svg empty in.el >> empty", "--svg empty: standard output is the same file"},
		{"weft graph replay --svg in.el in.el", "--svg in.el: it is the input in.el"},
		{"weft graph replay in.el >> in.el", "standard output: it is the input in.el"},
	} {
		dir := outputFiles(t)
		before := contents(t, dir)
		stdout, stderr, status := runIn(t, dir, tt.line)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, tt.say) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: exit status %d, prints %q, says %q, want %q", tt.line, status, stdout, stderr, tt.say)
		}
		if after := contents(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: files have changed:\n%v\nwere\n%v", tt.line, after, before)
		}
	}
}

// Information about a pool is never written to the pool, and a pool never replaces an existing
// file.
func TestPoolOutputsRefused(t *testing.T) {
	path := newPool(t, 10)
	dir, name := filepath.Split(path)
	before := contents(t, dir)
	for line, want := range map[string]int{
		"weft pool dump NAME >> NAME": exitUsage, "weft pool info NAME 1<> NAME": exitUsage, "weft pool check ./NAME >> NAME": exitUnknown,
		"weft pool create NAME --key-size 8 --value-size 8 --capacity 100 >> NAME": exitUsage,
		"weft pool create NAME --key-size 8 --value-size 8 --capacity 100":         exitFailed,
	} {
		line = strings.ReplaceAll(line, "NAME", name)
		if stdout, stderr, status := runIn(t, dir, line); status != want || stdout != "" {
			t.Errorf("%s: exit status %d, prints %q, says %q", line, status, stdout, stderr)
		}
		if after := contents(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: files have changed", line)
		}
	}
}

// Outputs are created, or replace earlier outputs and empty files. They keep links and modes, and
// leave no other files.
func TestOutputsWritten(t *testing.T) {
	for _, tt := range []struct {
		// a command line, the file that it creates, and how the file begins
		line, file, begins string
	}{
		{"weft group --by k --parquet FILE in.csv", "x", "PAR1"},
		{"weft distinct --parquet FILE in.csv", "x", "PAR1"},
		{"weft join --on k --parquet FILE in.csv in.csv", "x", "PAR1"},
		{"weft graph stats --svg FILE in.el", "x", "<?xml"},
		{"weft graph replay --svg FILE in.el", "x", "<?xml"},
		{"weft graph convert in.el FILE", "x.mtx", "%%MatrixMarket"},
		{"weft graph convert in.el FILE", "x.csv", "source,target\n"},
		{"weft graph convert in.el FILE", "x.wel", "0 1 1\n"},
		{"weft graph convert in.el FILE", "x.csv.gz", "\x1f\x8b"},
		{"weft graph convert in.el FILE", "x.wel.zst", "\x28\xb5\x2f\xfd"},
	} {
		dir := outputFiles(t)
		link := "dangling" + filepath.Ext(tt.file)
		if strings.Count(tt.file, ".") > 1 {
			link = "dangling" + tt.file[strings.Index(tt.file, "."):]
		}
		must(t, os.Symlink("sub/"+tt.file, filepath.Join(dir, link)))
		must(t, os.WriteFile(filepath.Join(dir, "empty-"+tt.file), nil, 0o604))
		for _, to := range []string{tt.file, link, "empty-" + tt.file} {
			line := strings.ReplaceAll(tt.line, "FILE", to)
			for again := range 2 { // the second run replaces the output of the first
				if _, stderr, status := runIn(t, dir, "umask 027; "+line); status != exitOK {
					t.Errorf("%s, time %d: exit status %d, says %q", line, again, status, stderr)
				}
			}
			content, err := os.ReadFile(filepath.Join(dir, to))
			if err != nil || !bytes.HasPrefix(content, []byte(tt.begins)) {
				t.Errorf("%s: makes %.40q, %v", line, content, err)
			}
			info, err := os.Stat(filepath.Join(dir, to))
			must(t, err)
			if want := map[bool]fs.FileMode{true: 0o604, false: 0o640}[strings.HasPrefix(to, "empty-")]; info.Mode() != want {
				t.Errorf("%s: mode %v, want %v", line, info.Mode(), want)
			}
		}
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: the link is gone: %v", tt.line, err)
		}
		left := slices.DeleteFunc(fileNames(t, dir), func(name string) bool { return !strings.HasPrefix(name, ".") })
		if len(left) > 0 {
			t.Errorf("%s: %q are left", tt.line, left)
		}
	}
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// Devices, pipes and files that a shell has opened are written directly.
func TestOutputsDirect(t *testing.T) {
	dir := outputFiles(t)
	for _, line := range []string{
		"weft distinct --parquet /dev/null in.csv", "weft distinct --parquet /dev/null /dev/null || test $? = 1", "weft count /dev/null > /dev/null",
		"weft distinct --parquet /dev/stdout in.csv | cmp - want", "weft distinct --parquet /dev/stdout in.csv > a && cmp a want",
		"weft distinct --parquet /dev/fd/3 in.csv 3> b && cmp b want", "weft distinct --parquet >(cat > c; touch done) in.csv && until test -e done; do sleep .01; done; cmp c want",
		"printf x > d; weft distinct --parquet /dev/stdout in.csv >> d && printf x | cat - want | cmp - d",
		"mkfifo p; cat p > e & weft distinct --parquet p in.csv && wait && cmp e want && test -p p",
		"weft graph convert --to csv in.el /dev/null", "weft graph stats --svg /dev/null in.el", "weft graph convert --to csv in.el - > f",
	} {
		if _, stderr, status := runIn(t, dir, "test -e want || weft distinct --parquet want in.csv; "+line); status != exitOK {
			t.Errorf("%s: exit status %d, says %q", line, status, stderr)
		}
	}
}

// If a run is interrupted or killed, the old file remains and no other file.
func TestOutputsInterrupted(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, os.Kill} {
		dir := outputFiles(t)
		if _, stderr, status := runIn(t, dir, "weft distinct --parquet x in.csv"); status != exitOK {
			t.Fatal(stderr)
		}
		before := contents(t, dir)
		// The left input is a pipe that does not end. The program writes rows and then waits for
		// more.
		cmd := weftCommand(t, "join", "--on", "k", "--parquet", filepath.Join(dir, "x"), "-", filepath.Join(dir, "in.csv"))
		stdin, err := cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		_, err = stdin.Write([]byte("k,w\n" + strings.Repeat("a,1\n", 5<<20)))
		must(t, err)
		time.Sleep(50 * time.Millisecond)
		must(t, cmd.Process.Signal(signal))
		_ = cmd.Wait()
		stdin.Close()
		if after := contents(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%v: files have changed:\n%v\nwere\n%v", signal, after, before)
		}
	}
}

// The vertices that a format cannot represent are counted.
func TestGraphConvertLeavesOut(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from.mtx")
	must(t, os.WriteFile(from, []byte("%%MatrixMarket matrix coordinate pattern general\n5 5 1\n2 3\n"), 0o600))
	for to, want := range map[string]float64{"a.csv": 3, "a.txt": 3, "a.el": 2, "a.wel": 2, "a.gr": 0, "a.mtx": 0} {
		if got := graphJSON(t, "convert", "--json", from, filepath.Join(dir, to)); got["left_out"] != want {
			t.Errorf("%s: %v, want %v", to, got["left_out"], want)
		}
	}
	stdout, stderr, status := runIn(t, dir, "weft graph convert --to csv from.mtx -")
	if stdout != "source,target\n2,3\n" || stderr != "weft: left out, since they have no edge: 3 vertices\n" || status != exitOK {
		t.Errorf("prints %q, says %q, exit status %d", stdout, stderr, status)
	}
}
