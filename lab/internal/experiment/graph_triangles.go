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

// Tables 5.7 to 5.9 of Awad's thesis in milliseconds, for its hash tables. Table 5.8 includes
// sorting rows with CUB.
var (
	published57 = map[string]float64{"road_usa": 66.2, "delaunay_n20": 6.43, "rgg_n_2_20_s0": 23.24, "coAuthorsDBLP": 6.98, "soc-LiveJournal1": 1526, "soc-orkut": 6758, "hollywood-2009": 11060}
	// published59 has the total time after each of five batches.
	published59 = map[string][]float64{"road_usa": {64.1, 129.5, 195, 260.5, 325.8}, "hollywood-2009": {11151, 22551, 33946, 45335, 56774}}
	published58 = map[string]float64{"road_usa": 10875, "delaunay_n20": 503.29, "rgg_n_2_20_s0": 496.85, "coAuthorsDBLP": 136.89, "soc-LiveJournal1": 2226, "soc-orkut": 1404, "hollywood-2009": 540.3}
)

var graphTrianglesExperiment = Experiment{
	Name:  "awad-table5.7",
	Also:  []string{"awad-table5.8", "awad-table5.9", "awad-fig5.3"},
	Was:   "graph-triangles",
	Title: "Triangles, counted at once and while edges come",
	Doc: `After tables 5.7 to 5.9 and figure 5.3 of Awad's thesis: the triangles of undirected graphs are counted (triangles, with the oriented view built inside; oriented is that alone); and, of slab-graph, by looking edges up in hash tables, as in the thesis. sort is what table 5.8 has:
the rows of slab-graph, which have no order, are written and sorted; rows of graph need none. Then five batches of 2^20 random edges (2^12 on a CPU, a quarter of the graph's at most) come: insert is their insertion, triangles_follow counts the triangles of
each batch's edges, triangles_anew those of the whole graph, which has to be exported and counted; speedup is the one over the other. Then as many batches of edges of the graph itself, which have more triangles, are taken out and come back: triangles_return counts those. Of slab-graph the random batches
come, and all triangles are counted by lookups behind each, on roads and actors, as in table 5.9. Rates are in edges: of the graph, and of the batches. For figure 5.3 there are R-MAT graphs by
degree, on which slab-graph has other loads of its tables, too; rows that are sorted have none to vary.` + generated + `
On a GPU the graph and the edges of a batch lie in its memory, and views, triangles and those of batches are computed there, of the graph that changes without an export, and of those edges of which their insertion told there that they came. The limit is reading and writing 4 bytes for each edge. The parameters have the milliseconds that the thesis published for graphs of table 5.1, which are larger.`,
	run: func(ctx context.Context, r *runner) error {
		r.result.Parameters["published_milliseconds"] = published57
		r.result.Parameters["published_sort_milliseconds"] = published58
		r.result.Parameters["published_following_milliseconds"] = published59
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
		p := Plot{Name: "awad-fig5.3", Title: "Triangles of R-MAT graphs by degree", XLabel: "mean degree", YLabel: "edges per second", LogX: true, LogY: true}
		for _, row := range res.Rows {
			if row.Op == "triangles" && row.Graph.Like == "" {
				p.point("rmat, "+row.Structure, row.Graph.Degrees.Mean, row.OpsPerS)
			}
		}
		return nonEmpty(p)
	},
}

// insertedTimes is the number of batches.
const insertedTimes = 5

func (t *graphTrial) triangles(ctx context.Context) error {
	t.step("awad-table5.7: %s", t.name)
	count, err := t.counted(ctx)
	if err != nil {
		return err
	}
	t.result.Parameters["triangles_"+t.name] = count
	loads := []float64{0}
	if t.shape.Like == "" && len(t.Graphs) == 0 { // the graphs of figure 5.3
		loads = append(loads, map[Scale][]float64{Default: {.35, 1.4, 2.8}, Full: {.35, 1.4, 2.8, 5.6}}[t.Scale]...)
	}
	for _, load := range loads {
		if err := t.probes(ctx, load, count); err != nil {
			return err
		}
	}
	return t.following(ctx, count)
}

// counted counts triangles on the graph's device.
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
	elapsed, err := t.clock(ctx, func() error {
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
	t.report("oriented", t.csr.Edges(), elapsed, "arcs_8", Row{Structure: "csr"})
	elapsed, err = t.clock(ctx, func() error { return nil }, func() (err error) {
		count, err = algo.TrianglesOn(ctx, s, there)
		return err
	})
	if err == nil {
		t.report("triangles", t.csr.Edges(), elapsed, "arcs_8", Row{Structure: "csr"})
	}
	return count, err
}

// probes counts triangles once by edge lookups in hash tables of the given load. With load 0, the
// default, batches follow on the graphs of table 5.9.
func (t *graphTrial) probes(ctx context.Context, load float64, want uint64) (err error) {
	name := slabLayout
	if load != 0 {
		name = fmt.Sprintf("%s of load %g", slabLayout, load)
	}
	g, err := t.tables(false, load, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := t.fill(ctx, g); err != nil {
		return err
	}
	if load == 0 {
		if err := t.sorts(ctx, g); err != nil {
			return err
		}
	}
	start := time.Now()
	count, err := g.Triangles(ctx)
	elapsed := time.Since(start)
	if err == nil && count != want {
		err = fmt.Errorf("%w: %d triangles by lookups, want %d", errWrong, count, want)
	}
	if err != nil {
		return err
	}
	t.report("triangles", t.csr.Edges(), elapsed, "arcs_8", Row{Structure: name})
	if _, ok := published59[t.shape.Like]; ok && load == 0 {
		return t.probing(ctx, g)
	}
	return nil
}

func (t *graphTrial) sorts(ctx context.Context, g slabGraph) (err error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var rows *graph.DeviceCSR
	free := func() error {
		if rows == nil {
			return nil
		}
		return rows.Free()
	}
	elapsed, err := t.clock(ctx, free, func() (err error) {
		rows, err = g.CSROn(ctx, s)
		return err
	})
	if err == nil && rows.Arcs() != t.csr.Arcs() {
		err = fmt.Errorf("%w: %d arcs in rows, want %d", errWrong, rows.Arcs(), t.csr.Arcs())
	}
	if err == nil {
		t.report("sort", t.csr.Edges(), elapsed, "arcs_8", Row{Structure: slabLayout})
	}
	return errors.Join(err, free())
}

func (t *graphTrial) batchSize() int { return max(1, min(t.size(1<<12, 1<<20), t.csr.Edges()/4)) }

// probing inserts batches and counts all triangles by lookups after each.
func (t *graphTrial) probing(ctx context.Context, g slabGraph) (err error) {
	size := t.batchSize()
	all := t.random(insertedTimes * size)
	from, err := device.Upload(t.stream, all.From)
	if err != nil {
		return err
	}
	to, err := device.Upload(t.stream, all.To)
	defer func() { err = errors.Join(err, t.free(&from, &to)) }()
	if err == nil {
		err = t.stream.Sync(ctx)
	}
	if err != nil {
		return err
	}
	var insert, anew time.Duration
	var count uint64
	for lo := 0; lo < len(all.From); lo += size {
		start := time.Now()
		if err := errors.Join(g.insertOn(t.stream, from.Sub(lo, lo+size), to.Sub(lo, lo+size)), t.stream.Sync(ctx)); err != nil {
			return err
		}
		insert += time.Since(start)
		start = time.Now()
		if count, err = g.Triangles(ctx); err != nil {
			return err
		}
		anew += time.Since(start)
	}
	rows, err := g.CSROn(ctx, t.stream)
	if err != nil {
		return err
	}
	want, err := algo.TrianglesOn(ctx, t.stream, rows)
	if err = errors.Join(err, rows.Free()); err == nil && count != want {
		err = fmt.Errorf("%w: %d triangles by lookups behind the batches, want %d", errWrong, count, want)
	}
	t.report("insert", insertedTimes*size, insert, "arcs_8", Row{Structure: slabLayout, Batch: size})
	t.report("triangles_anew", insertedTimes*size, anew, "arcs_8", Row{Structure: slabLayout, Batch: size})
	return err
}

// following inserts batches. After each it counts the triangles that the batch adds, and all
// triangles.
func (t *graphTrial) following(ctx context.Context, count uint64) (err error) {
	g, err := t.load(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	size := t.batchSize()
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
	return t.returning(ctx, g.Graph, size, count)
}

// returning deletes original edges, and counts the triangles that return when the edges are
// inserted again.
func (t *graphTrial) returning(ctx context.Context, g *graph.Graph, size int, all uint64) error {
	edges := t.present(insertedTimes * size)
	var follow time.Duration
	for i := range insertedTimes {
		e := graph.Edges{From: edges.From[i*size : (i+1)*size], To: edges.To[i*size : (i+1)*size]}
		if _, err := g.Delete(ctx, e.From, e.To, nil); err != nil {
			return err
		}
		left, err := t.anew(ctx, g)
		if err != nil {
			return err
		}
		_, followed, more, err := t.batch(ctx, g, e)
		if err == nil && left+more != all {
			err = fmt.Errorf("%w: %d triangles when edges of the graph are there again, want %d", errWrong, left+more, all)
		}
		if err != nil {
			return err
		}
		follow += followed
	}
	t.report("triangles_return", insertedTimes*size, follow, "arcs_8", Row{Batch: size})
	return nil
}

// batch inserts edges and counts the triangles that they close. On a GPU the edges lie in its
// memory.
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
	more, err = algo.TrianglesOf(ctx, t.Device, g, e.Filter(done))
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

// anew counts the triangles of a graph from scratch.
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
