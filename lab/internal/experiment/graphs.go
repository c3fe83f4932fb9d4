package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/gen"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// GraphShape describes the graph of a row.
type GraphShape struct {
	Name     string  `json:"name"`
	Vertices int     `json:"vertices"`
	Edges    int     `json:"edges"` // number of undirected edges
	Degrees  Degrees `json:"degrees"`
	// Like is the published graph that a generated graph is modeled on. LikeDegrees are its
	// degrees.
	Like        string   `json:"like,omitempty"`
	LikeDegrees *Degrees `json:"like_degrees,omitempty"`
}

// Degrees are statistics of the vertex degrees of a graph.
type Degrees struct {
	Min   int     `json:"min"`
	Max   int     `json:"max"`
	Mean  float64 `json:"mean"`
	Sigma float64 `json:"sigma"`
}

// dataset generates a graph of about n vertices.
type dataset struct {
	name    string
	like    string
	degrees Degrees // from table 5.1
	shrink  int     // divides the number of vertices, for graphs that have many edges per vertex
	make    func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error)
}

// datasets are generated graphs with parameters from table 5.1 of Awad's thesis.
var datasets = []dataset{
	{"roads", "road_usa", Degrees{1, 9, 2.4, .85}, 1, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.Roads(ctx, dev, gen.RoadsOptions{Vertices: n, Seed: seed})
	}},
	{"rmat", "soc-LiveJournal1", Degrees{0, 20_000, 17.2, 50.65}, 1, rmatOf(8.6)},
	{"delaunay", "delaunay_n20", Degrees{3, 23, 6, 1.33}, 1, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.Delaunay(ctx, dev, gen.DelaunayOptions{Vertices: n, Seed: seed})
	}},
	{"geometric", "rgg_n_2_20_s0", Degrees{0, 36, 13.1, 3.62}, 1, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.Geometric(ctx, dev, gen.GeometricOptions{Vertices: n, Seed: seed})
	}},
	{"authors", "coAuthorsDBLP", Degrees{1, 336, 6.4, 9.8}, 1, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.Cliques(ctx, dev, gen.CliquesOptions{Vertices: n, Seed: seed})
	}},
	{"actors", "hollywood-2009", Degrees{0, 11_000, 98.9, 271.7}, 4, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.Cliques(ctx, dev, gen.CliquesOptions{Vertices: n, MinSize: 10, MaxSize: 100, Degree: 98.9, Top: 110, Seed: seed})
	}},
	{"kronecker", "soc-orkut", Degrees{1, 27_000, 70.9, 139.72}, 4, func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		power := 1
		for size := 9; size <= n; size *= 3 {
			power++
		}
		return gen.Kronecker(ctx, dev, gen.KroneckerOptions{Initiator: initiator, Power: power, EdgeFactor: 35.8, Permute: true, Seed: seed})
	}},
}

// initiator gives a Kronecker graph the degrees of soc-orkut.
var initiator = []float64{.3, .12, .1, .12, .1, .06, .1, .06, .04}

// rmatOf returns a function that generates R-MAT graphs with the given number of edges per vertex.
func rmatOf(factor float64) func(context.Context, device.Device, int, uint64) (graph.Edges, error) {
	return func(ctx context.Context, dev device.Device, n int, seed uint64) (graph.Edges, error) {
		return gen.RMAT(ctx, dev, gen.RMATOptions{Scale: bits.Len(uint(n)) - 1, EdgeFactor: factor, Permute: true, Seed: seed})
	}
}

// generated is a note on graphs, for the texts of graph experiments.
const generated = ` Graphs are generated, with parameters of table 5.1 of Awad's thesis (whose degrees stand beside, in the JSON, with those of ours), of 2^20 vertices
(2^16 on a CPU; as many as --n says), actors and kronecker of a quarter; --quick has the first two. Both layouts are measured where a row says which: graph is that of package graph, sorted rows, and slab-graph the thesis' own, a hash table for each vertex. Results are of generated graphs with such parameters, not of those graphs. --graph adds graphs of files. `

// graphTrial measures one graph.
type graphTrial struct {
	*runner
	cpu   device.Host // generates graphs and computes reference results
	name  string
	edges graph.Edges
	csr   *graph.CSR // undirected and simple
	from  []uint32   // source of each arc of csr
	shape *GraphShape
}

func (r *runner) eachGraph(ctx context.Context, measure func(t *graphTrial) error) error {
	sets := datasets
	if r.Scale == Quick {
		sets = sets[:2]
	}
	return r.onGraphs(ctx, sets, measure)
}

func (r *runner) onGraphs(ctx context.Context, sets []dataset, measure func(t *graphTrial) error) (err error) {
	n, err := r.keys(1<<16, 1<<20, 1<<11)
	if err != nil {
		return err
	}
	if err := r.limits(ctx, regionOf(n<<7), roofline.CAS64, roofline.Read64, roofline.Copy); err != nil {
		return err
	}
	r.result.Limits["arcs_4"] = r.result.Limits[roofline.Copy] / 4 // each arc is read once
	// Copying an arc reads and writes 4 bytes. Sorting an arc of a list into rows reads 8 bytes and
	// writes 4.
	r.result.Limits["arcs_8"], r.result.Limits["arcs_12"] = r.result.Limits[roofline.Copy]/8, r.result.Limits[roofline.Copy]/12
	r.result.Parameters["vertices"] = n
	host, isHost := r.Device.(device.Host)
	if !isHost {
		if host, err = cpu.Open(nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, host.Close()) }()
	}
	if sets, err = r.asked(sets); err != nil {
		return err
	}
	for _, set := range sets {
		t := &graphTrial{runner: r, cpu: host, name: set.name}
		r.step("%s: generating %s", r.result.Experiment, t.name)
		if t.edges, err = set.make(ctx, host, max(16, n/set.shrink), r.Seed); err == nil {
			err = t.measure(ctx, set, measure)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, file := range r.Graphs {
		t := &graphTrial{runner: r, cpu: host, name: filepath.Base(file)}
		r.step("%s: reading %s", r.result.Experiment, t.name)
		f, err := load.Open(ctx, host, file, &load.Options{Unweighted: true})
		if err != nil {
			return err
		}
		t.edges = f.Edges
		if err := t.measure(ctx, dataset{name: t.name}, measure); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// asked returns the generated graphs that the user has selected.
func (r *runner) asked(sets []dataset) (chosen []dataset, err error) {
	var names []string
	for _, set := range sets {
		names = append(names, set.name)
		if len(r.Only) == 0 || slices.Contains(r.Only, set.name) {
			chosen = append(chosen, set)
		}
	}
	if len(chosen) == 0 && len(r.Graphs) == 0 {
		return nil, fmt.Errorf("%w: %s has no graph %s; there are %s", device.ErrInvalid, r.result.Experiment, strings.Join(r.Only, ", "), strings.Join(names, ", "))
	}
	return chosen, nil
}

func (t *graphTrial) measure(ctx context.Context, set dataset, measure func(t *graphTrial) error) (err error) {
	if t.csr, err = graph.Build(ctx, t.cpu, t.edges, nil); err != nil {
		return err
	}
	d, err := t.csr.Degrees(ctx, t.cpu)
	if err != nil {
		return err
	}
	t.shape = &GraphShape{Name: t.name, Vertices: t.csr.Vertices(), Edges: t.csr.Edges(), Degrees: Degrees{d.Min, d.Max, d.Mean, d.Sigma}, Like: set.like}
	if set.like != "" {
		t.shape.LikeDegrees = &set.degrees
	}
	if t.csr.Arcs() == 0 {
		return fmt.Errorf("%w: the graph has no edges", device.ErrInvalid)
	}
	t.from = make([]uint32, 0, t.csr.Arcs())
	for u := range t.csr.All() {
		t.from = append(t.from, u)
	}
	return measure(t)
}

func (t *graphTrial) load(ctx context.Context, directed bool) (rowGraph, error) {
	g, err := t.empty(directed)
	if err != nil {
		return g, err
	}
	if _, err = g.InsertCSR(ctx, t.csr); err != nil {
		return g, errors.Join(err, g.Close())
	}
	return g, nil
}

func (t *graphTrial) empty(directed bool) (rowGraph, error) {
	g, err := graph.New(t.Device, &graph.Options{Directed: directed, MaxVertices: t.csr.Vertices()})
	return rowGraph{g}, err
}

func (t *graphTrial) pick(stream, i, n int) int {
	hi, _ := bits.Mul64(workload.Random(t.Seed+uint64(stream)*0x9e3779b97f4a7c15, uint64(i)), uint64(n))
	return int(hi)
}

// random returns n edges between random vertices.
func (t *graphTrial) random(n int) (e graph.Edges) {
	for i := range n {
		e.From, e.To = append(e.From, uint32(t.pick(1, i, t.csr.Vertices()))), append(e.To, uint32(t.pick(2, i, t.csr.Vertices())))
	}
	return e
}

// present returns n random arcs of the graph. An arc may occur several times.
func (t *graphTrial) present(n int) (e graph.Edges) {
	for i := range n {
		at := t.pick(3, i, t.csr.Arcs())
		e.From, e.To = append(e.From, t.from[at]), append(e.To, t.csr.Targets()[at])
	}
	return e
}

// shuffled returns all arcs in random order.
func (t *graphTrial) shuffled() graph.Edges {
	n, targets := t.csr.Arcs(), t.csr.Targets()
	order := workload.NewPermutation(uint64(n), t.Seed+9)
	e := graph.Edges{From: make([]uint32, n), To: make([]uint32, n)}
	t.cpu.Parallel(n, 1<<12, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at := order.At(uint64(i))
			e.From[i], e.To[i] = t.from[at], targets[at]
		}
	})
	return e
}

func (t *graphTrial) report(op string, n int, elapsed time.Duration, limit string, row Row) {
	if row.Structure == "" {
		row.Structure = "graph"
	}
	row.Op, row.N, row.Limit, row.Graph, row.KeyBits = op, n, limit, t.shape, 32
	row.Seconds, row.OpsPerS = elapsed.Seconds(), roofline.Rate(n, elapsed)
	t.add(row)
}

// clock calls a function several times and returns the median time. It runs prepare untimed before
// each call.
func (t *graphTrial) clock(ctx context.Context, prepare, call func() error) (time.Duration, error) {
	return t.repeat(ctx, t.Runs, func() (time.Duration, error) {
		if err := prepare(); err != nil {
			return 0, err
		}
		start := time.Now()
		err := call()
		return time.Since(start), err
	})
}

// batches returns batch sizes: powers of two from 2^first to 2^last, with a constant factor between
// them. Both limits are lower if 2^last exceeds most.
func (t *graphTrial) batches(first, last, most int) (sizes []int) {
	step := map[Scale]int{Quick: 3, Default: 2, Full: 1}[t.Scale]
	for last > 3 && 1<<last > most {
		first, last = max(first-1, 2), last-1
	}
	for shift := first; shift <= last; shift += step {
		sizes = append(sizes, 1<<shift)
	}
	return sizes
}

func counted(g interface{ Edges() int }, what string, want int) error {
	if got := g.Edges(); got != want {
		return fmt.Errorf("%w: %d edges %s, want %d", errWrong, got, what, want)
	}
	return nil
}
