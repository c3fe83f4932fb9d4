package beam

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft/column"
)

// CSV that is written and read has the same rows, including nulls, empty text and quotes.
func TestWriteCSV(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	columns := readTable(rng, 20_000)
	columns[1] = column.OfStrings(randomValues(rng, 20_000, func() string {
		return []string{"", "a,b", "say \"x\"", "1\n2", "é"}[rng.IntN(5)]
	})).WithValid(column.OfBools(randomValues(rng, 20_000, func() bool { return rng.IntN(5) > 0 })))
	names := []string{"k", "a \"name\"", "v"}
	blocks := must(EncodeColumns(names, columns))(t)
	dir := t.TempDir()
	_, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		in := source(s, "csv", blocks)
		if err := WriteCSV(s, dir+"/out", 3, in); err != nil {
			t.Fatal(err)
		}
		return in
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out-00000-of-00003.csv", "out-00002-of-00003.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(text), "k,\"a \"\"name\"\"\",v\n") {
			t.Errorf("%s: %v, %.40q", name, err, text)
		}
	}
	out := must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		return must(Read(s, []string{dir + "/out-*.csv"}, &ReadOptions{Header: "yes"}))(t)
	}))(t)
	_, got, _ := table(t, out)
	sameRows(t, rowsOf(got), rowsOf(columns))

	one := must(EncodeColumns([]string{"k"}, []column.Column{columns[0]}))(t)
	_, err = run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		in := source(s, "one", one)
		if err := WriteCSV(s, dir+"/one", 1, in); err != nil {
			t.Fatal(err)
		}
		return in
	})
	if err == nil || !strings.Contains(err.Error(), "column \"k\" has nulls") {
		t.Errorf("a single column with nulls: %v", err)
	}

	_, s := sdk.NewPipelineWithRoot()
	none := source(s, "none", nil)
	for text, err := range map[string]error{
		"0 files":          WriteCSV(s, dir+"/x", 0, none),
		"scheme \"there\"": WriteCSV(s, "there://x", 1, none),
		"not a collection": WriteCSV(s, dir+"/x", 1, sdk.PCollection{}),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want an error with %q", err, text)
		}
	}
}

// JSON that is written and read has the same rows, and an object on each line.
func TestWriteJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	columns := readTable(rng, 20_000)
	columns[1] = column.OfStrings(randomValues(rng, 20_000, func() string {
		return []string{"", "},\n{", "say \"x\"", "1", "é"}[rng.IntN(5)]
	})).WithValid(column.OfBools(randomValues(rng, 20_000, func() bool { return rng.IntN(5) > 0 })))
	blocks := must(EncodeColumns([]string{"k", "a \"name\"", "v"}, columns))(t)
	dir := t.TempDir()
	must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		in := source(s, "json", blocks)
		if err := WriteJSON(s, dir+"/out", 1, in); err != nil {
			t.Fatal(err)
		}
		return in
	}))(t)
	name := filepath.Join(dir, "out-00000-of-00001.json")
	text := must(os.ReadFile(name))(t)
	lines := strings.Split(string(text), "\n")
	if len(lines) != 20_001 || lines[20_000] != "" {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines[:20_000] {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %q", line)
		}
	}
	out := must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		return must(Read(s, []string{name}, nil))(t)
	}))(t)
	_, got, _ := table(t, out)
	sameRows(t, rowsOf(got), rowsOf(columns))
}

// A bundle that runs again in another order assigns its blocks to the same files.
func TestDealtBlocks(t *testing.T) {
	var blocks [][]byte
	for i := range 50 {
		c := column.Of([]int64{int64(i)})
		blocks = append(blocks, must(EncodeColumns([]string{"k"}, []column.Column{c}))(t)...)
	}
	deal := func() map[string]int {
		f, files := &dealtBlocks{Files: 5}, map[string]int{}
		emit := func(file int, b []byte) { files[string(b)] = file }
		f.StartBundle(emit)
		for _, b := range blocks {
			if err := f.ProcessElement(b, emit); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	want := deal()
	slices.Reverse(blocks)
	if got := deal(); len(got) != 51 || !maps.Equal(got, want) {
		t.Errorf("%d blocks, dealt otherwise", len(got))
	}
}
