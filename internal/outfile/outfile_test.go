package outfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// text is a kind of file for tests.
var text = Kind{Name: "a text", Is: func(f *os.File) bool {
	b := make([]byte, 4)
	n, _ := f.Read(b)
	return string(b[:n]) == "text"
}}

// One plan compares outputs with inputs, with other outputs, and with existing files.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	for file, content := range map[string]string{"in": "text", "old": "text", "other": "x", "empty": ""} {
		if err := os.WriteFile(name(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"soft": "in", "dangling": "new"} {
		if err := os.Symlink(to, name(link)); err != nil {
			t.Skip(err)
		}
	}
	p, err := New([]string{Stdin, name("in"), name("none")}, new(bytes.Buffer), new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ output, say string }{
		{"in", "would be overwritten"}, {"soft", "would be overwritten"}, {"other", "is not a text; remove it first"},
		{"old", ""}, {"old", "is the same file"}, {"empty", ""}, {"dangling", ""}, {"new", "is the same file"},
		{"sub/x", "no such file"}, {"", "is a directory"},
	} {
		err := p.Writes("--to", name(tt.output), text, false)
		refused := errors.As(err, new(*Refused))
		switch {
		case tt.say == "" && err != nil, tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say) || !strings.HasPrefix(err.Error(), "--to ")):
			t.Errorf("%s: %v, want %q", tt.output, err, tt.say)
		case err != nil && refused == (strings.Contains(tt.say, "no such") || strings.Contains(tt.say, "directory")):
			t.Errorf("%s: %T", tt.output, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 6 {
		t.Errorf("%d files, %v", len(files), err)
	}
	in, err := os.OpenFile(name("in"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := New([]string{name("soft")}, nil, in); !errors.As(err, new(*Refused)) {
		t.Errorf("standard output is an input: %v", err)
	}
}
