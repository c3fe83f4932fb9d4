package table

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
)

// readForms reads columns of a table and returns each column as text.
func readForms(t testing.TB, tab *Table, reads []Read) ([]string, error) {
	for {
		var out []string
		err := error(nil)
		parts := make([][]column.Column, len(reads))
		for batch, failed := range tab.Batches(t.Context(), reads) {
			if failed != nil {
				err = failed
				break
			}
			for i, c := range batch.Columns {
				parts[i] = append(parts[i], c)
			}
		}
		if err != nil {
			if err = tab.Adapt(t.Context(), err); err != nil {
				return nil, err
			}
			continue
		}
		for i, r := range reads {
			text := []byte(tab.TypeOf(r).String())
			for _, c := range parts[i] {
				for row := range c.Len() {
					text = fmt.Appendf(text, " %v", c.Any(row))
				}
			}
			out = append(out, string(text))
		}
		return out, nil
	}
}

// model returns the expected values of a column in a form. It examines all values at once.
func model(form Form, values []string) string {
	var ints, others, words, texts, bools, truths, bad int
	fits, unsigned, exact := true, true, true
	for _, v := range values {
		x, ok := new(big.Rat).SetString(v)
		switch {
		case strings.EqualFold(v, "nan") || strings.EqualFold(v, "-inf"):
			words++
		case !ok && (v == "true" || v == "false"):
			bools++
		case v == "True":
			texts++
			truths++
		case !ok:
			texts++
		case integral([]byte(v)):
			ints++
			fits = fits && x.Num().IsInt64()
			unsigned = unsigned && x.Num().IsUint64()
			_, same := x.Float64()
			exact = exact && same && x.Num().IsInt64()
			if x.Num().String() != v && !(form == Key && v == "-0") {
				bad++ // another notation
			}
		default:
			others++
		}
	}
	n := len(values)
	switch form {
	case Truth:
		if bools+truths < n {
			return "error"
		}
		return "bool"
	case Number, Forced:
		if texts+bools > 0 {
			return "error"
		}
	case Extreme:
		switch {
		case ints+others > 0 && texts+bools > 0:
			return "error"
		case ints+others == 0 && words < n:
			form = Written
		}
	}
	switch form {
	case Key, Written:
		switch {
		case ints == n && bad == 0 && fits:
			return "int64"
		case bools == n:
			return "bool"
		}
		return "bytes"
	case Forced:
		switch {
		case others+words == 0 && fits:
			return "int64"
		case others+words == 0 && unsigned:
			return "uint64"
		}
		return "float64"
	}
	switch {
	case others+words == 0 && fits:
		return "int64"
	case others+words == 0 && unsigned:
		return "uint64"
	case others+words == 0 || !exact:
		return "error"
	}
	return "float64"
}

// The result of a form depends only on the values of the column. It does not depend on their order,
// on blocks, or on other columns.
func TestForms(t *testing.T) {
	pool := []string{"1", "-7", "0", "-0", "007", "+3", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
		"18446744073709551616", "9007199254740993", "9007199254740992", "0.5", "1.50", "1e3", "nan", "-inf", "true", "false", "True", "x", "2026-01-01"}
	forms := []Form{Key, Written, Number, Extreme, Forced, Truth}
	rapid.Check(t, func(r *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom(pool), 1, 3).Draw(r, "pool")
		values := rapid.SliceOfN(rapid.SampledFrom(few), 1, 40).Draw(r, "values")
		json := rapid.Bool().Draw(r, "JSON")
		text := "v,w\n"
		opts := drawOptions(r)
		if json {
			text = ""
			opts.Format = JSON
		}
		for _, v := range values {
			if !json {
				text += v + ",\n"
			} else if _, number := parseDecimal([]byte(v)); number && isNumber([]byte(v)) || v == "true" || v == "false" {
				text += `{"v":` + v + "}\n"
			} else if number {
				return // JSON cannot represent the value
			} else {
				text += `{"v":"` + v + "\"}\n"
			}
		}
		name := write(t, "a.txt", text)
		alone := map[Form]string{}
		for _, form := range forms {
			tab, err := Open(t.Context(), []string{name}, nil, &opts)
			if err != nil {
				r.Fatal(err)
			}
			want := model(form, values)
			got, err := readForms(t, tab, []Read{{Column: 0, Form: form}})
			if err != nil {
				if row := (*RowError)(nil); want != "error" || !errors.As(err, &row) || !strings.HasPrefix(err.Error(), name+":") || !strings.Contains(err.Error(), "column v: ") {
					r.Fatalf("form %d of %q: %v, want %s", form, values, err, want)
				}
				continue
			}
			alone[form] = got[0]
			if typ, _, _ := strings.Cut(got[0], " "); typ != want {
				r.Fatalf("form %d of %q is %s, want %s", form, values, got[0], want)
			}
			if form == Written && got[0] != want+" "+strings.Join(values, " ") {
				r.Fatalf("%q comes out as %s", values, got[0])
			}
		}
		tab, err := Open(t.Context(), []string{name}, nil, &opts)
		if err != nil {
			r.Fatal(err)
		}
		var reads []Read
		for _, form := range forms {
			if alone[form] != "" {
				reads = append(reads, Read{Column: 0, Form: form})
			}
		}
		together, err := readForms(t, tab, reads)
		if err != nil {
			r.Fatal(err)
		}
		for i, read := range reads {
			if together[i] != alone[read.Form] {
				r.Fatalf("form %d of %q is %s alone, and %s beside others", read.Form, values, alone[read.Form], together[i])
			}
		}
	})
}

// A mixture of numbers and text is an error, wherever it occurs, and the error suggests a remedy.
func TestMixtures(t *testing.T) {
	many, huge := strings.Repeat("5\n", 3000), strings.Repeat("9", 400)
	for _, tt := range []struct {
		form       Form
		text, want string
		sampled    string // error if the first block has all values; "" means want
	}{
		{Extreme, "v\n" + many + "x\n", `FILE:3002: column v: "x" is not a number, but other values of the column are; use --text v to compare text, --number v with --bad skip to skip the other rows, or --null VALUE to read a value as null`, ""},
		{Extreme, "v\n" + strings.Repeat("y\n", 3000) + "9\n", `FILE:3002: column v: "9" is a number, but other values of the column are not; use --text v`, `FILE:2: column v: "y" is not a number, but other values of the column are`},
		{Extreme, "v\n" + strings.Repeat("\n\"\"\n", 3000) + "9\n", `FILE:6002: column v: "9" is a number`, `FILE:3: column v: "" is not a number`},
		{Number, "v\n" + many + "18446744073709551616\n", `FILE:3002: column v: "18446744073709551616" does not fit 64 bits; use --number v to round integers to float64`, ""},
		{Number, "v\n-1\n" + many + "9223372036854775808\n", `FILE:3003: column v: "9223372036854775808" and other integers of the column do not fit 64 bits together`,
			`FILE:2: column v: "-1" and other integers of the column do not fit 64 bits together`},
		{Number, "v\n9007199254740993\n" + many + "0.5\n", `FILE:2: column v: "9007199254740993" and other values of the column fit neither 64-bit integers nor float64; use --number v`, ""},
		{Extreme, "v\n9007199254740993\n" + many + "nan\n", `FILE:2: column v: "9007199254740993" and other values of the column fit neither 64-bit integers nor float64; use --number v to round integers to float64, or --text v to compare text`, ""},
		{Number, "v\n" + many + "1e400\n", `FILE:3002: column v: "1e400" is beyond the range of float64; use --null 1e400 to read it as null`, ""},
		{Forced, "v\n" + many + "1e400\n", `FILE:3002: column v: "1e400" is beyond the range of float64; use --null 1e400 to read it as null`, ""},
		{Extreme, "v\n" + many + "-1e400\n", `FILE:3002: column v: "-1e400" is beyond the range of float64; use --text v to compare text, --number v with --bad skip to`, ""},
		{Extreme, "v\n" + many + huge + "\n", `FILE:3002: column v: "` + huge[:40] + `" is beyond the range of float64; use --text v to compare text`, ""},
		// The error does not suggest --null for a truncated value.
		{Forced, "v\n" + many + huge + "\n", `FILE:3002: column v: "` + huge[:40] + `" is beyond the range of float64` + "\n", ""},
	} {
		for _, first := range []int{64, 1 << 20} {
			name := write(t, "a.csv", tt.text)
			tab, err := Open(t.Context(), []string{name}, nil, &Options{Header: HeaderYes, BlockSize: 512, first: first})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = all(t, tab, tt.form)
			want := tt.want
			if first > len(tt.text) && tt.sampled != "" {
				want = tt.sampled
			}
			if got := strings.ReplaceAll(fmt.Sprintln(err), name, "FILE"); !strings.HasPrefix(got, want) {
				t.Errorf("%q: %s\nwant %s", tt.text[len(tt.text)-10:], got, want)
			}
		}
	}
}

// A value in a row that is bad for another reason does not affect the column.
func TestBadRowsDecideNothing(t *testing.T) {
	text := "v,w\n1,2\n" + strings.Repeat("1,3\n", 1000) + "x,bad\n2.5,none\n"
	for _, order := range [][]Read{{{Column: 0, Form: Extreme}, {Column: 1, Form: Number}}, {{Column: 1, Form: Number}, {Column: 0, Form: Extreme}}} {
		tab, err := Open(t.Context(), []string{write(t, "a.csv", text)}, nil, &Options{SkipBad: true, BlockSize: 100, first: 20})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readForms(t, tab, order)
		if err != nil || !strings.HasPrefix(got[0], "int64") || !strings.HasPrefix(got[1], "int64") {
			t.Errorf("%v: %.50q, %v", order, got, err)
		}
	}
}

// Aggregates treat a JSON string as text. As a key it equals a number with the same spelling.
func TestJSONStrings(t *testing.T) {
	text := `{"v":"10"}` + "\n" + `{"v":"9"}` + "\n"
	for form, want := range map[Form]string{Key: "bytes 10 9", Extreme: "bytes 10 9", Forced: "int64 10 9",
		Number: `FILE:1: column v: "10" is not a number but a string; use --number v to read strings as numbers`} {
		name := write(t, "a.jsonl", text)
		tab, err := Open(t.Context(), []string{name}, nil, &Options{first: 1, BlockSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readForms(t, tab, []Read{{Column: 0, Form: form}})
		if err != nil {
			got = []string{strings.ReplaceAll(err.Error(), name, "FILE")}
		}
		if got[0] != want {
			t.Errorf("form %d: %s, want %s", form, got[0], want)
		}
	}
}

// The columns of JSON are the members of all rows in all files.
func TestLateMembers(t *testing.T) {
	a := write(t, "a.jsonl", strings.Repeat(`{"a":1}`+"\n", 500)+`{"a":2,"late":3}`+"\n"+strings.Repeat(`{"a":1,"\u006cater":[]}`+"\n", 500))
	b := write(t, "b.jsonl", `{"other":null,"a":3}`+"\n"+strings.Repeat(`{}`+"\n", 500)+`{"last":true}`+"\n")
	c := write(t, "c.csv", "a,x\n7,8\n")
	opts := &Options{BlockSize: 100, first: 50}
	tab, err := Open(t.Context(), []string{a, b, c}, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, tab, Written)
	var names []string
	for _, f := range tab.Fields() {
		names = append(names, f.Name)
	}
	if err != nil || fmt.Sprint(names) != "[a other x late later last]" || len(rows) != 1001+502+1 {
		t.Fatalf("%v, %d rows, %v", names, len(rows), err)
	}
	for at, want := range map[int]string{0: "[1 <nil> <nil> <nil> <nil> <nil>]", 500: "[2 <nil> <nil> 3 <nil> <nil>]", 501: "[1 <nil> <nil> <nil> [] <nil>]",
		1001: "[3 <nil> <nil> <nil> <nil> <nil>]", 1502: "[<nil> <nil> <nil> <nil> <nil> true]", 1503: "[7 <nil> 8 <nil> <nil> <nil>]"} {
		if fmt.Sprint(rows[at]) != want {
			t.Errorf("row %d is %v, want %s", at, rows[at], want)
		}
	}
	// A later column may have a number as its name, but the number still refers to the same column.
	if tab, err = Open(t.Context(), []string{a, b}, nil, opts); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		want int
	}{{"2", 1}, {"last", 4}, {"2", 1}, {"later", 3}, {"3", 2}, {"5", 4}, {"none", -1}, {"6", -1}} {
		if got, err := tab.Find(t.Context(), tt.name); got != tt.want && !(err != nil && tt.want < 0) {
			t.Errorf("%q is column %d, %v", tt.name, got, err)
		}
	}
	// Input that cannot be read again is an error.
	stdin := strings.Repeat(`{"a":1}`+"\n", 500) + `{"late":2}`
	if tab, err = Open(t.Context(), []string{Stdin}, strings.NewReader(stdin), opts); err != nil {
		t.Fatal(err)
	}
	if _, _, err = all(t, tab, Written); !tab.Rereadable() && (err == nil || !strings.Contains(err.Error(), `standard input:501: member "late" comes here first`)) {
		t.Errorf("%v", err)
	}
	// Members of skipped rows are ignored.
	bad := write(t, "bad.jsonl", strings.Repeat(`{"a":1}`+"\n", 500)+`{"b":2,}`+"\n")
	opts.SkipBad = true
	if tab, err = Open(t.Context(), []string{bad}, nil, opts); err != nil {
		t.Fatal(err)
	}
	if rows, skipped, err := all(t, tab, Written); err != nil || len(rows) != 500 || skipped != 1 || len(rows[0]) != 1 {
		t.Errorf("%d rows, %d skipped, %v", len(rows), skipped, err)
	}
	// The first block may have no members.
	empty := write(t, "empty.jsonl", strings.Repeat("{}\n", 500)+`{"b":2}`+"\n")
	if tab, err = Open(t.Context(), []string{empty}, nil, opts); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := all(t, tab, Written); err != nil || len(rows) != 501 || rows[500][0] != int64(2) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// In all files, columns with the same name are matched by their order.
func TestSameNames(t *testing.T) {
	a, b := write(t, "a.csv", "x,y,x\n1,2,3\n"), write(t, "b.csv", "x,x,y\n4,5,6\n")
	tab, err := Open(t.Context(), []string{a, b}, nil, &Options{Header: HeaderYes})
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, tab, Written)
	if got := show(tab, rows); err != nil || got != "x,y,x;1,2,3;4,6,5" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err = tab.Find(t.Context(), "x"); err == nil || err.Error() != `columns 1 and 3 are both called "x": use the number` {
		t.Errorf("%v", err)
	}
	if c, err := tab.Find(t.Context(), "3"); c != 2 || err != nil {
		t.Errorf("column %d, %v", c, err)
	}
}

func TestUnique(t *testing.T) {
	for text, want := range map[string]string{"a b": "a b", "a a a": "a a_2 a_3", "a a a_2": "a a_3 a_2", "a_2 a a a_2": "a_2 a a_3 a_2_2", "": ""} {
		var fields []Field
		for _, name := range strings.Fields(text) {
			fields = append(fields, Field{Name: name})
		}
		Unique(fields)
		var got []string
		for _, f := range fields {
			got = append(got, f.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// The order of text is total: any permutation of rows is sorted to the same result.
func TestOrderOfText(t *testing.T) {
	want := []string{"-inf", "-18446744073709551617", "-2", "-1.50", "-1.5", "-0", "0", "0.0", "1e-400", "007", "7", "9", "10", "9007199254740992", "9007199254740993",
		"18446744073709551615", "18446744073709551616", "1e400", "inf", "NaN", "nan", "", "-", "2026-01-01", "B", "a"}
	slices.SortFunc(want[5:8], strings.Compare)
	slices.SortFunc(want[3:5], strings.Compare)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		values := slices.Clone(want)
		rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		c := column.OfStrings(append(values, ""))
		valid := slices.Repeat([]bool{true}, len(want)+1)
		valid[len(want)] = false
		c = c.WithValid(column.OfBools(valid))
		for _, descending := range []bool{false, true} {
			var got []string
			rows := orderOf(t, []column.Column{c}, []Sort{{0, descending, false}})
			for _, row := range rows[:len(want)] {
				got = append(got, values[row])
			}
			sorted := slices.Clone(want)
			if descending { // of each class
				slices.Reverse(sorted[:19])
				slices.Reverse(sorted[19:21])
				slices.Reverse(sorted[21:])
			}
			if !slices.Equal(got, sorted) || rows[len(want)] != uint32(len(want)) {
				t.Fatalf("descending %v: %q, want %q", descending, got, sorted)
			}
		}
	}
}

// The time is linear in the number of columns.
func TestManyColumns(t *testing.T) {
	read := func(format Format, n int) time.Duration {
		var head, row bytes.Buffer
		for i := range n {
			if format == JSON {
				fmt.Fprintf(&row, "%c\"c%d\":%d", "{,"[btoi(i > 0)], i, i)
				continue
			}
			fmt.Fprintf(&head, "c%d%c", i, ",\n"[btoi(i == n-1)])
			fmt.Fprintf(&row, "%d%c", i, ",\n"[btoi(i == n-1)])
		}
		if format == JSON {
			row.WriteString("}\n")
		}
		text := head.String() + row.String()
		a, b := write(t, "a.txt", text), write(t, "b.txt", text)
		best := time.Hour
		for range 3 {
			start := time.Now()
			tab, err := Open(t.Context(), []string{a, b}, nil, &Options{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if c, err := tab.Find(t.Context(), fmt.Sprintf("c%d", i)); c != i {
					t.Fatal(c, err)
				}
			}
			rows, _, err := all(t, tab, Key)
			if err != nil || len(rows) != 2 || len(rows[1]) != n || rows[1][n-1] != int64(n-1) {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			fields := tab.Fields()
			Unique(fields)
			best = min(best, time.Since(start))
		}
		return best
	}
	for _, format := range []Format{CSV, JSON} {
		small, large := read(format, 5000), read(format, 40000)
		t.Logf("%v: 5,000 columns take %v, 40,000 %v", format, small, large)
		if large > 32*small && large > time.Second { // quadratic time would be 64 times as long
			t.Errorf("%v: 40,000 columns take %v, 5,000 %v", format, large, small)
		}
	}
}

// Rows with many lines and columns take memory for their text, and not for a row per line.
func TestManyColumnsOnManyLines(t *testing.T) {
	const n = 2000
	var pretty, quoted bytes.Buffer
	for i := range n {
		fmt.Fprintf(&pretty, "%c\n \"c%d\": %d", "{,"[btoi(i > 0)], i, i)
	}
	pretty.WriteString("\n}\n")
	quoted.WriteString(strings.Repeat("1,", n-1) + "\"" + strings.Repeat("\n", 10*n) + "\"\n")
	for name, text := range map[string]string{"a.json": pretty.String(), "a.csv": quoted.String()} {
		tab, err := Open(t.Context(), []string{write(t, name, text)}, nil, &Options{Header: HeaderNo})
		if err != nil {
			t.Fatal(err)
		}
		var reads []Read
		for c := range n {
			reads = append(reads, Read{Column: c, Form: Key})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows := 0
		for batch, err := range tab.Batches(t.Context(), reads) {
			if err != nil {
				t.Fatal(err)
			}
			rows += batch.Rows
		}
		runtime.ReadMemStats(&after)
		// A block has 8 MiB.
		if size := after.TotalAlloc - before.TotalAlloc; rows != 1 || size > 30<<20 {
			t.Errorf("%s of %d bytes: %d rows, %d bytes of memory", name, len(text), rows, size)
		}
	}
}

// If many columns turn out to be text one after another, the table is read a few times, and not
// once per column. The values of bad rows do not change types.
func TestManyLateTypes(t *testing.T) {
	const n, rows = 40, 500
	for _, format := range []Format{CSV, JSON} {
		var text bytes.Buffer
		line := func(value func(c int) string) {
			for c := range n {
				if format == JSON {
					fmt.Fprintf(&text, "%c\"c%d\":%s", "{,"[btoi(c > 0)], c, value(c))
				} else {
					fmt.Fprintf(&text, "%s%c", strings.Trim(value(c), "\""), ",\n"[btoi(c == n-1)])
				}
			}
			if format == JSON {
				text.WriteString("}\n")
			}
		}
		if format == CSV {
			line(func(c int) string { return fmt.Sprint("c", c) })
		}
		for range rows {
			line(func(int) string { return "1" })
		}
		for r := 2; r < n; r++ {
			line(func(c int) string { return []string{"1", `"x"`}[btoi(c == r)] })
		}
		line(func(c int) string { return []string{"1", "9007199254740993"}[btoi(c == 1)] })
		// the last column makes the row bad
		line(func(c int) string { return []string{`"x"`, "0.5", "1"}[min(c, 2)] })
		opts := &Options{Format: format, SkipBad: true, BlockSize: 512, first: 512}
		tab, err := Open(t.Context(), []string{write(t, "a.txt", text.String())}, nil, opts)
		if err != nil {
			t.Fatal(err)
		}
		reads := []Read{{Column: 1, Form: Number}}
		for c := 2; c < n; c++ {
			reads = append(reads, Read{Column: c, Form: Key})
		}
		reads = append(reads, Read{Column: 0, Form: Number})
		for readings := 1; ; readings++ {
			read, skipped := 0, 0
			for batch, batchErr := range tab.Batches(t.Context(), reads) {
				read, skipped, err = read+batch.Rows, skipped+batch.Skipped, batchErr
			}
			if err == nil && (read != rows+n-1 || skipped != 1 || readings > 3) || readings > n {
				t.Errorf("%v: %d rows, %d lines skipped, after %d readings", format, read, skipped, readings)
			}
			if err == nil || readings > n {
				break
			}
			if err = tab.Adapt(t.Context(), err); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Even if each row adds a member, sampling is not quadratic.
func TestManyMembers(t *testing.T) {
	var text bytes.Buffer
	const n = 40000
	for i := range n {
		fmt.Fprintf(&text, "{\"c%d\":%d}\n", i, i)
	}
	start := time.Now()
	tab, err := Open(t.Context(), []string{write(t, "a.jsonl", text.String())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tab.Find(t.Context(), "c39999")
	if err != nil {
		t.Fatal(err)
	}
	got, err := readForms(t, tab, []Read{{Column: c, Form: Number}})
	if err != nil || !strings.HasSuffix(got[0], " 39999") || time.Since(start) > 5*time.Second {
		t.Errorf("%v in %v", err, time.Since(start))
	}
}
