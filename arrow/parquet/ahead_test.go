package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/column"
)

// groupsFile returns a file with row groups of the given sizes. It has row numbers, and the same
// numbers as text. Every third text is null.
func groupsFile(t testing.TB, groups ...int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := must(NewWriter(&b, []Field{{"n", Type{Column: column.Int64}}, {"text", Type{Kind: Text,
		Column: column.Bytes}}}, "test"))
	row := 0
	for _, n := range groups {
		numbers, texts, valid := make([]int64, n), make([]string, n), make([]bool, n)
		for i := range n {
			numbers[i], texts[i], valid[i] = int64(row), fmt.Sprint(row), row%3 != 0
			row++
		}
		if err := w.Write([]column.Column{column.Of(numbers),
			column.OfStrings(texts).WithValid(column.OfBools(valid))}); err != nil {
			t.Fatal(err)
		}
		w.flush()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// guarded is a file that detects reads after Close, fails after a number of reads, and counts the
// bytes read.
type guarded struct {
	io.ReaderAt
	closed atomic.Bool
	reads  atomic.Int64 // remaining reads
	bytes  atomic.Int64
}

var errRead = errors.New("no such block")

func (g *guarded) ReadAt(b []byte, at int64) (int, error) {
	if g.closed.Load() {
		panic("read after the end of the iteration")
	}
	if g.reads.Add(-1) < 0 {
		return 0, errRead
	}
	g.bytes.Add(int64(len(b)))
	return g.ReaderAt.ReadAt(b, at)
}

func open(t testing.TB, b []byte, reads int64) (*File, *guarded) {
	t.Helper()
	g := &guarded{ReaderAt: bytes.NewReader(b)}
	g.reads.Store(1 << 40)
	f, err := Open(g, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	g.reads.Store(reads)
	return f, g
}

// With any number of cores, the batches and their order are the same, and nothing is read after the
// end.
func TestAhead(t *testing.T) {
	groups := []int{3, 2*batchRows + 5, 1, batchRows, 7, 9, 11}
	b := groupsFile(t, groups...)
	most := []int{1, 3, 40}
	if testing.Short() { // also skipped under the race detector
		most = []int{3}
	}
	for _, cores := range most {
		for _, fields := range [][]int{{0, 1}, {1, 0, 1}, {0}, {}} {
			for _, most := range []int{0, 1, 3, 1 << 30} { // number of batches to read
				f, file := open(t, b, 1<<40)
				row, batches := 0, 0
				for batch, err := range f.columns(t.Context(), cores, fields) {
					if err != nil {
						t.Fatal(err)
					}
					n := batch[0].Len()
					for i, field := range fields {
						checkRows(t, batch[i], field, row, n)
					}
					row += n
					if batches++; batches >= most {
						break
					}
				}
				file.closed.Store(true)
				if most > 10 && len(fields) > 0 && int64(row) != f.Rows() {
					t.Errorf("%d cores, fields %v: %d rows, want %d", cores, fields, row, f.Rows())
				}
			}
		}
	}
}

func checkRows(t *testing.T, c column.Column, field, row, n int) {
	t.Helper()
	if c.Len() != n {
		t.Fatalf("a column of %d rows, want %d", c.Len(), n)
	}
	for i := range n {
		if field == 0 && column.Values[int64](c)[i] != int64(row+i) || field == 1 &&
			(c.Null(i) != ((row+i)%3 == 0) || !c.Null(i) &&
				string(c.Bytes(i)) != fmt.Sprint(row+i)) {
			t.Fatalf("row %d of field %d is %v", row+i, field, c.Any(i))
		}
	}
}

// A failed read or an expired context, at any point, ends the iteration with its error.
func TestAheadErrors(t *testing.T) {
	b := groupsFile(t, 5, 6, batchRows+1, 7)
	for _, cores := range []int{2, 16} {
		failed := 0
		for reads := int64(0); ; reads++ {
			f, file := open(t, b, reads)
			err := last(t, f.columns(t.Context(), cores, []int{0, 1}))
			file.closed.Store(true)
			if err == nil {
				break
			}
			if failed++; !errors.Is(err, errRead) {
				t.Errorf("%d cores, read %d: %v", cores, reads, err)
			}
		}
		if failed < 8 {
			t.Errorf("%d cores: %d reads", cores, failed)
		}
		for batches := range 4 {
			f, _ := open(t, b, 1<<40)
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			err := error(nil)
			for _, err = range f.columns(ctx, cores, []int{0, 1}) {
				if n++; n > batches {
					cancel()
				}
			}
			if cancel(); !errors.Is(err, context.Canceled) {
				t.Errorf("%d cores: a context that ends after batch %d: %v", cores, batches, err)
			}
		}
		f, _ := open(t, b, 1<<40)
		if err := last(t, f.columns(t.Context(), cores, []int{0, 2})); err == nil {
			t.Error("a field that is not there has been read")
		}
	}
}

// last returns the error that an iteration ends with.
func last(t *testing.T, batches func(func([]column.Column, error) bool)) (err error) {
	t.Helper()
	batches(func(_ []column.Column, e error) bool {
		if err != nil {
			t.Errorf("goes on after %v", err)
		}
		err = e
		return true
	})
	return err
}

// Reading all columns of a wide file reads each byte once. Reading one column reads only its own
// bytes.
func TestWide(t *testing.T) {
	const wide, rows = 2000, 50
	fields, columns, all := make([]Field, wide), make([]column.Column, wide), make([]int, wide)
	for i := range fields {
		values := make([]int64, rows)
		for j := range values {
			values[j] = int64(i*rows+j) * 0x9e3779b97f4a7c1
		}
		fields[i], columns[i], all[i] = Field{fmt.Sprint("c", i),
			Type{Column: column.Int64}}, column.Of(values), i
	}
	var b bytes.Buffer
	w := must(NewWriter(&b, fields, ""))
	if err := errors.Join(w.Write(columns), w.Close()); err != nil {
		t.Fatal(err)
	}
	f, file := open(t, b.Bytes(), 1<<40)
	opened := file.bytes.Load()
	for batch, err := range f.Columns(t.Context(), 1234) {
		if err != nil || batch[0].Any(7) != columns[1234].Any(7) {
			t.Fatalf("one column: %v", err)
		}
	}
	if one := file.bytes.Load() - opened; one > 2000 {
		t.Errorf("one column takes %d bytes", one)
	}
	opened = file.bytes.Load()
	for batch, err := range f.Columns(t.Context(), all...) {
		if err != nil || len(batch) != wide || batch[1999].Any(49) != columns[1999].Any(49) {
			t.Fatalf("%d columns: %v", len(batch), err)
		}
	}
	if bytes := file.bytes.Load() - opened; bytes > int64(b.Len()) {
		t.Errorf("all columns take %d bytes of a file of %d", bytes, b.Len())
	}
}

func BenchmarkColumns(b *testing.B) {
	file := groupsFile(b, 1<<19, 1<<19, 1<<19, 1<<19)
	for _, cores := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d cores", cores), func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				f, _ := open(b, file, 1<<40)
				for _, err := range f.columns(b.Context(), cores, []int{0, 1}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// A memory limit yields the same values in smaller batches.
func TestLimit(t *testing.T) {
	b := groupsFile(t, batchRows, 7, 3*minBatchRows)
	rows := func(limit int64) (values []any, most int) {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		f.Limit(limit)
		for columns, err := range f.columns(t.Context(), 2, []int{0}) {
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, columns[0].Len())
			for i := range columns[0].Len() {
				values = append(values, columns[0].Any(i))
			}
		}
		return values, most
	}
	want, all := rows(0)
	got, some := rows(1 << 20)
	if !slices.Equal(got, want) {
		t.Errorf("%d values with a limit, %d without", len(got), len(want))
	}
	if all != batchRows || some >= all {
		t.Errorf("batches of %d rows with a limit, of %d without", some, all)
	}
}
