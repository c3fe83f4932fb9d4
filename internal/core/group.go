package core

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/batch"
)

// Group is several tables with one writer: a change of some of them is one
// call, nobody else changes any of them meanwhile, and there is one Sync and one
// error for all. Tables of a group may share a pool, which has one user at a time
// then. Readers of each table go by its own leases.
type Group struct {
	turn   chan struct{}
	tables []*Table
}

// NewGroup is a group of no tables.
func NewGroup() *Group { return &Group{turn: make(chan struct{}, 1)} }

// Leases guard the memory of a table of the group.
func (g *Group) Leases(parts Parts) *Leases {
	l := NewLeases(parts)
	l.turn = g.turn
	return l
}

// Add puts a table into the group that has been made with its Leases.
func (g *Group) Add(t *Table) { g.tables = append(g.tables, t) }

// Change is a batch for one of the tables of a group.
type Change struct {
	Table *Table
	Batch *batch.Batch
}

// Change runs batches in one turn, in order, until one fails for another reason
// than op.ErrFull. deltas, as long as changes, receives by how much the number of
// pairs of each table changed.
func (g *Group) Change(ctx context.Context, method string, changes []Change, deltas []int) error {
	for _, c := range changes {
		c.Batch.MustMatch(c.Table.Name + ": " + method)
		c.Table.flag(c.Batch)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := changes[0].Table.write(ctx); err != nil {
		return changes[0].Table.partial(method, changes[0].Batch, 0, 0, err)
	}
	defer changes[0].Table.Leases.Release()
	var all error
	for i, c := range changes {
		delta, err := c.Table.change(ctx, method, c.Batch)
		deltas[i] = delta
		all = errors.Join(all, err)
		if err != nil && !isFull(err) {
			break
		}
	}
	return all
}

// Sync waits for what has been submitted to any of the tables.
func (g *Group) Sync(ctx context.Context) (err error) {
	for _, t := range g.tables {
		err = errors.Join(err, t.Sync(ctx))
	}
	return err
}
