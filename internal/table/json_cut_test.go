package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestNestedJSON(t *testing.T) {
	for _, tt := range []struct {
		text string
		skip bool
		want string
	}{
		{`[{"a":1},{"a":2}]`, false, "a;1;2"},
		{"[\n  {\n    \"a\": 1,\n    \"b\": {\"c\": [1, {}]}\n  },\n  {\n    \"a\": 2\n  }\n]\n", false, `a,b;1,"{\"c\": [1, {}]}";2,<nil>`},
		{"{\n \"a\": 1\n}\n{\n \"a\": 2\n}\n", false, "a;1;2"},
		{`{"a":1} {"a":2}{"a":3}`, false, "a;1;2;3"},
		{"\n\n [ ]\n[{\"a\":1}]\r\n[{\"a\":2}]", false, "a;1;2"},
		{"{\"a\":1}\r{\"a\":2}\r", false, "a;1;2"},
		{"{\"a\":1}\n{\"a\":2}\r{\"a\":3}\r\n", false, "a;1;2;3"},
		{"[\r{\"a\":1},\r{\"a\":2}\r]\r", false, "a;1;2"},
		{`[{"a":"]}\"[{"},{"a":"\\"}]`, false, `a;"]}\"[{";"\\"`},
		{"[]", false, "FILE: no objects"},
		{"[{\"a\":1},\n{\"a\":x},\n{\"a\":3}]", false, `FILE:2: not a JSON object: "x}`},
		{"[{\"a\":1},\n{\"a\":x},\n{\"a\":3}]", true, "a;1;3 1"},
		{`[{"a":1},{"a":x},{"a":3}]`, true, "a;1;3 1"},
		{`[{"a":1},{"a":x,"b":{"c":[2]}},{"a":3}]`, true, "a;1;3 1"},
		{"[\n{\n\"a\":1\n},\n{\n\"a\":x,\n\"b\":\n{\n\"a\":7\n}\n},\n{\"a\":3}\n]", true, "a;1;3 7"},
		{`[{"a":1,{"a":2},{"a":3}]`, true, "a;2;3 1"},
		{"[\n{\"a\":1,\n\"b\":2\n{\"a\":2},\n{\"a\":3}\n]", true, "a;2;3 2"},
		{"[{\"a\":1},\n{\"a\":\"open},\n{\"a\":3}]", true, "a;1;3 1"},
		{"[{\"a\":1},\n{\"a\":2]},\n{\"a\":3}]", true, "a;1;3 1"},
		{"[{\"a\":1},\n{\"a\":2,},\n{\"a\":3}]", true, "a;1;3 1"},
		{`[{"a":1},7,[8],"x",{"a":3}]`, false, `FILE:1: not a JSON object: "7,[8],\"x\"`},
		{`[{"a":1} {"a":2}]`, false, `FILE:1: not a JSON object: "{\"a\":2}]", want a comma or ]`},
		{`[{"a":1},]`, false, `FILE:1: not a JSON object: "]", want an object`},
		{"[{\"a\":1},\n{\"a\":2}\n", false, "FILE:3: not a JSON object: the text ends, want ]"},
		{"[{\"a\":1},\n{\"a\":2", false, "FILE:2: not a JSON object: the line ends, want a comma or }"},
		{"[{\"a\":1},\n{\"a\":2", true, "a;1 1"},
		{"[{\"a\":1}]]\n", false, `FILE:1: not a JSON object: "]", want an object`},
		{"{\"a\":1\n{\"a\":2}\n{\"a\":3}\n", true, "a;2;3 1"},
		{"{\"a\":1}\n{\"a\":2\n{\"a\":3}\n", true, "a;1;3 1"},
		{"{\"a\":1}\nx\n\n{\"a\":3}\n[4]", true, "a;1;3 2"},
		{"{\"a\":" + strings.Repeat("[", 2000) + "\n", false, "FILE:1: not a JSON object: more than 1000 nested values"},
	} {
		for _, size := range []int{1, 3, 17, 1 << 20} {
			name := write(t, "a.json", tt.text)
			tab, err := Open(t.Context(), []string{name}, nil, &Options{BlockSize: size, first: 1 << 20, SkipBad: tt.skip})
			got := ""
			if err == nil {
				rows, skipped, rowsErr := all(t, tab, Key)
				got, err = show(tab, rows), rowsErr
				if skipped > 0 {
					got += fmt.Sprint(" ", skipped)
				}
			}
			if err != nil {
				got = strings.ReplaceAll(err.Error(), name, "FILE")
			}
			if got != tt.want && !(err != nil && strings.HasPrefix(got, tt.want)) {
				t.Errorf("%q in blocks of %d is %s, want %s", tt.text, size, got, tt.want)
			}
		}
	}
}

// For arrays, and for objects that span lines, rows agree with encoding/json.
func TestNestedJSONAgainstEncodingJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	value := func() any {
		return []any{1, -2.5, true, nil, "x\n\"{[", map[string]any{"c": []any{1, map[string]any{}}}, []any{}}[rng.IntN(7)]
	}
	for range 300 {
		var b strings.Builder
		var want []string
		for range 1 + rng.IntN(3) {
			var objects []any
			for range rng.IntN(5) {
				objects = append(objects, map[string]any{"a": value(), "b": value()})
			}
			array := rng.IntN(2) == 0
			for i, o := range objects {
				text, _ := json.Marshal(o)
				if rng.IntN(2) == 0 {
					text, _ = json.MarshalIndent(o, "", " ")
				}
				if array {
					b.WriteString(",["[btoi(i == 0):][:1])
				}
				b.Write(text)
				b.WriteString([]string{"", " ", "\n", "\r\n", "\r"}[rng.IntN(5)])
				var members map[string]json.RawMessage
				if err := json.Unmarshal(text, &members); err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint(asText(members["a"]), asText(members["b"])))
			}
			if array && len(objects) > 0 {
				b.WriteString("]")
			}
		}
		if !nestedJSON([]byte(b.String()), true) {
			continue // nothing, or an object on the first line, which means one object per line
		}
		opts := Options{Format: JSON, BlockSize: 1 + rng.IntN(100), first: 1 << 20, Workers: 2}
		names, rows, _, err := readText(t, b.String(), opts)
		if err != nil || len(rows) != len(want) {
			t.Fatalf("%q: %d rows, %v, want %d", b.String(), len(rows), err, len(want))
		}
		for i, row := range rows {
			a, c := row[0], row[1]
			if names[0] == "b" {
				a, c = c, a
			}
			if got := fmt.Sprint(a, c); got != want[i] {
				t.Fatalf("%q: row %d is %s, want %s", b.String(), i, got, want[i])
			}
		}
	}
}

// asText returns a JSON value as a text column stores it.
func asText(raw json.RawMessage) any {
	var s string
	switch {
	case string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &s) == nil:
		return s
	}
	return string(raw)
}

// Bad objects are skipped in linear time: in seconds, not hours.
func TestBadObjectsTakeLinearTime(t *testing.T) {
	start := time.Now()
	for _, part := range []string{`{"a":1,`, "{\"a\":\n", "{\"a\":x\n", `{"a":x,`, `{"a":[x]`, "{\"a\":[x\n", "{\"a\":\"x\n", "oops\n", "}", `{"a":"\x"`} {
		for _, before := range []string{"[", "{\n"} {
			text := []byte(before + strings.Repeat(part, 100_000) + "\n")
			c := &jsonCutter{}
			if n := c.whole(text, true); n != len(text) {
				t.Errorf("%q: %d bytes of %d", part, n, len(text))
			}
		}
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("%v", d)
	}
}

func FuzzNestedJSON(f *testing.F) {
	for _, text := range []string{`[{"a":1},{"a":2}]`, "{\n\"a\":1\n}\n{", `[{"a":1,{"b":[2}`, "[{\"a\":x}\r{\"b\":\"\n\"}", `{"a":1}]`} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		// Rows do not depend on the sizes of blocks. The rows of valid text are correct.
		opts := Options{Format: JSON, BlockSize: min(max(size, 1), 1<<16), first: 1 << 20, Workers: 2, SkipBad: true}
		_, rows, skipped, err := readText(t, text, opts)
		opts.BlockSize = 1 << 20
		_, again, skippedAgain, errAgain := readText(t, text, opts)
		if fmt.Sprint(rows, skipped, err) != fmt.Sprint(again, skippedAgain, errAgain) {
			t.Fatalf("%q: %v, %d skipped, %v; in one block: %v, %d skipped, %v", text, rows, skipped, err, again, skippedAgain, errAgain)
		}
		var objects []map[string]json.RawMessage
		if d := json.NewDecoder(bytes.NewReader([]byte(text))); d.Decode(&objects) == nil && !d.More() && err == nil && len(rows)+skipped < len(objects) {
			t.Fatalf("%q: %d rows, want %d", text, len(rows), len(objects))
		}
	})
}
