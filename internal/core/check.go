package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Checker is an engine that checks the rules of its layout.
type Checker interface {
	Check(ctx context.Context, l *Lease) error
}

// checkRows bounds the keys that Check remembers at a time.
const checkRows = 1 << 24

// Check reads the whole table and reports the first thing that is wrong: pairs
// that a lookup does not find, or finds with another value, keys that are there
// twice in a map or a set, a wrong number of pairs, and what the engine itself
// finds. Changes wait until it is done.
func (t *Table) Check(ctx context.Context) error {
	return t.Alone(ctx, "Check", func(now Counters) (err error) {
		if c, ok := t.Engine.(Checker); ok {
			if err := c.Check(ctx, t.Leases.Current()); err != nil {
				return err
			}
		}
		at, err := t.hold(ctx) // a snapshot would wait for this turn
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.Close()) }()
		passes := now.Live/checkRows + 1
		for pass := uint64(0); pass < passes && err == nil; pass++ {
			err = t.checkPairs(ctx, at, now, pass, passes)
		}
		return err
	})
}

// checkPairs looks all pairs up, and remembers a share of the keys.
func (t *Table) checkPairs(ctx context.Context, at *Snapshot, now Counters, pass, passes uint64) error {
	var keys []uint64
	pairs := uint64(0)
	var found error
	err := t.pages(ctx, at, func(p *Page) bool {
		pairs += uint64(p.N)
		if pass == 0 {
			found = t.checkPage(ctx, p)
		}
		for i := range p.N {
			if k := p.key(i); k%passes == pass {
				keys = append(keys, k)
			}
		}
		return found == nil
	})
	if err = errors.Join(err, found); err != nil {
		return err
	}
	if pairs != now.Live {
		return fmt.Errorf("%w: the counters say %d pairs, there are %d", op.ErrCorrupt, now.Live, pairs)
	}
	if t.Kind == MultiMap {
		return nil
	}
	slices.Sort(keys)
	for i, k := range keys[min(1, len(keys)):] {
		if keys[i] == k {
			return fmt.Errorf("%w: key %#x is there twice", op.ErrCorrupt, k)
		}
	}
	return nil
}

// key is the bits of key i.
func (p *Page) key(i int) uint64 {
	if len(p.Keys) == 4*p.N {
		return uint64(batch.View[uint32](p.Keys)[i])
	}
	return batch.View[uint64](p.Keys)[i]
}

// checkPage wants lookups to find all pairs of a page.
func (t *Table) checkPage(ctx context.Context, p *Page) error {
	w := t.Widths
	vals, ok := make([]byte, p.N*w.Val), make([]bool, p.N)
	b := &batch.Batch{N: p.N, Flags: t.Policy.Mixed()}
	b.Columns[batch.Keys] = batch.In(p.Keys).Of(w.Key)
	b.Columns[batch.OK] = batch.Output(ok)
	if w.Val > 0 {
		b.Columns[batch.Vals] = batch.Output(vals).Of(w.Val)
	}
	if _, _, err := t.Engine.Look(ctx, nil, t.Leases.Current(), b, 0); err != nil {
		return err
	}
	for i := range p.N {
		switch {
		case !ok[i]:
			return fmt.Errorf("%w: key %#x is stored where no lookup finds it", op.ErrCorrupt, p.key(i))
		case t.Kind == Map && string(vals[i*w.Val:(i+1)*w.Val]) != string(p.Vals[i*w.Val:(i+1)*w.Val]):
			return fmt.Errorf("%w: key %#x has value %x and a lookup finds %x", op.ErrCorrupt, p.key(i), p.Vals[i*w.Val:(i+1)*w.Val], vals[i*w.Val:(i+1)*w.Val])
		}
	}
	return nil
}
