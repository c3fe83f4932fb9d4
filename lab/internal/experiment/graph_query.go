package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/lab/internal/neighbors"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var graphQueryExperiment = Experiment{
	Name:  "graph-query",
	Title: "Edges looked up, degrees and rows of graphs that change",
	Doc: `Random arcs of a directed graph are looked up (has_hit), and pairs of random vertices (has_miss, of which few are edges); degrees of random vertices are read (degree), and the rows of all
vertices are copied behind each other (rows, in arcs a second), or, on a GPU, added up by a kernel of a user that goes through them where they lie (sum). 2^24 lookups (2^18 on a CPU).` + generated + `
The limit of lookups is random reads of 64 bytes in a region as large as the graph, that of rows reading and writing 4 bytes for each arc, that of sum reading them.`,
	run: func(ctx context.Context, r *runner) error {
		return r.eachGraph(ctx, func(t *graphTrial) error { return t.queries(ctx) })
	},
}

func (t *graphTrial) queries(ctx context.Context) error {
	return t.layouts(ctx, true, true, func(g changeableGraph) error { return t.queriesOf(ctx, g) })
}

func (t *graphTrial) queriesOf(ctx context.Context, g changeableGraph) error {
	t.step("graph-query: %s, %s", t.name, g.layout())
	n := t.size(1<<18, 1<<24)
	if t.N > 0 {
		n = min(n, 4*t.N)
	}
	for _, c := range []struct {
		op   string
		draw func(int) graph.Edges
	}{{"has_hit", t.present}, {"has_miss", t.random}} {
		if err := t.has(ctx, g, c.op, c.draw(n)); err != nil {
			return err
		}
	}
	if err := t.degrees(ctx, g, t.random(n).From); err != nil {
		return err
	}
	if err := t.rows(ctx, g); err != nil {
		return err
	}
	return t.sum(ctx, g)
}

func (t *graphTrial) has(ctx context.Context, g changeableGraph, op string, e graph.Edges) (err error) {
	there := 0
	for i, u := range e.From {
		if t.csr.Has(u, e.To[i]) {
			there++
		}
	}
	from, err := device.Upload(t.stream, e.From)
	if err != nil {
		return err
	}
	to, err := device.Upload(t.stream, e.To)
	defer func() { err = errors.Join(err, t.free(&from, &to)) }()
	if err != nil {
		return err
	}
	found, err := device.Make[bool](t.Device, len(e.From))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free(&found)) }()
	elapsed, err := t.median(ctx, nil, func() error { return g.hasOn(t.stream, from, to, found) })
	if err == nil {
		err = checkFlags(ctx, t.runner, found, op, there)
	}
	if err != nil {
		return err
	}
	t.report(op, len(e.From), elapsed, roofline.Read64, Row{Structure: g.layout(), HitRatio: figure(float64(there) / float64(len(e.From)))})
	return nil
}

func (t *graphTrial) degrees(ctx context.Context, g changeableGraph, vertices []uint32) (err error) {
	of, err := device.Upload(t.stream, vertices)
	if err != nil {
		return err
	}
	degrees, err := device.Make[uint32](t.Device, len(vertices))
	defer func() { err = errors.Join(err, t.free(&of, &degrees)) }()
	if err != nil {
		return err
	}
	elapsed, err := t.median(ctx, nil, func() error { return g.DegreeOn(t.stream, of, degrees) })
	got := make([]uint32, len(vertices))
	if err == nil {
		err = degrees.CopyTo(ctx, t.stream, got)
	}
	if err != nil {
		return err
	}
	for i, v := range vertices {
		if int(got[i]) != t.csr.Degree(v) {
			return fmt.Errorf("%w: vertex %d has %d neighbors, want %d", errWrong, v, got[i], t.csr.Degree(v))
		}
	}
	t.report("degree", len(vertices), elapsed, roofline.Read64, Row{Structure: g.layout()})
	return nil
}

// rows measures copying the rows of all vertices.
func (t *graphTrial) rows(ctx context.Context, g changeableGraph) (err error) {
	all := make([]uint32, t.csr.Vertices())
	for v := range all {
		all[v] = uint32(v)
	}
	of, err := device.Upload(t.stream, all)
	if err != nil {
		return err
	}
	degrees, err := device.Make[uint32](t.Device, len(all))
	defer func() { err = errors.Join(err, t.free(&of, &degrees)) }()
	if err != nil {
		return err
	}
	offsets, err := device.Make[uint64](t.Device, len(all)+1)
	if err != nil {
		return err
	}
	neighbors, err := device.Make[uint32](t.Device, t.csr.Arcs())
	defer func() { err = errors.Join(err, t.free(&offsets, &neighbors)) }()
	if err != nil {
		return err
	}
	elapsed, err := t.median(ctx, nil, func() error { return g.RowsOn(t.stream, of, degrees, offsets, neighbors) })
	got := make([]uint32, t.csr.Arcs())
	if err == nil {
		err = neighbors.CopyTo(ctx, t.stream, got)
	}
	if g.layout() == slabLayout { // its rows are unordered
		for v := range all {
			slices.Sort(got[t.csr.Offsets()[v]:t.csr.Offsets()[v+1]])
		}
	}
	if err == nil && !slices.Equal(got, t.csr.Targets()) {
		err = fmt.Errorf("%w: the rows are not those that went in", errWrong)
	}
	if err != nil {
		return err
	}
	t.report("rows", len(got), elapsed, "arcs_8", Row{Structure: g.layout()})
	return nil
}

// sum measures a user's kernel that adds up all neighbors.
func (t *graphTrial) sum(ctx context.Context, g changeableGraph) (err error) {
	if t.Device.Properties().Kind == device.CPU {
		return nil
	}
	launch, err := t.summing(g)
	if err != nil {
		return err
	}
	sums, err := device.Make[uint64](t.Device, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free(&sums)) }()
	const times = 20 // launches; many, because View of sorted rows waits for the stream
	reset := func() error { return t.stream.Fill(sums.Ptr(), 0, 4) }
	elapsed, err := t.median(ctx, reset, func() error { return launch(ctx, sums, times) })
	var got [2]uint64
	if err == nil {
		err = sums.CopyTo(ctx, t.stream, got[:])
	}
	if err != nil {
		return err
	}
	want := uint64(0)
	for _, v := range t.csr.Targets() {
		want += uint64(v)
	}
	if want *= times; got[0] != want {
		return fmt.Errorf("%w: all neighbors add up to %d, want %d", errWrong, got[0], want)
	}
	t.report("sum", times*t.csr.Arcs(), elapsed, "arcs_4", Row{Structure: g.layout()})
	return nil
}

// summing returns a function that launches the kernel of sum the given number of times.
func (t *graphTrial) summing(g changeableGraph) (func(ctx context.Context, sums device.Slice[uint64], times int) error, error) {
	if of, ok := g.(slabGraph); ok {
		k, err := neighbors.OpenTables(t.Device, 0)
		return func(ctx context.Context, sums device.Slice[uint64], times int) error {
			return k.Sum(ctx, t.stream, of.Graph, sums, times)
		}, err
	}
	k, err := neighbors.Open(t.Device, 0)
	return func(ctx context.Context, sums device.Slice[uint64], times int) error {
		return k.Sum(ctx, t.stream, g.(rowGraph).Graph, sums, times)
	}, err
}
