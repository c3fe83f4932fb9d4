package core

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Replace runs a batch of Puts that insert nothing: it replaces the values of present keys and
// skips absent keys. No other writer runs between lookup and change. OK, if given, receives whether
// each key is present. replaced is the number of values replaced.
func (t *Table) Replace(ctx context.Context, method string, b *batch.Batch) (replaced int, err error) {
	b.MustMatch(t.Name, method)
	var done int
	var failed []int
	err = t.runLocked(ctx, false, func() (err error) {
		t.setFlags(b)
		_, done, failed, err = t.runCounted(ctx, b, func(ctx context.Context, b *batch.Batch) (done int, failed []int, err error) {
			for done < b.N && err == nil {
				ran, nPresent, overflowed, uerr := t.replace(ctx, b.Part(done, min(done+ChunkOps, b.N)))
				done, failed, err = done+ran, appendRows(failed, done, overflowed), uerr
				replaced += nPresent - len(overflowed)
			}
			return done, failed, err
		})
		return err
	})
	return replaced, t.wrap(method, partial(b, done, failed, err))
}

// replace runs a part of a Replace batch under the writer lock. done is the length of the prefix
// that was run and nPresent its number of present keys. failed lists its operations that
// overflowed.
func (t *Table) replace(ctx context.Context, b *batch.Batch) (done, nPresent int, failed []int, err error) {
	look := b.Select(batch.Keys)
	look.Flags, look.Columns[batch.OK] = t.Policy.MixedFlags(), b.Columns[batch.OK]
	if !look.Columns[batch.OK].Given() {
		look.Columns[batch.OK] = batch.Output(make([]bool, b.N))
	}
	done, _, err = t.Engine.Lookup(ctx, nil, t.Leases.Current(), look, 0)
	rows := flaggedRows(look, done, true)
	if len(rows) == 0 {
		return done, 0, nil, err
	}
	if err == nil {
		present := *b
		if present.Columns[batch.OK] = (batch.Column{}); len(rows) < b.N {
			present = *present.Gather(rows)
		}
		err = t.withExclusive(ctx, t.needsExclusive(), func() (err error) {
			nPresent, failed, err = t.runChunks(ctx, &present)
			return err
		})
	}
	if nPresent < len(rows) {
		done = int(rows[nPresent])
	}
	return done, nPresent, mapRows(rows, failed), err
}

// ReplaceOn submits a Replace batch in device memory, which has the column OK. It waits for all
// submitted changes. The lookup writes 1 for a present key, which is op.Put, and 0 for an absent
// key, which is an op.Get without output. So the change uses the column OK as its kinds.
func (t *Table) ReplaceOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	b.MustMatch(t.Name, method)
	change := b.Select(batch.Keys)
	change.Kind, change.Columns[batch.Vals], change.Columns[batch.Kinds] = op.Get, b.Columns[batch.Vals], b.Columns[batch.OK].AsInput()
	look := b.Select(batch.Keys)
	look.Columns[batch.OK] = b.Columns[batch.OK]
	return t.wrap(method, t.changeOn(context.Background(), s, change, nil, func(ctx context.Context) (done int, failed []int, err error) {
		if _, err := t.readCounters(ctx); err != nil {
			return 0, nil, err
		}
		err = t.submitLeased(s, nil, look, func(lease *Lease) error { return t.submitLookup(s, lease, look, counts) })
		if err != nil {
			return 0, nil, err
		}
		err = t.withExclusive(ctx, t.needsExclusive(), func() error {
			done, failed, err = t.submitChunks(ctx, s, change)
			return err
		})
		return done, failed, err
	}))
}
