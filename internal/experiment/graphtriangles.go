package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// Tables 5.7 and 5.8, in milliseconds, of the thesis' hash tables and of sorting rows with CUB.
var (
	published57 = map[string]float64{"road_usa": 66.2, "delaunay_n20": 6.43, "rgg_n_2_20_s0": 23.24, "coAuthorsDBLP": 6.98, "soc-LiveJournal1": 1526, "hollywood-2009": 11060}
	published58 = map[string]float64{"road_usa": 10875, "delaunay_n20": 503.29, "rgg_n_2_20_s0": 496.85, "coAuthorsDBLP": 136.89, "soc-LiveJournal1": 2226, "hollywood-2009": 540.3}
)

var graphTrianglesExperiment = Experiment{
	Name:  "graph-triangles",
	Title: "Triangles, counted at once and while edges come",
	Doc: `After tables 5.7 to 5.9 and figure 5.3 of Awad's thesis: the triangles of undirected graphs are counted (triangles, with the oriented view built inside; oriented is that alone, in the
place of the sort that structures of lists need in table 5.8); and, of slab-graph, by looking edges up in hash tables, as in the thesis. Then five batches of 2^20 random edges (2^12 on a CPU, a quarter of the graph's at most) come: insert is their insertion, triangles_follow counts the triangles of
each batch's edges, triangles_anew those of the whole graph, which has to be exported and counted; speedup is the one over the other. Rates are in edges: of the graph, and of the batches. For figure 5.3 there are R-MAT graphs by
degree; rows that are sorted have no load factor to vary.` + generated + `
On a GPU the graph and the edges of a batch lie in its memory, and views, triangles and those of batches are computed there, of the graph that changes without an export, and of those edges of which their insertion told there that they came. The limit is reading and writing 4 bytes for each edge. The parameters have the milliseconds that the thesis published for graphs of table 5.1, which are larger.`,
	run: func(ctx context.Context, r *runner) error {
		r.result.Parameters["published_milliseconds"] = published57
		r.result.Parameters["published_sort_milliseconds"] = published58
		sets := slices.Clone(datasets)
		for _, degree := range []int{4, 16, 32} {
			sets = append(sets, dataset{name: fmt.Sprintf("rmat_%d", degree), shrink: 1, make: rmatOf(float64(degree) / 2)})
		}
		if r.Scale == Quick {
			sets = sets[:2]
		}
		return r.onGraphs(ctx, sets, func(t *graphTrial) error { return t.triangles(ctx) })
	},
	plots: func(res *Result) []Plot {
		p := Plot{Name: "graph-fig5.3", Title: "Triangles of R-MAT graphs by degree", XLabel: "mean degree", YLabel: "edges per second", LogX: true, LogY: true}
		for _, row := range res.Rows {
			if row.Op == "triangles" && row.Graph.Like == "" {
				p.point("rmat, "+row.Structure, row.Graph.Degrees.Mean, row.OpsPerS)
			}
		}
		return drawn(p)
	},
}

// insertedTimes is how many batches come.
const insertedTimes = 5

func (t *graphTrial) triangles(ctx context.Context) error {
	t.step("graph-triangles: %s", t.name)
	count, err := t.counted(ctx)
	if err != nil {
		return err
	}
	t.result.Parameters["triangles_"+t.name] = count
	if err := t.probes(ctx, count); err != nil {
		return err
	}
	return t.following(ctx, count)
}

// counted counts them, on the device, where the graph lies.
func (t *graphTrial) counted(ctx context.Context) (count uint64, err error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	there, err := t.csr.Upload(s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, there.Free()) }()
	var view *graph.DeviceCSR
	took, err := t.clock(ctx, func() error {
		if view == nil {
			return nil
		}
		return view.Free()
	}, func() (err error) {
		view, err = there.Oriented(ctx, s)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := view.Free(); err != nil {
		return 0, err
	}
	t.report("oriented", t.csr.Edges(), took, "arcs_8", Row{Structure: "csr"})
	took, err = t.clock(ctx, func() error { return nil }, func() (err error) {
		count, err = algo.TrianglesOn(ctx, s, there)
		return err
	})
	if err == nil {
		t.report("triangles", t.csr.Edges(), took, "arcs_8", Row{Structure: "csr"})
	}
	return count, err
}

// probes counts them by looking edges up in hash tables, once.
func (t *graphTrial) probes(ctx context.Context, want uint64) (err error) {
	g, err := t.tables(false, 0, slabLayout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := t.fill(ctx, g); err != nil {
		return err
	}
	start := time.Now()
	count, err := g.Triangles(ctx)
	took := time.Since(start)
	if err == nil && count != want {
		err = fmt.Errorf("%w: %d triangles by lookups, want %d", errWrong, count, want)
	}
	if err == nil {
		t.report("triangles", t.csr.Edges(), took, "arcs_8", Row{Structure: slabLayout})
	}
	return err
}

// following inserts batches, and counts the triangles behind each in two ways.
func (t *graphTrial) following(ctx context.Context, count uint64) (err error) {
	g, err := t.load(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	size := max(1, min(t.size(1<<12, 1<<20), t.csr.Edges()/4))
	all := t.random(insertedTimes * size)
	var insert, follow, anew time.Duration
	for i := range insertedTimes {
		inserted, followed, more, err := t.batch(ctx, g.Graph, graph.Edges{From: all.From[i*size : (i+1)*size], To: all.To[i*size : (i+1)*size]})
		if err != nil {
			return err
		}
		insert, follow, count = insert+inserted, follow+followed, count+more
		start := time.Now()
		whole, err := t.anew(ctx, g.Graph)
		if err != nil {
			return err
		}
		anew += time.Since(start)
		if whole != count {
			return fmt.Errorf("%w: %d triangles behind batch %d, want %d", errWrong, count, i, whole)
		}
	}
	t.report("insert", insertedTimes*size, insert, "arcs_8", Row{Batch: size})
	t.report("triangles_follow", insertedTimes*size, follow, "arcs_8", Row{Batch: size, Speedup: figure(anew.Seconds() / follow.Seconds())})
	t.report("triangles_anew", insertedTimes*size, anew, "arcs_8", Row{Batch: size})
	return nil
}

// batch inserts edges, and counts the triangles that come with them: on a GPU, of edges that lie there.
func (t *graphTrial) batch(ctx context.Context, g *graph.Graph, e graph.Edges) (insert, follow time.Duration, more uint64, err error) {
	if _, ok := t.Device.(device.Host); !ok {
		return t.batchOn(ctx, g, e)
	}
	done := make([]bool, len(e.From))
	start := time.Now()
	if _, err := g.Insert(ctx, e.From, e.To, done); err != nil {
		return 0, 0, 0, err
	}
	insert, start = time.Since(start), time.Now()
	more, err = algo.TrianglesOf(ctx, t.Device, g, e.Where(done))
	return insert, time.Since(start), more, err
}

func (t *graphTrial) batchOn(ctx context.Context, g *graph.Graph, e graph.Edges) (insert, follow time.Duration, more uint64, err error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return 0, 0, 0, err
	}
	var from, to device.Slice[uint32]
	var done device.Slice[bool]
	defer func() { err = errors.Join(err, s.Close(), from.Free(), to.Free(), done.Free()) }()
	if from, err = device.Upload(s, e.From); err == nil {
		to, err = device.Upload(s, e.To)
	}
	if err == nil {
		done, err = device.Make[bool](t.Device, len(e.From))
	}
	if err == nil {
		err = s.Sync(ctx)
	}
	start := time.Now()
	if err == nil {
		err = g.InsertOn(s, from, to, done)
	}
	if err = errors.Join(err, s.Sync(ctx)); err != nil {
		return 0, 0, 0, err
	}
	insert, start = time.Since(start), time.Now()
	more, err = algo.TrianglesOfOn(ctx, s, g, from, to, done)
	return insert, time.Since(start), more, err
}

// anew counts the triangles of a graph as it is.
func (t *graphTrial) anew(ctx context.Context, g *graph.Graph) (count uint64, err error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err := g.CSROn(ctx, s)
	if err != nil {
		return 0, err
	}
	count, err = algo.TrianglesOn(ctx, s, c)
	return count, errors.Join(err, c.Free())
}
