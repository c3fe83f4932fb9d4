package core

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Group is several tables that share one writer lock. A change of some of them is one call, with no
// other writer in between, and one Sync and one error cover all of them. An exclusive section of
// one table covers all, so that a lookup of several tables sees all of a change or, where changes
// exclude lookups, none of it. Tables of a group may share a pool. Only the writer takes memory
// from the pool, but the end of the last lease of a generation returns memory at any time (see
// [Parts]).
type Group struct {
	gate   *gate
	tables []*Table // guarded by the writer lock
}

// NewGroup returns a group without tables.
func NewGroup() *Group { return &Group{gate: newGate()} }

// Leases returns the Leases of a table of the group.
func (g *Group) Leases(parts Parts) *Leases { return g.gate.leases(parts) }

// Add adds tables that were made with Leases of the group.
func (g *Group) Add(ctx context.Context, tables ...*Table) error {
	if err := g.gate.lockWriter(ctx); err != nil {
		return err
	}
	defer g.gate.UnlockWriter()
	g.tables = append(g.openTables(), tables...)
	return nil
}

// Close closes all tables.
func (g *Group) Close() (err error) {
	if err := g.gate.lockWriter(context.Background()); err != nil {
		return err
	}
	tables := slices.Clone(g.openTables())
	g.gate.UnlockWriter()
	for _, t := range tables {
		err = errors.Join(err, t.Close())
	}
	return err
}

// openTables returns the tables that have not been closed.
func (g *Group) openTables() []*Table {
	g.tables = slices.DeleteFunc(g.tables, func(t *Table) bool { return t.Leases.open() != nil })
	return g.tables
}

// Part is a batch for one of the tables of a group.
type Part struct {
	Table *Table
	Batch *batch.Batch
}

// checkParts panics unless the columns of all parts match.
func checkParts(method string, parts []Part) {
	for _, p := range parts {
		p.Batch.MustMatch(p.Table.Name, method)
	}
}

// clearOutputs zeroes the outputs of batches that do not run because of an error.
func clearOutputs(parts []Part, err error) error {
	for _, p := range parts {
		p.Batch.ClearFrom(0)
	}
	return err
}

// Change runs batches under one writer lock, in order, until one fails for another reason than
// op.ErrFull; the outputs of the later ones are zero. deltas, as long as parts, receives the change
// in the number of pairs of each table.
func (g *Group) Change(ctx context.Context, method string, parts []Part, deltas []int) (err error) {
	checkParts(method, parts)
	clear(deltas)
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].Table
	exclusive := slices.ContainsFunc(parts, func(p Part) bool { return p.Table.needsExclusive() })
	lockErr := first.runLocked(ctx, exclusive, func() error {
		if waitErr := waitReaders(ctx, parts[1:]); waitErr != nil {
			return waitErr
		}
		err = changeLocked(ctx, method, parts, deltas)
		return nil
	})
	if lockErr != nil {
		return first.wrap(method, clearOutputs(parts, lockErr))
	}
	return err
}

// waitReaders waits for lookups submitted to streams that read the other tables of a change. It
// returns an error if one of these tables has been closed.
func waitReaders(ctx context.Context, parts []Part) error {
	for _, p := range parts {
		err := p.Table.Leases.open()
		if err == nil && p.Table.needsExclusive() {
			err = p.Table.Leases.Current().Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changeLocked implements Change under the writer lock.
func changeLocked(ctx context.Context, method string, parts []Part, deltas []int) (err error) {
	for i, p := range parts {
		delta, done, failed, one := p.Table.changeLocked(ctx, p.Batch)
		deltas[i], err = delta, errors.Join(err, p.Table.wrap(method, partial(p.Batch, done, failed, one)))
		if one != nil && !errors.Is(one, op.ErrFull) {
			return clearOutputs(parts[i+1:], err)
		}
	}
	return err
}

// Get runs lookups in one call, in order, until one fails; the outputs of the later ones are zero.
// hits, as long as parts, receives the number of keys found in each table.
func (g *Group) Get(ctx context.Context, method string, parts []Part, hits []int) error {
	checkParts(method, parts)
	clear(hits)
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].Table
	call, err := first.Leases.Read(ctx, nil)
	if err != nil {
		return first.wrap(method, clearOutputs(parts, err))
	}
	for i, p := range parts {
		if hits[i], err = p.get(ctx, method); err != nil {
			err = clearOutputs(parts[i+1:], err)
			break
		}
	}
	return errors.Join(err, call.End())
}

// get runs a lookup within a call on the group.
func (p Part) get(ctx context.Context, method string) (hits int, err error) {
	t := p.Table
	lease, err := t.Leases.ReadNested()
	if err != nil {
		return 0, t.wrap(method, partial(p.Batch, 0, nil, err))
	}
	hits, err = t.lookup(ctx, p.Batch, lease)
	return hits, t.wrap(method, errors.Join(err, lease.End()))
}

// Sync waits for all work submitted to any of the tables, and reports the operations of each that
// overflowed.
func (g *Group) Sync(ctx context.Context) error {
	if err := g.gate.lockWriter(ctx); err != nil {
		return err
	}
	defer g.gate.UnlockWriter()
	var all error
	for _, t := range g.openTables() {
		_, err := t.readCounters(ctx)
		all = errors.Join(all, t.wrap("Sync", errors.Join(err, t.sync(ctx))))
	}
	return all
}
