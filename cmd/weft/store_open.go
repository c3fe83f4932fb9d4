package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/linear"
)

// stored is the content of a store, of any kind and types.
type stored interface {
	durable.Structure
	logged() core.Logged
	// rows passes all rows to a writer.
	rows(ctx context.Context, to *rowWriter) error
}

func init() {
	core.RegisterLogged(func(facade any) core.Logged {
		if s, ok := facade.(stored); ok {
			return s.logged()
		}
		return nil
	})
}

// loadedStore is a store whose content is in memory.
type loadedStore struct {
	stored
	files durable.Files
	found durable.Recovery
	bar   *progress.Bar
}

// loadStore loads the store in a folder and calls use. If opts is nil, the store is only read.
// Otherwise it is opened with these options. The label names the job on a terminal until use
// returns or closes the bar.
func (a *app) loadStore(
	ctx context.Context,
	dir, label string,
	opts *durable.Options,
	use func(*loadedStore) error,
) (err error) {
	l := &loadedStore{}
	if l.files, _, err = inspectStore(dir); err != nil {
		return err
	}
	dev, err := a.openPoolDevice(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	l.bar = progress.Show(a.stderr, a.isTerminal, label)
	defer l.bar.Close()
	empty := func() (stored, error) { return newStored(dev, &l.files) }
	if err := ctx.Err(); err != nil {
		return err
	}
	open := cmp.Or(opts, &durable.Options{})
	if open.Progress = l.bar.Set; opts == nil {
		l.stored, l.found, err = durable.Read(ctx, dir, empty, *open)
	} else if l.stored, err = durable.Open(ctx, dir, empty, *open); err == nil {
		var info durable.Info
		info, err = durable.Status(l.stored)
		l.found = info.Recovery
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	l.bar.Close() // what follows counts no bytes
	l.bar = progress.Show(a.stderr, a.isTerminal, label)
	return use(l)
}

// newStored returns an empty structure that can hold the content of a store.
func newStored(dev device.Device, f *durable.Files) (stored, error) {
	key, keyErr := typeNamed(f.Key)
	val, valErr := typeNamed(f.Value)
	if err := errors.Join(keyErr, valErr); err != nil {
		return nil, err
	}
	switch has := key.Bits > 0; {
	case has && (f.Kind == "map" || f.Kind == "set"):
		return newStoredHash(dev, f, key, val)
	case has && val.Bits > 0 && (f.Kind == "multimap" || f.Kind == "ordered map"):
		return storedTable{newPairs(dev, f, core.Types{Key: key, Val: val}), key, val}, nil
	case f.Kind == "graph", f.Kind == "table graph":
		return newStoredGraph(dev, f, val)
	case f.Kind == "ids":
		t, err := intern.New(dev, nil)
		return storedIDs{t}, err
	}
	return nil, fmt.Errorf("%w: %w: this version of weft does not know %s",
		errLaterFormat, weft.ErrFormat, f.Holds)
}

// typeNamed returns the type of keys or values with a name. The empty name is no type.
func typeNamed(name string) (t core.Type, err error) {
	if name == "" {
		return t, nil
	}
	var c column.Type
	if err := c.UnmarshalText([]byte(name)); err != nil || c.Size() < 4 {
		return t, fmt.Errorf("%w: %w: this version of weft does not know the type %s",
			errLaterFormat, weft.ErrFormat, name)
	}
	return core.Type{Letter: name[0], Bits: uint8(8 * c.Size())}, nil
}

// ---- tables -------------------------------------------------------------------

// storedTable is the content of a map, set, multimap or ordered map.
type storedTable struct {
	*core.Table
	key, val core.Type
}

func (t storedTable) logged() core.Logged { return t.Table }

// newStoredHash returns an empty map or set. One instance per width holds all types of that width:
// only its name for the types changes.
func newStoredHash(dev device.Device, f *durable.Files, key, val core.Type) (stored, error) {
	o := &linear.Options{Unordered: !f.Ordered}
	var s durable.Structure
	var err error
	switch (core.Types{Key: core.Type{Bits: key.Bits}, Val: core.Type{Bits: val.Bits}}) {
	case bitsOf(32, 0):
		s, err = linear.NewSet[uint32](dev, o)
	case bitsOf(64, 0):
		s, err = linear.NewSet[uint64](dev, o)
	case bitsOf(32, 32):
		s, err = linear.New[uint32, uint32](dev, o)
	case bitsOf(32, 64):
		s, err = linear.New[uint32, uint64](dev, o)
	case bitsOf(64, 32):
		s, err = linear.New[uint64, uint32](dev, o)
	default:
		s, err = linear.New[uint64, uint64](dev, o)
	}
	if err != nil {
		return nil, err
	}
	t := core.LoggedOf(s).(*core.Table)
	t.Types = core.Types{Key: key, Val: val}
	return storedTable{t, key, val}, nil
}

func bitsOf(key, val uint8) core.Types {
	return core.Types{Key: core.Type{Bits: key}, Val: core.Type{Bits: val}}
}

// rows implements stored.
func (t storedTable) rows(ctx context.Context, to *rowWriter) error {
	var failed error
	err := t.Pages(ctx, "dump", nil, func(p *core.Page) bool {
		columns := []column.Column{columnOf(t.key, p.Keys.Host)}
		if t.val.Bits > 0 {
			columns = append(columns, columnOf(t.val, p.Vals.Host))
		}
		failed = to.write([]string{"key", "value"}, columns)
		return failed == nil
	})
	return errors.Join(err, failed)
}

// columnOf returns numbers in host memory as a column.
func columnOf(t core.Type, memory []byte) column.Column {
	var c column.Type
	err := c.UnmarshalText([]byte(t.String()))
	numbers, rawErr := column.OfRaw(c, memory)
	if err := errors.Join(err, rawErr); err != nil {
		panic(err) // typeNamed has checked the type, and memory is aligned
	}
	return numbers
}

// ---- ids ----------------------------------------------------------------------

// storedIDs is the content of a table of ids.
type storedIDs struct{ *intern.Table }

func (t storedIDs) logged() core.Logged { return core.LoggedOf(t.Table) }

// rows implements stored.
func (t storedIDs) rows(ctx context.Context, to *rowWriter) error {
	const step = 1 << 14
	ids := make([]uint32, step)
	for lo := 0; lo < t.Len(); lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, t.Len())
		for i := range hi - lo {
			ids[i] = uint32(lo + i)
		}
		columns := append([]column.Column{column.Of(ids[:hi-lo])}, t.Columns(lo, hi)...)
		if err := to.write([]string{"id", "key"}, columns); err != nil {
			return err
		}
	}
	return nil
}

// ---- graphs -------------------------------------------------------------------

// storedGraph is the content of a graph of package graph or slab.
type storedGraph struct {
	graph   *graph.Graph
	weights core.Type
	log     core.Logged
}

func (g storedGraph) logged() core.Logged { return g.log }

// Check reads the whole graph and returns weft.ErrCorrupt if it is inconsistent.
func (g storedGraph) Check(ctx context.Context) error { return g.graph.Check(ctx) }

// Close implements durable.Structure.
func (g storedGraph) Close() error { return g.graph.Close() }

func newStoredGraph(dev device.Device, f *durable.Files, weights core.Type) (stored, error) {
	g, err := newGraph(dev, weights, &graph.Options{
		Directed: f.Directed, SelfLoops: f.SelfLoops, Multi: f.ParallelEdges,
		MaxVertices: math.MaxUint32,
	})
	if err != nil {
		return nil, err
	}
	s := storedGraph{g, weights, core.LoggedOf(g)}
	if f.Kind == "table graph" {
		s.log = tableGraph{s.log, g}
	}
	return s, nil
}

// tableGraph adapts a graph of package graph to stores of package slab's graphs, whose checkpoints
// and logs have the same formats. The kernels of package slab would make the program larger by a
// sixth.
type tableGraph struct {
	core.Logged
	graph *graph.Graph
}

// Shape implements core.Logged.
func (g tableGraph) Shape() (core.Shape, error) {
	s, err := g.Logged.Shape()
	s.Kind = core.TableGraph
	return s, err
}

// Len implements core.Logged. The rows are the arcs.
func (g tableGraph) Len() int { return g.graph.Arcs() }

// LoadCheckpoint implements core.Logged.
func (g tableGraph) LoadCheckpoint(
	ctx context.Context,
	from io.Reader,
	n int,
	nextID uint64,
) (int, error) {
	_, err := g.Logged.LoadCheckpoint(ctx, from, n, nextID)
	return g.Len(), err
}

// Checkpoint implements core.Logged. The graph does not change meanwhile.
func (g tableGraph) Checkpoint(
	ctx context.Context,
	rotate func(nextID uint64) error,
	save func(write func(io.Writer) (int, error)) error,
) error {
	return g.Logged.Checkpoint(ctx, rotate, func(write func(io.Writer) (int, error)) error {
		return save(func(to io.Writer) (int, error) {
			_, err := write(to)
			return g.Len(), err
		})
	})
}

// newGraph returns an empty graph with weights of a type, or without weights.
func newGraph(dev device.Device, weights core.Type, o *graph.Options) (g *graph.Graph, err error) {
	switch weights.Bits {
	case 0:
		return graph.New(dev, o)
	case 32:
		g, err = graphOf(graph.NewWeightedGraph[uint32](dev, o))
	default:
		g, err = graphOf(graph.NewWeightedGraph[uint64](dev, o))
	}
	if err == nil {
		core.LoggedOf(g).(interface{ SetWeights(core.Type) }).SetWeights(weights)
	}
	return g, err
}

func graphOf[W graph.Weight](g *graph.WeightedGraph[W], err error) (*graph.Graph, error) {
	if err != nil {
		return nil, err
	}
	return g.Graph, nil
}
