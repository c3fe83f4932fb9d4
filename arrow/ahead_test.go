package arrow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/weftgo/weft/column"
)

// groupsFile is a file of row groups of so many rows: their numbers, and the same as text, of which one in three is null.
func groupsFile(t testing.TB, groups ...int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	row := 0
	for _, n := range groups {
		numbers, texts := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
		for ; n > 0; n, row = n-1, row+1 {
			numbers.Append(int64(row))
			if row%3 == 0 {
				texts.AppendNull()
			} else {
				texts.Append(fmt.Sprint(row))
			}
		}
		w.NewRowGroup()
		if err := errors.Join(w.WriteColumnData(numbers.NewArray()), w.WriteColumnData(texts.NewArray())); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// guarded is a file that nobody must read once it is closed, and that fails after some reads.
type guarded struct {
	io.ReaderAt
	closed atomic.Bool
	reads  atomic.Int64 // that are left
}

var errRead = errors.New("no such block")

func (g *guarded) ReadAt(b []byte, at int64) (int, error) {
	if g.closed.Load() {
		panic("read behind the end of the iteration")
	}
	if g.reads.Add(-1) < 0 {
		return 0, errRead
	}
	return g.ReaderAt.ReadAt(b, at)
}

func open(t testing.TB, b []byte, reads int64) (*Parquet, *guarded) {
	t.Helper()
	g := &guarded{ReaderAt: bytes.NewReader(b)}
	g.reads.Store(1 << 40)
	p, err := OpenParquet(g, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	g.reads.Store(reads)
	return p, g
}

// Any number of cores reads the same batches in the same order, and nothing behind the end.
func TestAhead(t *testing.T) {
	groups := []int{3, 0, 2*batchRows + 5, 1, batchRows, 7, 9, 11}
	b := groupsFile(t, groups...)
	most := []int{1, 2, 3, 5, 40}
	if testing.Short() { // and beside the race detector
		most = []int{3}
	}
	for _, cores := range most {
		for _, fields := range [][]int{{0, 1}, {1, 0, 1}, {0}, {}} {
			for _, most := range []int{0, 1, 3, 1 << 30} { // batches, and no more
				p, file := open(t, b, 1<<40)
				row, batches := 0, 0
				for batch, err := range p.columns(t.Context(), cores, fields) {
					if err != nil {
						t.Fatal(err)
					}
					n := batch[0].Len()
					for i, f := range fields {
						checkRows(t, batch[i], f, row, n)
					}
					row += n
					if batches++; batches >= most {
						break
					}
				}
				file.closed.Store(true)
				if all := 3 + 2*batchRows + 5 + 1 + batchRows + 7 + 9 + 11; most > 10 && len(fields) > 0 && row != all {
					t.Errorf("%d cores, fields %v: %d rows, want %d", cores, fields, row, all)
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
		if field == 0 && column.Values[int64](c)[i] != int64(row+i) || field == 1 && (c.Null(i) != ((row+i)%3 == 0) || !c.Null(i) && string(c.Bytes(i)) != fmt.Sprint(row+i)) {
			t.Fatalf("row %d of field %d is %v", row+i, field, c.Any(i))
		}
	}
}

// Reads that fail, and contexts that end, wherever, end the iteration with their error and nothing behind it.
func TestAheadErrors(t *testing.T) {
	b := groupsFile(t, 5, 6, batchRows+1, 7)
	for _, cores := range []int{2, 16} {
		failed := 0
		for reads := int64(0); ; reads++ {
			p, file := open(t, b, reads)
			err := last(t, p.columns(t.Context(), cores, []int{0, 1}))
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
			p, _ := open(t, b, 1<<40)
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			err := error(nil)
			for _, err = range p.columns(ctx, cores, []int{0, 1}) {
				if n++; n > batches {
					cancel()
				}
			}
			if cancel(); !errors.Is(err, context.Canceled) {
				t.Errorf("%d cores: a context that ends behind batch %d: %v", cores, batches, err)
			}
		}
		p, _ := open(t, b, 1<<40)
		if err := last(t, p.columns(t.Context(), cores, []int{0, 2})); err == nil {
			t.Error("a field that is not there has been read")
		}
	}
}

// last is the error that an iteration ends with.
func last(t *testing.T, batches func(func([]column.Column, error) bool)) (err error) {
	t.Helper()
	batches(func(_ []column.Column, e error) bool {
		if err != nil {
			t.Errorf("goes on behind %v", err)
		}
		err = e
		return true
	})
	return err
}

func BenchmarkParquet(b *testing.B) {
	file := groupsFile(b, 1<<19, 1<<19, 1<<19, 1<<19)
	for _, cores := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d cores", cores), func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				p, _ := open(b, file, 1<<40)
				for _, err := range p.columns(b.Context(), cores, []int{0, 1}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
