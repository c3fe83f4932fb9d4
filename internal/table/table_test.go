package table

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// write makes a file.
func write(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// all returns the rows of a table, with all columns in one form. If necessary, it reads the table
// again.
func all(t testing.TB, tab *Table, form Form) (rows [][]any, skipped int, err error) {
	t.Helper()
	tab.All()
again:
	for {
		rows, skipped = nil, 0
		var columns []Read
		for i := range tab.Fields() {
			columns = append(columns, tab.Reading(i, form))
		}
		for batch, err := range tab.Batches(t.Context(), columns) {
			if err != nil {
				if err = tab.Adapt(t.Context(), err); err == nil {
					continue again
				}
				return rows, skipped, err
			}
			skipped += batch.Skipped
			for i := range batch.Rows {
				row := make([]any, len(columns))
				for j, c := range batch.Columns {
					row[j] = c.Any(i)
				}
				rows = append(rows, row)
			}
		}
		return rows, skipped, nil
	}
}

// show formats names and rows in a line.
func show(tab *Table, rows [][]any) string {
	var b strings.Builder
	for i, f := range tab.Fields() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.Name)
	}
	for _, row := range rows {
		b.WriteString(";")
		for i, v := range row {
			if i > 0 {
				b.WriteByte(',')
			}
			if s, ok := v.(string); ok {
				v = fmt.Sprintf("%q", s)
			}
			fmt.Fprint(&b, v)
		}
	}
	return b.String()
}

func TestCSV(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
		text string
		want string // want may be an error
	}{
		{"types", Options{}, "n,f,b,s\n1,1.5,true,x\n-2,3,false,y\n", `n,f,b,s;1,"1.5",true,"x";-2,"3",false,"y"`},
		{"no end", Options{}, "a,b\n1,2", "a,b;1,2"},
		{"carriage returns", Options{}, "a,b\r\n1,2\r\n\r\n3,4\r\n", "a,b;1,2;3,4"},
		{"byte order mark", Options{}, "\ufeffa,b\n1,2\n", "a,b;1,2"},
		{"empty lines", Options{}, "\n\na\n\n1\n\n\n2\n\n", "a;1;2"},
		{"nulls", Options{}, "a,b\n1,\n,x\n,\n", `a,b;1,<nil>;<nil>,"x";<nil>,<nil>`},
		{"null in words", Options{Nulls: []string{"NA"}}, "a,b\n1,NA\nNA,\"NA\"\n2,\n", `a,b;1,<nil>;<nil>,"NA";2,""`},
		{"quotes", Options{}, "a,b\n\"1\",\"x,y\"\n2,\"say \"\"hi\"\"\"\n3,\"two\nlines\r\n\"\n", `a,b;1,"x,y";2,"say \"hi\"";3,"two\nlines\r\n"`},
		{"quoted and empty", Options{}, "a\n\"\"\nx\n", `a;"";"x"`},
		{"quotes only", Options{}, "a,b\n\"\"\"\",\"\"\n", `a,b;"\"",""`},
		{"quoted names", Options{}, "\"a,b\",\"c\"\"d\"\n1,2\n", `a,b,c"d;1,2`},
		{"invalid UTF-8", Options{}, "a\n\xff\xfe\n", `a;"\xff\xfe"`},
		{"zeros before", Options{}, "zip,n\n007,1\n123,2\n", `zip,n;"007",1;"123",2`},
		{"large integers", Options{}, "a\n12345678901234567890\n1\n", `a;"12345678901234567890";"1"`},
		{"spaces stay", Options{}, "a,b\n 1, x \n", `a,b;" 1"," x "`},
		{"no header", Options{}, "1,x\n2,y\n", `1,2;1,"x";2,"y"`},
		{"header no", Options{Header: HeaderNo}, "a,b\nc,d\n", `1,2;"a","b";"c","d"`},
		{"header yes", Options{Header: HeaderYes}, "1,x\n2,y\n", `1,x;2,"y"`},
		{"header only", Options{}, "a,b\n", "a,b"},
		{"column without a name", Options{}, ",b\n1,2\n", "1,b;1,2"},
		{"semicolons", Options{}, "a;b\n1;2,5\n", `a,b;1,"2,5"`},
		{"tabs", Options{}, "a\tb\n1\t2\n", "a,b;1,2"},
		{"bars", Options{}, "a|b\n1|2\n", "a,b;1,2"},
		{"separator", Options{Separator: ':'}, "a:b\n1:2\n", "a,b;1,2"},
		{"text by name", Options{Text: []string{"a", "2"}}, "a,b\n1,2\n", `a,b;"1","2"`},
		{"one field", Options{}, "a\n1\n", "a;1"},
		{"ragged", Options{}, "a,b\n1,2\n\n3\n", "FILE:4: 1 fields, want 2"},
		{"ragged, more", Options{}, "a,b\n1,2,3\n", "FILE:2: 3 fields, want 2"},
		{"ragged behind lines in quotes", Options{}, "a,b\n\"1\n\n\",2\n3\n", "FILE:5: 1 fields, want 2"},
		{"bare quote", Options{}, "a,b\n1,x\"y\n", "FILE:2: a quote in a field without quotes"},
		{"text behind a quote", Options{}, "a,b\n1,\"x\"y\n", "FILE:2: text after a closing quote"},
		{"open quote", Options{}, "a,b\n1,2\n3,\"x\n", "FILE:3: a quote is not closed"},
		{"open quote at the end", Options{}, "a,b\n1,2\n3,\"", "FILE:3: a quote is not closed"},
		{"bad header", Options{}, "a\"b,c\n", "FILE:1: a quote in a field"},
		{"carriage returns alone", Options{}, "a,b\r1,2\r\r3,\"x\ry\"\r", `a,b;1,"2";3,"x\ry"`},
		{"ends of lines mixed", Options{}, "a\n1\r2\r\n3\r\r\n4\n\r5", "a;1;2;3;4;5"},
		{"line after carriage returns", Options{}, "a,b\r1,2\r\"x\ry\",3\r4\r", "FILE:5: 1 fields, want 2"},
		{"zero bytes", Options{}, "a,b\n\x00,x\x00y\n", `a,b;"\x00","x\x00y"`},
		{"nulls in words", Options{Nulls: []string{"NA", "NULL", ""}}, "a,b\n1,NA\nNULL,\"NULL\"\n,\"\"\n", `a,b;1,<nil>;<nil>,"NULL";<nil>,""`},
		{"lazy", Options{LazyQuotes: true}, "a,b\n1,x\"y\"\n\"2\",\"x\" y\"\"z\"\n3,\"open\n", `a,b;1,"x\"y\"";2,"x\" y\"z";3,"open\n"`},
		{"bad header, skipped", Options{SkipBad: true}, "a\"b,c\n1,2\n", "FILE:1: a quote in a field without quotes; use --lazy-quotes to read it as text; the first line may have"},
		{"bad header, none", Options{SkipBad: true, Header: HeaderNo}, "a\"b,c\n1,2\n", "1,2;1,2"},
		{"separator in quotes", Options{}, "\"a,b,c,d\";x\n\"1,2,3,4\";5\n", `a,b,c,d,x;"1,2,3,4",5`},
		{"separator after empty lines", Options{}, "\n\r\n\na;b\n1,5;2\n", `a,b;"1,5",2`},
		{"separator that most rows have", Options{}, "a title, with commas, three\nx;y\n1;2\n3;4\n", "FILE:2: 2 fields, want 1"},
		{"separator of one row", Options{}, "a|b,c|d\n", "a,b,c,d"},
		{"separator of a bad row", Options{}, "x;\"y\"z,,,,,\na;b\n1;2\n", "FILE:1: text after a closing quote"},
		{"names and numbers", Options{}, "name,2019,\nx,1,true\ny,2,false\n", `1,2,3;"name",2019,<nil>;"x",1,true;"y",2,false`},
		{"header by a column of numbers", Options{}, "n,2020,2020\n1,x,y\n,z,t\n", `n,2020,2020;1,"x","y";<nil>,"z","t"`},
		{"header by a column of bools", Options{}, "ok,1,\ntrue,x,y\n", `ok,1,3;true,"x","y"`},
		{"header by no column", Options{}, "n,1\nx,2\n2,3\n", `1,2;"n",1;"x",2;"2",3`},
		{"rows of text", Options{}, "a,b\nc,d\n", `a,b;"c","d"`},
		{"rows of text that repeat", Options{}, "a,a\nc,d\n", "FILE:1: fields of the first line repeat: set --header yes if they are column names, or --header no"},
		{"row of text that repeats", Options{}, "a,a\n", `1,2;"a","a"`},
		{"row that repeats", Options{}, "a,a,1\nc,d,2\n", `1,2,3;"a","a",1;"c","d",2`},
		{"no rows", Options{}, "\n\n", "FILE: no rows and no column names"},
		{"empty", Options{}, "", "FILE: no rows and no column names"},
		{"same names", Options{Header: HeaderYes}, "a,b,a\n1,2,3\n", "a,b,a;1,2,3"},
		{"numbers by name", Options{Number: []string{"a", "2"}}, "a,b\n007,1.50\n+2,1\n", "a,b;7,1.5;2,1"},
		{"text and number", Options{Number: []string{"a"}, Text: []string{"1"}}, "a,b\n1,2\n", "--number: column a cannot be both text and a number"},
		{"text of same names", Options{Header: HeaderYes, Text: []string{"a"}}, "a,b,a\n1,2,3\n", `--text: columns 1 and 3 are both called "a": use the number`},
		{"unknown text", Options{Text: []string{"c"}}, "a,b\n1,2\n", `--text: no column "c"; the 2 columns are a, b`},
	} {
		for _, size := range []int{4, 16, 0} {
			t.Run(fmt.Sprint(tt.name, " ", size), func(t *testing.T) {
				opts := tt.opts
				opts.BlockSize, opts.Workers = size, 3
				name := write(t, "file", tt.text)
				var got string
				tab, err := Open(t.Context(), []string{name}, nil, &opts)
				if err == nil {
					defer tab.Close()
					var rows [][]any
					rows, _, err = all(t, tab, Written)
					got = show(tab, rows)
				}
				if err != nil {
					got = strings.ReplaceAll(err.Error(), name, "FILE")
				}
				if got != tt.want && !(err != nil && strings.HasPrefix(got, tt.want)) {
					t.Errorf("%q is %s, want %s", tt.text, got, tt.want)
				}
			})
		}
	}
}

// SkipBad counts the lines of bad rows: the first line if a quote is wrong, otherwise all lines.
func TestSkipBad(t *testing.T) {
	text := "a,b\n1,2\n3\n4,x\"y\n\"5\n\n\",6,7\n\"8\"z,9\n10,11\n"
	for _, size := range []int{4, 1 << 20} {
		tab, err := Open(
			t.Context(),
			[]string{write(t, "a.csv", text)},
			nil,
			&Options{SkipBad: true, BlockSize: size},
		)
		if err != nil {
			t.Fatal(err)
		}
		rows, skipped, err := all(t, tab, Number)
		if got := show(tab, rows); err != nil || got != "a,b;1,2;10,11" || skipped != 6 {
			t.Errorf("%s, %d skipped, %v", got, skipped, err)
		}
	}
}

// In a Number column, a value that is not a number makes its row bad.
func TestNumberColumns(t *testing.T) {
	for text, want := range map[string]string{
		"a\n1\n2\n":                  "a;1;2",
		"a\n007\n+1\n":               "a;7;1",
		"a\n1\n2.5\n":                "a;1;2.5",
		"a\n1\n12345678901234567890": "a;1;12345678901234567890",
		"a\n\n1\nx\n":                `FILE:4: column a: "x" is not a number; use --null x to read it as null`,
		"a,b\nx,1\n":                 `FILE:2: column a: "x" is not a number; use --null x to read it as null`,
		"a,b\n,1\n":                  "a,b;<nil>,1",
	} {
		name := write(t, "a.csv", text)
		tab, err := Open(t.Context(), []string{name}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := all(t, tab, Number)
		got := show(tab, rows)
		if err != nil {
			got = strings.ReplaceAll(err.Error(), name, "FILE")
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// If a value does not fit the type that the first block determined, the table is read again.
func TestWidening(t *testing.T) {
	first := strings.Repeat("1,true,1\n", 200)
	text := "a,b,c\n" + first + "2.5,3,1\n" + "x,yes,1\n"
	opts := &Options{BlockSize: 64, first: 64}
	tab, err := Open(t.Context(), []string{write(t, "a.csv", text)}, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, tab, Written)
	if err != nil || len(rows) != 202 ||
		fmt.Sprint(rows[0], rows[200], rows[201]) != "[1 true 1] [2.5 3 1] [x yes 1]" ||
		rows[0][2] != int64(1) ||
		rows[0][0] != "1" {
		t.Errorf("%v, %v", rows[max(0, len(rows)-2):], err)
	}
	// A stream is kept, unless it is too long for a directory in memory.
	opts.TempDir = "/dev/shm"
	for _, maxBytes := range []int64{0, 1700} {
		opts.MaxBytes = maxBytes
		if tab, err = Open(t.Context(), []string{Stdin}, strings.NewReader(text), opts); err != nil {
			t.Fatal(err)
		}
		rows, _, err = all(t, tab, Written)
		want := "<nil>"
		if maxBytes > 0 {
			want = `standard input:202: column a was int64 so far, and here is "2.5"; --text a reads it as text; or write the stream to a file first, which weft can read again`
		} else if len(rows) != 202 || fmt.Sprint(rows[0], rows[201]) != "[1 true 1] [x yes 1]" {
			t.Errorf("stream: %v", rows[max(0, len(rows)-2):])
		}
		if fmt.Sprint(err) != want {
			t.Errorf("%d bytes: %v", maxBytes, err)
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestManyFiles(t *testing.T) {
	a, b := write(t, "a.csv", "k,v\n1,x\n"), write(t, "b.csv", "v,k\ny,2.5\n")
	tab, err := Open(t.Context(), []string{a, b, a}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, tab, Written)
	if got := show(tab, rows); err != nil || got != `k,v;"1","x";"2.5","y";"1","x"` {
		t.Errorf("%s, %v", got, err)
	}
	if tab.Read() != int64(2*len("k,v\n1,x\n")+len("v,k\ny,2.5\n")) {
		t.Errorf("%d bytes read", tab.Read()) // each byte once, although beginnings are read twice
	}
	for text, want := range map[string]string{
		"v\nz\n":               "no column k, which " + a + " has",
		"k,v,more\n1,2,3\n":    "column more, which " + a + " does not have",
		"k,v,v\n1,2,3\n":       "column v, which " + a + " does not have",
		"v,w\nz,y\n":           "no column k, which " + a + " has",
		"1,2\n3,4\n":           "no columns k, v, which " + a + " has",
		"k,v,a,b\n1,2,3,4\n":   "columns a, b, which " + a + " does not have",
		"k,v,1,2,3,4,5,6\nx,y": "columns 1, 2, 3, 4, 5 and 1 more, which " + a + " does not have",
	} {
		c := write(t, "c.csv", text)
		if _, err = Open(t.Context(), []string{a, c}, nil, &Options{Header: HeaderYes}); err == nil ||
			err.Error() != c+": "+want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	// Files without names must have the same number of columns.
	one, two := write(t, "1.csv", "1,2\n"), write(t, "2.csv", "3,4,5\n")
	if _, err = Open(t.Context(), []string{one, two}, nil, nil); err == nil ||
		err.Error() != two+": column 3, which "+one+" does not have" {
		t.Errorf("%v", err)
	}
}

func TestFind(t *testing.T) {
	tab, err := Open(
		t.Context(),
		[]string{write(t, "a.csv", "a,b,1\nx,y,z\n")},
		nil,
		&Options{Header: HeaderYes},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 0, "b": 1, "1": 2, "2": 1, "3": 2, "0": -1, "4": -1, "c": -1, "": -1} {
		got, err := tab.Find(t.Context(), name)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is column %d, %v, want %d", name, got, err, want)
		}
	}
}

func TestHugeFields(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	text := "a,b\n1," + long + "\n2,\"" + long + "\n\"\"\n\"\n"
	tab, err := Open(t.Context(), []string{write(t, "a.csv", text)}, nil, &Options{BlockSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, tab, Written)
	if err != nil || len(rows) != 2 || rows[0][1] != long || rows[1][1] != long+"\n\"\n" {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestCompressedAndPiped(t *testing.T) {
	text := "a,b\n1,x\n2,y\n"
	var gz, zst bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write([]byte(text))
	w.Close()
	z, _ := zstd.NewWriter(&zst)
	z.Write([]byte(text))
	z.Close()
	const want = `a,b;1,"x";2,"y"`
	for _, packed := range []string{text, gz.String(), zst.String()} {
		tab, err := Open(t.Context(), []string{write(t, "a", packed)}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := all(t, tab, Written)
		if got := show(tab, rows); err != nil || got != want {
			t.Errorf("file: %s, %v", got, err)
		}
		if tab, err = Open(t.Context(), []string{Stdin}, iotest.OneByteReader(strings.NewReader(packed)), nil); err != nil {
			t.Fatal(err)
		}
		rows, _, err = all(t, tab, Written)
		if got := show(tab, rows); err != nil || got != want {
			t.Errorf("stream: %s, %v", got, err)
		}
		if len(packed) == len(text) {
			continue
		}
		name := write(t, "a", packed[:len(packed)-9])
		if tab, err = Open(t.Context(), []string{name}, nil, nil); err == nil {
			_, _, err = all(t, tab, Written)
		}
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("cut off: %v", err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, before := range []string{"", "a,b\n1,2\n" + strings.Repeat("3,4\n", 1<<19)} {
		tab, err := Open(
			t.Context(),
			[]string{Stdin},
			&failing{strings.NewReader(before), broken},
			&Options{BlockSize: 1 << 16},
		)
		if err == nil {
			_, _, err = all(t, tab, Written)
		}
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "standard input: ") {
			t.Errorf("%v", err)
		}
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := Open(t.Context(), []string{name}, nil, nil); err == nil ||
			!strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%v", err)
		}
	}
}

// failing is a reader that fails after some bytes.
type failing struct {
	*strings.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if err != nil {
		err = f.err
	}
	return n, err
}

// A member that is early in one file and late in another is read from both.
func TestLateMemberOfAnotherFile(t *testing.T) {
	first := write(t, "1.jsonl", "{\"k\":1}\n")
	second := write(t, "2.jsonl", strings.Repeat("{\"a\":1}\n", 50)+"{\"k\":2}\n{\"k\":\"x\"}\n")
	tab, err := Open(t.Context(), []string{first, second}, nil, &Options{first: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	k, err := tab.Find(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
again:
	var got []any
	for b, err := range tab.Batches(t.Context(), []Read{tab.Reading(k, Key)}) {
		if err != nil {
			if err = tab.Adapt(t.Context(), err); err != nil {
				t.Fatal(err)
			}
			goto again
		}
		for i := range b.Rows {
			if v := b.Columns[0].Any(i); v != nil {
				got = append(got, v)
			}
		}
	}
	if s := fmt.Sprint(got); s != "[1 2 x]" {
		t.Errorf("%s, of %d values", s, len(got))
	}
}

// A column can be added to a JSON file, because later rows may contain it, and to no other file.
func TestAddColumn(t *testing.T) {
	tab, err := Open(
		t.Context(),
		[]string{write(t, "x.jsonl", strings.Repeat("{\"a\":1}\n", 50)+"{\"k\":7}\n")},
		nil,
		&Options{first: 64},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	k, err := tab.AddColumn("k")
	if err != nil {
		t.Fatal(err)
	}
	last := any(nil)
	for b, err := range tab.Batches(t.Context(), []Read{tab.Reading(k, Text)}) {
		if err != nil {
			t.Fatal(err)
		}
		last = b.Columns[0].Any(b.Rows - 1)
	}
	if found, err := tab.Find(t.Context(), "k"); found != k || err != nil || last != "7" {
		t.Errorf("column %d, %v; the last value is %v", found, err, last)
	}
	csv, err := Open(t.Context(), []string{write(t, "x.csv", "a,b\n1,2\n")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer csv.Close()
	if _, err := csv.AddColumn("k"); !errors.Is(err, ErrNoColumn) {
		t.Errorf("CSV: %v", err)
	}
}
