package slab

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/core"
)

// arcs returns the arcs of the model with their weights.
func (p *graphPlayer) arcs() map[edge]uint32 {
	all := maps.Clone(p.model)
	if !p.g.Directed() {
		for e, w := range p.model {
			all[edge{e.to, e.from}] = w
		}
	}
	return all
}

// csr compares CSRs with the model, and inserts them into another graph.
func (p *graphPlayer) csr() {
	p.Helper()
	var c *graphs.Weighted[uint32]
	var err error
	if p.weighted != nil {
		c, err = p.weighted.CSR(p.Context())
		noError(p, err)
	} else {
		rows, err := p.set.CSR(p.Context())
		noError(p, err)
		c = graphs.NewWeighted(rows, make([]uint32, rows.Arcs()))
	}
	p.sameRows(c)
	q := newGraphPlayer(p.TB, p.g.core.Device, p.weighted != nil, GraphOptions{Directed: p.g.Directed(), Seed: 7}, p.vertices, p.size, 9)
	defer q.close()
	var n int
	if q.weighted != nil {
		n, err = q.weighted.InsertCSR(p.Context(), c)
	} else {
		n, err = q.set.InsertCSR(p.Context(), c.CSR)
	}
	noError(p, err)
	if n != len(p.model) {
		p.Fatalf("%d edges of rows inserted, want %d", n, len(p.model))
	}
	q.model = p.model
	q.same()
}

func (p *graphPlayer) sameRows(c *graphs.Weighted[uint32]) {
	p.Helper()
	want, n := p.arcs(), 0
	for e := range want {
		n = max(n, int(e.from)+1, int(e.to)+1)
	}
	if c.Vertices() != n || c.Arcs() != len(want) || c.Edges() != len(p.model) || c.Directed() != p.g.Directed() || !c.Simple() {
		p.Fatalf("rows of %d vertices, %d arcs, %d edges, directed %v, simple %v; want %d, %d and %d", c.Vertices(), c.Arcs(), c.Edges(), c.Directed(), c.Simple(), n, len(want), len(p.model))
	}
	if _, err := graphs.NewCSR(c.Offsets(), c.Targets(), c.Directed()); err != nil {
		p.Fatal(err)
	}
	for u := range uint32(n) {
		row, weights := c.Neighbors(u), c.Weights(u)
		for i, v := range row {
			w, there := want[edge{u, v}]
			if !there || i > 0 && row[i-1] >= v || p.weighted != nil && weights[i] != w {
				p.Fatalf("vertex %d has %v with weights %v; want %d: %v", u, row, weights, w, there)
			}
		}
	}
}

// iterated compares iterations with the model.
func (p *graphPlayer) iterated() {
	p.Helper()
	defer func(n int) { core.PageBytes = n }(core.PageBytes)
	core.PageBytes = 1 << 12
	want, seen := p.arcs(), map[edge]bool{}
	for u, v := range p.g.All() {
		if _, there := want[edge{u, v}]; !there || seen[edge{u, v}] {
			p.Fatalf("%d-%d is brought; there: %v; before: %v", u, v, there, seen[edge{u, v}])
		}
		seen[edge{u, v}] = true
	}
	if len(seen) != len(want) {
		p.Fatalf("%d arcs, want %d", len(seen), len(want))
	}
	n, pages := 0, 0
	each := func(from, to, weights []uint32, err error) {
		noError(p, err)
		pages++
		for i, u := range from {
			if w, there := want[edge{u, to[i]}]; !there || weights != nil && weights[i] != w {
				p.Fatalf("%d-%d of weight %d", u, to[i], w)
			}
			n++
		}
	}
	if p.weighted != nil {
		for a, err := range p.weighted.Pages(p.Context()) {
			if each(a.From, a.To, a.Weights, err); len(a.Weights) != len(a.From) {
				p.Fatalf("%d weights of %d arcs", len(a.Weights), len(a.From))
			}
		}
	} else {
		for a, err := range p.set.Pages(p.Context()) {
			each(a.From, a.To, nil, err)
		}
	}
	if n != len(want) || n > 5000 && pages < 2 {
		p.Fatalf("%d arcs in %d pages, want %d", n, pages, len(want))
	}
}

// graphInRows plays a history on a graph, and sometimes compares rows and iterations.
func graphInRows(t testing.TB, dev device.Device, weighted, directed bool, vertices, size, steps int) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: directed, MaxLoad: 2, Seed: 5}, vertices, size, 4)
	defer p.close()
	p.csr()
	p.iterated()
	for range steps {
		p.insert(p.draw())
		p.delete(p.present())
		p.csr()
		p.iterated()
	}
}

func TestGraphInRows(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		for _, directed := range []bool{false, true} {
			graphInRows(t, devicetest.Open(t), weighted, directed, 2000, 9000, 3)
		}
	}
}

// TestGraphRowsErrors checks errors of CSR, CSROn and InsertCSR, and iterations that end early.
func TestGraphRowsErrors(t *testing.T) {
	dev, ctx := devicetest.Open(t), t.Context()
	g, err := NewWeightedGraph[float32](dev, &GraphOptions{MaxVertices: 50})
	noError(t, err)
	_, err = g.Insert(ctx, []uint32{4, 4, 9}, []uint32{2, 7, 4}, []float32{.5, 1.5, 2.5}, nil)
	noError(t, err)
	s := devicetest.NewStream(t, dev)
	d, err := g.CSROn(ctx, s)
	noError(t, err)
	c, err := d.Download(ctx, s)
	noError(t, err)
	noError(t, d.Free())
	if got := c.Weights(4); len(got) != 3 || got[0] != .5 || got[1] != 1.5 || got[2] != 2.5 {
		t.Errorf("weights %v", got)
	}
	for u, v := range g.All() {
		if u+v == 0 {
			t.Error("an edge that is not there")
		}
		break
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	ends := 0
	for a, err := range g.Pages(gone) {
		if ends++; !errors.Is(err, context.Canceled) || len(a.From) > 0 {
			t.Errorf("%v, %v behind the end of the context", a, err)
		}
	}
	if ends != 1 {
		t.Errorf("%d pages behind the end of the context", ends)
	}
	if _, err := g.CSR(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("CSR: %v", err)
	}
	if _, err := g.CSROn(ctx, nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("CSROn without a stream: %v", err)
	}
	wide, err := graphs.Build(ctx, devicetest.OpenCPU(t, 1), graphs.Edges{From: []uint32{50}, To: []uint32{1}}, nil)
	noError(t, err)
	if _, err := g.InsertCSR(ctx, graphs.NewWeighted(wide, make([]float32, 2))); !errors.Is(err, weft.ErrOptions) || g.Edges() != 3 {
		t.Errorf("rows of more vertices: %v, and %d edges", err, g.Edges())
	}
	noError(t, g.Close())
	if _, err := g.CSR(ctx); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
