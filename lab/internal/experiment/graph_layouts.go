package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/slab"
)

// changeableGraph is a graph of sorted rows or of hash tables. It has the methods that experiments
// on changing graphs need.
type changeableGraph interface {
	Insert(ctx context.Context, from, to []uint32, inserted []bool) (int, error)
	Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error)
	Edges() int
	Arcs() int
	DegreeOn(s *device.Stream, vertices, degrees device.Slice[uint32]) error
	RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32]) error
	Clear(ctx context.Context) error
	Sync(ctx context.Context) error
	Close() error

	layout() string // name in results
	insertOn(s *device.Stream, from, to device.Slice[uint32]) error
	deleteOn(s *device.Stream, from, to device.Slice[uint32]) error
	hasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool]) error
	insertVertices(ctx context.Context, ids []uint32) error
	// DeleteVerticesOn adds the number of deleted vertices to counts in one layout, and of deleted
	// edges in the other. deletedOf returns whichever of its arguments is expected.
	DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error
	deletedOf(vertices, edges int) int
	// memory returns the number of bytes in use, and the share of row memory that holds entries.
	memory(ctx context.Context) (bytes int, load float64, err error)
}

// rowGraph is a graph of sorted rows.
type rowGraph struct{ *graph.Graph }

func (g rowGraph) layout() string { return "graph" }

func (g rowGraph) insertOn(s *device.Stream, from, to device.Slice[uint32]) error {
	return g.InsertOn(s, from, to, device.Slice[bool]{})
}

func (g rowGraph) deleteOn(s *device.Stream, from, to device.Slice[uint32]) error {
	return g.DeleteOn(s, from, to, device.Slice[bool]{})
}

func (g rowGraph) hasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool]) error {
	return g.HasOn(s, from, to, found)
}

func (g rowGraph) insertVertices(ctx context.Context, ids []uint32) error {
	n, err := g.InsertVertices(ctx, ids)
	return checkCount(err, "vertices inserted", n, len(ids))
}

func (g rowGraph) deletedOf(vertices, _ int) int { return vertices }

func (g rowGraph) memory(ctx context.Context) (int, float64, error) {
	s, err := g.Stats(ctx)
	return s.UsedBytes, min(1, 4*float64(g.Arcs())/float64(max(1, s.UsedBytes))), err
}

// slabGraph is a graph with a hash table per vertex.
type slabGraph struct {
	*slab.Graph
	name string
}

func (g slabGraph) layout() string { return g.name }

func (g slabGraph) insertOn(s *device.Stream, from, to device.Slice[uint32]) error {
	return g.InsertOn(s, from, to, device.Slice[bool]{})
}

func (g slabGraph) deleteOn(s *device.Stream, from, to device.Slice[uint32]) error {
	return g.DeleteOn(s, from, to, device.Slice[bool]{})
}

func (g slabGraph) hasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool]) error {
	return g.HasOn(s, from, to, found)
}

// insertVertices does nothing, since all vertices exist.
func (g slabGraph) insertVertices(context.Context, []uint32) error { return nil }

func (g slabGraph) deletedOf(_, edges int) int { return edges }

func (g slabGraph) memory(ctx context.Context) (int, float64, error) {
	s, err := g.Stats(ctx)
	return 128*(s.BaseSlabs+s.Chained) + 4*s.BaseSlabs + 16*s.Vertices, s.Load, err
}

func checkCount(err error, what string, n, want int) error {
	if err == nil && n != want {
		err = fmt.Errorf("%w: %d %s, want %d", errWrong, n, what, want)
	}
	return err
}

// tables makes a graph of hash tables without edges.
func (t *graphTrial) tables(directed bool, load float64, name string) (slabGraph, error) {
	g, err := slab.NewGraph(t.Device, &slab.GraphOptions{Directed: directed, Vertices: t.csr.Vertices(), MaxVertices: t.csr.Vertices(), MaxLoad: load, Seed: t.Seed | 1})
	return slabGraph{g, name}, err
}

// slabLayout is the name of graphs of hash tables that have the load of Awad's thesis.
const slabLayout = "slab-graph"

// layouts measures a graph in each layout, with all edges if full is set, else without edges.
func (t *graphTrial) layouts(ctx context.Context, directed, full bool, measure func(g changeableGraph) error) error {
	for _, open := range []func() (changeableGraph, error){
		func() (changeableGraph, error) { g, err := t.empty(directed); return g, err },
		func() (changeableGraph, error) { g, err := t.tables(directed, 0, slabLayout); return g, err },
	} {
		g, err := open()
		if err != nil {
			return err
		}
		if full {
			err = t.fill(ctx, g)
		}
		if err == nil {
			err = measure(g)
		}
		if err = errors.Join(err, g.Close()); err != nil {
			return fmt.Errorf("%s: %w", g.layout(), err)
		}
	}
	return nil
}

func (t *graphTrial) fill(ctx context.Context, g changeableGraph) error {
	if err := g.insertVertices(ctx, sequence(t.csr.Vertices())); err != nil {
		return err
	}
	_, err := g.Insert(ctx, t.from, t.csr.Targets(), nil)
	return err
}

func sequence(n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}
