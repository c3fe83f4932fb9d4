package core

import (
	"bytes"
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Answerer is an engine with Caps.Streams that supports GetOrPutOn.
type Answerer interface {
	// Answer submits the second half of a GetOrPut, after a batch of PutNews in device memory. It
	// stores in each row the value of the row's key. It sets OK for rows whose keys were already
	// present, and clears OK for rows that inserted their keys. Rows that overflowed keep their
	// values. Later changes run after Answer.
	Answer(ctx context.Context, s *device.Stream, b *batch.Batch) error
}

// GetOrPut runs a batch of PutNews and returns the values of all its keys in Vals. OK receives
// whether the row found its key instead of inserting it. Rows that do not run, or overflow, keep
// their values.
func (t *Table) GetOrPut(ctx context.Context, method string, b *batch.Batch) (inserted int, err error) {
	b.MustMatch(t.Name, method)
	var done int
	var failed []int
	err = t.runDurable(ctx, false, func() (err error) {
		t.setFlags(b)
		inserted, done, failed, err = t.runCounted(ctx, b, t.getOrPut)
		return err
	})
	return inserted, t.wrap(method, partial(b, done, failed, err))
}

// GetOrPutOn submits a GetOrPut for a batch in device memory.
func (t *Table) GetOrPutOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	b.MustMatch(t.Name, method)
	return t.wrap(method, t.changeOn(context.Background(), s, b, counts, func(ctx context.Context) (done int, failed []int, err error) {
		if t.Engine.Caps().Streams {
			if done, failed, err = t.submitChunks(ctx, s, b); err == nil {
				err = t.Engine.(Answerer).Answer(ctx, s, b)
			}
			return done, failed, err
		}
		if err := s.Sync(ctx); err != nil {
			return 0, nil, err
		}
		done, failed, err = t.getOrPut(ctx, b)
		_, cerr := t.readCounters(ctx)
		return done, failed, errors.Join(err, cerr)
	}))
}

func (t *Table) getOrPut(ctx context.Context, b *batch.Batch) (done int, failed []int, err error) {
	width := t.Widths.Val
	newVals := make([]byte, min(b.N, ChunkOps)*width)
	for done < b.N && err == nil {
		rest := b.Part(done, b.N)
		vals := rest.Columns[batch.Vals].Host
		n := copy(newVals, vals) / width
		ran, overflowed, ferr := t.fetch(ctx, rest.Part(0, n), newVals, t.needsExclusive(), func(absent *batch.Batch) (done int, failed []int, err error) {
			return t.insert(ctx, rest, absent)
		})
		copy(vals[ran*width:], newVals[ran*width:n*width])
		done, failed, err = done+ran, appendRows(failed, done, overflowed), ferr
	}
	return done, failed, err
}

// fetch looks up the keys of a batch in host memory, under the writer lock. It calls insert with
// the absent rows, as PutNews of the values newVals. Rows that insert nothing then receive the
// values that other rows inserted. Vals receives the values found, and OK whether a value was
// found. done is the length of the prefix that has answers; failed lists its rows that overflowed.
func (t *Table) fetch(ctx context.Context, b *batch.Batch, newVals []byte, exclusive bool, insert func(absent *batch.Batch) (done int, failed []int, err error)) (done int, failed []int, err error) {
	look := b.Select(batch.Keys)
	look.Flags, look.Columns[batch.Vals] = t.Policy.MixedFlags(), batch.Output(b.Columns[batch.Vals].Host).WithWidth(t.Widths.Val)
	if look.Columns[batch.OK] = b.Columns[batch.OK]; !look.Columns[batch.OK].Given() {
		look.Columns[batch.OK] = batch.Output(make([]bool, b.N))
	}
	done, hits, err := t.Engine.Lookup(ctx, nil, t.Leases.Current(), look, 0)
	if hits == done {
		return done, nil, err
	}
	absent := flaggedRows(look, done, false)
	if err != nil && len(absent) > 0 {
		done = int(absent[0])
	}
	if err != nil || len(absent) == 0 {
		return done, nil, err
	}
	rows, ran := *look, 0
	rows.Columns[batch.Vals].Host = newVals
	newRows := rows.Gather(absent)
	err = t.withExclusive(ctx, exclusive, func() (err error) {
		ran, failed, err = insert(newRows)
		if merr := t.lookupMissed(ctx, newRows, ran); merr != nil {
			ran, failed, err = 0, nil, errors.Join(err, merr) // some rows have no answers
		}
		return err
	})
	look.Scatter(newRows, absent)
	if ran < newRows.N {
		done = int(absent[ran])
	}
	return done, mapRows(absent, failed), err
}

// insert inserts the rows in absent, which come from the first rows of b. If b is long, the table
// first grows for all insertions that the whole batch is likely to make.
func (t *Table) insert(ctx context.Context, b, absent *batch.Batch) (done int, failed []int, err error) {
	if b.N > ChunkOps {
		_, _, err := t.Policy.Prepare(ctx, t.bound, nil, b)
		_, cerr := t.readCounters(ctx)
		if err = errors.Join(err, cerr); err != nil {
			return 0, nil, err
		}
	}
	return t.runChunks(ctx, t.storeBatch(absent, op.PutNew))
}

// storeBatch returns a batch of the given kind that stores the keys and values of a lookup.
func (t *Table) storeBatch(look *batch.Batch, kind op.Kind) *batch.Batch {
	b := *look
	b.Kind, b.Flags = kind, t.Policy.Flags(kind)
	b.Columns[batch.Vals] = batch.Input(b.Columns[batch.Vals].Host).WithWidth(t.Widths.Val)
	return &b
}

// lookupMissed looks up the rows among the first n that inserted nothing, which are the rows with
// OK unset. It then sets OK for the rows that found their key and clears all others.
func (t *Table) lookupMissed(ctx context.Context, b *batch.Batch, n int) error {
	missed := flaggedRows(b, n, false)
	clear(b.Columns[batch.OK].Host)
	if len(missed) == 0 {
		return nil
	}
	look := b.Gather(missed)
	_, _, err := t.Engine.Lookup(context.WithoutCancel(ctx), nil, t.Leases.Current(), look, 0)
	found := flaggedRows(look, look.N, true)
	for i, at := range found {
		missed[i] = missed[at]
	}
	b.Scatter(look.Gather(found), missed[:len(found)])
	return err
}

// flaggedRows returns those of the first n rows with OK equal to set. The batch lies in host
// memory.
func flaggedRows(b *batch.Batch, n int, set bool) []uint32 {
	flags, flag := b.Columns[batch.OK].Host[:n], byte(0)
	if set {
		flag = 1
	}
	rows := make([]uint32, bytes.Count(flags, []byte{flag}))
	for i, at := 0, 0; at < len(rows); i++ {
		rows[at] = uint32(i)
		if flags[i] == flag {
			at++
		}
	}
	return rows
}
