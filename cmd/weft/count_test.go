package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/weftgo/weft/internal/progress"
)

func TestCount(t *testing.T) {
	fruit := writeFile(t, "pear\napple\npear\n\npear plum\napple")
	for _, tt := range []struct {
		name  string
		args  []string
		stdin string
		want  string
	}{
		{"lines", []string{fruit}, "", "2 apple\n2 pear\n1 \n1 pear plum\n"},
		{"words", []string{"--by", "word", fruit}, "", "3 pear\n2 apple\n1 plum\n"},
		{"top", []string{"--by", "word", "--top", "1", fruit}, "", "3 pear\n"},
		{"top of more than there are", []string{"--by", "word", "--top", "10", fruit}, "", "3 pear\n2 apple\n1 plum\n"},
		{"top 0 is all", []string{"--by=word", "--top=0", fruit}, "", "3 pear\n2 apple\n1 plum\n"},
		{"same file twice", []string{"--by", "word", fruit, fruit}, "", "6 pear\n4 apple\n2 plum\n"},
		{"standard input", []string{"-"}, "b\na\nb", "2 b\n1 a\n"},
		{"file and standard input", []string{"--by", "word", "-", fruit}, "plum plum plum", "4 plum\n3 pear\n2 apple\n"},
		{"standard input twice", []string{"-", "-"}, "a\n", "1 a\n"},
		{"records", []string{"--by", "bytes:2", "-"}, "ababcdabc", "3 ab\n1 c\n1 cd\n"},
		{"binary", []string{"-"}, "\xff\x00\n\x00\n\xff\x00\n", "2 \xff\x00\n1 \x00\n"},
		{"empty", []string{"-"}, "", ""},
		{"empty file", []string{os.DevNull}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, status := runWeft(
				t,
				tt.stdin,
				append([]string{"count", "--device", "cpu"}, tt.args...)...)
			if status != exitOK {
				t.Errorf("exit status %d: %s", status, stderr)
			}
			if stdout != tt.want {
				t.Errorf("prints %q, want %q", stdout, tt.want)
			}
			summary := regexp.MustCompile(
				`^weft: (1 item|[02-9] items|\d\d+ items), \d+ distinct, [\d.e+]+ k?B in [\d.e+-]+ s: [\d.e+]+ ?[kMG]? ?items/s on cpu \(.*\)\n$`,
			)
			if !summary.MatchString(stderr) {
				t.Errorf("says %q", stderr)
			}
		})
	}
}

func TestCountJSON(t *testing.T) {
	stdout, stderr, status := runWeft(
		t,
		"<&>\n\xff\n<&>\n\"\u2028\x01\n\n\xff\n<&>",
		"count",
		"--json",
		"--device=cpu",
		"-",
	)
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	var got struct {
		summary
		Top []struct {
			Count  uint64
			Item   *string
			Base64 []byte `json:"item_base64"`
		}
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if got.By != "line" || got.Items != 7 || got.Distinct != 4 || got.Bytes != 22 ||
		got.Device != "cpu" ||
		got.Seconds <= 0 ||
		got.ItemsPerSecond <= 0 {
		t.Errorf("summary %+v", got.summary)
	}
	text := ""
	for _, x := range got.Top {
		if (x.Item == nil) == (x.Base64 == nil) {
			t.Errorf("an item has not exactly one form in %s", stdout)
			continue
		}
		if x.Item == nil {
			text += fmt.Sprintf("%d base64 %q,", x.Count, x.Base64)
		} else {
			text += fmt.Sprintf("%d %q,", x.Count, *x.Item)
		}
	}
	if want := `3 "<&>",2 base64 "\xff",1 "",1 "\"\u2028\x01",`; text != want {
		t.Errorf("items %s, want %s", text, want)
	}
}

// TestCountAgainstSort compares the result with the result of standard tools.
func TestCountAgainstSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for range 200_000 {
		n := rng.IntN(1 + rng.IntN(100_000))
		fmt.Fprintf(&b, "%.*s%d\n", n%30, "a line with some words \t in it", n)
	}
	name := writeFile(t, b.String())
	cmd := exec.CommandContext(
		t.Context(),
		"sh",
		"-c",
		`sort "$0" | uniq -c | sed 's/^ *//' | sort -k1,1nr -s`,
		name,
	)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	want, err := cmd.Output()
	if err != nil {
		t.Skip("no sort and uniq:", err)
	}
	got, stderr, status := runWeft(t, "", "count", "--device", "cpu", name)
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	if got != string(want) {
		t.Errorf("prints %d bytes, sort and uniq %d others", len(got), len(want))
	}
}

func TestCountUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	name := writeFile(t, "a")
	if err := os.Chmod(name, 0); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := runWeft(t, "", "count", "--device", "cpu", name)
	if want := "weft: count " + name + ": permission denied\n"; status != exitFailed ||
		stderr != want {
		t.Errorf("exit status %d, says %q, want %q", status, stderr, want)
	}
}

func TestCountNamedPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", name).Run(); err != nil {
		t.Skip("no named pipes:", err)
	}
	go os.WriteFile(name, []byte("a\nb\na\n"), 0)
	stdout, stderr, status := runWeft(t, "", "count", "--device", "cpu", name)
	if status != exitOK || stdout != "2 a\n1 b\n" {
		t.Errorf("exit status %d, prints %q, says %q", status, stdout, stderr)
	}
}

// A reader that stops early is not an error to report.
func TestClosedPipe(t *testing.T) {
	var lines strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&lines, "line", i)
	}
	cmd := weftCommand(t, "count", "--device", "cpu", writeFile(t, lines.String()))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReaderSize(stdout, 16).ReadString('\n')
	if err != nil || first != "1 line 0\n" {
		t.Errorf("first line %q, %v", first, err)
	}
	stdout.Close()
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("says %q", &stderr)
	}
}

// brokenWriter fails like a pipe without a reader, or a full disk.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		stderr string
	}{
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, exitPipe, ""},
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, exitFailed, "weft: count: write results: no space left on device\n"},
	} {
		for _, format := range []string{"--json=false", "--json"} {
			var stderr bytes.Buffer
			a := &app{
				stdin:  strings.NewReader("a b"),
				stdout: brokenWriter{tt.err},
				stderr: &stderr,
			}
			status := run(t.Context(), []string{"count", "--device=cpu", format, "-"}, a)
			if status != tt.status || stderr.String() != tt.stderr {
				t.Errorf("%v: exit status %d, says %q", tt.err, status, &stderr)
			}
		}
	}
}

func TestReadError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	r, w := io.Pipe()
	go func() {
		w.Write([]byte("a\n"))
		w.CloseWithError(&os.PathError{Op: "read", Path: "/dev/stdin", Err: syscall.EIO})
	}()
	status := run(
		t.Context(),
		[]string{"count", "--device=cpu", "-"},
		&app{stdin: r, stdout: &stdout, stderr: &stderr},
	)
	if status != exitFailed || stdout.Len() > 0 ||
		stderr.String() != "weft: count standard input: input/output error\n" {
		t.Errorf("exit status %d, prints %q, says %q", status, &stdout, &stderr)
	}
}

func TestUnits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 999: "999", 999.7: "1 k", 29_649_000: "29.6 M", 1e9: "1 G"} {
		if got := progress.SI(x, ""); got != want {
			t.Errorf("progress.SI(%v) = %q, want %q", x, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1<<20 - 1: "1 MiB", 1536: "1.5 KiB", 24 << 30: "24 GiB"} {
		if got := binaryUnits(n); got != want {
			t.Errorf("binaryUnits(%d) = %q, want %q", n, got, want)
		}
	}
}

// Lines and words are the same in any encoding of the text. Records are bytes.
func TestCountText(t *testing.T) {
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, tt := range []struct{ by, text, want string }{
		{"line", pack("a\nb\na\n"), "2 a\n1 b\n"},
		{"word", pack("a b a") + strings.Repeat("\x00", 512), "2 a\n1 b\n"},
		{"line", "\xff\xfea\x00\n\x00\x0a\x01\n\x00a\x00", "2 a\n1 \u010a\n"},
		{"line", "\ufeffa\na\n", "2 a\n"},
		{"line", "a\rb\ra\r", "2 a\n1 b\n"},
		{"line", "a\nb\rc\r\na\n", "2 a\n1 b\rc\r\n"},
		{"bytes:2", "\x1f\x8b\xff\xfe\x1f\x8b", "2 \x1f\x8b\n1 \xff\xfe\n"},
	} {
		for _, args := range [][]string{{"-"}, {writeFile(t, tt.text)}} {
			stdout, stderr, status := runWeft(
				t,
				tt.text,
				append([]string{"count", "--device=cpu", "--by", tt.by}, args...)...)
			if status != exitOK || stdout != tt.want {
				t.Errorf(
					"%q by %s: status %d, %q, want %q; %s",
					tt.text,
					tt.by,
					status,
					stdout,
					tt.want,
					stderr,
				)
			}
		}
	}
	stdout, stderr, status := runWeft(t, "\xfd7zXZ\x00...", "count", "--device=cpu", "-")
	if want := "weft: count standard input: xz: weft cannot read it; use xz -dc FILE | weft … -\n"; status != exitFailed ||
		stdout != "" ||
		stderr != want {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
}

// Items that exceed --memory go through the temporary file, with the same result.
func TestCountBeyondMemory(t *testing.T) {
	var text strings.Builder
	for i := range 600_000 {
		fmt.Fprintln(&text, "a line of some length", i%400_000*7919)
	}
	file := writeFile(t, text.String())
	run := func(args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, status := runWeft(t, "", append([]string{"count", file}, args...)...)
		if status != exitOK {
			t.Fatalf("%v: status %d, %s", args, status, stderr)
		}
		return stdout, stderr
	}
	for _, top := range []string{"0", "3", "100000"} {
		want, _ := run("--top", top)
		got, says := run("--top", top, "--memory", "16MiB", "--temp-dir", "/var/tmp")
		if got != want || !strings.Contains(says, " 400000 distinct") {
			t.Errorf("--top %s: other items with less memory, or %s", top, says)
		}
	}
	for _, args := range [][]string{{"--memory", "1MiB"},
		{"--memory", "16MiB", "--temp-dir", file}} {
		_, stderr, status := runWeft(t, "", append([]string{"count", file}, args...)...)
		if status == exitOK || !strings.Contains(stderr,
			strings.TrimPrefix(args[len(args)-2], "--")) &&
			!strings.Contains(stderr, "TempDir") {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}
