package beamfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/table"
)

// A name stands for a file, and a pattern for all files that match. The name of an existing file is
// never a pattern.
func TestList(t *testing.T) {
	dir := t.TempDir() + "/"
	for _, name := range []string{"a1.csv", "a[1].csv", "b.csv"} {
		if err := os.WriteFile(dir+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{"a[1].csv": "a[1].csv", "[ab]*.csv": "a1.csv a[1].csv b.csv",
		"b.csv": "b.csv", "none.csv": "none.csv", "[b].csv": "b.csv"} {
		got, err := List(t.Context(), []string{dir + pattern})
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
	for _, patterns := range [][]string{nil, {dir + "*.json"}, {"nowhere://x"}} {
		if _, err := List(t.Context(), patterns); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%q: %v", patterns, err)
		}
	}
	if got, err := List(t.Context(), []string{dir + "b.csv", dir + "a1*"}); err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
}

// Files can be read from their beginning and at offsets, with and without random access.
func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	memfs.Write("memfs://files/x", []byte("0123456789"))
	for where, random := range map[string]bool{name: true, "memfs://files/x": false} {
		files := Files{TempDir: t.TempDir()}
		if got, err := Random(t.Context(), where); err != nil || got != random {
			t.Errorf("%s: random %v, %v", where, got, err)
		}
		if n, err := files.Size(t.Context(), where); err != nil || n != 10 {
			t.Errorf("%s: size %d, %v", where, n, err)
		}
		f, err := files.Open(t.Context(), where)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		if _, err := io.ReadFull(f, b); err != nil || string(b) != "012" {
			t.Errorf("%s: %q, %v", where, b, err)
		}
		if n, err := f.ReadAt(b, 8); err != io.EOF || string(b[:n]) != "89" {
			t.Errorf("%s: %q, %v", where, b[:n], err)
		}
		if rest, err := io.ReadAll(f); err != nil || string(rest) != "3456789" {
			t.Errorf("%s: %q, %v", where, rest, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, where := range []string{name + "none", "memfs://files/none", "nowhere://x", filepath.Dir(name)} {
		if _, err := (Files{}).Size(t.Context(), where); err == nil {
			t.Errorf("%s has a size", where)
		}
	}
	// A file that cannot be copied is an error, and can be closed.
	f, err := Files{TempDir: name + "none"}.Open(t.Context(), "memfs://files/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a copy in no folder")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// One file with types determines the types, or else the first files of text.
func TestSample(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i, text := range slices.Repeat([]string{"a\n1\n"}, sampled+1) {
		if i == sampled-1 {
			text = "a\nx\n"
		}
		names = append(names, filepath.Join(dir, string(rune('A'+i))+".csv"))
		if err := os.WriteFile(names[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{3: "int64", len(names): "bytes"} {
		tab, looked, err := Sample(t.Context(), names[:n], &table.Options{Files: Files{}})
		if err != nil {
			t.Fatal(err)
		}
		if of := tab.TypeOf(tab.Reading(0, table.Key)); looked != min(n, sampled) || of.String() != want {
			t.Errorf("%d files of %d, %v", looked, n, of)
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := Sample(t.Context(), names, &table.Options{Text: []string{"b"}}); err == nil {
		t.Error("no error of a column that is not there")
	}
}
