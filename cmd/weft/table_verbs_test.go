package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/cmd/weft/internal/table"
)

// tableFile makes a file with an ending.
func tableFile(t testing.TB, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const orders = `id,customer,amount,day
1,ann,10.5,2026-01-01
2,bob,3,2026-01-01
3,ann,,2026-01-02
4,,7,2026-01-03
`

const customers = `{"id":"ann","city":"Bonn","amount":1}
{"id":"bob","city":"Köln","amount":2}
{"id":"bob","city":"Trier"}
{"id":null,"city":"nowhere"}
`

func TestTables(t *testing.T) {
	o, c := tableFile(t, "o.csv", orders), tableFile(t, "c.jsonl", customers)
	ids := tableFile(t, "ids.csv", "id,x\n1,a\n3,b\n3,c\n9,d\n")
	for _, tt := range []struct {
		args  string // o, c, ids are files
		stdin string
		want  string
	}{
		{"group --by customer o", "", " customer  count\n ann           2\n bob           1\n null          1\n"},
		{"group --by 2 --agg count:amount,sum:amount,mean:3 --csv o", "",
			"customer,count:amount,sum:amount,mean:3\nann,1,10.5,10.5\nbob,1,3,3\n,1,7,7\n"},
		{"group --by customer --agg min:day,max:day,first:id,last:id --csv o", "",
			"customer,min:day,max:day,first:id,last:id\nann,2026-01-01,2026-01-02,1,3\nbob,2026-01-01,2026-01-01,2,2\n,2026-01-03,2026-01-03,4,4\n"},
		{"group --by customer,day --skip-nulls --csv o", "", "customer,day,count\nann,2026-01-01,1\nbob,2026-01-01,1\nann,2026-01-02,1\n"},
		{"group --by customer --sort count:desc,customer:desc --csv o", "", "customer,count\nann,2\nbob,1\n,1\n"},
		{"group --by customer --sort customer --top 1 --csv o", "", "customer,count\nann,2\n"},
		{"group --by customer --csv o o", "", "customer,count\nann,4\nbob,2\n,2\n"},
		{"group --by 1 --csv --header no -", "a\nb\na\n", "1,count\na,2\nb,1\n"},
		{"group --by k --csv --format tsv -", "k\tv\nx\t1\n", "k,count\nx,1\n"},
		{"group --by k --csv --separator ; -", "k;v\nx;1\n", "k,count\nx,1\n"},
		{"group --by k --csv --null NA -", "k\nNA\n\"\"\n", "k,count\n,1\n\"\",1\n"},
		{"group --by k --agg sum:v --csv --bad skip -", "k,v\na,1\na,x\nb\na,2\n", "k,sum:v\na,3\n"},
		{"group --by id --csv --bad skip -", "id,v\n1,2\n2,\"3\n4,5\n6,7\n", "id,count\n1,1\n4,1\n6,1\n"},
		{"group --by k --csv --null NA --null NULL -", "k\nNA\nNULL\n\"NA\"\n", "k,count\n,2\nNA,1\n"},
		{"group --by k --csv --lazy-quotes -", "k\na\"b\n\"a\"b\"\n", "k,count\n\"a\"\"b\",2\n"},
		{"distinct --count -", "id\r1\r2\r1\r", "2\n"},
		{"group --by k --agg sum:v --csv -", "[{\"k\":\"a\",\"v\":1},\n{\"k\":\"a\",\n\"v\":2}]", "k,sum:v\na,3\n"},
		{"group --by k --csv -", "\xff\xfek\x00\n\x00\xe9\x00\n\x00", "k,count\né,1\n"},
		{"group --by k --csv --text k -", "k\n1\n01\n", "k,count\n1,1\n01,1\n"},
		{"group --by k --csv -", "k,v\n", "k,count\n"},
		{"group --by k --agg sum:v,min:v -", "k,v\n", " k  sum:v  min:v\n"},
		{"distinct --by day o", "", " day\n 2026-01-01\n 2026-01-02\n 2026-01-03\n"},
		{"distinct --by customer --skip-nulls --sort customer:desc --csv o", "", "customer\nbob\nann\n"},
		{"distinct --csv -", "a,b\n1,2\n1,2\n1,\n1,\n", "a,b\n1,2\n1,\n"},
		{"distinct --by day --count o", "", "3\n"},
		{"distinct --csv -", "f\n0.0\n-0.0\nNaN\nnan\n1e3\n1000\n", "f\n0\nNaN\n1000\n"},
		{"join --on id --csv o ids", "", "id,customer,amount,day,x\n1,ann,10.5,2026-01-01,a\n3,ann,,2026-01-02,b\n3,ann,,2026-01-02,c\n"},
		{"join --on id --kind left --columns id,x --csv o ids", "", "id,x\n1,a\n2,\n3,b\n3,c\n4,\n"},
		{"join --on id --kind semi --csv o ids", "", "id,customer,amount,day\n1,ann,10.5,2026-01-01\n3,ann,,2026-01-02\n"},
		{"join --on id --kind anti --columns 1,2 --csv o ids", "", "id,customer\n2,bob\n4,\n"},
		{"join --on id --kind inner --top 2 --columns id,x --csv o ids", "", "id,x\n1,a\n3,b\n"},
		{"join --on customer=id --columns 1,city,amount_right --csv o c", "", "id,city,amount_right\n1,Bonn,1\n2,Köln,2\n2,Trier,\n3,Bonn,1\n"},
		{"join --on id --sort x:desc --columns id,x --csv o ids", "", "id,x\n3,c\n3,b\n1,a\n"},
		{"join --on id --kind left --sort amount:desc,x --columns id,amount,x --csv o ids", "", "id,amount,x\n1,10.5,a\n4,7,\n2,3,\n3,,b\n3,,c\n"},
		{"join --on customer=id --sort amount_right:desc --top 2 --columns id,city,amount_right --csv o c", "", "id,city,amount_right\n2,Köln,2\n1,Bonn,1\n"},
		{"join --on id --kind semi --sort day:desc --top 1 --csv o ids", "", "id,customer,amount,day\n3,ann,,2026-01-02\n"},
		{"join --on id --sort v --csv - ids", "id,v\n3,10\n1,9\n1,8.5\n", "id,v,x\n1,8.5,a\n1,9,a\n3,10,b\n3,10,c\n"},
		{"join --on id --sort x --columns x --csv - ids", "id\n77\n", "x\n"},
		{"join --on id,customer=x --columns id --csv o ids", "", "id\n"},
		{"join --on id --columns id,x --csv - ids", "id\n1\n3.0\nzzz\n", "id,x\n1,a\n"},
	} {
		t.Run(tt.args+" "+tt.stdin, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i, arg := range args[1:] {
				if name, ok := map[string]string{"o": o, "c": c, "ids": ids}[arg]; ok {
					args[i+1] = name
				}
			}
			stdout, stderr, status := runWeft(t, tt.stdin, args...)
			if status != exitOK || stdout != tt.want {
				t.Errorf("exit status %d, prints %q, want %q\nsays %s", status, stdout, tt.want, stderr)
			}
			if !strings.HasPrefix(stderr, "weft: ") || !strings.HasSuffix(stderr, ")\n") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("says %q", stderr)
			}
		})
	}
}

func TestTableErrors(t *testing.T) {
	o, ids := tableFile(t, "o.csv", orders), tableFile(t, "ids.csv", "id,x\n1,a\n")
	parquet, arrow := tableFile(t, "cut.parquet", "PAR1\n"), tableFile(t, "cut.arrow", "ARROW1\n")
	dir := t.TempDir()
	for _, tt := range []struct {
		args   string
		stdin  string
		status int
		want   string
	}{
		{"group --by x o", "", exitFailed, `group: --by: no column "x"; there are 4: id, customer, amount, day`},
		{"group --by 5 o", "", exitFailed, `group: --by: no column "5"`},
		{"distinct cut.parquet", "", exitFailed, "file too small (size=5)\n"},
		{"distinct cut.arrow", "", exitFailed, "EOF\n"},
		{"group --by id --agg sum:x o", "", exitFailed, `group: --agg sum:x: no column "x"`},
		{"group --by id --agg sum:day o", "", exitFailed, `o.csv:2: column day: "2026-01-01" is no number`},
		{"group --by a -", "a,b\n1,2\n3,\"x\n", exitFailed, "group: standard input:3: a quote that is not closed; --bad skip leaves the line out"},
		{"group --by a -", "\x1f\x8b\x00", exitFailed, "group: standard input: gzip: "},
		{"group --by a -", "\xfd7zXZ\x00", exitFailed, "xz: weft does not read it; xz -dc FILE | weft … -\n"},
		{"group --by a --agg sum:b -", "a,b\n1,NA\n2,3\n", exitFailed, `"NA" is no number; --null NA reads it as null`},
		{"group --by a -", "a,b\n1,2\n3\n", exitFailed, "group: standard input:3: 1 fields, want 2"},
		{"group --by a --sort b -", "a\n1\n", exitFailed, "group: --sort b: the result has no such column"},
		{"group --by a --sort b -", "a,c\n1,2\n3\n", exitFailed, "group: --sort b: the result has no such column"}, // before it is read
		{"group --by a --agg sum:b -", "a,b\nx,9223372036854775807\nx,1\n", exitFailed, `weft: group: sum:b does not fit 64 bits in the group of ("x")`},
		{"group --by a -", "", exitFailed, "group: standard input: no rows"},
		{"group --by a --memory 1MiB -", "a\n" + manyLines(200000), exitFailed, "group: --memory 1048576 is not enough for the groups"},
		{"group --by a none.csv", "", exitFailed, "group none.csv: no such file or directory"},
		{"group o", "", exitUsage, "group: --by is missing"},
		{"group --by id", "", exitUsage, "group: no file given"},
		{"group --by id --agg total:x o", "", exitUsage, `group --agg: "total:x": want count`},
		{"group --by id --agg sum o", "", exitUsage, `group --agg: "sum": of which column?`},
		{"group --by id --format xml o", "", exitUsage, `--format "xml": want auto`},
		{"group --by id --header maybe o", "", exitUsage, `--header "maybe": want auto`},
		{"group --by id --separator ab o", "", exitUsage, `--separator "ab": want one character`},
		{"group --by id --bad ignore o", "", exitUsage, `--bad "ignore": want error or skip`},
		{"group --by id --top -1 o", "", exitUsage, "--top -1: must not be negative"},
		{"group --by id --csv --json o", "", exitUsage, "exclude each other"},
		{"group --by id --parquet " + dir + " o", "", exitFailed, "is a directory"},
		{"group --by id --parquet " + dir + "/no/x o", "", exitFailed, "no such file or directory"},
		{"distinct --by x o", "", exitFailed, `distinct: --by: no column "x"`},
		{"distinct", "", exitUsage, "distinct: no file given"},
		{"join --on x o ids", "", exitFailed, `no column "x"`},
		{"join --on id=y o ids", "", exitFailed, `ids.csv: no column "y"`},
		{"join --on id --columns y o ids", "", exitFailed, `join: --columns: no column "y" in the result`},
		{"join --on id --kind outer o ids", "", exitUsage, `join --kind "outer": want inner, left, semi, anti`},
		{"join o ids", "", exitUsage, "join: --on is missing"},
		{"join --on id o", "", exitUsage, "join: 1 files given, want LEFT and RIGHT"},
		{"join --on id - -", "", exitUsage, "standard input cannot be both"},
		{"join --on id --memory 1B o ids", "", exitFailed, "--memory 1 is not enough for the columns of the right file"},
		{"join --on id --sort y o ids", "", exitFailed, "join: --sort y: the result has no such column"},
		{"join --on id --sort x --columns id o ids", "", exitFailed, "--sort x: the result has no such column"},
		{"join --on id --sort id --memory 64B - ids", "id\n" + strings.Repeat("1\n", 100), exitFailed, "--memory 64 is not enough for the result, which is to be sorted"},
		{"join --on id --text y o ids", "", exitFailed, `--text: neither file has a column "y"`},
		{"group --by a --device cuda:99 -", "a\n1\n", exitFailed, "cuda:99"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i, arg := range args[1:] {
				if name, ok := map[string]string{"o": o, "ids": ids, "cut.parquet": parquet, "cut.arrow": arrow}[arg]; ok {
					args[i+1] = name
				}
			}
			stdout, stderr, status := runWeft(t, tt.stdin, args...)
			if status != tt.status || stdout != "" || !strings.HasPrefix(stderr, "weft: ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit status %d, prints %q, says %q, want %q", status, stdout, stderr, tt.want)
			}
		})
	}
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("key " + strconv.Itoa(i) + "\n")
	}
	return b.String()
}

func TestTablesJSON(t *testing.T) {
	text := "k,f,s\n1,NaN,\"a\"\"\n\"\n2,0.5,\xff\n,,\n"
	stdout, stderr, status := runWeft(t, text, "group", "--by", "k,f,s", "--json", "-")
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	var got struct {
		groupSummary
		Rows []map[string]any
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	want := `[map[count:1 f:NaN k:1 s:a"` + "\n" + `] map[count:1 f:0.5 k:2 s:map[base64:/w==]] map[count:1 f:<nil> k:<nil> s:<nil>]]`
	if fmt.Sprint(got.Rows) != want {
		t.Errorf("rows %v, want %s", got.Rows, want)
	}
	if columns := fmt.Sprint(got.Columns); columns != "[{k int64} {f float64} {s text} {count int64}]" {
		t.Errorf("columns %s", columns)
	}
	if got.RowsRead != 3 || got.Groups != 3 || got.Device != "cpu" || got.Bytes == 0 || got.Seconds <= 0 {
		t.Errorf("summary %+v", got.groupSummary)
	}
}

// TestTableFormats: all formats of one table give the same result.
func TestTableFormats(t *testing.T) {
	dir := t.TempDir()
	var csv, jsonl, tsv strings.Builder
	csv.WriteString("k,n,x,ok\n")
	tsv.WriteString("k\tn\tx\tok\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		k, n, x, ok := fmt.Sprintf("key \"%d\", é", rng.IntN(50)), rng.IntN(1000)-500, float64(rng.IntN(1000))/8, rng.IntN(2) == 0
		if i%7 == 3 {
			fmt.Fprintf(&csv, "\"%s\",,%v,%v\n", strings.ReplaceAll(k, `"`, `""`), x, ok)
			fmt.Fprintf(&tsv, "\"%s\"\t\t%v\t%v\r\n", strings.ReplaceAll(k, `"`, `""`), x, ok)
			fmt.Fprintf(&jsonl, "{\"k\": %q, \"x\": %v, \"ok\": %v}\n", k, x, ok)
			continue
		}
		fmt.Fprintf(&csv, "\"%s\",%d,%v,%v\n", strings.ReplaceAll(k, `"`, `""`), n, x, ok)
		fmt.Fprintf(&tsv, "\"%s\"\t%d\t%v\t%v\r\n", strings.ReplaceAll(k, `"`, `""`), n, x, ok)
		fmt.Fprintf(&jsonl, "{\"n\": %d, \"k\": %q, \"x\": %v, \"ok\": %v}\n", n, k, x, ok)
	}
	files := []string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.tsv"), filepath.Join(dir, "a.jsonl")}
	for i, text := range []string{csv.String(), tsv.String(), jsonl.String()} {
		must(t, os.WriteFile(files[i], []byte(text), 0o600))
	}
	// A join with the rows of one other keeps all of them, with their types.
	all := tableFile(t, "all.csv", "ok,one\ntrue,1\nfalse,1\n")
	parquet := filepath.Join(dir, "a.parquet")
	if _, stderr, status := runWeft(t, "", "join", "--on", "ok", "--columns", "k,n,x,ok", "--parquet", parquet, files[0], all); status != exitOK {
		t.Fatal(stderr)
	}
	files = append(files, parquet, arrowFile(t, parquet, false), arrowFile(t, parquet, true))
	var want string
	for _, name := range files {
		for _, piped := range []bool{false, true} {
			args := []string{"group", "--by", "k,ok", "--agg", "count,count:n,sum:n,min:n,mean:x,last:x", "--csv"}
			stdin := ""
			if piped {
				b, err := os.ReadFile(name)
				must(t, err)
				stdin, args = string(b), append(args, "-")
			} else {
				args = append(args, name)
			}
			got, stderr, status := runWeft(t, stdin, args...)
			if status != exitOK {
				t.Fatalf("%s: %s", name, stderr)
			}
			if want == "" {
				want = got
			}
			if got != want || strings.Count(got, "\n") != 101 {
				t.Errorf("%s, piped %v: other groups:\n%.300s\nwant\n%.300s", name, piped, got, want)
			}
		}
	}
}

// TestGroupAgainstGo compares with maps.
func TestGroupAgainstGo(t *testing.T) {
	type sums struct {
		rows, n, sum, least int
	}
	groups := map[string]*sums{}
	var b bytes.Buffer
	b.WriteString("note,a,v,b\n")
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		key, v := fmt.Sprintf("%d,k%d", rng.IntN(40)-20, rng.IntN(40)), rng.IntN(2000)-1000
		x := groups[key]
		if x == nil {
			x = &sums{least: 1 << 30}
			groups[key] = x
		}
		x.rows++
		a, k, _ := strings.Cut(key, ",")
		if rng.IntN(5) == 0 {
			fmt.Fprintf(&b, "\"x\n\",%s,,%s\n", a, k)
			continue
		}
		x.n, x.sum, x.least = x.n+1, x.sum+v, min(x.least, v)
		fmt.Fprintf(&b, ",%s,%d,%s\n", a, v, k)
	}
	var want []string
	for key, x := range groups {
		want = append(want, fmt.Sprintf("%s,%d,%d,%d,%d", key, x.rows, x.n, x.sum, x.least))
	}
	got, stderr, status := runWeft(t, b.String(), "group", "--by", "a,b", "--agg", "count,count:v,sum:v,min:v", "--csv", "-")
	if status != exitOK {
		t.Fatal(stderr)
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")[1:]
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("%d groups, want %d", len(lines), len(want))
	}
}

// A file that cannot be written as a whole is none.
func TestParquetOfInvalidText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	_, stderr, status := runWeft(t, "k\n\xff\n", "distinct", "--parquet", name, "-")
	if status != exitFailed || !strings.Contains(stderr, `column k: "\xff" is no UTF-8`) {
		t.Errorf("exit status %d, says %q", status, stderr)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

// A Parquet file may have the name of one that is read, is there when it is whole, and until then what was there before.
func TestParquetOutput(t *testing.T) {
	dir := t.TempDir()
	left, link := filepath.Join(dir, "left.parquet"), filepath.Join(dir, "link")
	right := tableFile(t, "r.csv", "id,x\n2,b\n")
	run := func(want int, args ...string) {
		t.Helper()
		if _, stderr, status := runWeft(t, "", args...); status != want {
			t.Fatalf("%v: exit status %d, says %s", args, status, stderr)
		}
	}
	wantRows := func(want string) {
		t.Helper()
		if stdout, stderr, _ := runWeft(t, "", "distinct", "--csv", left); stdout != want {
			t.Errorf("the file has %q, want %q; %s", stdout, want, stderr)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 2 {
			t.Errorf("%v are left; %v", files, err)
		}
	}
	run(exitOK, "distinct", "--parquet", left, tableFile(t, "l.csv", "id\n1\n2\n"))
	must(t, os.Symlink(left, link))
	run(exitFailed, "join", "--on", "id", "--parquet", left, tableFile(t, "bad.csv", "id,y\n2,1\n3\n"), right)
	wantRows("id\n1\n2\n")
	run(exitOK, "join", "--on", "id", "--parquet", left, left, right)
	wantRows("id,x\n2,b\n")
	run(exitOK, "join", "--on", "id", "--kind", "semi", "--parquet", link, link, right)
	wantRows("id,x\n2,b\n")
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip(err)
	}
	read := make(chan error)
	go func() {
		_, err := os.ReadFile(pipe)
		read <- err
	}()
	run(exitFailed, "join", "--on", "id", "--parquet", pipe, tableFile(t, "bad.csv", "id,y\n2,1\n3\n"), right)
	must(t, <-read)
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v", err)
	}
}

// Of columns whose bytes are in another order than their values none is sorted, which is known before they are read.
func TestSortsOfBytes(t *testing.T) {
	f := tableFlags{sort: []string{"d:desc"}}
	if _, err := f.sorts([]table.Field{{Name: "d", Arrow: &goarrow.Decimal128Type{Precision: 5}}}); err == nil || !strings.Contains(err.Error(), "--sort d:desc: ") {
		t.Errorf("decimals of 128 bits: %v", err)
	}
}

// Tables for people have an end.
func TestAlignedEnds(t *testing.T) {
	stdout, _, status := runWeft(t, "k\n"+manyLines(1234), "distinct", "-")
	if status != exitOK || strings.Count(stdout, "\n") != 1002 || !strings.HasSuffix(stdout, "\n… and 234 more rows: --csv, --json and --parquet write all, --top the first\n") {
		t.Errorf("exit status %d, prints %d lines", status, strings.Count(stdout, "\n"))
	}
}

// The right file of a join is read again when a late value is of another type; the left one may be a pipe.
func TestJoinWidens(t *testing.T) {
	right := tableFile(t, "r.csv", "id,x\n"+strings.Repeat("1,a\n", 400_000)+"k,b\n")
	args := []string{"join", "--on", "id", "--columns", "id,x", "--csv", "-", right}
	if stdout, stderr, status := runWeft(t, "id\nk\n2\n", args...); status != exitOK || stdout != "id,x\nk,b\n" {
		t.Errorf("exit status %d, prints %q, says %s", status, stdout, stderr)
	}
	// When rows are out already, nothing can be read again.
	left := "id\n" + strings.Repeat("1\n", 8_000_000) + "k\n"
	_, stderr, status := runWeft(t, left, "join", "--on", "id", "--csv", "-", tableFile(t, "s.csv", "id\n1\n"))
	if status != exitFailed || !strings.Contains(stderr, `standard input:8000002: column id was int64 so far, and here is "k"; --text id reads it as text`) {
		t.Errorf("exit status %d, says %s", status, stderr)
	}
}

func TestTableInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		w.Write([]byte("a\n1\n" + strings.Repeat("2\n", 1<<20)))
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"group", "--by=a", "-"}, &app{stdin: r, stdout: &stdout, stderr: &stderr})
	if status != exitInterrupted || stdout.Len() > 0 || stderr.String() != "weft: interrupted\n" {
		t.Errorf("exit status %d, prints %q, says %q", status, &stdout, &stderr)
	}
}
