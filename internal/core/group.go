package core

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Group is a set of tables that share one writer lock. A change of several tables is one call: no
// other writer runs in between, and one Sync and one error cover all tables. An exclusive section
// of one table excludes readers from all tables. So a lookup in several tables sees all of a change
// or, where changes exclude lookups, none of it. Tables of a group may share a memory pool. Only
// the writer takes memory from the pool, but memory returns to it whenever the last lease of a
// generation ends (see [Parts]).
type Group struct {
	gate   *gate
	tables []*Table // guarded by the writer lock
}

// NewGroup returns a group without tables.
func NewGroup() *Group { return &Group{gate: newGate()} }

// Leases returns new Leases for a table of the group.
func (g *Group) Leases(parts Parts) *Leases { return g.gate.leases(parts) }

// Add adds tables to the group. Their Leases must come from [Group.Leases].
func (g *Group) Add(ctx context.Context, tables ...*Table) error {
	if err := g.gate.lockWriter(ctx); err != nil {
		return err
	}
	defer g.gate.UnlockWriter()
	g.tables = append(g.openTables(), tables...)
	return nil
}

// Close closes all tables of the group.
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

func (g *Group) openTables() []*Table {
	g.tables = slices.DeleteFunc(g.tables, func(t *Table) bool { return t.Leases.open() != nil })
	return g.tables
}

// Part is a batch for one table of a group.
type Part struct {
	Table *Table
	Batch *batch.Batch
}

// checkParts panics unless the columns of each part match its batch.
func checkParts(method string, parts []Part) {
	for _, p := range parts {
		p.Batch.MustMatch(p.Table.Name, method)
	}
}

// clearOutputs zeroes the outputs of parts that do not run because of err, and returns err.
func clearOutputs(parts []Part, err error) error {
	for _, p := range parts {
		p.Batch.ClearFrom(0)
	}
	return err
}

// Change runs several batches in order, all under the writer lock. It stops at the first error that
// is not op.ErrFull, and zeroes the outputs of the remaining batches. deltas, as long as parts,
// receives the change in the number of pairs for each part.
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

// waitReaders waits for lookups on streams that read tables of the given parts. It returns an error
// if one of these tables has been closed.
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

// changeLocked implements Change. The caller holds the writer lock.
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

// Get runs several lookups in order, in one call. It stops at the first error and zeroes the
// outputs of the remaining lookups. hits, as long as parts, receives the number of keys found by
// each lookup.
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

// get runs one lookup. The caller already has a lease on a table of the group.
func (p Part) get(ctx context.Context, method string) (hits int, err error) {
	t := p.Table
	lease, err := t.Leases.ReadNested()
	if err != nil {
		return 0, t.wrap(method, partial(p.Batch, 0, nil, err))
	}
	hits, err = t.lookup(ctx, p.Batch, lease)
	return hits, t.wrap(method, errors.Join(err, lease.End()))
}

// Sync waits for all work submitted to the tables. It reports the operations of each table that
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
