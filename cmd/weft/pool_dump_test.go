//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestPoolDump(t *testing.T) {
	for name, path := range map[string]string{"whole": newPool(t, 3000), "killed": killedPool(t, 3000), "empty": newPool(t, 0)} {
		want := map[string]string{}
		for i := range 3000 {
			k, v := pair(i)
			want[hex.EncodeToString(k)] = hex.EncodeToString(v)
		}
		if name == "empty" {
			clear(want)
		}
		before, err := os.ReadFile(path)
		must(t, err)
		got := map[string]string{}
		stdout, stderr, status := runWeft(t, "", "pool", "dump", path)
		for line := range strings.Lines(stdout) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got[key] = value
		}
		if say := fmt.Sprintf("weft: %d of %[1]d pairs\n", len(want)); status != exitOK ||
			stderr != say ||
			!maps.Equal(got, want) ||
			strings.Count(stdout, "\n") != len(want) {
			t.Errorf("%s: exit status %d, %d pairs, says %q", name, status, len(got), stderr)
		}
		clear(got)
		stdout, _, status = runWeft(t, "", "pool", "dump", "--json", path)
		for line := range strings.Lines(stdout) {
			var p struct{ Key, Value string }
			decode(t, line, &p)
			got[p.Key] = p.Value
		}
		if status != exitOK || !maps.Equal(got, want) {
			t.Errorf("%s: --json: exit status %d, %d pairs", name, status, len(got))
		}
		for _, limit := range []int{1, 2999, 5000} {
			stdout, stderr, status := runWeft(
				t,
				"",
				"pool",
				"dump",
				fmt.Sprint("--limit=", limit),
				path,
			)
			lines := min(limit, len(want))
			if say := fmt.Sprintf("weft: %d of %d pairs\n", lines, len(want)); status != exitOK ||
				strings.Count(stdout, "\n") != lines ||
				stderr != say {
				t.Errorf(
					"%s: --limit %d: exit status %d, %d lines, says %q",
					name,
					limit,
					status,
					strings.Count(stdout, "\n"),
					stderr,
				)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file is another one, %v", name, err)
		}
	}
}

// For a damaged pool, nothing is printed.
func TestPoolDumpCorrupt(t *testing.T) {
	for _, path := range []string{damage(t, newPool(t, 900), 1, false), damage(t, newPool(t, 900), 1, true), truncate(t, newPool(t, 9))} {
		stdout, stderr, status := runWeft(t, "", "pool", "dump", path)
		if status != exitFailed || stdout != "" {
			t.Errorf("exit status %d, prints %q", status, stdout)
		}
		wantOneLine(t, []string{"pool", "dump", path}, stderr, "; see weft pool check")
	}
}

// lines is a writer that fails after some writes, like a pipe without a reader.
type lines struct {
	left int
	text []byte
	cut  bool // a write ended within a line
}

func (l *lines) Write(b []byte) (int, error) {
	if l.left == 0 {
		return 0, syscall.EPIPE
	}
	l.left--
	l.text = append(l.text, b...)
	l.cut = l.cut || !bytes.HasSuffix(b, []byte("\n"))
	return len(b), nil
}

// If the reader stops early, the output ends with a whole line, and dump returns no error.
func TestPoolDumpPipe(t *testing.T) {
	path := newPool(t, 5000)
	for _, format := range []string{"--json=false", "--json"} {
		out, stderr := &lines{left: 2}, new(bytes.Buffer)
		status := run(
			t.Context(),
			[]string{"pool", "dump", format, path},
			&app{stdout: out, stderr: stderr},
		)
		if status != exitPipe || stderr.Len() > 0 || out.cut || out.left > 0 ||
			len(out.text) < outputBuffer {
			t.Errorf(
				"exit status %d, says %q, %d bytes, cut: %v",
				status,
				stderr,
				len(out.text),
				out.cut,
			)
		}
	}
}
