package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
)

// say describes a file by its vertices and edges, with names.
func say(f *File) string {
	var b strings.Builder
	fmt.Fprint(&b, f.Vertices)
	if f.Directed {
		b.WriteString(" directed")
	}
	if f.Header {
		b.WriteString(" header")
	}
	b.WriteByte(':')
	for i := range f.From {
		fmt.Fprintf(&b, " %s-%s", f.Names.Name(f.From[i]), f.Names.Name(f.To[i]))
		if f.Weights != nil {
			fmt.Fprintf(&b, "=%v", f.Weights[i])
		}
	}
	return b.String()
}

// TestRead reads files of all formats.
func TestRead(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, tt := range []struct {
		name, file, content string
		opts                Options
		want                string
	}{
		{"numbers", "a.txt", "5 7\n7 9\n5 9\n", Options{}, "3: 5-7 7-9 5-9"},
		{"tabs, blank lines, ends of lines", "a.txt", "# x\r\n\r\n 1\t2 \r\n\r\n2\t3\t\n1 \t3", Options{}, "3: 1-2 2-3 1-3"},
		{"comments of KONECT", "out.x", "% sym\n1 2\n2 3\n3 9\n", Options{}, "4: 1-2 2-3 3-9"},
		{"weights", "a.txt", "1 2 0.5\n2 3 -1\n", Options{}, "3: 1-2=0.5 2-3=-1"},
		{"weights left out", "a.txt", "1 2 0.5\n2 3 7\n", Options{Unweighted: true}, "3: 1-2 2-3"},
		{"networkx without weights", "a.edgelist", "0 1 {}\n1 2 { }\n", Options{}, "3: 0-1 1-2"},
		{"networkx", "a.edgelist", "0 1 {'weight': 3.0}\n1 2 {'weight': 7}\n", Options{}, "3: 0-1=3 1-2=7"},
		{"networkx, JSON", "a.txt", "a b {\"weight\": 3.5}\n", Options{}, "2: a-b=3.5"},
		{"networkx, write_weighted_edgelist", "a.edgelist", "0 1 3.0\n1 2 0.5\n", Options{}, "3: 0-1=3 1-2=0.5"},
		{"networkx, another attribute", "a.edgelist", "0 1 {'x': 'a, }b', 'cost': 2, 'y': [1, {'cost': 3}]}\n", Options{Weight: "cost"}, "2: 0-1=2"},
		{"networkx, weight alone by option", "a.edgelist", "0 1 {'weight': 2, 'color': \"it's\"}\n", Options{Weight: "weight"}, "2: 0-1=2"},
		{"networkx, no attribute by option", "a.edgelist", "0 1 {'weight': nan, 'c': 1}\n1 2 {}\n", Options{From: "1", To: "2"}, "3: 0-1 1-2"},
		{"columns of edge lists", "a.txt", "0 1 x 5\n1 2 y 6\n", Options{From: "1", To: "2", Weight: "4"}, "3: 0-1=5 1-2=6"},
		{"columns of edge lists, no weight", "a.txt", "0 1 NaN\n1 2 x\n", Options{From: "2", To: "1"}, "3: 1-0 2-1"},
		{"names in edge lists", "a.txt", "person friend\n1 2\n2 3\n", Options{}, "3 header: 1-2 2-3"},
		{"usual names in edge lists", "a.txt", "# c\nsource target weight\na b 1\n", Options{}, "2 header: a-b=1"},
		{"names told by weights", "a.txt", "one other km\na b 1\n", Options{}, "2 header: a-b=1"},
		{"names told by weights, csv", "a.csv", "one,other,km\na,b,1\n", Options{}, "2 header: a-b=1"},
		{"names by option in edge lists", "a.txt", "x 1\n5 6\n", Options{Header: HeaderYes}, "2 header: 5-6"},
		{"columns by name in edge lists", "a.txt", "w to from\n1 b a\n", Options{From: "from", To: "to"}, "2 header: a-b"},
		{"no names by option", "a.txt", "source target\na b\n", Options{Header: HeaderNo}, "4: source-target a-b"},
		{"carriage returns", "a.txt", "0 1 5\r1 2 6\r", Options{}, "3: 0-1=5 1-2=6"},
		{"carriage returns, csv", "a.csv", "source,target\r0,1\r1,2", Options{}, "3 header: 0-1 1-2"},
		{"carriage returns, metis", "a.graph", "3 2\r2\r1 3\r2\r", Options{}, "3: 1-2 2-3"},
		{"leading zeros by option", "a.txt", "007 1\n", Options{IDs: IDsSparse}, "2: 7-1"},
		{"mixed ids by option", "a.txt", "1 -2\n1 x\n", Options{IDs: IDsStrings}, "3: 1--2 1-x"},
		{"adjacency list", "a.txt", "# c\n0 1 2\n1 2\n\n7\n2\n", Options{Format: AdjList}, "4: 0-1 0-2 1-2"},
		{"adjacency list by name", "a.adjlist", "a b c\nd\n", Options{}, "4: a-b a-c"},
		{"adjacency list, dense", "a.adjlist", "0 2\n5\n", Options{IDs: IDsDense}, "6: 0-2"},
		{"large ids", "a.txt", "18446744073709551615 0\n5 18446744073709551615\n0 5\n", Options{}, "3: 18446744073709551615-0 5-18446744073709551615 0-5"},
		{"strings", "a.txt", "anna bert\nbert carl\nanna 7\n", Options{}, "4: anna-bert bert-carl anna-7"},
		{"numbers as strings", "a.txt", "07 7\n7 x\n7 y\n", Options{IDs: IDsStrings}, "4: 07-7 7-x 7-y"},
		{"dense ids", "a.txt", "3 1\n1 1\n5 1\n", Options{IDs: IDsDense}, "6: 3-1 1-1 5-1"},
		{"byte order mark", "a.txt", "\xef\xbb\xbf1 2\n2 9\n1 9\n", Options{}, "3: 1-2 2-9 1-9"},

		{"header", "a.txt", "4 5\n1 2\n2 3\n3 4\n4 1\n1 3\n", Options{}, "4 header: 1-2 2-3 3-4 4-1 1-3"},
		{"header of a tree", "a.txt", "4 3\n1 2\n2 3\n3 4\n", Options{Header: HeaderYes}, "4 header: 1-2 2-3 3-4"},
		{"edges like counts", "a.txt", "5 2\n5 3\n5 4\n", Options{Header: HeaderNo}, "4: 5-2 5-3 5-4"},
		{"edges like counts below a comment", "a.txt", "# Nodes: 3 Edges: 2\n2 1\n1 3\n", Options{}, "3: 2-1 1-3"},
		{"one edge like counts below a comment", "a.txt", "# Nodes: 2 Edges: 1\n3 0\n", Options{}, "2: 3-0"},
		{"one edge like counts", "a.txt", "3 0\n", Options{Header: HeaderNo}, "2: 3-0"},
		{"header, one vertex without edges, from 1", "a.txt", "5 3\n1 2\n2 3\n3 5\n", Options{Header: HeaderYes}, "5 header: 1-2 2-3 3-5"},
		{"header, one vertex without edges, from 0", "a.txt", "5 3\n0 2\n2 3\n3 4\n", Options{Header: HeaderYes}, "5 header: 0-2 2-3 3-4"},
		{"header of weighted edges", "a.txt", "3 2\n1 2 5\n2 3 6\n", Options{}, "3 header: 1-2=5 2-3=6"},
		{"header of an empty graph", "a.txt", "3 0\n", Options{Header: HeaderYes}, "3 header:"},
		{"banner in another case", "a.txt", "%%matrixmarket matrix coordinate pattern general\n3 3 1\n1 2\n", Options{}, "3 directed: 1-2"},
		{"separators in quotes", "a.csv", "\"a,b\";\"c\";1\nd;\"e;f\";2\n", Options{}, "4: a,b-c=1 d-e;f=2"},
		{"quotes in quotes", "a.csv", "\"a \"\",\"\" b\"\tc\n", Options{}, "2: a \",\" b-c"},
		{"networkx, separators", "a.txt", "0,1,{'weight': 3.5}\n1,2,{'weight': 1}\n", Options{}, "3: 0-1=3.5 1-2=1"},
		{"networkx, tabs, several attributes", "a.tsv", "0\t1\t{'a': 'x,\\t', 'weight': 3}\n", Options{From: "1", To: "2", Weight: "weight"}, "2: 0-1=3"},
		{"networkx, separators, no attributes", "a.csv", "0,1,{}\n1,2,{}\n", Options{}, "3: 0-1 1-2"},
		{"text, then numbers, with a weight", "a.txt", "alice bob 3\n1 2 4\n", Options{}, "4: alice-bob=3 1-2=4"},
		{"networkx, text and numbers", "a.txt", "a b {'weight': 3}\n1 2 {'weight': 4}\n", Options{}, "4: a-b=3 1-2=4"},
		{"neighbors with commas", "a.adjlist", "a,b c\nd,e\n", Options{IDs: IDsStrings}, "3: a,b-c"},
		{"ids that begin like comments", "a.csv", "\"#a\",#b\n#c,d\n", Options{}, "4: #a-#b #c-d"},
		{"comments with separators", "a.csv", "#source,target\n1,2\n", Options{}, "2: 1-2"},
		{"comments with separators, text", "a.csv", "# source,target\na,b\n", Options{}, "2: a-b"},
		{"names of columns in another order", "a.csv", "weight,to,from\n5,1,2\n", Options{From: "from", To: "to", Weight: "weight"}, "2 header: 2-1=5"},
		{"tail and head", "a.csv", "tail,head\n1,2\n", Options{}, "2 header: 1-2"},
		{"header of strings", "a.txt", "3 2\na b\nb c\n", Options{}, "3 header: a-b b-c"},
		{"no header: other number of lines", "a.txt", "3 1\n1 2\n2 3\n", Options{}, "3: 3-1 1-2 2-3"},
		{"no header: the second one is a vertex", "a.txt", "1 2\n2 3\n3 4\n", Options{}, "4: 1-2 2-3 3-4"},
		{"no header: no graph has an edge and no vertices", "a.txt", "0 1\n1 2\n", Options{}, "3: 0-1 1-2"},
		{"no header: none with an edge has no vertices", "a.txt", "0 1\n2 3\n", Options{}, "4: 0-1 2-3"},
		{"counts in a comment below", "a.txt", "1 2\n# Nodes: 9 Edges: 9\n2 3\n3 4\n# Nodes: 9 Edges: 9\n", Options{}, "4: 1-2 2-3 3-4"},
		{"ids with one gap", "a.txt", "1 2\n2 4\n4 1\n", Options{}, "3: 1-2 2-4 4-1"},
		{"no header: three columns", "a.txt", "3 1 1\n1 2 1\n", Options{}, "3: 3-1=1 1-2=1"},
		{"no header by option", "a.txt", "4 3\n1 2\n2 3\n3 1\n", Options{Header: HeaderNo}, "4: 4-3 1-2 2-3 3-1"},
		{"header by option", "a.txt", "# c\n3 2\n1 2\n2 3\n", Options{Header: HeaderYes}, "3 header: 1-2 2-3"},
		{"counts in a comment", "a.txt", "# Nodes: 3 Edges: 2\n# From To\n1 2\n2 3\n", Options{}, "3: 1-2 2-3"},
		{"counts in a comment, more vertices", "a.txt", "# Nodes: 9 Edges: 2\n1 2\n2 3\n", Options{}, "3: 1-2 2-3"},
		{"counts in a comment that nobody reads", "a.txt", "# Nodes: 1 Edges: 7\n1 2\n", Options{Header: HeaderNo}, "2: 1-2"},
		{"empty", "a.txt", "", Options{}, "0:"},
		{"comments only", "a.txt", "# nothing\n", Options{}, "0:"},

		{"csv", "a.csv", "1,2\n2,3\n", Options{}, "3: 1-2 2-3"},
		{"names of columns", "a.csv", "id_1,id_2\n0,2\n2,3\n", Options{}, "3 header: 0-2 2-3"},
		{"names that nobody knows", "a.csv", "x,y,z\n0,2,0.5\n2,3,1\n", Options{}, "3 header: 0-2=0.5 2-3=1"},
		{"names of strings", "a.csv", "Source;Target\na;b\n", Options{}, "2 header: a-b"},
		{"strings without names", "a.csv", "a,b\nb,c\n", Options{}, "3: a-b b-c"},
		{"strings, and names by option", "a.csv", "a,b\nb,c\n", Options{Header: HeaderYes}, "2 header: b-c"},
		{"quotes", "a.csv", "\"a, b\",\"say \"\"x\"\"\"\n\"\"\"\", c d \n", Options{}, "4: a, b-say \"x\" \"-c d"},
		{"spaces in a file that is called csv", "a.csv", "0 1 1.0\n2 3 1.0\n", Options{}, "4: 0-1=1 2-3=1"},
		{"tabs", "a.tsv", "from\tto\n1\t2\n", Options{}, "2 header: 1-2"},
		{"bars", "a.csv", "1|2|x\n2|3|y\n", Options{From: "1", To: "2"}, "3: 1-2 2-3"},
		{"separator by option", "a.csv", "1:2,5\n2:3,5\n", Options{Separator: ':', IDs: IDsStrings}, "4: 1-2,5 2-3,5"},
		{"columns by name", "a.csv", "t,w,to,from\n9,0.5,2,1\n9,2.5,3,2\n", Options{From: "from", To: "to", Weight: "w"}, "3 header: 1-2=0.5 2-3=2.5"},
		{"columns by number", "a.csv", "9,0.5,2,1\n9,2.5,3,2\n", Options{From: "4", To: "3"}, "3: 1-2 2-3"},
		{"commas in a text", "a.txt", "1, 2\n2, 3\n", Options{}, "3: 1-2 2-3"},
		{"hash tags", "a.csv", "# comment\nx,#a\n#a,#b\n", Options{}, "3: x-#a #a-#b"},
		{"one line of csv", "a.csv", "a,b", Options{}, "2: a-b"},

		{"matrix", "a.mtx", "%%MatrixMarket matrix coordinate real general\n% c\n\n3 3 2\n1 2 0.5\n3 1 2e1\n", Options{}, "3 directed: 1-2=0.5 3-1=20"},
		{"symmetric pattern", "a", "%%MatrixMarket Matrix Coordinate Pattern Symmetric\n4 4 2\n2 1\n3 3\n", Options{}, "4: 2-1 3-3"},
		{"integers", "a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 -7\n", Options{}, "2 directed: 1-2=-7"},

		{"dimacs", "a.gr", "c hello\np sp 3 2\na 1 2 10\nc more\na 2 3 5\n", Options{}, "3 directed: 1-2=10 2-3=5"},
		{"dimacs by content", "roads", "c hello\np sp 3 1\na 1 2 10\n", Options{}, "3 directed: 1-2=10"},

		{"metis", "a.graph", "% c\n4 3\n2 3\n1 3\n% c\n1 2\n\n", Options{}, "4: 1-2 1-3 2-3"},
		{"metis, weights of edges", "a.graph", "3 2 1\n2 7\n1 7 3 9\n2 9\n", Options{}, "3: 1-2=7 2-3=9"},
		{"metis, sizes and weights of vertices", "a.metis", "2 1 110 2\n9 8 8 2\n9 8 8 1", Options{}, "2: 1-2"},
		{"metis, all of it", "a.graph", "2 1 111\n5 6 2 3\n5 6 1 3\n", Options{}, "2: 1-2=3"},
		{"metis, no edges", "a.graph", "2 0\n\n\n\n", Options{}, "2:"},

		{"el", "a.el", "0 3\n3 1\n", Options{}, "4: 0-3 3-1"},
		{"wel", "a.wel", "0 3 7\n1 3 8\n", Options{}, "4: 0-3=7 1-3=8"},
		{"format by option", "a.el", "p sp 2 0\n", Options{Format: DIMACS}, "2 directed:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for way, r := range map[string]io.Reader{"whole": strings.NewReader(tt.content), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.content))} {
				f, err := Read(t.Context(), dev, r, tt.file, &tt.opts)
				if err != nil {
					t.Fatal(err)
				}
				if got := say(f); got != tt.want {
					t.Errorf("%s: %s, want %s", way, got, tt.want)
				}
				for i, u := range f.From {
					if int(max(u, f.To[i])) >= f.Vertices {
						t.Errorf("edge %d from %d to %d of %d vertices", i, u, f.To[i], f.Vertices)
					}
				}
				if f.Names.Len() != f.Vertices {
					t.Errorf("%d names of %d vertices", f.Names.Len(), f.Vertices)
				}
				for v := range uint32(f.Vertices) {
					if u, ok := f.Names.Vertex(f.Names.Name(v)); !ok || u != v {
						t.Errorf("vertex %d is called %q, which is %d, %v", v, f.Names.Name(v), u, ok)
					}
				}
				for _, name := range []string{"", "nobody", "99", "-1"} {
					if v, ok := f.Names.Vertex(name); ok {
						t.Errorf("%q is vertex %d", name, v)
					}
				}
			}
		})
	}
}

// TestMalformed checks that files that violate their format are refused with the line.
func TestMalformed(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const banner = "%%MatrixMarket matrix coordinate "
	for _, tt := range []struct {
		file, content string
		opts          Options
		want          string // error text after the name of the file
	}{
		{"a.txt", "1 2\n3\n", Options{}, `:2: the line has one id, but an edge has two: "3"`},
		{"a.txt", "1 2\n2 3\n1 2 3\n", Options{}, ":3: the line has 3 columns, but line 2 has 2; --format adjlist reads"},
		{"a.txt", "1 2 1\n2 3\n", Options{}, ":2: the line has 2 columns, but line 1 has 3"},
		{"a.txt", "1 2 1\n2 3 x\n", Options{}, `:2: weight "x" is not a number`},
		{"a.txt", "1 2 1\n2 3 NaN\n", Options{}, `:2: weight "NaN" is not a number`},
		{"a.txt", "1 2 1\n2 3 1_0\n", Options{}, `:2: weight "1_0" is not a number`},
		{"a.txt", "1 2 1\n2 3 1e999\n", Options{}, `:2: weight "1e999" cannot be stored`},
		{"a.txt", "1 2 1\n2 3 9007199254740993\n", Options{}, `:2: weight "9007199254740993" cannot be stored exactly as a 64-bit float`},
		{"a.txt", "1 2\n2 3\n2 x\n", Options{}, `:3: vertex "x" is not a 64-bit integer; use --ids strings (IDsStrings) to read ids as text`},
		{"a.txt", "1 2\n2 3\n2 18446744073709551616\n", Options{}, `:3: vertex "18446744073709551616" is not a 64-bit integer`},
		{"a.txt", "1 2\n2 3\n-2 4\n", Options{}, `:3: vertex "-2" is not a 64-bit integer`},
		{"a.txt", "1 20\n3 4\n# c\n5 6\n", Options{MaxVertices: 4}, ":1: vertex 1 is one more than 4, the limit"},
		{"a.txt", "1 2\n3 4\n# c\n5 6\n", Options{MaxVertices: 4, Header: HeaderNo}, ":4: vertex 5 is one more than 4, the limit"},
		{"a.txt", "a b\nc d\n", Options{MaxVertices: 3}, `:2: vertex "d" is one more than 3, the limit`},
		{"a.txt", "1 4\n2 5\n", Options{MaxVertices: 5, IDs: IDsDense}, ":2: vertex 5: vertices are 0 to 4"},
		{"a.txt", strings.Repeat("1", maxLine+headSize) + " 2\n", Options{}, ":1: the line is longer than 1048576 bytes"},
		{"a.txt", "1 2\n\x00\x01", Options{}, ": binary data"},
		{"a.txt", "2 3\n0 1\n1 2\n2 0\n", Options{}, ":1: the header says 2 vertices, but there are 3"},
		{"a.txt", "9 2\n10 20\n20 30\n", Options{}, ":1: the header says 9 vertices, but there are 3, up to 30, and the ids of the others are unknown"},
		{"a.txt", "5 2\n0 5\n0 1\n", Options{}, ":1: 5 2 may be an edge, or the numbers of vertices and edges; set --header no or --header yes"},
		{"a.txt", "\xff\xfe1\x00 \x002\x00", Options{}, `: text of UTF-16; "iconv -f UTF-16 -t UTF-8 FILE"`},
		{"a.csv", "a,a,b\n1,2,3\n", Options{From: "a", To: "b"}, `:1: several columns are called "a"; --columns takes their numbers`},
		{"a.txt", "0 1 {'x': 3}\n1 2 {'x': 4}\n", Options{From: "1", To: "2", Weight: "w"}, `:1: the edge has no attribute "w"`},
		{"a.txt", "\n%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 1\n", Options{}, ":1: the first line is not"},
		{"a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 1\n", Options{Format: EdgeList}, ": the file begins as Matrix Market does; --format mtx"},
		{"a.adjlist", "0,1,2\n1,2\n", Options{}, `:1: the line has one id, "0,1,2", but ids have white space between them; --ids strings`},
		{"a.txt", "2 1\n1 3\n", Options{}, ":1: 2 1 may be an edge"},
		{"a.txt", "5 2\n5 3\n5 4\n", Options{}, ":1: 5 2 may be an edge"},
		{"a.txt", "# c\n9 2\n1 2\n2 3\n", Options{}, ":2: 9 2 may be an edge"},
		{"a.txt", "4 3\n0 1\n1 2\n2 3\n", Options{}, ":1: 4 3 may be an edge"},
		{"a.txt", "3 0\n", Options{}, ":1: 3 0 may be an edge"},
		{"a.txt", "0 0\n", Options{}, ":1: 0 0 may be an edge"},
		{"a.txt", "1 2\n1 3\n1 4\n", Options{}, ":1: the header says 1 vertices, but there are 3; --header no reads an edge"},
		{"a.txt", "1 2\na b\n", Options{}, ":1: the ids are numbers here and text in later lines; use --ids strings"},
		{"a.txt", "a b NaN\nc d 3\n", Options{}, `:1: "NaN" may be the name of a column or a wrong weight; --header yes`},
		{"a.txt", "a b x\nc d 3\n", Options{}, `:1: "x" may be the name`},
		{"a.csv", "a,b,\nc,d,3\n", Options{}, `:1: "" may be the name`},
		{"a.csv", "#a,#b\nb,#c\n#c,d\n", Options{}, ":1: the line may be a comment or an edge; quote an id"},
		{"a.csv", "# c\n#a,#b\n#b,#c\n", Options{}, ":2: the line may be a comment"},
		{"a.csv", "weight,source,target\n5,1,2\n", Options{}, ":1: an edge is columns 1 and 2, but source and target are columns 2 and 3; set --columns FROM,TO"},
		{"a.csv", "id,source,target\n5,1,2\n", Options{}, ":1: an edge is columns 1 and 2"},
		{"a.csv", "Target,Source\na,b\n", Options{}, ":1: an edge is columns 1 and 2, but Source and Target are columns 2 and 1"},
		{"a.txt", "to from\n1 2\n", Options{Header: HeaderYes}, ":1: an edge is columns 1 and 2"},
		{"a.txt", "3 2\na b\n", Options{Header: HeaderYes}, ":1: the header says 2 edges, but 1 lines follow"},
		{"a.txt", "4 1\na b\n", Options{Header: HeaderYes}, ":1: the header says 4 vertices, but there are 2, and the names of the others are unknown"},
		{"a.txt", "1 1\n5 6\n", Options{Header: HeaderYes}, ":1: the header says 1 vertices, but there are 2"},
		{"a.txt", "3 1 1\n5 6 1\n", Options{Header: HeaderYes}, ":1: the header has 3 words"},
		{"a.txt", "9 1\n0 2\n", Options{MaxVertices: 5}, ":1: the header says 9 vertices, more than 5, the limit"},
		{"a.txt", "3 9\n1 2 1\n", Options{}, ":1: the line has 2 columns, but line 2 has 3"},

		{"a.txt", "0 1 NaN\n1 2 3\n", Options{}, `:1: weight "NaN" is not a number; use --columns 1,2 to leave it out`},
		{"a.txt", "0 1 x\n", Options{}, `:1: weight "x" is not a number; use --columns 1,2 to leave it out`},
		{"a.txt", "0 1 Inf\n", Options{}, `:1: weight "Inf" is not a number`},
		{"a.txt", "0 1 -infinity\n", Options{}, `:1: weight "-infinity" is not a number`},
		{"a.txt", "0 1 0x1p4\n", Options{}, `:1: weight "0x1p4" is not a number`},
		{"a.txt", "0 1 1e-999\n", Options{}, `:1: weight "1e-999" cannot be stored`},
		{"a.txt", "0 1 -9007199254740993\n", Options{}, `:1: weight "-9007199254740993" cannot be stored`},
		{"a.txt", "0 1 2 3\n", Options{}, ":1: the line has 4 columns, but an edge has two ids and at most a weight; set --columns FROM,TO,WEIGHT; --format adjlist"},
		{"a.txt", "0 1 2\n1 2\n2\n", Options{}, ":2: the line has 2 columns, but line 1 has 3; --format adjlist"},
		{"a.txt", "0\n0 1\n", Options{}, `:1: the line has one id, but an edge has two: "0"; --format adjlist`},
		{"a.csv", "a,b,1,2\n", Options{}, ":1: the line has 4 columns, but an edge has two ids and at most a weight; set --columns FROM,TO,WEIGHT"},
		{"a.csv", "1,2,NaN\n", Options{}, `:1: weight "NaN" is not a number; use --columns 1,2`},
		{"a.txt", "1 -2\n2 3\n", Options{}, `:1: vertex "-2" is not a 64-bit integer; use --ids strings`},
		{"a.txt", "x 1\n2 x\n", Options{}, `:1: vertex "x" is not a 64-bit integer; use --ids strings`},
		{"a.txt", "1.0 2.0\n", Options{}, `:1: vertex "1.0" is not a 64-bit integer`},
		{"a.txt", "18446744073709551616 x\n", Options{}, `:1: vertex "18446744073709551616" is not a 64-bit integer`},
		{"a.txt", "7 1\n007 1\n", Options{Header: HeaderNo}, `:2: vertex "007" begins with 0; --ids sparse`},
		{"a.txt", "0 4294967296\n", Options{IDs: IDsDense, MaxVertices: maxVertices}, ":1: vertex 4294967296: vertices are 0 to 4294967294"},
		{"a.txt", "0 1 {'weight': 'x'}\n", Options{}, `:1: weight "'x'" is not a number`},
		{"a.txt", "0 1 {'weight': nan}\n", Options{}, `:1: weight "nan" is not a number`},
		{"a.txt", "0 1 {'weight': True}\n", Options{}, `:1: weight "True" is not a number`},
		{"a.txt", "0 1 {'w': 1}\n", Options{}, `:1: attribute 'w' is not a weight; --columns 1,2,NAME reads`},
		{"a.txt", "0 1 {'weight': 1, 'color': 'red'}\n", Options{}, `:1: attribute 'color' is not a weight`},
		{"a.txt", "0 1 {'weight': 1}\n1 2 {}\n", Options{}, `:2: the edge has no attribute "weight", but those before have one`},
		{"a.txt", "0 1 {}\n1 2 {'weight': 1}\n", Options{}, `:2: the edge has an attribute "weight", but those before have none`},
		{"a.txt", "0 1 {'weight': 1, 'weight': 2}\n", Options{}, `:1: the attribute "weight" appears twice`},
		{"a.txt", "0 1 {'weight': 1\n", Options{}, `:1: "{'weight': 1" is not a list of attributes`},
		{"a.txt", "0 1 {'weight' 1}\n", Options{}, `:1: "{'weight' 1}" is not a list of attributes`},
		{"a.txt", "0 1 {'weight: 1}\n", Options{}, `:1: "{'weight: 1}" is not a list of attributes`},
		{"a.txt", "0 1 {'weight': 1} 5\n", Options{}, `:1: "{'weight': 1} 5" is not a list of attributes`},
		{"a.txt", "0 1 {'weight': }\n", Options{}, `:1: "{'weight': }" is not a list of attributes`},
		{"a.txt", "0 1 {'weight': 1}\n1 2 3\n", Options{}, `:2: "3" is not a list of attributes`},
		{"a.txt", "0 1 3\n1 2 {'weight': 1}\n", Options{}, `:2: weight "{'weight': 1}" is not a number`},
		{"a.txt", "0 1\n1 2\r2 3\n", Options{}, ":2: lines end in several ways"},
		{"a.txt", "0 1\r1 2\n2 3\r", Options{}, ":2: lines end in several ways"},
		{"a.adjlist", "0 1\n1 x\n", Options{}, `:2: vertex "x" is not a 64-bit integer`},
		{"a.adjlist", "0 1\n7\n8\n", Options{MaxVertices: 3}, `:3: vertex 8 is one more than 3, the limit`},
		{"a.txt", "# Nodes: 3 Edges: 3\n1 2\n2 3\n", Options{}, ":1: the comment says 3 edges, but there are 2 lines"},
		{"a.txt", "#\n# Nodes: 2 Edges: 2\n1 2\n2 3\n", Options{}, ":2: the comment says 2 vertices, but there are 3"},

		{"a.csv", "1,2\n3\n", Options{}, ":2: the line has 1 columns, but line 1 has 2"},
		{"a.csv", "1,2\n3,4,5\n", Options{}, ":2: the line has 3 columns, but line 1 has 2"},
		{"a.csv", "x,y\n3\n", Options{}, ":2: the line has 1 columns, but line 1 has 2"},
		{"a.csv", "1,2\n3,x\n", Options{}, `:2: vertex "x" is not a 64-bit integer`},
		{"a.csv", "1,2\n3,\n", Options{}, `:2: a vertex is missing`},
		{"a.csv", "a,b\nc,\n", Options{}, `:2: a vertex is missing`},
		{"a.csv", "1,2,3\n3,4,z\n", Options{}, `:2: weight "z" is not a number`},
		{"a.csv", "1,2,3\n3,4,\n", Options{}, `:2: weight "" is not a number`},
		{"a.csv", "1,2\n\"3,4\n", Options{}, `:2: column 1 is not quoted correctly`},
		{"a.csv", "1,2\n3,\"4\"5\n", Options{}, `:2: column 2 is not quoted correctly`},
		{"a.csv", "1\n2\n", Options{}, `:1: column 2 was requested, but there are 1: is "white space" the separator?`},
		{"a.csv", "1,2\n3,4\n", Options{Weight: "3"}, `:1: column 3 was requested, but there are 2`},
		{"a.csv", "1,2\n3,4\n", Options{From: "0"}, `:1: column 0 was requested`},
		{"a.csv", "u,v\n3,4\n", Options{From: "w"}, `:1: no column is called "w"`},
		{"a.csv", "1,2\n3,4\n", Options{From: "w", Header: HeaderNo}, `:1: column "w" was requested, but the columns have no names`},
		{"a.csv", "u,v\n3,4\n", Options{From: "2"}, `:1: From and To are one column, 2`},

		{"a.mtx", "", Options{}, `: the first line is not "%%MatrixMarket matrix coordinate FIELD SYMMETRY"`},
		{"a.mtx", "%%MatrixMarket matrix coordinate real\n", Options{}, `:1: the first line is not`},
		{"a.mtx", "%%MatrixMarket matrix array real general\n", Options{}, `:1: the matrix is "array"`},
		{"a.mtx", banner + "complex general\n", Options{}, `:1: entries are "complex"`},
		{"a.mtx", banner + "integer symmetric\n3 3 1\n1 2 5\n", Options{}, ":3: entry 1, 2 is above the diagonal"},
		{"a.mtx", banner + "real general\n3 3 1\n1 2 NaN\n", Options{}, `:3: weight "NaN" is not a number`},
		{"a.mtx", banner + "real hermitian\n", Options{}, `:1: the matrix is "hermitian"`},
		{"a.mtx", banner + "real skew-symmetric\n", Options{}, `:1: the matrix is "skew-symmetric"`},
		{"a.mtx", banner + "real general\n% c\n", Options{}, ":2: the line of sizes is missing"},
		{"a.mtx", banner + "real general\n3 3\n", Options{}, ":2: the line of sizes has 2 numbers"},
		{"a.mtx", banner + "real general\n3 4 1\n", Options{}, ":2: the matrix has 3 rows and 4 columns"},
		{"a.mtx", banner + "real general\nx 4 1\n", Options{}, `:2: "x" is not a number of rows`},
		{"a.mtx", banner + "real general\n4 -4 1\n", Options{}, `:2: "-4" is not a number of columns`},
		{"a.mtx", banner + "real general\n4 4 1.5\n", Options{}, `:2: "1.5" is not a number of entries`},
		{"a.mtx", banner + "real general\n999999999999 999999999999 0\n", Options{}, ":2: 999999999999 vertices, more than 268435456, the limit"},
		{"a.mtx", banner + "real general\n3 3 2\n1 2 1\n", Options{}, ":3: the file ends after 1 entries, but line 2 says 2"},
		{"a.mtx", banner + "real general\n3 3 1\n1 2 1\n1 3 1\n", Options{}, ":4: entry 2, but line 2 says 1"},
		{"a.mtx", banner + "pattern general\n3 3 1\n1 4\n", Options{}, ":3: column 4: vertices are 1 to 3"},
		{"a.mtx", banner + "pattern general\n3 3 1\n0 1\n", Options{}, ":3: row 0: vertices are 1 to 3"},
		{"a.mtx", banner + "pattern general\n3 3 1\n1\n", Options{}, ":3: a column is missing"},
		{"a.mtx", banner + "pattern general\n3 3 1\n1 2 3\n", Options{}, `:3: "3" after the entry`},
		{"a.mtx", banner + "real general\n3 3 1\n1 2\n", Options{}, `:3: weight "" is not a number`},
		{"a.mtx", banner + "real general\n3 3 1\n1 2 3 4\n", Options{}, `:3: "4" after the entry`},
		{"a.mtx", banner + "integer general\n3 3 1\n1 2 3.5\n", Options{}, `:3: value "3.5" is not an integer`},

		{"a.gr", "c x\n", Options{}, `:1: the line "p sp VERTICES ARCS" is missing`},
		{"a.gr", "a 1 2 3\n", Options{}, ":1: an arc before the line"},
		{"a.gr", "p sp 3 1\np sp 3 1\n", Options{}, `:2: a second line "p", after line 1`},
		{"a.gr", "p edge 3 1\n", Options{}, `:1: want "p sp VERTICES ARCS"`},
		{"a.gr", "p sp 3\n", Options{}, `:1: want "p sp VERTICES ARCS"`},
		{"a.gr", "p sp x 3\n", Options{}, `:1: "x" is not a number of vertices`},
		{"a.gr", "p sp 3 y\n", Options{}, `:1: "y" is not a number of arcs`},
		{"a.gr", "p sp 9 0\n", Options{MaxVertices: 8}, ":1: 9 vertices, more than 8, the limit"},
		{"a.gr", "p sp 3 2\na 1 2 3\n", Options{}, ":2: the file ends after 1 arcs, but line 1 says 2"},
		{"a.gr", "p sp 3 1\na 1 2 3\na 1 2 3\n", Options{}, ":3: arc 2, but line 1 says 1"},
		{"a.gr", "p sp 3 1\na 1 2\n", Options{}, `:2: want "a FROM TO WEIGHT"`},
		{"a.gr", "p sp 3 1\na 1 4 1\n", Options{}, ":2: vertex 4: vertices are 1 to 3"},
		{"a.gr", "p sp 3 1\na z 4 1\n", Options{}, `:2: vertex "z" is not a number`},
		{"a.gr", "p sp 3 1\na 1 2 q\n", Options{}, `:2: weight "q" is not a number`},
		{"a.gr", "p sp 3 1\na 1 2 1.5\n", Options{}, `:2: weight "1.5" is not an integer`},
		{"a.gr", "p sp 3 1\nx 1 2 1\n", Options{}, `:2: the line begins with "x"; want c, p or a`},

		{"a.graph", "% c\n", Options{}, ":1: the line of sizes is missing"},
		{"a.graph", "3\n", Options{}, ":1: the line of sizes has 1 numbers"},
		{"a.graph", "x 3\n", Options{}, `:1: "x" is not a number of vertices`},
		{"a.graph", "3 x\n", Options{}, `:1: "x" is not a number of edges`},
		{"a.graph", "3 1 2\n", Options{}, `:1: format "2"; want three digits, 0 or 1`},
		{"a.graph", "3 1 0111\n", Options{}, `:1: format "0111"`},
		{"a.graph", "3 1 011 x\n", Options{}, `:1: "x" is not a number of weights`},
		{"a.graph", "3 1 001 2\n", Options{}, `:1: 2 weights per vertex, but format "001" has none`},
		{"a.graph", "3 1\n2\n1\n", Options{}, ":3: the file ends after 2 vertices, but line 1 says 3"},
		{"a.graph", "2 1\n2\n1\n1\n", Options{}, ":4: a line after those of the 2 vertices"},
		{"a.graph", "2 2\n2\n1\n", Options{}, ":1: the line says 2 edges, but the vertices have 2 neighbors"},
		{"a.graph", "3 1\n2 3\n\n\n", Options{}, ":3: vertex 2 and smaller ones list different edges"},
		{"a.graph", "4 2\n2 3\n\n\n1 2\n", Options{}, ":3: vertex 2 and smaller ones list different edges"},
		{"a.graph", "2 1 1\n2 5\n1 7\n", Options{}, ":3: vertex 2 and smaller ones list different edges between them, or different weights"},
		{"a.graph", "2 1 1\n2 5\n% c\n1 7\n", Options{Unweighted: true}, ":4: vertex 2 and smaller"},
		{"a.graph", "2 1 1\n2 nan\n1 nan\n", Options{}, `:2: weight "nan" is not a number`},
		{"a.graph", "2 1\n3\n1\n", Options{}, ":2: neighbor 3: vertices are 1 to 2"},
		{"a.graph", "2 1\ny\n1\n", Options{}, `:2: neighbor "y" is not a number`},
		{"a.graph", "2 1\n1\n1\n", Options{}, ":2: vertex 1 is its own neighbor"},
		{"a.graph", "2 1 1\n2\n1 1\n", Options{}, ":2: the edge from 1 to 2 has no weight, which line 1 requires"},
		{"a.graph", "2 1 1\n2 x\n1 1\n", Options{}, `:2: weight "x" is not a number`},
		{"a.graph", "2 1 1\n2 0.5\n1 1\n", Options{}, `:2: weight "0.5" is not an integer`},
		{"a.graph", "2 1 10 2\n2 1\n", Options{}, ""},
		{"a.graph", "2 1 10\n\n1 1\n", Options{}, ":2: vertex 1 does not have the 1 sizes and weights of line 1"},
		{"a.graph", "2 1 10\nw\n1 1\n", Options{}, `:2: weight "w" is not a number`},

		{"a.wel", "1 2\n", Options{}, ":1: the line has no weight"},
		{"a.el", "1 x\n", Options{}, `:1: vertex "x" is not a 64-bit integer`},
		{"a.gz", "\x1f\x8b\x08\x00", Options{}, ": gzip: "},
		{"a.xz", "\xfd7zXZ\x00", Options{}, `: xz: it cannot be read; "xz -dc FILE"`},
		{"a.zst", "\x28\xb5\x2f\xfd\x00\x00\x00\x00\x00\x00", Options{}, ": zstd: this program has no codec"},
	} {
		f, err := Read(t.Context(), dev, strings.NewReader(tt.content), tt.file, &tt.opts)
		if err == nil {
			t.Errorf("%s %.60q: read as %.200s", tt.file, tt.content, say(f))
			continue
		}
		if !strings.Contains(err.Error(), tt.file+tt.want) {
			t.Errorf("%s %.60q:\n%v, want\n%s%s", tt.file, tt.content, err, tt.file, tt.want)
		}
		if at := (*Error)(nil); !errors.As(err, &at) || at.File != tt.file || !errors.Is(err, weft.ErrFormat) && !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%s %.60q: %#v", tt.file, tt.content, err)
		}
	}
}

// TestReaders checks that an error of the stream, and an ended context, end Read with that error.
func TestReaders(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	if _, err := Read(t.Context(), dev, io.MultiReader(strings.NewReader("1 2\n"), iotest.ErrReader(io.ErrClosedPipe)), "x.txt", nil); !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "x.txt:2: ") {
		t.Errorf("broken stream: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, dev, strings.NewReader("1 2\n"), "x.txt", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Open(t.Context(), dev, filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, o := range []Options{{MaxVertices: -1}, {MaxVertices: 1 << 40}, {Format: 99}} {
		if _, err := Read(t.Context(), dev, strings.NewReader("1 2\n"), "x.txt", &o); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	read := 0
	content := strings.Repeat("1 2\n2 3\n", 50_000)
	if _, err := Read(t.Context(), dev, strings.NewReader(content), "x.txt", &Options{Progress: func(n int) { read += n }}); err != nil || read != len(content) {
		t.Errorf("%d bytes of %d, %v", read, len(content), err)
	}
}

// TestBatches reads long lists, which are mapped in many batches, and strings with equal hashes.
func TestBatches(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const n = 3*batchEdges + 17
	for _, prefix := range []string{"", "v"} {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, "%s%d %s%d\n", prefix, i*7919%100_003*3, prefix, (i+1)*7919%100_003*3)
		}
		f, err := Read(t.Context(), dev, &b, "x.txt", &Options{Header: HeaderNo})
		if err != nil {
			t.Fatal(err)
		}
		if f.Vertices != 100_003 || len(f.From) != n {
			t.Fatalf("%d vertices, %d edges", f.Vertices, len(f.From))
		}
		for i := range n {
			from, to := f.Names.Name(f.From[i]), f.Names.Name(f.To[i])
			if from != fmt.Sprint(prefix, i*7919%100_003*3) || to != fmt.Sprint(prefix, (i+1)*7919%100_003*3) {
				t.Fatalf("edge %d: %s to %s", i, from, to)
			}
		}
	}
}

// TestBoundedMemory checks that reading allocates only a buffer and a batch.
func TestBoundedMemory(t *testing.T) {
	const lines = 2*batchEdges + 1
	s := newScanner(t.Context(), strings.NewReader(strings.Repeat("anna bert\n", lines)))
	strung, err := newStringIDs(devicetest.OpenCPU(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	numbered, err := newSparseIDs(devicetest.OpenCPU(t, 2), true)
	if err != nil {
		t.Fatal(err)
	}
	e := &edges{ctx: t.Context(), file: &File{}, max: 100}
	for line, ok := s.next(); ok; line, ok = s.next() {
		from, to := word(line)
		if err := strung.add(e, s.line, from, to[1:]); err != nil {
			t.Fatal(err)
		}
		if err := numbered.add(e, s.line, []byte("7"), []byte("8")); err != nil {
			t.Fatal(err)
		}
	}
	if s.line != lines || len(s.buf) > headSize || len(strung.lines) != 1 || len(numbered.lines) != 1 {
		t.Errorf("%d lines, a buffer of %d bytes, %d and %d edges wait", s.line, len(s.buf), len(strung.lines), len(numbered.lines))
	}
	for i := 0; i < 2*batchBytes; i += maxLine {
		if err := strung.add(e, 1, bytes.Repeat([]byte{'x'}, maxLine), []byte("y")); err != nil {
			t.Fatal(err)
		}
	}
	if len(strung.bytes) > batchBytes {
		t.Errorf("%d bytes wait", len(strung.bytes))
	}
	if err := errors.Join(strung.close(), numbered.close()); err != nil {
		t.Error(err)
	}
}

// TestHashesThatClash checks that different strings with equal hashes are different vertices.
func TestHashesThatClash(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	ids, err := newStringIDs(dev)
	if err != nil {
		t.Fatal(err)
	}
	ids.hash = func(b []byte) uint64 { return uint64(len(b)) }
	e := &edges{ctx: t.Context(), dev: dev, file: &File{}, ids: ids, max: 100}
	defer e.close()
	for range 2 {
		for _, x := range [][2]string{{"a", "b"}, {"c", "aa"}, {"bb", "a"}, {"b", "aa"}} {
			if err := ids.add(e, 1, []byte(x[0]), []byte(x[1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := ids.flush(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := ids.finish(e, -1); err != nil {
		t.Fatal(err)
	}
	if want := "5: a-b c-aa bb-a b-aa a-b c-aa bb-a b-aa"; say(e.file) != want {
		t.Errorf("%s, want %s", say(e.file), want)
	}
}

func TestFormats(t *testing.T) {
	for name, want := range map[string]Format{
		"a.mtx": MatrixMarket, "dir.gr/a.txt.gz": EdgeList, "A.CSV": CSV, "x.gr.zst": DIMACS, "x.GRAPH.GZ": METIS, "x": Auto, ".gz": Auto, "x.doc": Auto, "a.wel": WEL, "a.el": EL, "a.tsv": CSV,
	} {
		if got := FormatOf(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, x := range formats {
		if got, err := ParseFormat(x.format.String()); err != nil || got != x.format {
			t.Errorf("%v is parsed as %v, %v", x.format, got, err)
		}
	}
	if _, err := ParseFormat("doc"); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), `"doc": want auto, mtx, txt, csv, gr, graph, el, wel, adjlist`) {
		t.Error(err)
	}
	if f, err := ParseFormat("auto"); err != nil || f != Auto || Auto.String() != "auto" {
		t.Error(f, err)
	}
	if !slices.IsSorted([]Format{Auto, MatrixMarket, AdjList}) {
		t.Error("Write takes MatrixMarket for the first format, and AdjList for the last")
	}
}
