package table

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weftgo/weft/column"
)

// modelRow is a row of CSV that the model reads.
type modelRow struct {
	line, lines int // first line, and number of lines
	fields      []string
	bad         bool
}

// modelCSV reads CSV character by character. It skips the first line of a bad row.
func modelCSV(text string, sep byte, lazy bool) (rows []modelRow) {
	for line := 1; text != ""; {
		fields, n, ok := modelFields(text, sep, lazy)
		if !ok {
			if n = strings.IndexAny(text, "\r\n") + 1; n == 0 {
				n = len(text)
			} else if strings.HasPrefix(text[n-1:], "\r\n") {
				n++
			}
		}
		ends := strings.Count(
			text[:n],
			"\n",
		) + strings.Count(
			text[:n],
			"\r",
		) - strings.Count(
			text[:n],
			"\r\n",
		)
		if !ok || len(fields) > 0 {
			lines := ends
			if last := text[n-1]; last != '\n' && last != '\r' {
				lines++
			}
			rows = append(rows, modelRow{line, lines, fields, !ok})
		}
		line += ends
		text = text[n:]
	}
	return rows
}

// modelFields returns the fields of the first row and its length. An empty line has no fields.
func modelFields(text string, sep byte, lazy bool) (fields []string, n int, ok bool) {
	at := func(i int) byte {
		if i < len(text) {
			return text[i]
		}
		return '\n'
	}
	for quoted := false; ; quoted = false {
		var field []byte
		if n < len(text) && text[n] == '"' {
			quoted = true
			for n++; ; n++ {
				if n >= len(text) {
					return append(fields, string(field)), n, lazy
				}
				if text[n] == '"' {
					if next := at(n + 1); next == '"' {
						n++
					} else if next == sep || next == '\n' || next == '\r' {
						n++
						break
					} else if !lazy {
						return nil, 0, false
					}
				}
				field = append(field, text[n])
			}
		}
		for ; n < len(text) && text[n] != sep && text[n] != '\n' && text[n] != '\r'; n++ {
			if text[n] == '"' && !lazy {
				return nil, 0, false
			}
			field = append(field, text[n])
		}
		if len(fields) > 0 || len(field) > 0 || quoted || at(n) == sep {
			fields = append(fields, string(field))
		}
		switch {
		case n == len(text):
			return fields, n, true
		case strings.HasPrefix(text[n:], "\r\n"):
			return fields, n + 2, true
		case text[n] != sep:
			return fields, n + 1, true
		}
		n++
		if n == len(text) {
			return append(fields, ""), n, true
		}
	}
}

// againstModel reads a text without a header. It compares the rows, the skipped lines, and the line
// of the error with the model.
func againstModel(t testing.TB, text string, opts Options) {
	t.Helper()
	text = strings.TrimPrefix(text, "\ufeff")
	opts.Format, opts.Separator, opts.Header, opts.Nulls = CSV, ',', HeaderNo, []string{"\x00\x01"}
	var want [][]string
	skipped, badLine := 0, 0
	for _, row := range modelCSV(text, ',', opts.LazyQuotes) {
		if row.bad || len(want) > 0 && len(row.fields) != len(want[0]) {
			skipped += row.lines
			if badLine == 0 {
				badLine = row.line
			}
			if !opts.SkipBad {
				break
			}
			continue
		}
		want = append(want, row.fields)
	}
	_, got, gotSkipped, err := readText(t, text, opts)
	bad := (*RowError)(nil)
	switch {
	case badLine > 0 && !opts.SkipBad:
		if !errors.As(err, &bad) || bad.Line != badLine {
			t.Fatalf("%q, %+v: %v, want an error of line %d", text, opts, err, badLine)
		}
		return
	case len(want) == 0:
		if err == nil {
			t.Fatalf("%q, %+v: %q, want no rows", text, opts, got)
		}
		return
	}
	if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || gotSkipped != skipped {
		t.Fatalf(
			"%q, %+v: %q, %d lines skipped, %v; want %q, %d",
			text,
			opts,
			got,
			gotSkipped,
			err,
			want,
			skipped,
		)
	}
}

// oddText returns a random combination of special cases of CSV.
func oddText(rng *rand.Rand) string {
	parts := []string{
		`"`,
		`"`,
		`""`,
		",",
		",",
		"a",
		"b",
		"\n",
		"\n",
		"\r\n",
		"\r",
		`"a",`,
		"1,2\n",
		"x,\"y\nz\"\n",
	}
	parts = parts[rng.IntN(6):]
	var b strings.Builder
	for range rng.IntN(40) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// Good rows and skipped lines do not depend on the sizes of blocks.
func TestOddText(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	n := 6000
	if testing.Short() {
		n = 1500
	}
	for range n {
		againstModel(
			t,
			oddText(rng),
			Options{SkipBad: rng.IntN(3) > 0, LazyQuotes: rng.IntN(3) == 0,
				BlockSize: 1 + rng.IntN(40), first: 1 + rng.IntN(40), Workers: 1 + rng.IntN(3)},
		)
	}
}

// Under the rules of encoding/csv, the rows and the lines of errors agree with it.
func TestOddTextAgainstEncodingCSV(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 800 {
		text := strings.ReplaceAll(strings.ReplaceAll(oddText(rng), "\r\n", "\n"), "\r", "")
		againstCSV(
			t,
			text,
			Options{
				LazyQuotes: rng.IntN(2) == 0,
				BlockSize:  1 + rng.IntN(40),
				first:      1 + rng.IntN(40),
				Workers:    2,
			},
		)
	}
}

// againstCSV compares rows with encoding/csv, which reads \r\n within quotes as \n.
func againstCSV(t testing.TB, text string, opts Options) {
	text = strings.TrimPrefix(text, "\ufeff")
	opts.Format, opts.Separator, opts.Header, opts.Nulls = CSV, ',', HeaderNo, []string{"\x00"}
	r := csv.NewReader(strings.NewReader(text))
	r.LazyQuotes = opts.LazyQuotes
	want, wantErr := r.ReadAll()
	_, got, _, err := readText(t, text, opts)
	if wantErr == nil && len(want) == 0 {
		if err == nil {
			t.Fatalf("%q is %v, want no rows", text, got)
		}
		return
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q is %v, %v; encoding/csv: %v, %v", text, got, err, want, wantErr)
	}
	if err != nil {
		row, wantRow := (*RowError)(nil), (*csv.ParseError)(nil)
		if !errors.As(err, &row) || !errors.As(wantErr, &wantRow) || row.Line != wantRow.StartLine {
			t.Fatalf("%q: %v; encoding/csv: %v", text, err, wantErr)
		}
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%q is %v; encoding/csv: %v", text, got, want)
	}
	for i, row := range want {
		for j, field := range row {
			if s, ok := got[i][j].(string); ok && strings.ReplaceAll(s, "\r\n", "\n") != field ||
				!ok && field != "\x00" {
				t.Fatalf("%q: row %d is %q; encoding/csv: %q", text, i, got[i], row)
			}
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "\"a\"\"b\",\r\n\"x\ny\",z", "a\"b\n", "\"a\"b,c\n", "\n\n,\n\"", "\ufeff1,2\r\n", "\"\"\"\",a\n",
		"id,v\n1,2\n2,\"3\n4,5\n", "a\r1\r2\r", "\"x\ry\"\r\r\nz", "\"x\ny\",a\"b\n1,2", "1,\"2\" ,3\n4, \"5\",6\n", "a,\"b\"c\"\n\"\"d,e\n\"f"} {
		f.Add(text, 3, true, true)
		f.Add(text, 7, false, false)
	}
	f.Fuzz(func(t *testing.T, text string, size int, skip, lazy bool) {
		if strings.ContainsFunc(
			text[:min(len(text), 64)],
			func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' || c == utf8.RuneError },
		) {
			return // text may look compressed, or be UTF-16
		}
		size = min(max(size, 1), 1<<16)
		opts := Options{BlockSize: size, first: size, Workers: 2, SkipBad: skip, LazyQuotes: lazy}
		if !strings.Contains(text, "\x00") {
			againstModel(t, text, opts)
		}
		if !strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), "\r") &&
			!strings.HasSuffix(text, "\r\n") { // other line ends do not exist in encoding/csv
			opts.SkipBad = false
			againstCSV(t, text, opts)
		}
	})
}

// A missing closing quote makes one line bad, whatever the length of the remaining text.
func TestOpenQuote(t *testing.T) {
	rows := strings.Repeat("1,2\n", 1000)
	for _, tt := range []struct {
		text    string
		maxRow  int
		rows    int
		skipped int
	}{
		{"a,b\n" + rows + "3,\"4\n" + rows, 0, 2000, 1},
		{"a,b\n" + rows + "3,\"4\n" + rows, 100, 2000, 1},
		{"a,b\n" + rows + "3,\"4\n" + rows + "\"5\",6\n" + rows, 100, 3001, 1},
		{"a,b\n" + rows + "3,\"4\n" + rows + "\"5\",6\n" + rows, 0, 3001, 1},
		{"a,b\n" + strings.Repeat("3,\"4\n", 1000) + rows, 0, 1000, 1000},
		{"a,b\r" + strings.ReplaceAll(strings.Repeat("3,\"4\n", 3)+rows, "\n", "\r"), 20, 1000, 3},
	} {
		for _, size := range []int{10, 1 << 20} {
			tab, err := Open(
				t.Context(),
				[]string{write(t, "a.csv", tt.text)},
				nil,
				&Options{SkipBad: true, BlockSize: size, first: size, maxRow: tt.maxRow},
			)
			if err != nil {
				t.Fatal(err)
			}
			got, skipped, err := all(t, tab, Key)
			if len(got) != tt.rows || skipped != tt.skipped || err != nil {
				t.Errorf(
					"%.40q…, blocks of %d, rows up to %d: %d rows, %d lines skipped, %v; want %d, %d",
					tt.text,
					size,
					tt.maxRow,
					len(got),
					skipped,
					err,
					tt.rows,
					tt.skipped,
				)
			}
		}
	}
	name := write(t, "a.csv", "a,b\n1,\"2\n"+rows)
	for opts, want := range map[*Options]string{
		{}:                                      ":2: a quote is not closed; use --bad skip to skip the line",
		{BlockSize: 10, first: 10, maxRow: 100}: ":2: a quote is not closed within the longest row",
		{BlockSize: 10, first: 10, maxRow: 100, LazyQuotes: true}:                ":2: a row of more than 100 bytes; is a quote or a bracket not closed?",
		{BlockSize: 10, first: 10, maxRow: 100, LazyQuotes: true, SkipBad: true}: ":2: a row of more than 100 bytes",
	} {
		tab, err := Open(t.Context(), []string{name}, nil, opts)
		if err == nil {
			_, _, err = all(t, tab, Key)
		}
		if err == nil || !strings.HasPrefix(err.Error(), name+want) {
			t.Errorf("%+v: %v, want %s", opts, err, want)
		}
	}
}

// Rows are found in linear time, whatever the quotes: in seconds, not hours.
func TestQuotesTakeLinearTime(t *testing.T) {
	start := time.Now()
	for _, line := range []string{"a\"b\r", "\"a\"b\r", "\"\r\r", "1,\"a\n", "\"a\"\"\n", "\"\"\"a\n", ",\"\"\"\"\n", "\"a\"b\n", "x,\"\n", "\",b,\"\n", "\"\"a\n", "a\"b\n"} {
		for _, before := range []string{"", "\"\n", "x,\"a\n"} {
			lines := 300_000
			if strings.Contains(line, "\r") {
				lines = 2_000_000
			}
			text := []byte("a,b\n" + before + strings.Repeat(line, lines) + "\n")
			c := &csvCutter{sep: ','}
			if n := c.whole(text, true); n != len(text) {
				t.Errorf("%q after %q: %d bytes of %d", line, before, n, len(text))
			}
		}
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("%v", d)
	}
}

// Rows with values that do not fit the type of their column are skipped, or the values become null,
// in linear time.
func TestMisfitsTakeLinearTime(t *testing.T) {
	const rows = 1_400_000
	pads := strings.Repeat("\x00", pad)
	blk := &block{buf: []byte(pads + strings.Repeat("k,1\r\n", rows) + pads), line: 2, rows: rows}
	start := time.Now()
	for name, build := range map[string]builder{"bad": {typ: column.Int64, form: Forced}, "null": {typ: column.Int64, fixed: true}} {
		p := newCSVParser(
			"a",
			',',
			2,
			&Options{SkipBad: true},
			[]wanted{{builder: build, field: 0, strings: new(atomic.Bool)}},
		)
		batch, err := p.parse(blk)
		if batch.Rows+batch.Skipped != rows || err != nil {
			t.Errorf("%s: %d rows, %d lines skipped, %v", name, batch.Rows, batch.Skipped, err)
		}
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("%v", d)
	}
}

// A note is sent if the first line may or may not be a header.
func TestNotes(t *testing.T) {
	for text, want := range map[string]int{
		"name,2019\nx,1\ny,2\n": 1, "1,2\n3,4\n": 0, "a,b\n1,2\n": 0, "a,b\nc,d\n": 0, ",1\n,2\n": 0, "a,1\n": 1, "true,a\nfalse,b\n": 1,
	} {
		var notes []string
		name := write(t, "a.csv", text)
		if _, err := Open(t.Context(), []string{name}, nil, &Options{Note: func(line string) { notes = append(notes, line) }}); err != nil {
			t.Fatal(err)
		}
		if len(notes) != want ||
			want > 0 &&
				notes[0] != name+": the first line is taken for a row; --header yes takes it for names" {
			t.Errorf("%q: %q", text, notes)
		}
	}
}
