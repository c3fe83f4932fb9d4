package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

func init() {
	core.RegisterLogged(func(facade any) core.Logged {
		if f, ok := facade.(interface{ logged() core.Logged }); ok {
			return f.logged()
		}
		return nil
	})
}

func (g *store) logged() core.Logged { return journaled{g} }

// journaled adapts a store to core.Logged.
type journaled struct{ *store }

// Shape implements core.Logged.
func (j journaled) Shape() (core.Shape, error) {
	s := core.Shape{
		Kind: core.RowGraph, Flags: core.Ordered, Name: j.name(), Joins: true,
		Types: core.Types{Key: core.SetTypes[uint32]().Key, Val: j.weights}, Key: 4, Val: j.weight,
	}
	if j.opts.Directed {
		s.Flags |= core.Directed
	}
	if j.opts.SelfLoops {
		s.Flags |= core.SelfLoops
	}
	if j.opts.Multi {
		s.Flags |= core.ParallelEdges
	}
	return s, nil
}

// name returns the shape in words, such as "a directed graph with float32 weights".
func (g *store) name() string {
	name, kind := "an undirected ", "graph"
	if g.opts.Directed {
		name = "a directed "
	}
	if g.opts.Multi {
		kind = "multigraph"
	}
	var with []string
	if g.opts.SelfLoops {
		with = append(with, "self loops")
	}
	if g.weight > 0 {
		with = append(with, fmt.Sprintf("%v weights", g.weights))
	}
	if name += kind; len(with) > 0 {
		name += " with " + strings.Join(with, " and ")
	}
	return name
}

// Len implements core.Logged. The rows are the vertices and the edges, as in a saved graph.
func (j journaled) Len() int {
	return int(j.size.vertices.Load()) + edgesOf(j.opts.Directed, j.size.arcs.Load(), j.size.loops.Load())
}

// Journal implements core.Logged.
func (j journaled) Journal() core.Journal { return j.journal }

// SetWeights changes the type of the weights to one of the same size, for programs that know it
// only at run time. No call may have been made.
func (j journaled) SetWeights(t core.Type) { j.weights = t }

// SetJournal implements core.Logged.
func (j journaled) SetJournal(to core.Journal) { j.journal = to }

// Locked implements core.Logged.
func (j journaled) Locked(ctx context.Context, f func() error) error {
	if err := j.leases.LockWriter(ctx); err != nil {
		return err
	}
	defer j.leases.UnlockWriter()
	return f()
}

// Checkpoint implements core.Logged. It saves a snapshot, which has exactly the changes before
// rotate, because replay would add parallel edges twice. Changes continue meanwhile.
func (j journaled) Checkpoint(ctx context.Context, rotate func(nextID uint64) error, save func(write func(io.Writer) (int, error)) error) error {
	const method = "checkpoint"
	var s *Snapshot
	err := j.Locked(ctx, func() (err error) {
		if err = rotate(0); err == nil {
			s, err = j.snapshotLocked(ctx)
		}
		return err
	})
	if err != nil {
		return wrap(method, err)
	}
	err = save(func(to io.Writer) (int, error) {
		return s.Vertices() + s.Edges(), s.withOpen(ctx, func() error { return j.save(ctx, s.view, to) })
	})
	return wrap(method, errors.Join(err, s.Close()))
}

// LoadCheckpoint implements core.Logged.
func (j journaled) LoadCheckpoint(ctx context.Context, from io.Reader, _ int, _ uint64) (int, error) {
	if from == nil {
		return 0, nil
	}
	err := j.load(ctx, from)
	return j.Len(), wrap("checkpoint", err)
}

// Replay implements core.Logged.
func (j journaled) Replay(ctx context.Context, e *core.Effect) (err error) {
	const method = "replay"
	from, to := batch.View[uint32](e.Keys), batch.View[uint32](e.Keys2)
	switch e.Kind {
	case core.PutEdges:
		_, err = j.change(ctx, nil, method, edgeBatch(op.Put, from, to, j.weightColumn(e.Vals), nil))
	case core.DeleteEdges:
		_, err = j.change(ctx, nil, method, edgeBatch(op.Delete, from, to, batch.Column{}, nil))
	case core.PutVertices:
		_, err = j.insertVertices(ctx, method, from)
	case core.DeleteVertices:
		_, err = j.deleteVertices(ctx, method, from)
	case core.ClearTable:
		err = j.clear(ctx)
	default:
		err = fmt.Errorf("%w: unknown effect %d", op.ErrFormat, e.Kind)
	}
	return wrap(method, op.Cause(err))
}

// splitMixed returns the deletions of a mixed batch, and the insertions that no deletion of the
// same edge follows. Running the deletions and then these insertions has the effect of the batch,
// however replay divides them: the other insertions do not even insert vertices.
func (g *store) splitMixed(b *batch.Batch) (deletes, puts []uint32) {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	deleted := map[uint64]bool{}
	for i, kind := range slices.Backward(batch.View[op.Kind](b.Columns[batch.Kinds].Host)) {
		u, v := from[i], to[i]
		if !g.opts.Directed && u > v {
			u, v = v, u
		}
		switch edge := uint64(u)<<32 | uint64(v); {
		case kind != op.Put:
			deleted[edge] = true
			deletes = append(deletes, uint32(i))
		case !deleted[edge]:
			puts = append(puts, uint32(i))
		}
	}
	slices.Reverse(puts)
	return deletes, puts
}

// weightColumn returns a column with the weights of edges, or no column for a graph without
// weights.
func (g *store) weightColumn(weights []byte) batch.Column {
	if g.weight == 0 {
		return batch.Column{}
	}
	return batch.Input(weights).WithWidth(g.weight)
}

// readable returns the error that lookups must return because the journal has failed.
func (g *store) readable() error {
	if g.journal == nil {
		return nil
	}
	return g.journal.Readable()
}

// runDurable runs f in an exclusive section. Then, unless the change comes from a stream, it waits
// without the lock until the change that f makes and all earlier changes are durable.
func (g *store) runDurable(ctx context.Context, onStream bool, f func() error) error {
	if g.journal == nil {
		return g.withExclusive(ctx, f)
	}
	var before, after uint64
	err := g.withExclusive(ctx, func() error {
		before = g.journal.Position()
		err := f()
		after = g.journal.Position()
		return err
	})
	if onStream {
		return err
	}
	return core.AwaitChange(ctx, g.journal, before, after, err)
}

// logger appends the effects of one change. A graph without a journal has a nil logger.
type logger struct {
	core.ChangeLog
	graph  *store
	inputs *batch.Batch // in host memory
}

// newLogger reserves space in the journal for a batch, before the batch runs. It copies the columns
// of a batch in device memory to host memory.
func (g *store) newLogger(ctx context.Context, s *device.Stream, b *batch.Batch) (*logger, error) {
	if g.journal == nil {
		return nil, nil
	}
	if err := g.journal.Reserve(b.N * (8 + g.weight)); err != nil {
		return nil, err
	}
	inputs := &batch.Batch{N: b.N, Kind: b.Kind}
	for _, r := range []batch.Role{batch.Keys, batch.Keys2, batch.Kinds, batch.Vals} {
		inputs.Columns[r] = b.Columns[r]
	}
	host, err := inputs.Fetch(ctx, s)
	if err != nil {
		return nil, err
	}
	return &logger{core.ChangeLog{Journal: g.journal}, g, host}, nil
}

// piece adds the effects of the operations lo to hi-1 of the batch, which ran as one piece. changed
// is the number of operations that inserted or deleted something.
func (l *logger) piece(lo, hi int, changed uint64) {
	if l == nil {
		return
	}
	b := l.inputs.Part(lo, hi)
	edges, puts := b.Columns[batch.Keys2].Given(), b.Inserts()
	if replaces := edges && puts && l.graph.weight > 0 && !l.graph.opts.Multi; changed == 0 && !replaces {
		return
	}
	switch {
	case b.Columns[batch.Kinds].Given():
		deletes, puts := l.graph.splitMixed(b)
		l.addRows(core.DeleteEdges, b.Gather(deletes))
		l.addRows(core.PutEdges, b.Gather(puts))
	case edges && puts:
		l.addRows(core.PutEdges, b)
	case edges:
		l.addRows(core.DeleteEdges, b)
	case puts:
		l.addRows(core.PutVertices, b)
	default:
		l.addRows(core.DeleteVertices, b)
	}
}

// addRows adds an effect with the rows of a batch.
func (l *logger) addRows(kind core.EffectKind, b *batch.Batch) {
	if b.N == 0 {
		return
	}
	from, to := b.Columns[batch.Keys].Host, b.Columns[batch.Keys2].Host
	e := core.Effect{Kind: kind, N: b.N, Keys: from, Keys2: to}
	if kind == core.PutEdges {
		e.Vals = b.Columns[batch.Vals].Host
	}
	l.Add(e)
}

// cleared adds the removal of everything.
func (l *logger) cleared() {
	if l != nil {
		l.Add(core.Effect{Kind: core.ClearTable})
	}
}

// fail records an error of the engine. If the engine cannot exclude that the piece has changed the
// graph, the effects are unknown.
func (l *logger) fail(err error) {
	if l != nil && l.graph.engine.outcomeUnknown() {
		l.Unknown(err)
	}
}

// end appends the last effect. err is the error of the change.
func (l *logger) end(err error) error {
	if l == nil {
		return err
	}
	switch failed := l.End(); {
	case failed == nil:
		return err
	case err == nil || errors.Is(failed, err):
		return failed
	default:
		return errors.Join(err, failed)
	}
}
