package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

// keyFields has a field of each type that columns support.
var keyFields = []Field{
	{"i8", Type{Column: column.Int8}}, {"u8", Type{Column: column.Uint8}},
	{"i16", Type{Column: column.Int16}}, {"u16", Type{Column: column.Uint16}},
	{"i32", Type{Column: column.Int32}}, {"u32", Type{Column: column.Uint32}},
	{"i64", Type{Column: column.Int64}}, {"u64", Type{Column: column.Uint64}},
	{"f32", Type{Column: column.Float32}}, {"f64", Type{Column: column.Float64}},
	{"bool", Type{Kind: Bool, Column: column.Bool}},
	{"text", Type{Kind: Text, Column: column.Bytes}},
	{"binary", Type{Kind: Binary, Column: column.Bytes}},
	{"fixed", Type{Kind: Fixed, Column: column.Bytes, Width: 3}},
	{"date", Type{Kind: Date, Column: column.Int32}},
	{"at", Type{Kind: Timestamp, Column: column.Int64, Unit: time.Microsecond, UTC: true}},
}

// drawKeys draws n values near a number, so that the parts of a file have different values.
func drawKeys(rng *rand.Rand, f Field, n, near int) column.Column {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(near + rng.IntN(6))
	}
	var c column.Column
	switch f.Type.Column {
	case column.Int8:
		c = keysOf(v, func(v int64) int8 { return int8(v*40 - 120) })
	case column.Uint8:
		c = keysOf(v, func(v int64) uint8 { return uint8(v * 40) })
	case column.Int16:
		c = keysOf(v, func(v int64) int16 { return int16(v*9000 - 30000) })
	case column.Uint16:
		c = keysOf(v, func(v int64) uint16 { return uint16(v * 9000) })
	case column.Int32:
		c = keysOf(v, func(v int64) int32 { return int32(v<<28 - 1<<31) })
	case column.Uint32:
		c = keysOf(v, func(v int64) uint32 { return uint32(v << 28) })
	case column.Int64:
		c = keysOf(v, func(v int64) int64 { return v<<60 - math.MinInt64 })
	case column.Uint64:
		c = keysOf(v, func(v int64) uint64 { return uint64(v) << 60 })
	case column.Float32:
		c = keysOf(v, func(v int64) float32 { return float32(drawFloat(rng, v)) })
	case column.Float64:
		c = keysOf(v, func(v int64) float64 { return drawFloat(rng, v) })
	case column.Bool:
		c = keysOf(v, func(v int64) bool { return v > 8 })
	default:
		texts := make([]string, n)
		for i, v := range v {
			texts[i] = string([]byte{byte(16 * v), 255, byte(v)})
			if f.Type.Kind != Fixed {
				texts[i] = strings.Repeat("\u00ff", int(v)%3) + texts[i][:int(v)%4%3+1]
			}
		}
		c = column.OfStrings(texts)
	}
	if rng.IntN(2) == 0 {
		valid, all := make([]bool, n), rng.IntN(4) == 0
		for i := range valid {
			valid[i] = !all && rng.IntN(5) > 0
		}
		c = c.WithValid(column.OfBools(valid))
	}
	return c
}

func drawFloat(rng *rand.Rand, v int64) float64 {
	switch {
	case rng.IntN(8) == 0:
		return math.Float64frombits(0x7ff8<<48 | uint64(rng.IntN(2))<<63)
	case v == 8:
		return math.Copysign(0, float64(rng.IntN(2))-.5)
	case v == 0:
		return math.Inf(-1)
	}
	return float64(v) - 8
}

func keysOf[T column.Fixed](v []int64, of func(int64) T) column.Column {
	out := make([]T, len(v))
	for i, v := range v {
		out[i] = of(v)
	}
	return column.Of(out)
}

// writeParts writes a file in pages. Some pages end a row group.
func writeParts(t *testing.T, rng *rand.Rand, fields []Field, pages int,
	spoil func(*Writer)) (b []byte, all []column.Column) {
	t.Helper()
	var out bytes.Buffer
	w := must(NewWriter(&out, fields, "test"))
	parts := make([][]column.Column, len(fields))
	row := int64(0)
	for range pages {
		n, near := 1+rng.IntN(40), rng.IntN(11)
		columns := make([]column.Column, len(fields))
		for i, f := range fields {
			if f.Name == "row" {
				rows := make([]int64, n)
				for j := range rows {
					rows[j] = row
					row++
				}
				columns[i] = column.Of(rows)
			} else {
				columns[i] = drawKeys(rng, f, n, near)
			}
			parts[i] = append(parts[i], columns[i])
		}
		if err := w.Write(columns); err != nil {
			t.Fatal(err)
		}
		for i := range w.fields {
			if rng.IntN(3) > 0 {
				if err := w.fields[i].page(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if rng.IntN(5) == 0 {
			w.flush()
		}
	}
	end(t, w, spoil)
	for _, p := range parts {
		all = append(all, must(column.Concat(p...)))
	}
	return out.Bytes(), all
}

// spoilers change statistics to what other writers write.
var spoilers = map[string]func(*Writer){
	"all":  nil,
	"none": func(w *Writer) { dropStats(w); dropIndex(w, true, true) },
	"groups alone": func(w *Writer) {
		dropIndex(w, true, true)
	},
	"pages alone": dropStats,
	"no bounds of pages": func(w *Writer) {
		dropIndex(w, false, true)
	},
	"no order": func(w *Writer) { w.meta.ColumnOrders = nil },
	"deprecated": func(w *Writer) { // bounds of signed comparison, for every type
		eachStats(w, func(s *format.Statistics) {
			s.Min, s.Max, s.MinValue, s.MaxValue = s.MinValue, s.MaxValue, nil, nil
		})
		w.meta.ColumnOrders = nil
	},
	"cut": func(w *Writer) { // truncated bounds of byte strings
		for i, x := range w.indexes {
			if w.fields[i%len(w.fields)].texts {
				s := &w.meta.RowGroups[i/len(w.fields)].Columns[i%len(w.fields)].MetaData.Statistics
				cutBounds(&s.MinValue, &s.MaxValue)
				for p := range x.columns.MinValues {
					cutBounds(&x.columns.MinValues[p], &x.columns.MaxValues[p])
				}
			}
		}
	},
	"no counts of nulls": func(w *Writer) {
		for i := range w.indexes {
			w.indexes[i].columns.NullCounts = nil
		}
	},
	"turned around": func(w *Writer) { // bounds of another comparison
		eachStats(w, func(s *format.Statistics) { s.MinValue, s.MaxValue = s.MaxValue, s.MinValue })
		for i := range w.indexes {
			c := &w.indexes[i].columns
			c.MinValues, c.MaxValues = c.MaxValues, c.MinValues
		}
	},
}

func cutBounds(least, most *[]byte) {
	*least = (*least)[:min(len(*least), 1)]
	if len(*most) > 1 && (*most)[0] < 255 {
		*most = []byte{(*most)[0] + 1}
	}
}

func eachStats(w *Writer, do func(*format.Statistics)) {
	for g := range w.meta.RowGroups {
		for c := range w.meta.RowGroups[g].Columns {
			do(&w.meta.RowGroups[g].Columns[c].MetaData.Statistics)
		}
	}
}

func dropStats(w *Writer) {
	eachStats(w, func(s *format.Statistics) { s.MinValue, s.MaxValue = nil, nil })
}

// dropIndex removes the offsets of pages, their bounds, or both.
func dropIndex(w *Writer, offsets, bounds bool) {
	for i := range w.indexes {
		w.indexes[i].missingBounds = w.indexes[i].missingBounds || bounds
		if offsets {
			w.indexes[i].offsets = format.OffsetIndex{}
		}
	}
}

// A join finds the same rows with and without a filter, for all types and any statistics.
func TestFilteredJoin(t *testing.T) {
	host := must(cpu.Open(&cpu.Options{Workers: 2}))
	defer host.Close()
	rounds := 40
	if testing.Short() {
		rounds = 4
	}
	for name, spoil := range spoilers {
		rng := rand.New(rand.NewPCG(uint64(len(name)), 6))
		left := int64(0)
		for round := range rounds * len(keyFields) {
			key := keyFields[round%len(keyFields)]
			fields := []Field{{"row", Type{Column: column.Int64}}, key,
				keyFields[rng.IntN(len(keyFields))]}
			b, all := writeParts(t, rng, fields, 1+rng.IntN(20), spoil)
			keys := []int{1, 2}[:1+rng.IntN(2)]
			nulls := rng.IntN(2) == 0
			build := make([]column.Column, len(keys))
			n, near := rng.IntN(5), rng.IntN(11)
			for i, k := range keys {
				build[i] = drawKeys(rng, fields[k], n, near)
			}
			f := must(Open(bytes.NewReader(b), int64(len(b))))
			left += checkFiltered(t, host, f, all, keys, build, nulls, 1+rng.IntN(3))
			if t.Failed() {
				t.Fatalf("%s: round %d, key %v, %d rows, nulls match %v", name, round,
					fields[keys[0]], all[0].Len(), nulls)
			}
		}
		if left == 0 {
			t.Errorf("%s: no rows are left out", name)
		}
	}
}

// checkFiltered checks that the rows that a filter passes are rows of the file and include all
// matches. It returns the number of omitted rows.
func checkFiltered(t *testing.T, host *cpu.Device, f *File, all []column.Column, keys []int,
	build []column.Column, nulls bool, cores int) (left int64) {
	t.Helper()
	ctx := context.Background()
	types, probe := make([]column.Type, len(keys)), make([]column.Column, len(keys))
	for i, k := range keys {
		types[i], probe[i] = all[k].Type(), all[k]
	}
	filter := must(join.NewFilter(types, &join.FilterOptions{NullsMatch: nulls}))
	if err := filter.Add(ctx, build); err != nil {
		t.Fatal(err)
	}
	ix := must(join.New(ctx, host, build, &join.Options{NullsMatch: nulls}))
	defer ix.Close()
	want := must(ix.Semi(ctx, probe, nil))
	fields := make([]int, len(all))
	for i := range fields {
		fields[i] = i
	}
	read, last := int64(0), int64(-1)
	passed := map[int64]bool{}
	for batch, err := range f.filtered(ctx, cores, filter, keys, fields) {
		if err != nil {
			t.Fatal(err)
		}
		read += batch.Rows
		if batch.Columns == nil {
			continue
		}
		for i, row := range column.Values[int64](batch.Columns[0]) {
			if row <= last || row >= read {
				t.Errorf("row %d after %d, of %d read", row, last, read)
			}
			last, passed[row] = row, true
			for j, c := range batch.Columns {
				if got, want := fmt.Sprint(c.Any(i)),
					fmt.Sprint(all[j].Any(int(row))); got != want {
					t.Errorf("row %d, column %d: %q, want %q", row, j, got, want)
				}
			}
		}
	}
	if read != int64(all[0].Len()) {
		t.Errorf("%d of %d rows are counted", read, all[0].Len())
	}
	for _, row := range want {
		if !passed[int64(row)] {
			t.Errorf("row %d matches and is left out: %v", row, probe[0].Any(int(row)))
		}
	}
	return read - int64(len(passed))
}

// A filter with few keys reads few pages, with and without page indexes.
func TestFilteredReadsLittle(t *testing.T) {
	const n = 4 * pageRows
	for _, indexed := range []bool{true, false} {
		var out bytes.Buffer
		w := must(NewWriter(&out, []Field{{"n", Type{Column: column.Int64}}, {"x",
			Type{Column: column.Float64}}}, "test"))
		numbers, noise := make([]int64, n), make([]float64, n)
		for i := range n {
			numbers[i], noise[i] = int64(i), rand.Float64()
		}
		for range 2 {
			if err := w.Write([]column.Column{column.Of(numbers), column.Of(noise)}); err != nil {
				t.Fatal(err)
			}
			for i := range numbers {
				numbers[i] += n
			}
			w.flush()
		}
		if !indexed {
			dropIndex(w, true, true)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, g := open(t, out.Bytes(), 1<<40)
		filter := must(join.NewFilter([]column.Type{column.Int64}, nil))
		if err := filter.Add(t.Context(), []column.Column{column.Of([]int64{5,
			n / 2})}); err != nil {
			t.Fatal(err)
		}
		g.bytes.Store(0)
		rows, read := 0, int64(0)
		for b, err := range f.filtered(t.Context(), 1, filter, []int{0}, []int{0, 1}) {
			if err != nil {
				t.Fatal(err)
			}
			read += b.Rows
			if b.Columns != nil {
				rows += b.Columns[1].Len()
			}
		}
		share := float64(g.bytes.Load()) / float64(out.Len())
		if rows < 2 || rows > 200 || read != 2*n || share > .6 || indexed && share > .3 {
			t.Errorf("indexed %v: %d rows of %d, %.2f of the file", indexed, rows, read, share)
		}
	}
}

// readFiltered reads the rows of a file that a filter passes.
func readFiltered(t testing.TB, b []byte, filter Filter, fields ...int) (rows int, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return 0, err
	}
	for batch, err := range f.Filtered(t.Context(), filter, fields[:1], fields...) {
		if err != nil {
			return 0, err
		}
		if batch.Columns != nil {
			rows += batch.Columns[0].Len()
		}
	}
	return rows, nil
}

// smallNumbers returns a filter that passes n numbers, starting with -3.
func smallNumbers(t testing.TB, n int) *join.Filter {
	filter := must(join.NewFilter([]column.Type{column.Int64}, nil))
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(i) - 3
	}
	if err := filter.Add(t.Context(), []column.Column{column.Of(keys)}); err != nil {
		t.Fatal(err)
	}
	return filter
}

// pagedFile returns a file with numbers, and text in a dictionary. It has 20 pages of 50 rows in
// two row groups.
func pagedFile(t testing.TB, spoil func(*Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := must(NewWriter(&out, []Field{{"n", Type{Column: column.Int64}},
		{"text", Type{Kind: Text, Column: column.Bytes}}}, "test"))
	for page := range 20 {
		numbers, texts := make([]int64, 50), make([]string, 50)
		for i := range numbers {
			numbers[i], texts[i] = int64(50*page+i), fmt.Sprint("t", i%7)
		}
		if err := w.Write([]column.Column{column.Of(numbers),
			column.OfStrings(texts)}); err != nil {
			t.Fatal(err)
		}
		for i := range w.fields {
			if err := w.fields[i].page(); err != nil {
				t.Fatal(err)
			}
		}
		if page == 9 {
			w.flush()
		}
	}
	end(t, w, spoil)
	return out.Bytes()
}

// end calls spoil, if it is not nil, and completes the file.
func end(t interface{ Fatal(...any) }, w *Writer, spoil func(*Writer)) {
	w.flush()
	if spoil != nil {
		spoil(w)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// An index that contradicts the pages is an error when it is used. An index that does not fit the
// chunk is ignored.
func TestWrongIndex(t *testing.T) {
	filter := smallNumbers(t, 110)
	pages := func(do func(p []format.PageLocation)) func(*Writer) {
		return func(w *Writer) {
			for i := range w.indexes {
				do(w.indexes[i].offsets.PageLocations)
			}
		}
	}
	for i, c := range []struct {
		spoil func(*Writer)
		fails bool
	}{
		{nil, false},
		{pages(func(p []format.PageLocation) {
			p[1].FirstRowIndex -= 10
			p[2].FirstRowIndex -= 10
		}), true},
		{pages(func(p []format.PageLocation) { p[2].Offset++ }), true},
		{pages(func(p []format.PageLocation) {
			for i := range p {
				p[i].FirstRowIndex = int64(i)
			}
		}), true},
		{pages(func(p []format.PageLocation) { p[2] = p[1] }), false},
		{pages(func(p []format.PageLocation) { p[0].FirstRowIndex = 1 }), false},
		{pages(func(p []format.PageLocation) { p[0].Offset = 3 }), false},
		{pages(func(p []format.PageLocation) { p[9].Offset = 1 << 40 }), false},
		{pages(func(p []format.PageLocation) { p[9].FirstRowIndex = 500 }), false},
		{func(w *Writer) { w.indexes[0].columns.MinValues = w.indexes[0].columns.MinValues[:9] },
			false},
	} {
		wide, last := smallNumbers(t, 1), smallNumbers(t, 1)
		for f, key := range map[*join.Filter]int64{wide: 120, last: 480} {
			if err := f.Add(t.Context(), []column.Column{column.Of([]int64{key})}); err != nil {
				t.Fatal(err)
			}
		}
		for j, f := range []*join.Filter{filter, wide, last} {
			rows, err := readFiltered(t, pagedFile(t, c.spoil), f, 0, 1)
			want := []int{107, 1, 1}[j]
			if err == nil && (rows < want || rows > 150) || err != nil && !c.fails {
				t.Errorf("case %d, filter %d: %d rows, %v", i, j, rows, err)
			}
			if c.fails && j == 1 && err == nil {
				t.Errorf("case %d: no error", i)
			}
		}
	}
}

// Damage of any byte is an error or results in other values. Nothing panics.
func TestFilteredDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	filter, whole := smallNumbers(t, 200), pagedFile(t, nil)
	for range 3000 {
		b := bytes.Clone(whole)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(b))
			if rng.IntN(2) == 0 { // damage the metadata
				at = len(b) - 1 - rng.IntN(len(b)/3)
			}
			b[at] ^= byte(1 << rng.IntN(8))
		}
		_, _ = readFiltered(t, b, filter, 0, 1)
	}
}

func FuzzFiltered(f *testing.F) {
	f.Add(pagedFile(f, nil))
	filter := smallNumbers(f, 200)
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = readFiltered(t, b, filter, 0, 1) })
}

// failing is a filter that fails.
type failing struct{ asked }

func (f *failing) Select([]column.Column, []uint32) ([]uint32, error) { return nil, errRead }

// Errors of the filter, of fields, of reads and of the context end the iteration.
func TestFilteredErrors(t *testing.T) {
	b := pagedFile(t, nil)
	if _, err := readFiltered(t, b, new(failing), 0, 1); !errors.Is(err, errRead) {
		t.Error(err)
	}
	if _, err := readFiltered(t, b, new(asked), 2); err == nil {
		t.Error("no error for a field that is not there")
	}
	for reads := range int64(6) {
		for _, cores := range []int{1, 4} {
			f, g := open(t, b, reads)
			var failed error
			for _, err := range f.filtered(t.Context(), cores, smallNumbers(t, 900), []int{0},
				[]int{0, 1}) {
				failed = err
			}
			g.closed.Store(true)
			if failed != nil && !errors.Is(failed, errRead) {
				t.Errorf("after %d reads: %v", reads, failed)
			}
			if failed == nil && reads == 0 {
				t.Error("no error of reads")
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, _ := open(t, b, 1<<40)
	for _, cores := range []int{1, 4} {
		for _, err := range f.filtered(ctx, cores, smallNumbers(t, 900), []int{0}, []int{0, 1}) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
}

// Surplus rows are an error if the last rows of a row group are read.
func TestFilteredSurplus(t *testing.T) {
	f, _ := open(t, pagedFile(t, nil), 1<<40)
	g := &f.meta.RowGroups[1]
	g.NumRows -= 50
	for i := range g.Columns {
		g.Columns[i].MetaData.NumValues -= 50
	}
	var failed error
	for _, err := range f.filtered(t.Context(), 1, new(asked), []int{0}, []int{0, 1}) {
		failed = err
	}
	if failed == nil || !strings.Contains(failed.Error(), "more rows than the metadata announces") {
		t.Error(failed)
	}
}

// With several keys, the remaining rows are the intersection of the rows that remain for each key.
func TestRanges(t *testing.T) {
	var a []rowRange
	for _, r := range []rowRange{{0, 5}, {5, 7}, {9, 9}, {10, 20}, {30, 31}} {
		a = appendRange(a, r.lo, r.hi)
	}
	if got := fmt.Sprint(a); got != "[{0 7} {10 20} {30 31}]" || countRows(a) != 18 {
		t.Errorf("%s, %d rows", got, countRows(a))
	}
	both := intersect(a, []rowRange{{3, 11}, {15, 40}})
	if got := fmt.Sprint(both); got != "[{3 7} {10 11} {15 20} {30 31}]" {
		t.Error(got)
	}
}
