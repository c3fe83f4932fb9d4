package graph

import "context"

// Stats describes the size and memory of a [Graph].
type Stats struct {
	Vertices, Edges int // number of vertices and edges
	Records         int // number of vertex records, including deleted vertices
	Inline          int // records that store their neighbors themselves
	Snapshots       int // number of open snapshots

	Bytes         int // all memory: the three sizes below, work memory, and rounding
	UsedBytes     int // records, and blocks of rows
	RetiredBytes  int // blocks that only snapshots use, and copies of records
	FreeBytes     int // free blocks
	LargestDegree int
}

// BytesPerEdge returns Bytes divided by the number of edges.
func (s Stats) BytesPerEdge() float64 { return float64(s.Bytes) / float64(max(1, s.Edges)) }

// Stats measures the graph. It reads the degrees of all vertices.
func (g *Graph) Stats(ctx context.Context) (s Stats, err error) {
	err = g.withExclusive(ctx, func() error {
		s, err = g.stats(ctx)
		return err
	})
	return s, wrap("Stats", err)
}

func (g *store) stats(ctx context.Context) (s Stats, err error) {
	r, err := g.degreesOf(ctx, g.currentView())
	if err != nil {
		return s, err
	}
	present, err := g.engine.countPresent(ctx)
	if err != nil {
		return s, err
	}
	s = Stats{
		Vertices: int(present), Edges: edgesOf(g.opts.Directed, g.arcs, g.loops), Records: g.vertices, Snapshots: len(g.snapshots),
		UsedBytes:    g.vertices*recordBytes + bitmapBytes(g.vertices) + g.used*g.unit(),
		RetiredBytes: g.retiredUnits*g.unit() + g.copies,
		FreeBytes:    (g.units - g.used - g.retiredUnits) * g.unit(),
	}
	for _, d := range r {
		s.LargestDegree = max(s.LargestDegree, int(d))
		if int(d) <= g.inline() {
			s.Inline++
		}
	}
	m := g.memory()
	s.Bytes = m.records.buf.Size + m.alive.buf.Size + m.pool.buf.Size + g.copies + g.engine.overheadBytes() + g.endpoints.Bytes()
	return s, nil
}
