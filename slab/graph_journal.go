package slab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

func init() {
	core.RegisterLogged(func(facade any) core.Logged {
		if f, ok := facade.(interface{ asLogged() core.Logged }); ok {
			return f.asLogged()
		}
		return nil
	})
}

// asLogged returns the graph for the journal of package durable.
func (g *graph) asLogged() core.Logged { return loggedGraph{g} }

// graphLog holds the journal of a graph. The core's table has no journal, because it would log arcs
// and would not see the changes that a GPU makes by itself.
//
// With a journal, changes run one after the other, so that the log has them in their order. The
// lock is held while a change runs and its effects are appended, and during a checkpoint. It is
// taken before any other lock.
type graphLog struct {
	journal core.Journal  // nil if the graph is not durable; set before the first call
	lock    chan struct{} // holds a token while a call has the lock; guards closed
	closed  bool
}

// locked runs f under the lock.
func (l *graphLog) locked(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.closed {
		return op.ErrClosed
	}
	return f()
}

// close calls closeTable after the running change, and then closes the journal.
func (l *graphLog) close(closeTable func() error) error {
	if l.journal == nil {
		return closeTable()
	}
	l.lock <- struct{}{}
	first := !l.closed
	l.closed = true
	err := closeTable()
	<-l.lock // the journal waits for a checkpoint, which may wait for the lock
	if first {
		err = errors.Join(err, l.journal.Close())
	}
	return err
}

// readable returns the error of lookups if the journal has failed.
func (g *graph) readable() error {
	if g.log.journal == nil {
		return nil
	}
	return g.log.journal.Readable()
}

// wrap adds the names of the graph and the method to an error.
func (g *graph) wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", g.core.Name, method, err)
}

// ---- changes ------------------------------------------------------------------

// runLogged runs change under the lock and appends the effects that it passes to the logger. It
// returns the error of change, and the error of the lock and the journal. Without a stream it then
// waits until this change and all earlier ones are durable. Changes on streams are durable at the
// next Sync.
func (g *graph) runLogged(ctx context.Context, s *device.Stream, change func(*edgeLogger) error) (err, logErr error) {
	var before, after uint64
	journal := g.log.journal
	logErr = g.log.locked(ctx, func() error {
		l := &edgeLogger{core.ChangeLog{Journal: journal}, g, context.WithoutCancel(ctx)}
		before = journal.Position()
		err = change(l)
		end := l.End()
		after = journal.Position()
		return end
	})
	if logErr == nil && s == nil && (err == nil || after > before) {
		logErr = journal.Wait(ctx, after)
	}
	return err, logErr
}

// joinPartial returns the error of a batch and the error of its journal. The first done operations
// of the batch have run.
func (g *graph) joinPartial(method string, done int, err, logErr error) error {
	if logErr == nil {
		return err
	}
	return errors.Join(err, g.core.Partial(method, done, nil, logErr))
}

// changeLogged runs or submits a change that prepare has checked, and stores its effects.
func (g *graph) changeLogged(ctx context.Context, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (n int, err error) {
	ran := false
	err, logErr := g.runLogged(ctx, s, func(l *edgeLogger) (err error) {
		if err := l.reserve(b.N); err != nil {
			return g.core.Partial(method, 0, nil, err)
		}
		ran = true
		n, err = g.policy.engine.apply(ctx, g.core, method, s, b, count)
		l.batch(s, b, n, err)
		return err
	})
	done := b.N
	if !ran {
		b.ClearFrom(0)
		done = 0
	}
	return n, g.joinPartial(method, done, err, logErr)
}

// mixedLogged runs a mixed batch by calling run, and stores its effects. last returns the last
// operations on the edges; it returns nil if it cannot read the batch.
func (g *graph) mixedLogged(ctx context.Context, method string, s *device.Stream, n int, run func() error, last func(*edgeLogger) (deletes, puts *lastOps)) error {
	err, logErr := g.runLogged(ctx, s, func(l *edgeLogger) error {
		if err := l.reserve(n); err != nil {
			return g.core.Partial(method, 0, nil, err)
		}
		err := run()
		if deletes, puts := last(l); deletes != nil {
			l.mixed(deletes, puts, err)
		}
		return err
	})
	return g.joinPartial(method, 0, err, logErr)
}

// deleteVerticesLogged implements deleteVertices with a journal. It deletes edge by edge, because
// the log needs the edges.
func (g *graph) deleteVerticesLogged(ctx context.Context, method string, s *device.Stream, vertices []uint32) (n int, err error) {
	err, logErr := g.runLogged(ctx, s, func(l *edgeLogger) error {
		from, to, err := g.edgesOf(ctx, method, vertices)
		if err != nil {
			return err
		}
		b := edgeColumns(from, to, batch.Column{}, nil)
		if err := l.reserve(b.N); err != nil {
			return g.core.Partial(method, 0, nil, err)
		}
		n, err = g.changeNow(ctx, method, nil, op.Delete, b, 0)
		l.batch(nil, b, n, err)
		return g.rerunError(method, err)
	})
	return n, g.joinPartial(method, 0, err, logErr)
}

// clearLogged implements Clear with a journal.
func (g *graph) clearLogged(ctx context.Context) error {
	const method = "Clear"
	err, logErr := g.runLogged(ctx, nil, func(l *edgeLogger) error {
		if err := l.reserve(0); err != nil {
			return g.wrap(method, err)
		}
		err := g.core.Clear(ctx)
		switch ended := ctx.Err(); {
		case err == nil:
			l.add(core.ClearTable, &batch.Batch{})
		case errors.Is(err, op.ErrClosed), ended != nil && errors.Is(err, ended):
			// Clear has not begun, since it does not end with its context.
		default:
			l.Unknown(err) // any edges may remain
		}
		return err
	})
	return errors.Join(err, g.wrap(method, logErr))
}

// edgeLogger appends the effects of one change.
type edgeLogger struct {
	core.ChangeLog
	graph *graph
	ctx   context.Context
}

// reserve reserves space in the journal for effects on n edges, before the change runs.
func (l *edgeLogger) reserve(n int) error {
	return l.Journal.Reserve(n * (8 + l.graph.policy.widths.Val))
}

// add adds an effect on the edges of a batch in host memory.
func (l *edgeLogger) add(kind core.EffectKind, b *batch.Batch) {
	if b.N == 0 && kind != core.ClearTable {
		return
	}
	from, to := b.Columns[batch.Keys].Host, b.Columns[batch.Keys2].Host
	e := core.Effect{Kind: kind, N: b.N, Keys: from, Keys2: to}
	if kind == core.PutEdges {
		e.Vals = b.Columns[batch.Vals].Host
	}
	l.Add(e)
}

// batch adds the effects of a batch of one kind. n and err are its outcome; n counts only batches
// from host memory.
func (l *edgeLogger) batch(s *device.Stream, b *batch.Batch, n int, err error) {
	if err == nil && s == nil && n == 0 && b.Kind != op.Put {
		return // nothing has changed
	}
	host := l.fetch(s, b)
	switch {
	case host == nil:
	case err != nil:
		l.states(host)
	case b.Kind == op.Delete:
		l.add(core.DeleteEdges, host)
	default:
		l.add(core.PutEdges, host)
	}
}

// fetch returns the inputs of a batch in host memory, after the stream has run the batch. If it
// cannot read them, it returns nil.
func (l *edgeLogger) fetch(s *device.Stream, b *batch.Batch) *batch.Batch {
	inputs := &batch.Batch{N: b.N}
	for r, c := range b.Columns {
		if c.IsInput() {
			inputs.Columns[r] = c
		}
	}
	host, err := inputs.Fetch(l.ctx, s)
	if err != nil {
		l.Unknown(err)
		return nil
	}
	return host
}

// mixed adds the effects of a mixed batch, which consists of the last operation on each edge.
func (l *edgeLogger) mixed(deletes, puts *lastOps, err error) {
	if err != nil {
		from, to := slices.Concat(deletes.from, puts.from), slices.Concat(deletes.to, puts.to)
		l.states(edgeColumns(from, to, batch.Column{}, nil))
		return
	}
	l.add(core.DeleteEdges, deletes.batch(nil))
	l.add(core.PutEdges, puts.batch(nil))
}

// states adds the present state of the edges of a batch that has failed midway. Of an undirected
// edge, only one arc may be stored. The arc from the smaller vertex decides, as it does for Save
// and for the results of changes.
func (l *edgeLogger) states(b *batch.Batch) {
	g := l.graph
	from := slices.Clone(batch.View[uint32](b.Columns[batch.Keys].Host))
	to := slices.Clone(batch.View[uint32](b.Columns[batch.Keys2].Host))
	for i, u := range from {
		if !g.Directed() {
			from[i], to[i] = min(u, to[i]), max(u, to[i])
		}
	}
	var vals batch.Column
	if g.policy.widths.Val > 0 {
		vals = batch.Output(make([]uint32, b.N))
	}
	found := make([]bool, b.N)
	look := edgeColumns(from, to, vals, found)
	if _, err := g.policy.engine.find(l.ctx, g.core, "log", nil, look, 0); err != nil {
		l.Unknown(err)
		return
	}
	var present, absent []uint32
	for i, there := range found {
		if there {
			present = append(present, uint32(i))
		} else {
			absent = append(absent, uint32(i))
		}
	}
	l.add(core.DeleteEdges, look.Gather(absent))
	l.add(core.PutEdges, look.Gather(present))
}

// ---- core.Logged --------------------------------------------------------------

// loggedGraph adapts a graph to core.Logged.
type loggedGraph struct{ *graph }

// Shape implements core.Logged.
func (g loggedGraph) Shape() (core.Shape, error) {
	types := core.Types{Key: core.SetTypes[uint32]().Key, Val: g.core.Types.Val}
	s := core.Shape{
		Kind: core.TableGraph, Flags: core.Ordered, Types: types, Key: 4, Val: g.policy.widths.Val,
		Name: "an undirected graph", Joins: true,
	}
	if g.Directed() {
		s.Flags |= core.Directed
		s.Name = "a directed graph"
	}
	if s.Val > 0 {
		s.Name += fmt.Sprintf(" with %v weights", types.Val)
	}
	s.Name += ", in tables"
	return s, nil
}

// Len implements core.Logged. It returns the number of arcs.
func (g loggedGraph) Len() int { return g.core.Len() }

// Journal implements core.Logged.
func (g loggedGraph) Journal() core.Journal { return g.log.journal }

// SetJournal implements core.Logged.
func (g loggedGraph) SetJournal(j core.Journal) { g.log.journal = j }

// Locked implements core.Logged.
func (g loggedGraph) Locked(ctx context.Context, f func() error) error { return g.log.locked(ctx, f) }

// Checkpoint implements core.Logged. Changes wait until save returns. Other calls take turns with
// the parts that it reads.
func (g loggedGraph) Checkpoint(ctx context.Context, rotate func(nextID uint64) error, save func(write func(io.Writer) (int, error)) error) error {
	read := func(f func() error) error {
		return g.core.WithWriteLock(ctx, "checkpoint", func(core.Counters) error { return f() })
	}
	write := func(to io.Writer) (int, error) { return g.save(ctx, to, read) }
	return g.wrap("checkpoint", g.log.locked(ctx, func() error {
		err := rotate(0)
		if err == nil {
			err = save(write)
		}
		return err
	}))
}

// LoadCheckpoint implements core.Logged.
func (g loggedGraph) LoadCheckpoint(ctx context.Context, from io.Reader, _ int, _ uint64) (int, error) {
	if from == nil {
		return 0, nil
	}
	err := g.Load(ctx, from)
	return g.core.Len(), err
}

// Replay implements core.Logged.
func (g loggedGraph) Replay(ctx context.Context, e *core.Effect) error {
	b := &batch.Batch{N: e.N}
	b.Columns[batch.Keys], b.Columns[batch.Keys2] = batch.Input(e.Keys).WithWidth(4), batch.Input(e.Keys2).WithWidth(4)
	kind := op.Delete
	switch e.Kind {
	case core.PutEdges:
		if kind = op.PutNew; g.policy.widths.Val > 0 {
			kind, b.Columns[batch.Vals] = op.Put, batch.Input(e.Vals).WithWidth(g.policy.widths.Val)
		}
	case core.DeleteEdges:
	case core.ClearTable:
		return g.Clear(ctx)
	default:
		return g.wrap("replay", fmt.Errorf("%w: unknown effect %d", op.ErrFormat, e.Kind))
	}
	_, err := g.change(ctx, "replay", nil, kind, b)
	return err
}
