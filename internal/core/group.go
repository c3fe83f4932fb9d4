package core

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Group is several tables with one writer: a change of some of them is one
// call, nobody else changes any of them meanwhile, and there is one Sync and one
// error for all. Who is excluded from one of them is excluded from all, so that
// a lookup of several tables sees all of a change or, where changes exclude
// lookups, none of it. Tables of a group may share a pool, which only the writer
// takes memory from; but what the last lease of a generation gives back, it
// gives back whenever it ends (see [Parts]).
type Group struct {
	gate   *gate
	tables []*Table // the writer's whose turn it is
}

// NewGroup is a group of no tables.
func NewGroup() *Group { return &Group{gate: newGate()} }

// Leases guard the memory of a table of the group.
func (g *Group) Leases(parts Parts) *Leases { return g.gate.leases(parts) }

// Add puts tables into the group that have been made with its Leases.
func (g *Group) Add(ctx context.Context, tables ...*Table) error {
	if err := g.gate.take(ctx); err != nil {
		return err
	}
	defer g.gate.Release()
	g.tables = append(g.open(), tables...)
	return nil
}

// Close closes all tables.
func (g *Group) Close() (err error) {
	if err := g.gate.take(context.Background()); err != nil {
		return err
	}
	tables := slices.Clone(g.open())
	g.gate.Release()
	for _, t := range tables {
		err = errors.Join(err, t.Close())
	}
	return err
}

// open are the tables that have not been closed.
func (g *Group) open() []*Table {
	g.tables = slices.DeleteFunc(g.tables, func(t *Table) bool { return t.Leases.open() != nil })
	return g.tables
}

// Part is a batch for one of the tables of a group.
type Part struct {
	Table *Table
	Batch *batch.Batch
}

// check panics unless the columns of all parts match.
func check(method string, parts []Part) {
	for _, p := range parts {
		p.Batch.MustMatch(p.Table.Name, method)
	}
}

// unrun zeroes the outputs of batches that are not run because of an error.
func unrun(parts []Part, err error) error {
	for _, p := range parts {
		p.Batch.ClearFrom(0)
	}
	return err
}

// Change runs batches in one turn, in order, until one fails for another reason
// than op.ErrFull; the outputs of those behind it are zero. deltas, as long as
// parts, receives by how much the number of pairs of each table changed.
func (g *Group) Change(ctx context.Context, method string, parts []Part, deltas []int) (err error) {
	check(method, parts)
	clear(deltas)
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].Table
	bar := slices.ContainsFunc(parts, func(p Part) bool { return p.Table.bars() })
	none := first.turn(ctx, bar, func() error {
		if none := ready(ctx, parts[1:]); none != nil {
			return none
		}
		err = change(ctx, method, parts, deltas)
		return nil
	})
	if none != nil {
		return first.wrap(method, unrun(parts, none))
	}
	return err
}

// ready waits for lookups submitted to streams that read tables beside the one
// whose turn it is, unless one of them has been closed.
func ready(ctx context.Context, parts []Part) error {
	for _, p := range parts {
		err := p.Table.Leases.open()
		if err == nil && p.Table.bars() {
			err = p.Table.Leases.Current().Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change is Change in a writer's turn.
func change(ctx context.Context, method string, parts []Part, deltas []int) (err error) {
	for i, p := range parts {
		delta, done, failed, one := p.Table.run(ctx, p.Batch)
		deltas[i], err = delta, errors.Join(err, p.Table.wrap(method, partial(p.Batch, done, failed, one)))
		if one != nil && !errors.Is(one, op.ErrFull) {
			return unrun(parts[i+1:], err)
		}
	}
	return err
}

// Get runs lookups in one call, in order, until one fails; the outputs of those
// behind it are zero. hits, as long as parts, receives the number of keys found
// in each table.
func (g *Group) Get(ctx context.Context, method string, parts []Part, hits []int) error {
	check(method, parts)
	clear(hits)
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].Table
	call, err := first.Leases.Read(ctx, nil)
	if err != nil {
		return first.wrap(method, unrun(parts, err))
	}
	for i, p := range parts {
		if hits[i], err = p.get(ctx, method); err != nil {
			err = unrun(parts[i+1:], err)
			break
		}
	}
	return errors.Join(err, call.End())
}

// get runs a lookup in a call on the group.
func (p Part) get(ctx context.Context, method string) (hits int, err error) {
	t := p.Table
	lease, err := t.Leases.Also()
	if err != nil {
		return 0, t.wrap(method, partial(p.Batch, 0, nil, err))
	}
	hits, err = t.look(ctx, p.Batch, lease)
	return hits, t.wrap(method, errors.Join(err, lease.End()))
}

// Sync waits for what has been submitted to any of the tables, and reports
// operations of each that found no room.
func (g *Group) Sync(ctx context.Context) error {
	if err := g.gate.take(ctx); err != nil {
		return err
	}
	defer g.gate.Release()
	var all error
	for _, t := range g.open() {
		_, err := t.count(ctx)
		all = errors.Join(all, t.wrap("Sync", errors.Join(err, t.sync(ctx))))
	}
	return all
}
