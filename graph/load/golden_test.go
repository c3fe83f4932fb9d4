package load_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/graph/load"
)

// counts holds the known counts of the simple undirected graph in a file.
type counts struct {
	file                               string
	vertices, edges, most              int // vertices with an edge, edges, and the largest degree
	triangles                          uint64
	format                             load.Format
	header, weighted, directed, others bool // others: whether the file has vertices without edges
}

// golden has the counts from the files' README.md. SNAP published the counts of its own files.
var golden = []counts{
	{"soc-Epinions.txt", 75_879, 405_740, 3_044, 1_624_481, load.EdgeList, true, false, false, false},
	{"git_edges.csv", 37_700, 289_003, 9_458, 523_810, load.CSV, true, false, false, false},
	{"MIT8.edgelist", 6_440, 251_252, 708, 2_370_587, load.EdgeList, false, false, false, false},
	{"ca-AstroPh.txt", 18_771, 198_050, 504, 1_351_441, load.EdgeList, true, false, false, true},
	{"email-Enron.txt", 36_692, 183_831, 1_383, 727_044, load.EdgeList, true, false, false, false},
	{"rgg_n_2_15_s0.graph", 32_768, 160_240, 24, 307_546, load.METIS, false, false, false, true},
	{"wiki-Vote.txt", 7_115, 100_762, 1_065, 608_389, load.EdgeList, false, false, false, false},
	{"delaunay_n15.graph", 32_768, 98_274, 18, 65_872, load.METIS, false, false, false, false},
	{"ego-facebook.txt", 4_039, 88_234, 1_045, 1_612_010, load.EdgeList, true, false, false, false},
	{"4elt.graph", 15_606, 45_878, 10, 30_269, load.METIS, false, false, false, false},
	{"email-Eu-core.csv", 986, 16_064, 345, 105_461, load.CSV, false, true, false, true},
	{"rome99.gr", 3_353, 4_831, -1, 0, load.DIMACS, false, true, true, false},
}

// check compares a file with its known counts.
func (c *counts) check(t *testing.T, dev *cpu.Device, path string) {
	f, err := load.Open(t.Context(), dev, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Format != c.format || f.Header != c.header || (f.Weights != nil) != c.weighted || f.Directed != c.directed {
		t.Errorf("format %v, header %v, weights %v, directed %v", f.Format, f.Header, f.Weights != nil, f.Directed)
	}
	g, err := graph.Build(t.Context(), dev, f.Edges, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := g.Degrees(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	vertices := g.Vertices()
	if c.others && c.format != load.METIS {
		vertices -= d.Isolated
	}
	if vertices != c.vertices || g.Edges() != c.edges || c.most >= 0 && d.Max != c.most {
		t.Errorf("%d vertices, %d edges, degrees up to %d; want %d, %d, %d", vertices, g.Edges(), d.Max, c.vertices, c.edges, c.most)
	}
	if !c.others && d.Isolated != 0 {
		t.Errorf("%d vertices without edges", d.Isolated)
	}
	triangles, err := algo.Triangles(t.Context(), dev, g)
	if err != nil || c.most >= 0 && triangles != c.triangles {
		t.Errorf("%d triangles, %v; want %d", triangles, err, c.triangles)
	}
	compute := devicetest.Open(t)
	if compute.Properties().Kind == device.CPU {
		if testing.Short() || c.edges > interpreted {
			return
		}
		compute = devicetest.OpenSim(t, nil)
	}
	if n, err := algo.Triangles(t.Context(), compute, g); err != nil || n != triangles {
		t.Errorf("%d triangles on a GPU, %v; want %d", n, err, triangles)
	}
}

// interpreted is the maximum number of edges of the graphs for which triangles are also counted on
// a simulated GPU.
const interpreted = 50_000

// TestGolden checks the counts of real graphs in all formats.
func TestGolden(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "graphs")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the folder shared/data/graphs is not beside the repository")
	}
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, c := range golden {
		t.Run(c.file, func(t *testing.T) { c.check(t, dev, filepath.Join(dir, c.file)) })
	}
}

// TestKarate checks the well-known karate club graph.
func TestKarate(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	karate := counts{"karate.txt", 34, 78, 17, 45, load.EdgeList, false, false, false, false}
	path := filepath.Join("testdata", karate.file)
	karate.check(t, dev, path)

	f, err := load.Open(t.Context(), dev, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.Build(t.Context(), dev, f.Edges, nil)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint32, g.Vertices())
	master, ok := f.Names.Vertex("1")
	levels, err := algo.BFS(t.Context(), dev, g, master, words)
	if want := []int{1, 16, 9, 8}; !ok || err != nil || !slices.Equal(levels, want) {
		t.Errorf("from the master %v, %v; want %v", levels, err, want)
	}
	if core, err := algo.KCore(t.Context(), dev, g, words); err != nil || core != 4 {
		t.Errorf("the largest core is %d, %v; want 4", core, err)
	}
	if n, err := algo.Components(t.Context(), dev, g, words); err != nil || n != 1 {
		t.Errorf("%d components, %v", n, err)
	}
}
