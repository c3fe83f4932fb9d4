package table

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/weftgo/weft/column"
)

// located returns rows of a table and their ordinals.
func located(t *testing.T, tab *Table) (rows [][]any, at []uint64, err error) {
	t.Helper()
	var reads []Read
	for i := range tab.Fields() {
		reads = append(reads, tab.Reading(i, Text))
	}
	for b, err := range tab.Batches(t.Context(), reads) {
		if err != nil {
			return rows, at, err
		}
		for i := range b.Rows {
			row := make([]any, len(reads))
			for j, c := range b.Columns {
				row[j] = c.Any(i)
			}
			rows, at = append(rows, row), append(at, b.At+uint64(i))
		}
	}
	return rows, at, nil
}

// rangesOf returns the ranges of a table.
func rangesOf(t *testing.T, tab *Table, size int64) []Range {
	t.Helper()
	ranges, err := tab.Ranges(size)
	if err != nil {
		t.Fatal(err)
	}
	return ranges
}

// againstWhole compares the rows of one table with the rows of two tables that read alternate
// ranges.
func againstWhole(t *testing.T, names []string, opts Options, size int64) (ranges int) {
	t.Helper()
	open := func() *Table {
		tab, err := Open(t.Context(), names, nil, &opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tab.Close() })
		return tab
	}
	whole := open()
	want, _, err := located(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	all := rangesOf(t, whole, size)
	type row struct {
		at     uint64
		values []any
	}
	var got []row
	bytes := int64(0)
	for part := range 2 {
		tab := open()
		if again := rangesOf(t, tab, size); !reflect.DeepEqual(again, all) {
			t.Fatalf("ranges are %v, and %v", again, all)
		}
		var some []Range
		for i := part; i < len(all); i += 2 {
			some = append(some, all[i])
		}
		tab.SelectRanges(some)
		before := tab.Read()
		rows, at, err := located(t, tab)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(at) {
			t.Fatal("ordinals descend")
		}
		for i := range rows {
			got = append(got, row{at[i], rows[i]})
		}
		bytes += tab.Read() - before
	}
	slices.SortFunc(got, func(a, b row) int { return int(int64(a.at - b.at)) })
	for i, r := range got {
		if i >= len(want) || !reflect.DeepEqual(r.values, want[i]) || i > 0 && r.at == got[i-1].at {
			t.Fatalf(
				"%d bytes: row %d of %d is %q, want of %d",
				size,
				i,
				len(got),
				r.values,
				len(want),
			)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d bytes: %d rows, want %d", size, len(got), len(want))
	}
	if len(all) > len(names) && bytes == 0 {
		t.Error("no bytes have been read")
	}
	return len(all)
}

// However a text is split into ranges, the ranges contain the rows of the whole text.
func TestRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		ends := []string{"\n", "\r\n", "\r"}
		var text strings.Builder
		asJSON := round%2 == 0
		if !asJSON {
			text.WriteString("a,b" + ends[rng.IntN(3)])
		}
		for i := range 1 + rng.IntN(60) {
			switch {
			case asJSON && rng.IntN(9) > 0:
				fmt.Fprintf(&text, `{"a":%d,"b":"%s"}`, i, strings.Repeat("x", rng.IntN(9)))
			case !asJSON && rng.IntN(9) > 0:
				fmt.Fprintf(&text, `%d,"%s"`, i, strings.Repeat("x", rng.IntN(9)))
			}
			text.WriteString(ends[rng.IntN(3)])
		}
		name := write(
			t,
			map[bool]string{true: "x.jsonl", false: "x.csv"}[asJSON],
			text.String()+"\n",
		)
		if asJSON && !strings.Contains(text.String(), "{") {
			continue
		}
		opts := Options{Lines: true, Header: HeaderYes, first: 8, BlockSize: 1 + rng.IntN(40)}
		if n := againstWhole(t, []string{name, name}, opts, int64(1+rng.IntN(50))); n <= 2 &&
			text.Len() > 200 {
			t.Fatalf("%d ranges of %d bytes", n, text.Len())
		}
	}
}

// Row groups are ranges. Other files are one range each.
func TestRangesOfFiles(t *testing.T) {
	var file bytes.Buffer
	fields := []Field{{Name: "a", Type: column.Int64}}
	w, err := NewParquet(&file, fields, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		values := make([]int64, 1<<13)
		for i := range values {
			values[i] = rng.Int64()
		}
		if err := w.Write([]column.Column{column.Of(values)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	name := write(t, "x.parquet", file.String())
	if n := againstWhole(t, []string{name, name}, Options{}, 1); n < 3 {
		t.Errorf("%d row groups of two files", n)
	}
	arrow, _ := typedFiles(t)
	if n := againstWhole(t, []string{write(t, "x.arrow", string(arrow))}, Options{}, 1); n != 1 {
		t.Errorf("%d ranges of an Arrow file", n)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	long := "a,b\n" + strings.Repeat("1,2\n", 100)
	z.Write([]byte(long))
	z.Close()
	for name, text := range map[string]string{"x.csv.gz": packed.String(), "mark.csv": "\ufeff" + long, "x.json": "[" + strings.Repeat("{\"a\":1},\n", 50) + `{"a":1}]`} {
		if n := againstWhole(t, []string{write(t, name, text)}, Options{Lines: true, first: 8}, 10); n != 1 {
			t.Errorf("%s: %d ranges", name, n)
		}
	}
	if n := againstWhole(t, []string{write(t, "x.csv", long)}, Options{first: 8}, 10); n != 1 {
		t.Errorf("%d ranges of CSV whose fields may have line breaks", n)
	}
}

// If a field contains a line break despite --lines, the error has the line number, however the file
// is split.
func TestBrokenPromise(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,2\n", 10) + "1,\"x\n3,4\"\n" + strings.Repeat("5,6\n", 10)
	name := write(t, "x.csv", text)
	for size := int64(1); size < int64(len(text)); size++ {
		tab, err := Open(
			t.Context(),
			[]string{name},
			nil,
			&Options{Lines: true, Header: HeaderYes, first: 8},
		)
		if err != nil {
			t.Fatal(err)
		}
		tab.SelectRanges(rangesOf(t, tab, size))
		_, _, err = located(t, tab)
		if row := (*RowError)(nil); !errors.As(err, &row) || row.Line != 12 ||
			!errors.Is(err, errBreak) && !errors.Is(err, errOpen) {
			t.Errorf("%d bytes: %v", size, err)
		}
		tab.Close()
	}
}

// A table adopts the types that another table has found.
func TestAdopt(t *testing.T) {
	name := write(t, "x.jsonl", strings.Repeat("{\"a\":1}\n", 99)+"{\"a\":\"x\"}\n")
	open := func() (*Table, []Range) {
		tab, err := Open(t.Context(), []string{name}, nil, &Options{first: 8})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tab.Close() })
		return tab, rangesOf(t, tab, 100)
	}
	first, ranges := open()
	last, _ := open()
	last.SelectRanges(ranges[len(ranges)-1:])
	read := []Read{last.Reading(0, Key)}
	var err error
	for _, err = range last.Batches(t.Context(), read) {
	}
	if w := (*Widening)(nil); !errors.As(err, &w) || w.Line != 100 ||
		last.Adapt(t.Context(), err) != nil {
		t.Fatal(err)
	}
	if first.TypeOf(read[0]) != column.Int64 || last.TypeOf(read[0]) != column.Bytes {
		t.Error(first.TypeOf(read[0]), last.TypeOf(read[0]))
	}
	if err := first.Adopt(last.Looks()); err != nil || first.TypeOf(read[0]) != column.Bytes {
		t.Error(err, first.TypeOf(read[0]))
	}
	if err := first.Adopt(nil); err == nil {
		t.Error("adopts a table of other columns")
	}
}

// The first range contains the header, even if many empty lines precede it.
func TestHeaderAfterEmptyLines(t *testing.T) {
	for _, blank := range []int{0, 1, 7, 100, 1000} {
		name := write(t, "x.csv", strings.Repeat("\n", blank)+"a,b\n"+strings.Repeat("1,2\n", 50))
		for _, size := range []int64{1, 10, 50} {
			againstWhole(t, []string{name}, Options{Lines: true, Header: HeaderYes, first: 8}, size)
		}
	}
}
