package table

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// readText reads all rows of a text. All values are text.
func readText(t testing.TB, text string, opts Options) (names []string, rows [][]any, skipped int, err error) {
	tab, err := Open(t.Context(), []string{Stdin}, strings.NewReader(text), &opts)
	if err != nil {
		return nil, nil, 0, err
	}
	rows, skipped, err = all(t, tab, Text)
	for _, f := range tab.Fields() {
		names = append(names, f.Name)
	}
	return names, rows, skipped, err
}

func drawOptions(t *rapid.T) Options {
	return Options{BlockSize: rapid.SampledFrom([]int{1, 7, 30, 1 << 20}).Draw(t, "block"), first: rapid.SampledFrom([]int{1, 9, 1 << 20}).Draw(t, "first"),
		Workers: rapid.IntRange(1, 4).Draw(t, "workers")}
}

func TestAgainstEncodingCSV(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var text string
		if rapid.Bool().Draw(r, "well formed") {
			columns := rapid.IntRange(1, 5).Draw(r, "columns")
			field := rapid.StringMatching(`[a-c0-9 ,"\n.\-\\é]{0,12}`)
			var b strings.Builder
			w := csv.NewWriter(&b)
			w.UseCRLF = rapid.Bool().Draw(r, "crlf")
			for range rapid.IntRange(1, 20).Draw(r, "rows") {
				if err := w.Write(rapid.SliceOfN(field, columns, columns).Draw(r, "row")); err != nil {
					r.Fatal(err)
				}
			}
			w.Flush()
			text = b.String()
		} else {
			text = rapid.StringMatching(`([a,"\n]|\r\n|""|"a"){0,40}`).Draw(r, "text")
		}
		againstCSV(t, text, drawOptions(r))
	})
}

// againstJSON compares the rows of a text with encoding/json, line by line.
func againstJSON(t testing.TB, text string, opts Options) {
	opts.Format, opts.SkipBad = JSON, true
	var want []map[string]json.RawMessage
	known := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		var object map[string]json.RawMessage
		if !utf8.ValidString(line) {
			return // encoding/json returns other text for it
		}
		if strings.HasPrefix(strings.TrimLeft(line, " \t\r"), "{") && json.Unmarshal([]byte(line), &object) == nil {
			want = append(want, object)
			for name := range object {
				known[name] = true
			}
		} else if object, comma := strings.CutSuffix(strings.TrimSpace(line), ","); comma && json.Valid([]byte(object)) &&
			nestedJSON([]byte(text), true) {
			// After an error, a comma may precede an object if objects span lines.
			return
		}
	}
	names, got, _, err := readText(t, text, opts)
	if len(known) == 0 {
		if err == nil {
			t.Fatalf("%q is %v, want no objects", text, got)
		}
		return
	}
	if err != nil || len(got) != len(want) || len(names) > len(known) {
		t.Fatalf("%q is %q %v, %v, want %v", text, names, got, err, want)
	}
	for i, object := range want {
		for j, name := range names {
			if got[i][j] == nil {
				if raw, ok := object[name]; ok && string(raw) != "null" {
					t.Fatalf("%q: row %d has no %q, want %s", text, i, name, raw)
				}
				continue
			}
			raw := string(object[name])
			var s string
			if json.Unmarshal(object[name], &s) == nil {
				raw = s
			}
			if got[i][j] != raw {
				t.Fatalf("%q: row %d has %q for %q, want %q", text, i, got[i][j], name, raw)
			}
		}
	}
}

func TestAgainstEncodingJSON(t *testing.T) {
	value := rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,3})?(e[+-]?[0-9]{1,2})?`),
		rapid.SampledFrom([]string{"null", "true", "false", `{"a":[1,{}]}`, "[]", `[1, "x"]`, "tru", "01", "-", `"\u00e9\ud83d\ude00\ud800"`, `"\x"`, "\"\t\"", `"`}),
		rapid.Custom(func(t *rapid.T) string {
			b, _ := json.Marshal(rapid.String().Draw(t, "string"))
			return string(b)
		}))
	rapid.Check(t, func(r *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 10).Draw(r, "lines") {
			if rapid.IntRange(0, 9).Draw(r, "odd") == 0 {
				b.WriteString(rapid.SampledFrom([]string{"", " ", "1", "{", "{}", "{},", `{"a"}`, `{"a":1,}`, "[]", "\x00"}).Draw(r, "line"))
			} else {
				b.WriteString("{")
				for i := range rapid.IntRange(0, 4).Draw(r, "members") {
					if i > 0 {
						b.WriteString(" , ")
					}
					fmt.Fprintf(&b, "%q: %s", rapid.SampledFrom([]string{"a", "b", "c", "\n"}).Draw(r, "name"), value.Draw(r, "value"))
				}
				b.WriteString("}")
			}
			b.WriteString(rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(r, "end"))
		}
		opts := drawOptions(r)
		opts.first = 1 << 20
		againstJSON(t, b.String(), opts)
	})
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a":1}`, "{\"a\":\"\\u00e9\\ud800\"}\n\n{\"a\":[1,{}],\"b\":null}", "{\"a\":1,\"a\":2}\n{", "{\"a\":01}\n{}"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		againstJSON(t, text, Options{BlockSize: min(max(size, 1), 1<<16), Workers: 2})
	})
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"n":1,"f":1.5,"b":true,"s":"x"}` + "\n" + `{"s":"\u00e9\n","n":-2,"f":3}` + "\r\n": "n,f,b,s;1,\"1.5\",true,\"x\";-2,\"3\",<nil>,\"é\\n\"",
		`{"a":1}` + "\n\n" + `{"b":null}` + "\n" + `{"a":"007","b":[1, 2]}`:                  `a,b;"1",<nil>;<nil>,<nil>;"007","[1, 2]"`,
		`{"a":1}` + "\n" + `{"a":2`:         `FILE:2: not a JSON object: the line ends, want a comma or }`,
		`{"a":1}` + "\n" + `{"a":2} x`:      `FILE:2: not a JSON object: "x", want nothing after the object`,
		`{"a":"` + "\x01" + `"}`:            `FILE:1: not a JSON object: "\x01\"}", want no control characters in a string`,
		"{}\n":                              "FILE: no objects with members in the first lines",
		`{"a":` + strings.Repeat("[", 2000): "FILE:1: not a JSON object: more than 1000 nested values",
	} {
		name := write(t, "a.jsonl", text)
		tab, err := Open(t.Context(), []string{name}, nil, &Options{BlockSize: 10})
		got := ""
		if err == nil {
			var rows [][]any
			rows, _, err = all(t, tab, Written)
			got = show(tab, rows)
		}
		if err != nil {
			got = strings.ReplaceAll(err.Error(), name, "FILE")
		}
		if got != want {
			t.Errorf("%.80q is %s, want %s", text, got, want)
		}
	}
}

// TestBlocksAgree checks that rows do not depend on the sizes of blocks.
func TestBlocksAgree(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,name,x\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "%d,\"name, %d\nof \"\"%d\"\"\",%s\n", i, i%7, i, strconv.FormatFloat(float64(i)/4, 'f', -1, 64))
	}
	name := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var first string
	for _, opts := range []Options{{}, {BlockSize: 1000}, {BlockSize: 60, Workers: 5}, {BlockSize: 100_000, Workers: 1}} {
		tab, err := Open(t.Context(), []string{name}, nil, &opts)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := all(t, tab, Written)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(tab, rows); first == "" {
			first = got
		} else if got != first {
			t.Errorf("%+v: other rows", opts)
		}
	}
	if !strings.Contains(first, `;4999,"name, 1\nof \"4999\"","1249.75"`) {
		t.Errorf("rows end with %s", first[len(first)-100:])
	}
}
