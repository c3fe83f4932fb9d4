package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tableFile makes a file with a name that ends in its format.
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

// The first command of README.md prints the output shown there.
func TestFirstCommand(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	must(t, err)
	var blocks []string
	for i, text := range strings.Split(string(readme), "```") {
		if i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	command, ok := strings.CutPrefix(blocks[0], "sh\ngo run ./cmd/weft ")
	if !ok {
		t.Fatalf("the first command is %q", blocks[0])
	}
	out, errs, status := runWeft(t, "", strings.Fields(command)...)
	if want := strings.TrimPrefix(blocks[1], "\n"); out != want || status != exitOK {
		t.Errorf("%sexits with %d and prints\n%s%s, want\n%s", command, status, out, errs, want)
	}
}

func TestTables(t *testing.T) {
	o, c := tableFile(t, "o.csv", orders), tableFile(t, "c.jsonl", customers)
	ids := tableFile(t, "ids.csv", "id,x\n1,a\n3,b\n3,c\n9,d\n")
	wide, nans := tableFile(
		t,
		"wide.csv",
		"k,w\n9007199254740992,A\n0.5,B\n",
	), tableFile(
		t,
		"nans.csv",
		"k,w\nNaN,N\n0.0,Z\n",
	)
	wide2 := tableFile(t, "wide2.csv", "a,w\n1,3\n")
	same := tableFile(t, "same.csv", "b,a,b_right\n1,4,5\n")
	for _, tt := range []struct {
		args  string // o, c and ids stand for files
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
		{"distinct --csv -", "f\n0.0\n-0.0\nNaN\n-nan\n1e3\n1000\n", "f\n0.0\nNaN\n1e3\n1000\n"},
		{"distinct --number f --csv -", "f\n0.0\n-0.0\nNaN\n-nan\n1e3\n1000\n", "f\n0\nNaN\n1000\n"},
		{"group --by k --agg min:v,max:v --csv -", "k,v\na,9\na,10\na,18446744073709551615\nb,9300000000000000000\nb,10000000000000000000\n",
			"k,min:v,max:v\na,9,18446744073709551615\nb,9300000000000000000,10000000000000000000\n"},
		{"group --by k --agg max:v --csv -", "k,v\na,9\na,10\na,007\n", "k,max:v\na,10\n"},
		{"group --by k --agg max:v,sum:v,first:v,last:v,count:v --csv -", "k,v\na,9\na,10\na,007\n", "k,max:v,sum:v,first:v,last:v,count:v\na,10,26,9,007,3\n"},
		{"group --by k --agg avg:v,var:v,any:v --csv -", "k,v\na,007\na,9\nb,1\n", "k,avg:v,var:v,any:v\na,8,2,007\nb,1,,1\n"},
		{"group --by k --agg any_true:v,all_true:v --text v --csv --bad skip -", "k,v\na,True\na,false\na,\na,yes\n", "k,any_true:v,all_true:v\na,true,false\n"},
		{"group --by k --agg any_true:v,stddev:k --csv -", "{\"k\":1,\"v\":\"True\"}\n{\"k\":1,\"v\":false}\n", "k,any_true:v,stddev:k\n1,true,0\n"},
		{"group --by v --agg sum:v,max:v --csv -", "v\n1.10\n1.1\n01.1\n", "v,sum:v,max:v\n1.10,1.1,1.1\n1.1,1.1,1.1\n01.1,1.1,1.1\n"},
		{"group --by id --csv -", "id,v\n9007199254740993,1\n9007199254740992,1\n0.5,1\n", "id,count\n9007199254740993,1\n9007199254740992,1\n0.5,1\n"},
		{"group --by k --sort k --csv -", "k\n10\n9\n18446744073709551615\nx\n1.5\n\"\"\nnan\n", "k,count\n1.5,1\n9,1\n10,1\n18446744073709551615,1\nNaN,1\n\"\",1\nx,1\n"},
		{"group --by k --sort k:desc --top 2 --csv -", "k\n10\n9\n18446744073709551615\n", "k,count\n18446744073709551615,1\n10,1\n"},
		{"group --by k --sort k --text k --csv -", "k\n9\n10\nx\n", "k,count\n10,1\n9,1\nx,1\n"},
		{"group --by k --agg max:v --text v --sort max:v --csv -", "k,v\na,9\nb,10\n", "k,max:v\nb,10\na,9\n"},
		{"group --by k --agg min:v,max:v --text v --csv -", "k,v\na,9\na,10\n", "k,min:v,max:v\na,10,9\n"},
		{"group --by k --agg min:v,max:v --number v --bad skip --csv -", "k,v\na,9\na,x\na,10\n", "k,min:v,max:v\na,9,10\n"},
		{"group --by k --agg max:v --number v --csv -", "k,v\na,9007199254740993\na,.5\n", "k,max:v\na,9007199254740992\n"},
		{"group --by a,a --agg sum:v,sum:v --csv -", "a,a_2,v\nx,y,1\n", "a,a_2,sum:v,sum:v_2\nx,x,1,1\n"},
		{"group --by 1,2 --header yes --csv -", "a,a\nx,y\n", "a,a_2,count\nx,y,1\n"},
		{"distinct --header yes --csv -", "a,a,a_2\nx,y,z\n", "a,a_3,a_2\nx,y,z\n"},
		{"distinct --csv -", `{"k":1}` + "\n" + `{"k":"1"}` + "\n" + `{"k":1.0}` + "\n", "k\n1\n1.0\n"},
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
		{"join --on k --csv - wide", "k,v\n9007199254740993,a\n0.50,b\n", "k,v,w\n"},
		{"join --on k --number k --csv - wide", "k,v\n9007199254740992,a\n0.50,b\n007,c\n", "k,v,w\n9007199254740992,a,A\n0.5,b,B\n"},
		{"join --on k=id --columns k,x --number k --csv - ids", "k\n3.0\n01\n1e0\n2.5\n", "k,x\n3,b\n3,c\n1,a\n1,a\n"},
		{"join --on id --kind anti --csv - ids", "id\n1\n01\nx\n-0\n3.0\n", "id\n01\nx\n-0\n3.0\n"},
		{"join --on k --kind left --csv - nans", "k\n-nan\n-0.0\n0\n", "k,w\n-nan,N\n-0.0,Z\n0,\n"},
		{"join --on b --csv - same", "b,a,b_right\n1,2,3\n", "b,a,b_right,a_right,b_right_right\n1,2,3,4,5\n"},
		{"join --on x=a --csv - same", "x,b,b_right\n4,2,3\n", "x,b,b_right,b_right_2,b_right_right\n4,2,3,1,5\n"},
		{"join --on 1=a --header yes --columns 2,x_2,x_2,w --csv - wide2", "x,x\n1,2\n", "x_2,x_2_2,x_2_3,w\n2,2,2,3\n"},
		{"join --on id --sort x --columns x --csv - ids", "id\n77\n", "x\n"},
		{"join --on id,customer=x --columns id --csv o ids", "", "id\n"},
		{"join --on id --columns id,x --csv - ids", "id\n1\n3.0\nzzz\n", "id,x\n1,a\n"},
	} {
		t.Run(tt.args+" "+tt.stdin, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i, arg := range args[1:] {
				if name, ok := map[string]string{"o": o, "c": c, "ids": ids, "wide": wide, "nans": nans, "same": same, "wide2": wide2}[arg]; ok {
					args[i+1] = name
				}
			}
			stdout, stderr, status := runWeft(t, tt.stdin, args...)
			if status != exitOK || stdout != tt.want {
				t.Errorf(
					"exit status %d, prints %q, want %q\nsays %s",
					status,
					stdout,
					tt.want,
					stderr,
				)
			}
			if !strings.HasPrefix(stderr, "weft: ") || !strings.HasSuffix(stderr, ")\n") ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("says %q", stderr)
			}
		})
	}
}

func TestTableErrors(t *testing.T) {
	o, ids := tableFile(t, "o.csv", orders), tableFile(t, "ids.csv", "id,x\n1,a\n")
	parquet, arrow := tableFile(t, "cut.parquet", "PAR1\n"), tableFile(t, "cut.arrow", "ARROW1\n")
	typed, floats := parquetOf(t, orders), parquetOf(t, "f,n\n0.5,1\n1,2\n")
	dir := t.TempDir()
	for _, tt := range []struct {
		args   string
		stdin  string
		status int
		want   string
	}{
		{"group --by x o", "", exitFailed, `group: --by: no column "x"; the 4 columns are id, customer, amount, day`},
		{"group --by 5 o", "", exitFailed, `group: --by: no column "5"`},
		{"distinct cut.parquet", "", exitFailed, "parquet: open: 5 bytes are too few for a Parquet file\n"},
		{"distinct cut.arrow", "", exitFailed, "EOF\n"},
		{"group --by id --agg any_true:id --number id o", "", exitFailed, `--agg any_true:id: --number reads column id as numbers, which are not true or false`},
		{"group --by id --agg any_true:day o", "", exitFailed, `o.csv:2: column day: "2026-01-01" is not true or false`},
		{"group --by id --agg sum:x o", "", exitFailed, `group: --agg sum:x: no column "x"`},
		{"group --by id --agg sum:day o", "", exitFailed, `o.csv:2: column day: "2026-01-01" is not a number`},
		{"group --by a -", "a,b\n1,2\n3,\"x\n", exitFailed, "group: standard input:3: a quote is not closed; use --bad skip to skip the line"},
		{"group --by a -", "\x1f\x8b\x00", exitFailed, "group: standard input: gzip: "},
		{"group --by a -", "\xfd7zXZ\x00", exitFailed, "xz: weft cannot read it; use xz -dc FILE | weft … -\n"},
		{"group --by a --agg sum:b -", "a,b\n1,NA\n2,3\n", exitFailed, `"NA" is not a number; use --null NA to read it as null`},
		{"group --by a -", "a,b\n1,2\n3\n", exitFailed, "group: standard input:3: 1 fields, want 2"},
		{"group --by a --sort b -", "a\n1\n", exitFailed, "group: --sort b: the result has no such column"},
		// The error comes before rows are read.
		{"group --by a --sort b -", "a,c\n1,2\n3\n", exitFailed, "group: --sort b: the result has no such column"},
		{"group --by a --agg sum:b -", "a,b\nx,9223372036854775807\nx,1\n", exitFailed, `weft: group: sum:b does not fit 64 bits in the group of ("x")`},
		{"group --by a -", "", exitFailed, "group: standard input: no rows"},
		{"group --by a --memory 1MiB -", "a\n1\n", exitUsage, "group: --memory 1048576: want at least 16777216 bytes"},
		{"group --by a --temp-dir /nowhere -", "a\n1\n", exitUsage, "group: --temp-dir /nowhere: no such file or directory"},
		{"distinct --temp-dir o -", "a\n1\n", exitUsage, "not a directory"},
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
		{"join --on id --memory 1B o ids", "", exitUsage, "join: --memory 1: want at least 16777216 bytes, or 0 for no limit"},
		{"join --on id --sort y o ids", "", exitFailed, "join: --sort y: the result has no such column"},
		{"join --on id --sort x --columns id o ids", "", exitFailed, "--sort x: the result has no such column"},
		{"join --on id --text y o ids", "", exitFailed, `--text y: neither file has such a column of text: `},
		{"join --on id --number y o ids", "", exitFailed, `--number y: neither file has such a column of text: `},
		{"join --on id --header yes --text b - ids", "id,b,b\n1,2,3\n", exitFailed, `--text b: standard input: columns 2 and 3 are both called "b": use the number`},
		{"join --on b --header yes - ids", "id,b,b\n1,2,3\n", exitFailed, `--on b: standard input: columns 2 and 3 are both called "b": use the number`},
		{"join --on id --header yes --columns b - ids", "id,b,b\n1,2,3\n", exitFailed, `--columns: columns 2 and 3 of a file are both called "b": use the number in the result`},
		{"join --on id=x --number id --text x o ids", "", exitFailed, `column id is to be text, and x in the other file a number`},
		{"group --by b --header yes -", "id,b,b\n1,2,3\n", exitFailed, `--by: columns 2 and 3 are both called "b": use the number`},
		{"group --by id --agg max:b --header yes -", "id,b,b\n1,2,3\n", exitFailed, `--agg max:b: columns 2 and 3 are both called "b": use the number`},
		{"group --by k --agg max:v -", "k,v\na,9\na,x\n", exitFailed, `group: standard input:3: column v: "x" is not a number, but other values of the column are; use --text v`},
		{"group --by k --agg sum:v -", "k,v\na,9007199254740993\na,.5\n", exitFailed, `standard input:2: column v: "9007199254740993" and other values of the column fit neither 64-bit integers nor float64; use --number v`},
		{"group --by k --agg sum:v -", "k,v\na,18446744073709551615\na,1\n", exitFailed, `sum:v does not fit 64 bits in the group of ("a")`},
		{"group --by k --number k -", "k,v\n1,9\nx,10\n", exitFailed, `standard input:3: column k: "x" is not a number`},
		{"group --by k --number k --text k o", "", exitUsage, `--text and --number exclude each other, and both have "k"`},
		{"group --by id --number id o.parquet", "", exitFailed, `--number: the file says that column id is int64`},
		{"group --by id --text id o.parquet", "", exitFailed, `--text: the file says that column id is int64`},
		{"join --on amount=f - f.parquet", "amount\n1\n", exitFailed, `column amount is text, and f in the right file is float64; --number compares both by value`},
		{"join --on f=amount f.parquet -", "amount\n1\n", exitFailed, `column f is float64, and amount in the right file is text; --number compares both by value`},
		{"group --by a --device cuda:99 -", "a\n1\n", exitFailed, "cuda:99"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i, arg := range args[1:] {
				if name, ok := map[string]string{"o": o, "ids": ids, "cut.parquet": parquet, "cut.arrow": arrow, "o.parquet": typed, "f.parquet": floats}[arg]; ok {
					args[i+1] = name
				}
			}
			stdout, stderr, status := runWeft(t, tt.stdin, args...)
			if status != tt.status || stdout != "" || !strings.HasPrefix(stderr, "weft: ") ||
				!strings.Contains(stderr, tt.want) {
				t.Errorf(
					"exit status %d, prints %q, says %q, want %q",
					status,
					stdout,
					stderr,
					tt.want,
				)
			}
		})
	}
}

// parquetOf returns a Parquet file with rows of CSV. Column f, if present, is float64.
func parquetOf(t *testing.T, csv string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.parquet")
	args := []string{"distinct", "--parquet", name, "-"}
	if strings.HasPrefix(csv, "f,") {
		args = append(args, "--number", "f")
	}
	if _, stderr, status := runWeft(t, csv, args...); status != exitOK {
		t.Fatal(stderr)
	}
	return name
}

// A text key is compared by value with a typed column, on either side.
func TestJoinTypes(t *testing.T) {
	typed := parquetOf(t, "f,i,b,s\n0.5,7,true,7\n1,-1,false,x\n1e300,0,true,NaN\n")
	text := tableFile(
		t,
		"t.csv",
		"k,n\n7,1\n007,2\n7.0,3\ntrue,4\nTrue,5\nx,6\nnan,7\nNaN,8\n-0,9\n-1,10\n",
	)
	for on, want := range map[string]string{"i": "1 9 10", "b": "4", "s": "1 6 8"} {
		for _, args := range [][]string{{"--on", "k=" + on, text, typed}, {"--on", on + "=k", typed, text}} {
			stdout, stderr, status := runWeft(
				t,
				"",
				append([]string{"join", "--columns", "n", "--csv"}, args...)...)
			lines := strings.Fields(stdout)
			if status != exitOK || len(lines) == 0 {
				t.Fatal(stderr)
			}
			rows := map[string]bool{}
			for _, line := range lines[1:] {
				rows[line] = true
			}
			for _, n := range strings.Fields(want) {
				if !rows[n] {
					t.Errorf("%v: row %s matches nothing: %q", args, n, stdout)
				}
				delete(rows, n)
			}
			if len(rows) > 0 {
				t.Errorf("%v: %v match, too", args, rows)
			}
		}
	}
	// Text is compared with floats only with --number, on either side.
	numbers := tableFile(t, "n.csv", "k,n\n.50,1\n1,2\n1.0,3\n2,4\n1e300,5\n")
	for _, args := range [][]string{{"--on", "k=f", numbers, typed}, {"--on", "f=k", typed, numbers}} {
		stdout, stderr, _ := runWeft(
			t,
			"",
			append(
				[]string{"join", "--columns", "n", "--sort", "n", "--csv", "--number", "k"},
				args...)...)
		if stdout != "n\n1\n2\n3\n5\n" {
			t.Errorf("%v: %q, %s", args, stdout, stderr)
		}
	}
}

// JSON output keeps the literal form of numbers, and strings as strings.
func TestLiterals(t *testing.T) {
	one := tableFile(t, "one.csv", "k\n1\n1.0\n")
	ids := tableFile(
		t,
		"ids.jsonl",
		`{"id":1,"x":1.50,"s":"1"}`+"\n"+`{"id":2,"x":-2e5,"s":"2"}`+"\n",
	)
	for _, tt := range []struct{ args, stdin, want string }{
		{"distinct", "k\n1.10\n1e5\n123456789012345678901\n", `[{"k":1.10},{"k":1e5},{"k":123456789012345678901}]`},
		{"distinct", "k\n1.10\nnan\n-inf\n", `[{"k":1.10},{"k":"NaN"},{"k":"-inf"}]`},
		{"distinct", "k\n1.10\n007\n", `[{"k":"1.10"},{"k":"007"}]`},
		{"distinct", "k\n1\n.5\n", `[{"k":"1"},{"k":".5"}]`},
		{"distinct --header yes", "a\xff,a\xfe\n1,2\n", "[{\"a\ufffd\":1,\"a\ufffd_2\":2}]"},
		{"distinct", "k\ntrue\nTrue\n", `[{"k":"true"},{"k":"True"}]`},
		{"distinct", "k\ntrue\nfalse\n", `[{"k":true},{"k":false}]`},
		{"distinct --text k", "k\n1.5\n", `[{"k":"1.5"}]`},
		{"distinct", `{"k":"1.5"}`, `[{"k":"1.5"}]`},
		{"distinct", `{"k":1}` + "\n" + `{"k":"2"}`, `[{"k":"1"},{"k":"2"}]`},
		{"distinct", `{"k":1.50}` + "\n" + `{"k":null}`, `[{"k":1.50},{"k":null}]`},
		{"group --by k --agg first:k,last:v,max:v", "k,v\n1,2.50\n", `[{"k":1,"first:k":1,"last:v":2.50,"max:v":2.5}]`},
		{"join --on k one", "k,v\n1,2.50\n2,x\n", `[{"k":1,"v":"2.50"}]`},
		{"join --on k --columns v one", "k,v\n1,2.50\n2,7\n", `[{"v":2.50}]`},
		{"join --on k=id --kind left --columns k,x,s ids", "k\n1\n2\n3\n", `[{"k":1,"x":1.50,"s":"1"},{"k":2,"x":-2e5,"s":"2"},{"k":3,"x":null,"s":null}]`},
	} {
		args := strings.Fields(tt.args)
		files := []string{tableFile(t, "in", tt.stdin)}
		switch args[len(args)-1] {
		case "one":
			args, files = args[:len(args)-1], append(files, one)
		case "ids":
			args, files = args[:len(args)-1], append(files, ids)
		}
		stdout, stderr, _ := runWeft(t, "", append(append(args, "--json"), files...)...)
		rows, _, _ := strings.Cut(strings.TrimPrefix(stdout, `{"rows":`), "\n],")
		if got := strings.ReplaceAll(rows, "\n", "") + "]"; got != tt.want {
			t.Errorf("%s of %q prints %s, want %s; %s", tt.args, tt.stdin, got, tt.want, stderr)
		}
	}
}

// JSON members that first occur after one MiB are columns, too.
func TestLateMembersOfVerbs(t *testing.T) {
	pad := strings.Repeat(`{"a":1,"pad":"`+strings.Repeat("x", 200)+`"}`+"\n", 6000)
	late := tableFile(
		t,
		"late.jsonl",
		pad+`{"a":1,"late":7}`+"\n"+`{"a":1,"late":8,"later":1}`+"\n",
	)
	right := tableFile(t, "r.csv", "a,z\n1,y\n")
	for args, want := range map[string]string{
		"distinct --count L":                                                     "3\n",
		"distinct --sort late --top 1 --csv L":                                   "a,pad,late,later\n1,,7,\n",
		"group --by late --csv --skip-nulls L":                                   "late,count\n7,1\n8,1\n",
		"group --by a --agg sum:later --csv L":                                   "a,sum:later\n1,1\n",
		"join --on a --columns late --csv --sort late --top 1 L R":               "late\n7\n",
		"join --on a --sort later --top 1 --csv L R":                             "a,pad,late,later,z\n1,,8,1,y\n",
		"join --on a --sort later --top 1 --csv R L":                             "a,z,pad,late,later\n1,y,,8,1\n",
		"join --on a --top 1 --csv R L":                                          "a,z,pad,late,later\n1,y," + strings.Repeat("x", 200) + ",,\n",
		"join --on a=later --kind semi --columns z --csv R L":                    "z\ny\n",
		"join --on a --kind anti --columns late,a --csv L R":                     "late,a\n",
		"join --on a --number late --columns late --sort late --top 2 --csv L R": "late\n7\n8\n",
	} {
		fields := strings.Fields(args)
		for i, f := range fields {
			fields[i] = cmp.Or(map[string]string{"L": late, "R": right}[f], f)
		}
		stdout, stderr, status := runWeft(t, "", fields...)
		if status != exitOK || stdout != want {
			t.Errorf(
				"%s: exit status %d, prints %.200q, want %q; %s",
				args,
				status,
				stdout,
				want,
				stderr,
			)
		}
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
	if columns := fmt.Sprint(got.Columns); columns != "[{k int64} {f number} {s text} {count int64}]" {
		t.Errorf("columns %s", columns)
	}
	if got.RowsRead != 3 || got.Groups != 3 || got.Device != "cpu" || got.Bytes == 0 ||
		got.Seconds <= 0 {
		t.Errorf("summary %+v", got.groupSummary)
	}
}

// The same table gives the same result in all formats.
func TestTableFormats(t *testing.T) {
	dir := t.TempDir()
	var csv, jsonl, tsv strings.Builder
	csv.WriteString("k,n,x,ok\n")
	tsv.WriteString("k\tn\tx\tok\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		k, n, x, ok := fmt.Sprintf(
			"key \"%d\", é",
			rng.IntN(50),
		), rng.IntN(
			1000,
		)-500, float64(
			rng.IntN(1000),
		)/8, rng.IntN(
			2,
		) == 0
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
	files := []string{
		filepath.Join(dir, "a.csv"),
		filepath.Join(dir, "a.tsv"),
		filepath.Join(dir, "a.jsonl"),
	}
	for i, text := range []string{csv.String(), tsv.String(), jsonl.String()} {
		must(t, os.WriteFile(files[i], []byte(text), 0o600))
	}
	// A join with one matching row per key keeps all rows and their types.
	all := tableFile(t, "all.csv", "ok,one\ntrue,1\nfalse,1\n")
	parquet := filepath.Join(dir, "a.parquet")
	if _, stderr, status := runWeft(t, "", "join", "--on", "ok", "--columns", "k,n,x,ok", "--number", "x", "--parquet", parquet, files[0], all); status != exitOK {
		t.Fatal(stderr)
	}
	files = append(files, parquet, arrowFile(t, parquet, false), arrowFile(t, parquet, true))
	var want string
	for _, name := range files {
		for _, piped := range []bool{false, true} {
			args := []string{
				"group",
				"--by",
				"k,ok",
				"--agg",
				"count,count:n,sum:n,min:n,mean:x,last:x",
				"--csv",
			}
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
				t.Errorf(
					"%s, piped %v: other groups:\n%.300s\nwant\n%.300s",
					name,
					piped,
					got,
					want,
				)
			}
		}
	}
}

// TestGroupAgainstGo compares groups with a Go map.
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
	got, stderr, status := runWeft(
		t,
		b.String(),
		"group",
		"--by",
		"a,b",
		"--agg",
		"count,count:v,sum:v,min:v",
		"--csv",
		"-",
	)
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

// If a late value has another type, the right file of a join is read again. The left file may be a
// pipe.
func TestJoinWidens(t *testing.T) {
	right := tableFile(t, "r.csv", "id,x\n"+strings.Repeat("1,a\n", 400_000)+"k,b\n")
	args := []string{"join", "--on", "id", "--columns", "id,x", "--csv", "-", right}
	if stdout, stderr, status := runWeft(t, "id\nk\n2\n", args...); status != exitOK ||
		stdout != "id,x\nk,b\n" {
		t.Errorf("exit status %d, prints %q, says %s", status, stdout, stderr)
	}
	// Late values of another type in the left file match nothing and are printed unchanged.
	left := "id\n" + strings.Repeat("1\n", 8_000_000) + "k\n"
	stdout, stderr, status := runWeft(
		t,
		left,
		"join",
		"--on",
		"id",
		"--kind",
		"anti",
		"--csv",
		"-",
		tableFile(t, "s.csv", "id\n1\n"),
	)
	if status != exitOK || stdout != "id\nk\n" {
		t.Errorf("exit status %d, prints %q, says %s", status, stdout, stderr)
	}
}

// Each byte of a file counts once, although the beginning, metadata, and parts of files may be read
// several times.
func TestBytesCountOnce(t *testing.T) {
	dir := t.TempDir()
	text := "k,v\n" + strings.Repeat("1,2\n", 700_000)
	widened := text + "late,2\n" // the last line makes k a text column
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(text))
	must(t, errors.Join(err, z.Close()))
	files := map[string]string{
		"a.csv":    text,
		"b.csv":    widened,
		"c.csv.gz": packed.String(),
		"d.csv":    "k,v\n1,2\n",
	}
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	parquet := filepath.Join(dir, "e.parquet")
	if _, stderr, status := runWeft(t, "", "distinct", "--parquet", parquet, filepath.Join(dir, "b.csv")); status != exitOK {
		t.Fatal(stderr)
	}
	arrow := arrowFile(t, parquet, false)
	for _, names := range [][]string{
		{"a.csv"}, {"b.csv"}, {"c.csv.gz"}, {"d.csv"}, {"a.csv", "b.csv", "d.csv"}, {"a.csv", "a.csv"}, {"-a.csv"}, {"-c.csv.gz"}, {parquet}, {arrow}, {arrowFile(t, parquet, true)},
	} {
		args, stdin, want := []string{"group", "--by", "k", "--json"}, "", int64(0)
		for _, name := range names {
			if piped, ok := strings.CutPrefix(name, "-"); ok {
				stdin, want, name = files[piped], int64(len(files[piped])), "-"
			} else {
				if !filepath.IsAbs(name) {
					name = filepath.Join(dir, name)
				}
				info, err := os.Stat(name)
				must(t, err)
				want += info.Size()
			}
			args = append(args, name)
		}
		stdout, stderr, status := runWeft(t, stdin, args...)
		var got groupSummary
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK {
			t.Fatalf("%q: exit status %d, %v, says %s", names, status, err, stderr)
		}
		// Readers may skip metadata of Parquet and Arrow files.
		if typed := filepath.IsAbs(names[0]); got.Bytes > want || got.Bytes < want && !typed ||
			got.Bytes < want/2 {
			t.Errorf("%q: %d bytes read, want %d", names, got.Bytes, want)
		}
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
	status := run(
		ctx,
		[]string{"group", "--by=a", "-"},
		&app{stdin: r, stdout: &stdout, stderr: &stderr},
	)
	if status != exitInterrupted || stdout.Len() > 0 || stderr.String() != "weft: interrupted\n" {
		t.Errorf("exit status %d, prints %q, says %q", status, &stdout, &stderr)
	}
}
