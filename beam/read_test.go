package beam

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// textRows returns columns as text, with one row per line.
func textRows(names []string, columns []column.Column, row func(values []any) string) string {
	var b strings.Builder
	for i := range columns[0].Len() {
		values := make([]any, len(columns))
		for j, c := range columns {
			if values[j] = c.Any(i); c.Null(i) {
				values[j] = nil
			} else if v, ok := values[j].([]byte); ok {
				values[j] = string(v)
			}
		}
		b.WriteString(row(values))
	}
	return b.String()
}

// fileOf returns rows as a file of the given format.
func fileOf(t testing.TB, format string, names []string, columns []column.Column) []byte {
	t.Helper()
	var b bytes.Buffer
	switch format {
	case "csv", "tsv", "csv.gz":
		sep := map[bool]string{false: ",", true: "\t"}[format == "tsv"]
		text := strings.Join(
			names,
			sep,
		) + "\n" + textRows(
			names,
			columns,
			func(values []any) string {
				fields := make([]string, len(values))
				for i, v := range values {
					if v != nil {
						fields[i] = fmt.Sprint(v)
					}
				}
				return strings.Join(fields, sep) + "\n"
			},
		)
		if format != "csv.gz" {
			return []byte(text)
		}
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	case "json":
		b.WriteString(textRows(names, columns, func(values []any) string {
			var members []string
			for i, v := range values {
				switch v.(type) {
				case nil: // the member is missing
				case string:
					members = append(members, fmt.Sprintf("%q: %q", names[i], v))
				default:
					members = append(members, fmt.Sprintf("%q: %v", names[i], v))
				}
			}
			return "{" + strings.Join(members, ", ") + "}\n"
		}))
	case "parquet":
		fields := []parquet.Field{{Name: names[0], Type: parquet.Type{Column: column.Int64}},
			{Name: names[1], Type: parquet.Type{Kind: parquet.Text, Column: column.Bytes}},
			{Name: names[2], Type: parquet.Type{Column: column.Int64}}}
		w := must(parquet.NewWriter(&b, fields, "test"))(t)
		w.Limit(1 << 16)
		for lo := 0; lo < columns[0].Len(); lo += 500 {
			part := slices.Clone(columns)
			for i, c := range part {
				part[i] = c.Slice(lo, min(lo+500, c.Len()))
			}
			if err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	case "arrow":
		rec := must(Decode(must(EncodeColumns(names, columns))(t)[0]))(t)
		w := must(ipc.NewFileWriter(&b, ipc.WithSchema(rec.Schema())))(t)
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// readTable returns rows of three columns with nulls: integers, text and integers.
func readTable(rng *rand.Rand, rows int) []column.Column {
	selected := func() column.Bitmap {
		return column.OfBools(randomValues(rng, rows, func() bool { return rng.IntN(9) > 0 }))
	}
	return []column.Column{
		column.Of(randomValues(rng, rows, func() int64 { return rng.Int64N(50) - 9 })).
			WithValid(selected()),
		column.OfStrings(randomValues(rng, rows, func() string {
			return strings.Repeat("é", 1+rng.IntN(3)) + fmt.Sprint(rng.IntN(20))
		})).WithValid(selected()),
		column.Of(randomValues(rng, rows, func() int64 { return rng.Int64N(1e6) })).
			WithValid(selected()),
	}
}

// Files of each format, on file systems with and without random access, give the groups of
// group.By. First and Last follow the order of rows.
func TestRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	names := []string{"k", "name", "v"}
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 1},
		{Func: group.First}, {Func: group.Last}, {Func: group.First, Column: 1}}
	for _, format := range []string{"csv", "tsv", "csv.gz", "json", "parquet", "arrow"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			parts := make([][]column.Column, 3)
			for i := range parts {
				rows := 500 + rng.IntN(20_000)
				if format == "arrow" { // a block
					rows = 500 + rng.IntN(5000)
				}
				parts[i] = readTable(rng, rows)
				file := fileOf(t, format, names, parts[i])
				memfs.Write(fmt.Sprintf("memfs://read/%d.%s", i, format), file)
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, format)), file,
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			all := make([]column.Column, 3)
			for i := range all {
				all[i] = must(column.Concat(parts[0][i], parts[1][i], parts[2][i]))(t)
			}
			want := must(group.By(t.Context(), must(openHost())(t), all[:1], all[1:], aggs, nil))(t)
			for _, pattern := range []string{dir + "/*." + format, "memfs://read/*." + format} {
				out, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
					in := must(Read(s, []string{pattern}, &ReadOptions{Ordinals: "row",
						Lines: format == "csv", RangeBytes: 1 << 16}))(t)
					return must(Group(s, in, names[:1], names[1:], aggs, &Options{Order: "row",
						Parts: 4}))(t)
				})
				if err != nil {
					t.Fatal(err)
				}
				_, got, _ := table(t, out)
				sameRows(t, rowsOf(got), rowsOf(slices.Concat(want.Keys, want.Values)))
			}
		})
	}
}

// Text files are split into ranges if their rows are lines, and Parquet files into row groups.
// Files without random access are not split.
func TestFileRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	for _, tt := range []struct {
		format string
		lines  bool
		more   bool
	}{{"csv", false, false}, {"csv", true, true}, {"csv.gz", true, false}, {"json", false, true},
		{"parquet", false, true}, {"arrow", false, false}} {
		name := filepath.Join(dir, "x."+tt.format)
		file := fileOf(t, tt.format, []string{"k", "name", "v"}, readTable(rng, 200_000))
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		memfs.Write("memfs://ranges/x."+tt.format, file)
		for where, more := range map[string]bool{name: tt.more, "memfs://ranges/x." + tt.format: false} {
			var ranges []readRange
			cut := &fileRanges{Plan: readPlan{Options: ReadOptions{Lines: tt.lines,
				RangeBytes: 1 << 20}}}
			err := cut.ProcessElement(t.Context(), readFile{Name: where}, func(r readRange) {
				ranges = append(ranges, r)
			})
			if err != nil || (len(ranges) > 1) != more || ranges[0].Count != len(ranges) {
				t.Errorf("%s, lines %v: %v, %+v", where, tt.lines, err, ranges)
			}
		}
	}
}

// Columns can be read in any order and form, and under other names.
func TestReadColumns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(name, []byte("zip,price,n\n007,1.5,-0\n12,2,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		return must(Read(s, []string{name}, &ReadOptions{Columns: []ReadColumn{
			{Name: "price", Form: Number}, {Name: "price"}, {Name: "3", As: "k", Form: Key},
			{
				Name: "zip",
				As:   "z",
				Form: Extreme,
			}, {Name: "n", As: "has", Form: Present}, {Name: "zip"}}}))(t)
	}))(t)
	schema, columns, _ := table(t, out)
	if got := fieldNames(schema); got != "price price k z has zip" ||
		schema.Field(1).Type != goarrow.BinaryTypes.String {
		t.Error(schema)
	}
	for i := range 2 {
		if columns[4].Null(i) != (i == 1) {
			t.Errorf("row %d of Present: null %v", i, columns[4].Null(i))
		}
	}
	columns = slices.Delete(columns, 4, 5)
	sameRows(t, rowsOf(columns), []string{"1.5|1.5|0|7|007|", "2|2|<nil>|12|12|"})
}

// Names of columns and files, and texts for null, may contain bytes that are not UTF-8.
func TestReadLatin1(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "Stra\xdfe.csv")
	text := "Stra\xdfe,Gr\xf6\xdfe\na,1\n\xfc,2\na,\xfc\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		in := must(Read(s, []string{name}, &ReadOptions{Nulls: []string{"\xfc"}}))(t)
		return must(Group(s, in, []string{"Stra\xdfe"}, []string{"Gr\xf6\xdfe"},
			[]group.Aggregate{{Func: group.Sum}, {Func: group.Rows}}, nil))(t)
	}))(t)
	_, got, _ := table(t, out)
	sameRows(t, rowsOf(got), []string{"a|1|2|", "<nil>|2|1|"})
	_, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		return must(Read(s, []string{name}, &ReadOptions{Number: []string{"Stra\xdfe"}}))(t)
	})
	if err == nil || !strings.Contains(err.Error(), "\"a\" is not a number") {
		t.Errorf("%v; want an error that names the value", err)
	}
}

// A column that a file lacks is an error, unless the file is JSON.
func TestReadMissing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"x.csv": "a\n1\n", "x.json": "{\"a\": 1}\n"} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		plan := readPlan{Options: ReadOptions{Columns: []ReadColumn{{Name: "a"}}}}
		if err := plan.look(t.Context(), []string{name}); err != nil {
			t.Fatal(err)
		}
		plan.Fields[0].Name = "b"
		f := &rangeRows{Plan: plan}
		err := f.open(t.Context(), readFile{Name: name})
		if err = errors.Join(err, f.Teardown()); (err == nil) != strings.HasSuffix(name, "json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A member that is known from another file may occur late. A member that occurs late in all files
// is an error, unless columns are named.
func TestReadUnknownMembers(t *testing.T) {
	dir := t.TempDir()
	head := strings.Repeat("{\"a\": 1}\n", 200_000) // more than Read examines
	for name, text := range map[string]string{"0.json": head + "{\"a\": 2, \"b\": 5}\n",
		"1.json": "{\"b\": 6}\n", "2.json": head + "{\"c\": 1}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(files string, columns ...ReadColumn) ([][]byte, error) {
		return run(t, "prism", func(s sdk.Scope) sdk.PCollection {
			in := must(Read(s, []string{filepath.Join(dir, files)}, &ReadOptions{Columns: columns,
				RangeBytes: 1 << 20}))(t)
			return must(Group(s, in, nil, []string{"a", "b"}, []group.Aggregate{{Func: group.Rows},
				{Func: group.Sum}, {Func: group.Sum, Column: 1}}, nil))(t)
		})
	}
	_, got, _ := table(t, must(sum("[01].json"))(t))
	sameRows(t, rowsOf(got), []string{"200002|200002|11|"})
	_, got, _ = table(t, must(sum("*.json", ReadColumn{Name: "a"}, ReadColumn{Name: "b"}))(t))
	sameRows(t, rowsOf(got), []string{"400003|400002|11|"})
	_, err := sum("*.json")
	if err == nil || !strings.Contains(err.Error(), "2.json") ||
		!strings.Contains(err.Error(), "ReadOptions.Columns") {
		t.Error(err)
	}
}

// Files that do not determine types must have the same columns.
func TestReadManyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(i int, text string) {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.csv", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const sampled = 100 // as in package beamfile
	for i := range sampled + 1 {
		write(i, "a,b\n1,2\n")
	}
	count := func() error {
		_, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
			in := must(Read(s, []string{dir + "/*"}, nil))(t)
			sdk.ParDo0(s, &expect{N: sampled + 2}, must(Count(s, in))(t))
			return in
		})
		return err
	}
	for text, want := range map[string]string{"b,a\n1,2\n3,4\n": "", "a\n1\n2\n": "no column b, which ",
		"a,b,c\n1,2,3\n1,2,3\n": "column c, which ", "a,b\n1,x\n3,4\n": "column b is bytes, and int64 in the first 100 files"} {
		write(sampled, text)
		err := count()
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// An error in a file fails the pipeline. It names the place and a remedy.
func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"late.csv":  "a,b\n" + strings.Repeat("1,2\n", 300_000) + "1,2.5\n",
		"bad.csv":   "a,b\n" + strings.Repeat("1,2\n", 300_000) + "1\n",
		"break.csv": "a,b\n" + strings.Repeat("1,2\n", 300_000) + "1,\"x\ny\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, texts := range map[string][]string{
		"late.csv":  {"late.csv:300002: column b was int64 so far, and here is \"2.5\"", "--text b", "ReadOptions.Text"},
		"bad.csv":   {"bad.csv:300002: 1 fields, want 2"},
		"break.csv": {"break.csv:300002: a line break in quotes", "leave --lines out"},
	} {
		_, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
			return must(Read(s, []string{filepath.Join(dir, name)}, &ReadOptions{Lines: true,
				RangeBytes: 1 << 20}))(t)
		})
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v; want an error with %q", err, text)
			}
		}
	}
	good := filepath.Join(dir, "late.csv")
	_, s := sdk.NewPipelineWithRoot()
	for text, err := range map[string]error{
		"no file matches":        second(Read(s, []string{good, dir + "/*.json"}, nil)),
		"no file given":          second(Read(s, nil, nil)),
		"not registered":         second(Read(s, []string{"nowhere://x"}, nil)),
		"no column \"x\"":        second(Read(s, []string{good}, &ReadOptions{Columns: []ReadColumn{{Name: "x"}}})),
		"form 77":                second(Read(s, []string{good}, &ReadOptions{Columns: []ReadColumn{{Name: "a", Form: 77}}})),
		"exclude each other":     second(Read(s, []string{good}, &ReadOptions{Lines: true, LazyQuotes: true})),
		"Separator '\"'":         second(Read(s, []string{good}, &ReadOptions{Separator: '"'})),
		"Ordinals \"b\" is":      second(Read(s, []string{good}, &ReadOptions{Ordinals: "b"})),
		"As \"b\" is the name":   second(Read(s, []string{good}, &ReadOptions{Columns: []ReadColumn{{Name: "a", As: "b"}, {Name: "b"}}})),
		"RangeBytes -1":          second(Read(s, []string{good}, &ReadOptions{RangeBytes: -1})),
		"\"xml\": want auto":     second(Read(s, []string{good}, &ReadOptions{Format: "xml"})),
		"\"perhaps\": want auto": second(Read(s, []string{good}, &ReadOptions{Header: "perhaps"})),
	} {
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want ErrOptions with %q", err, text)
		}
	}
	for _, name := range []string{"none.csv", ""} {
		if _, err := Read(s, []string{filepath.Join(dir, name)}, nil); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
