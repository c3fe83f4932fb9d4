package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// random returns a random graph as a file. Each vertex has an edge, unless simple is set.
func random(r *rand.Rand, weighted, integral, directed, strings, simple bool) *File {
	n := 2 + r.IntN(30)
	f := &File{Edges: graph.Edges{Vertices: n}, Integral: weighted && integral, Directed: directed}
	add := func(u, v int) {
		if simple && u == v {
			return
		}
		if simple && u > v {
			u, v = v, u
		}
		f.From, f.To = append(f.From, uint32(u)), append(f.To, uint32(v))
		switch {
		case integral && weighted:
			f.Weights = append(f.Weights, float64(r.IntN(1000)))
		case weighted:
			f.Weights = append(f.Weights, r.NormFloat64())
		}
	}
	if simple {
		for v := range n {
			for u := range v {
				if r.IntN(4) == 0 {
					add(u, v)
				}
			}
		}
	} else {
		for v := range n {
			add(v, r.IntN(n))
		}
		for range r.IntN(60) {
			add(r.IntN(n), r.IntN(n))
		}
	}
	f.Names = &Names{n: n}
	if strings {
		f.Names.strings = make([]string, n)
		for v := range n {
			f.Names.strings[v] = fmt.Sprint("v", v*7)
		}
	}
	return f
}

// listed returns the edges of a file in sorted order.
func listed(f *File) []string {
	var list []string
	for i := range f.From {
		u, v := f.Names.Name(f.From[i]), f.Names.Name(f.To[i])
		if !f.Directed && u > v {
			u, v = v, u
		}
		line := u + " " + v
		if f.Weights != nil {
			line += fmt.Sprint(" ", f.Weights[i])
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// TestRoundTrip checks that reading a written graph returns the same graph.
func TestRoundTrip(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	r := rand.New(rand.NewPCG(3, 3))
	dir := t.TempDir()
	for _, tt := range []struct {
		name                      string
		weighted, reals, directed bool
		strings, simple           bool
	}{
		{"a.mtx", false, false, true, false, false}, {"b.mtx", true, false, true, false, false}, {"c.mtx", true, true, false, false, false}, {"d.mtx.gz", false, false, false, false, false},
		{"a.txt", false, false, false, false, false}, {"b.txt.gz", true, false, false, false, false}, {"c.txt.mirror", true, true, false, true, false},
		{"a.csv", false, false, false, false, false}, {"b.csv", true, true, false, true, false}, {"c.csv.mirror", true, false, false, false, false},
		{"a.gr", true, false, true, false, false}, {"b.gr.gz", true, false, true, false, false},
		{"a.graph", false, false, false, false, true}, {"b.graph.gz", true, false, false, false, true},
		{"a.el", false, false, false, false, false}, {"a.wel", true, true, false, false, false},
	} {
		for range 8 {
			f := random(r, tt.weighted, !tt.reals, tt.directed, tt.strings, tt.simple)
			path := filepath.Join(dir, tt.name)
			if err := Create(t.Context(), dev, path, f, Auto); err != nil {
				t.Fatal(err)
			}
			got, err := Open(t.Context(), dev, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if format := FormatOf(tt.name); format == MatrixMarket || format == DIMACS || format == METIS {
				f.Names = &Names{n: f.Vertices, base: 1} // the format numbers vertices from 1
			}
			if got.Vertices != f.Vertices || got.Directed != f.Directed || got.Integral != f.Integral || !slices.Equal(listed(got), listed(f)) {
				content, _ := os.ReadFile(path)
				t.Fatalf("%s: %d vertices, directed %v, integral %v, %q; want %d, %v, %v, %q: %.300q",
					tt.name, got.Vertices, got.Directed, got.Integral, listed(got), f.Vertices, f.Directed, f.Integral, listed(f), content)
			}
			if format := FormatOf(tt.name); format != METIS && format != MatrixMarket && !tt.strings && !slices.Equal(got.From, f.From) {
				t.Fatalf("%s: edges come in another order", tt.name)
			}
		}
	}
}

// TestWrite compares output with expected text, for content that formats express in different ways.
func TestWrite(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	names := &Names{n: 4, strings: []string{"a", "b c", `"`, "#x"}}
	f := func(weights []float64, directed bool, n *Names) *File {
		return &File{Edges: graph.Edges{Vertices: 4, From: []uint32{0, 2, 1, 0}, To: []uint32{1, 2, 0, 3}}, Weights: weights, Integral: weights != nil && weights[0] == 5, Directed: directed, Names: n}
	}
	for _, tt := range []struct {
		file   *File
		format Format
		want   string
	}{
		{f(nil, false, nil), MatrixMarket, "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 4\n2 1\n3 3\n2 1\n4 1\n"},
		{f([]float64{.5, 1, 2, 3}, true, nil), MatrixMarket, "%%MatrixMarket matrix coordinate real general\n4 4 4\n1 2 0.5\n3 3 1\n2 1 2\n1 4 3\n"},
		{f([]float64{5, 1, 2, 3}, false, nil), EdgeList, "# Nodes: 4 Edges: 4\n0\t1\t5\n2\t2\t1\n1\t0\t2\n0\t3\t3\n"},
		{f(nil, false, names), CSV, "source,target\na,\"b c\"\n\"\"\"\",\"\"\"\"\n\"b c\",a\na,\"#x\"\n"},
		{f([]float64{.5, 1, 2, 3}, false, nil), CSV, "source,target,weight\n0,1,0.5\n2,2,1\n1,0,2\n0,3,3\n"},
		{f(nil, false, nil), DIMACS, "p sp 4 7\na 1 2 1\na 2 1 1\na 3 3 1\na 2 1 1\na 1 2 1\na 1 4 1\na 4 1 1\n"},
		{f([]float64{5, 1, 2, 3}, true, nil), DIMACS, "p sp 4 4\na 1 2 5\na 3 3 1\na 2 1 2\na 1 4 3\n"},
		{f(nil, false, nil), METIS, "4 2\n2 4\n1\n\n1\n"},
		{f([]float64{5, 1, 5, 3}, false, nil), METIS, "4 2 1\n2 5 4 3\n1 5\n\n1 3\n"},
		{f(nil, false, names), EL, "0 1\n2 2\n1 0\n0 3\n"},
		{f(nil, false, names), WEL, "0 1 1\n2 2 1\n1 0 1\n0 3 1\n"},
	} {
		var b bytes.Buffer
		if err := Write(t.Context(), dev, &b, tt.file, tt.format); err != nil || b.String() != tt.want {
			t.Errorf("%v: %q, %v; want %q", tt.format, b.String(), err, tt.want)
		}
	}
}

// TestRefused checks that content that a format cannot express is an error, before a file is
// created.
func TestRefused(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	f := &File{Edges: graph.Edges{Vertices: 2, From: []uint32{0}, To: []uint32{1}}, Weights: []float64{.5}, Names: &Names{n: 2, strings: []string{"a b", "c\n"}}}
	directed := *f
	directed.Directed, directed.Weights = true, nil
	for _, tt := range []struct {
		name   string
		file   *File
		format Format
		want   string
	}{
		{"a.gr", f, Auto, "weights of .gr are integers"},
		{"a.graph", f, Auto, "weights of .graph are integers"},
		{"a.graph.gz", &directed, Auto, "graphs of .graph are undirected"},
		{"a.txt", f, Auto, `vertex "a b" is not a word`},
		{"a.csv", f, Auto, `vertex "c\n" has an end of line in it`},
		{"a.el", f, Auto, ".el files have no weights; write .wel"},
		{"a.adjlist", &directed, Auto, "adjacency lists can be read but not written"},
		{"a.doc", f, Auto, "the name does not show a known format"},
		{"a.doc", f, 77, "format 77"},
	} {
		path := filepath.Join(t.TempDir(), tt.name)
		if err := Create(t.Context(), dev, path, tt.file, tt.format); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", tt.name, err)
		}
	}
	equal := &File{Edges: graph.Edges{Vertices: 2, From: []uint32{0, 1}, To: []uint32{1, 0}}, Weights: []float64{5, 7}, Integral: true}
	if err := Write(t.Context(), dev, io.Discard, equal, METIS); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "the edge from 1 to 2 has weights 5 and 7") {
		t.Errorf("several weights: %v", err)
	}
	unweighted := *f
	unweighted.Weights = nil
	f = &unweighted
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "a.el")
	if err := Create(ctx, dev, path, f, Auto); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was cancelled is there: %v", err)
	}
	// An existing file is kept, and no other file remains.
	if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(ctx, dev, path, f, Auto); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if content, _ := os.ReadFile(path); string(content) != "what was there" || len(names) != 1 || err != nil {
		t.Errorf("there are %v, %v, with %q", names, err, content)
	}
	if err := Create(t.Context(), dev, path, f, Auto); err != nil {
		t.Error(err)
	}
	if content, _ := os.ReadFile(path); string(content) != "0 1\n" {
		t.Errorf("it has %q", content)
	}
	if err := Create(t.Context(), dev, os.DevNull, f, EL); err != nil {
		t.Error(err)
	}
	if err := Create(t.Context(), dev, filepath.Join(t.TempDir(), "none", "x.el"), f, Auto); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
