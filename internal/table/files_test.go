package table

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// memoryFiles maps file names to contents. Files called pipe are streams.
type memoryFiles map[string]string

func (m memoryFiles) Size(_ context.Context, name string) (int64, error) {
	text, ok := m[name]
	switch {
	case !ok:
		return 0, fs.ErrNotExist
	case strings.HasPrefix(name, "pipe"):
		return -1, nil
	}
	return int64(len(text)), nil
}

func (m memoryFiles) Open(_ context.Context, name string) (File, error) {
	return struct {
		*strings.Reader
		io.Closer
	}{strings.NewReader(m[name]), io.NopCloser(nil)}, nil
}

// Files may be on another file system. They have ranges if they have random access.
func TestFiles(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,2\n", 99)
	files := memoryFiles{"x.csv": text, "pipe": text, "y.csv": strings.Repeat("a,b\n", 9)}
	for _, tt := range []struct {
		name   string
		ranges bool
	}{{"x.csv", true}, {"pipe", false}} {
		tab, err := Open(
			t.Context(),
			[]string{tt.name},
			nil,
			&Options{Files: files, Lines: true, first: 8},
		)
		if err != nil {
			t.Fatal(err)
		}
		ranges := rangesOf(t, tab, 40)
		if n := len(ranges); n > 1 != tt.ranges {
			t.Errorf("%s: %d ranges", tt.name, n)
		}
		tab.SelectRanges(ranges)
		rows, _, err := located(t, tab)
		if err != nil || len(rows) != 99 {
			t.Errorf("%s: %d rows, %v", tt.name, len(rows), err)
		}
		tab.Close()
	}
	if _, err := Open(t.Context(), []string{"none"}, nil, &Options{Files: files}); err == nil ||
		err.Error() != "none: file does not exist" {
		t.Errorf("no such file: %v", err)
	}
}

// opens counts the calls of Open.
type opens struct {
	memoryFiles
	n int
}

func (o *opens) Open(ctx context.Context, name string) (File, error) {
	o.n++
	return o.memoryFiles.Open(ctx, name)
}

// A stream with a bad row is opened once, because a named pipe would wait for another writer.
func TestErrorOfStream(t *testing.T) {
	files := &opens{memoryFiles: memoryFiles{"pipe": "a,b\n" + strings.Repeat("1,2\n", 99) + "1\n"}}
	tab, err := Open(t.Context(), []string{"pipe"}, nil, &Options{Files: files, first: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	_, _, err = located(t, tab)
	if row := (*RowError)(nil); !errors.As(err, &row) || row.Line != 101 || files.n != 1 {
		t.Errorf("%v, opened %d times", err, files.n)
	}
}

// shrinking is a file that is truncated between opening and reading a range.
type shrinking struct {
	memoryFiles
	after int // maximum length that ReadAt returns after a larger read
}

func (f *shrinking) Open(context.Context, string) (File, error) {
	return struct {
		io.Reader
		io.ReaderAt
		io.Closer
	}{strings.NewReader(f.memoryFiles["x.csv"]), f, io.NopCloser(nil)}, nil
}

func (f *shrinking) ReadAt(b []byte, at int64) (int, error) {
	text := f.memoryFiles["x.csv"]
	if len(b) <= 1<<12 { // a block of rows, and not the search for a line end
		text = text[:f.after]
	}
	return strings.NewReader(text).ReadAt(b, at)
}

// If a file is truncated while a range is read, the result is an error.
func TestShrunk(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,2\n", 99)
	files := &shrinking{memoryFiles: memoryFiles{"x.csv": text}, after: len(text)}
	opts := &Options{Files: files, Lines: true, Header: HeaderYes, first: 8, BlockSize: 64}
	tab, err := Open(t.Context(), []string{"x.csv"}, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	tab.SelectRanges(rangesOf(t, tab, 100))
	if rows, _, err := located(t, tab); err != nil || len(rows) != 99 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	files.after = len(text) - 40
	if rows, _, err := located(t, tab); !errors.Is(err, errShrunk) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
