package core

import (
	"context"
	"fmt"
	"io"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Shape implements Logged.
func (t *Table) Shape() (Shape, error) {
	s := Shape{Kind: uint8(t.Kind), Types: t.Types, Key: t.Widths.Key, Val: t.Widths.Val}
	s.Name = fmt.Sprintf("%s of %v", t.Kind.withArticle(), t.Types.Key)
	if s.Val > 0 {
		s.Name += fmt.Sprintf(" and %v", t.Types.Val)
	}
	if ordered := t.Policy.Flags(op.Put)&batch.Order != 0; ordered {
		s.Flags, s.Joins = Ordered, true
	} else {
		s.Name += ", unordered"
		s.Joins = t.Device.Properties().Kind == device.CPU
	}
	if _, ok := t.Engine.(Persister); ok {
		return s, fmt.Errorf("%w: a %s is durable by itself", op.ErrOptions, t.Name)
	}
	return s, nil
}

// Journal implements Logged.
func (t *Table) Journal() Journal { return t.journal }

// SetJournal implements Logged.
func (t *Table) SetJournal(j Journal) { t.journal, t.loggedID = j, t.nextID }

// Locked implements Logged.
func (t *Table) Locked(ctx context.Context, f func() error) error { return t.runLocked(ctx, false, f) }

// Checkpoint implements Logged. For most tables, changes continue while save runs. A checkpoint of
// a multimap holds the writer lock, because replay would add pairs twice. So does a checkpoint of a
// table of fixed size: the table may lack room for pairs of the file that were deleted after they
// were written.
func (t *Table) Checkpoint(ctx context.Context, rotate func(nextID uint64) error, save func(write func(io.Writer) (int, error)) error) error {
	const method = "checkpoint"
	write := func(to io.Writer) (int, error) { return t.Save(ctx, nil, to) }
	locked := t.Kind == MultiMap || t.Fixed
	err := t.WithWriteLock(ctx, method, func(Counters) error {
		err := rotate(t.nextID)
		if err == nil && locked {
			err = save(write)
		}
		return err
	})
	if err != nil || locked {
		return err
	}
	return save(write)
}

// LoadCheckpoint implements Logged.
func (t *Table) LoadCheckpoint(ctx context.Context, from io.Reader, n int, nextID uint64) (int, error) {
	t.nextID = max(t.nextID, nextID)
	if from == nil {
		return 0, nil
	}
	if _, ok := t.Policy.(Reserver); ok && n > 0 && !t.Fixed {
		if err := t.Reserve(ctx, n); err != nil {
			return 0, err
		}
	}
	return t.Load(ctx, from)
}

// runDurable runs f as runLocked does. It then waits, without the lock, until the change that f
// makes and all earlier changes are durable.
func (t *Table) runDurable(ctx context.Context, exclusive bool, f func() error) error {
	if t.journal == nil {
		return t.runLocked(ctx, exclusive, f)
	}
	var before, after uint64
	err := t.runLocked(ctx, exclusive, func() error {
		before = t.journal.Position()
		err := f()
		after = t.journal.Position()
		return err
	})
	return AwaitChange(ctx, t.journal, before, after, err)
}

// reserveLog reserves space in the journal for a batch, before it runs.
func (t *Table) reserveLog(ctx context.Context, b *batch.Batch) error {
	if t.journal == nil {
		return nil
	}
	n := b.N * (2*t.Widths.Key + t.Widths.Val)
	mixed := b.Columns[batch.Kinds].Given()
	if keys := b.Columns[batch.Keys]; t.Kind == MultiMap && (mixed || b.Kind == op.Delete) && keys.Host != nil {
		// The effects have all pairs of the keys.
		look := b.Select(batch.Keys)
		counts := make([]uint32, b.N)
		look.Flags, look.Columns[batch.Counts] = t.Policy.MixedFlags(), batch.Output(counts)
		if _, _, err := t.Engine.Lookup(ctx, nil, t.Leases.Current(), look, 0); err != nil {
			return err
		}
		for _, c := range counts {
			n += int(c) * (t.Widths.Key + t.Widths.Val)
		}
	}
	return t.journal.Reserve(n)
}

// logBatch appends the effects of a batch in host memory. delta, failed and err are its outcome. If
// the effects cannot be found or stored, the journal fails.
func (t *Table) logBatch(ctx context.Context, b *batch.Batch, delta int, failed []int, err error) error {
	complete := err == nil && len(failed) == 0
	if t.journal == nil || b.N == 0 || complete && delta == 0 && onlyAddsOrRemoves(b) {
		return nil
	}
	l := t.newLogger(context.WithoutCancel(ctx))
	l.batch(b, complete)
	return l.end()
}

// onlyAddsOrRemoves reports whether a batch that leaves the number of pairs as it was has changed
// nothing.
func onlyAddsOrRemoves(b *batch.Batch) bool {
	switch b.Kind {
	case op.PutNew, op.Delete, op.DeleteAll, op.DeleteRange:
		return !b.Columns[batch.Kinds].Given()
	}
	return false
}

// logStream appends the effects of a batch on the device, which it copies to host memory. It waits
// for the batch. A table of fixed size may have dropped operations without a report yet.
func (t *Table) logStream(ctx context.Context, s *device.Stream, b *batch.Batch, failed []int, err error) error {
	if t.journal == nil || b.N == 0 {
		return nil
	}
	inputs := &batch.Batch{N: b.N, Kind: b.Kind, Flags: b.Flags}
	for _, r := range []batch.Role{batch.Keys, batch.Keys2, batch.Kinds, batch.Vals} {
		if r != batch.Vals || b.Kind == op.Put {
			inputs.Columns[r] = b.Columns[r]
		}
	}
	ctx = context.WithoutCancel(ctx)
	host, ferr := inputs.Fetch(ctx, s)
	if ferr != nil {
		return t.journal.Fail(ferr)
	}
	l := t.newLogger(ctx)
	l.batch(host, err == nil && len(failed) == 0 && !t.Fixed)
	return l.end()
}

// logClear appends the effect of Clear. If Clear returned an error, the content is unknown, so
// logClear makes the journal fail.
func (t *Table) logClear(err error) error {
	if t.journal == nil {
		return nil
	}
	if err != nil {
		return t.journal.Fail(err)
	}
	l := t.newLogger(context.Background())
	l.Add(Effect{Kind: ClearTable})
	t.loggedID = 0
	return l.end()
}

// logger appends the effects of one change of a table.
type logger struct {
	ChangeLog
	t   *Table
	ctx context.Context
}

// newLogger returns a logger for the next change of a table with a journal.
func (t *Table) newLogger(ctx context.Context) *logger {
	return &logger{ChangeLog: ChangeLog{Journal: t.journal}, t: t, ctx: ctx}
}

// end appends the last effect.
func (l *logger) end() error {
	if t := l.t; t.nextID > t.loggedID {
		l.Add(Effect{Kind: SetNextID, NextID: t.nextID})
		t.loggedID = t.nextID
	}
	return l.End()
}

// batch adds the effects of a batch. complete is true if all operations of the batch succeeded.
func (l *logger) batch(b *batch.Batch, complete bool) {
	t, kind := l.t, b.Kind
	if b.Columns[batch.Kinds].Given() {
		b = b.Select(batch.Keys).Gather(changes(b))
		kind, complete = op.Get, false // of several kinds
	}
	if b.N == 0 {
		return
	}
	multi := t.Kind == MultiMap
	keys := b.Columns[batch.Keys].Host
	switch {
	case kind == op.DeleteRange:
		ends := b.Columns[batch.Keys2].Host
		l.Add(Effect{Kind: DeleteRanges, N: b.N, Keys: keys, Keys2: ends})
		if !complete {
			l.pairsIn(b)
		}
	case complete && t.Widths.Val == 0 && kind == op.PutNew:
		l.Add(Effect{Kind: PutPairs, N: b.N, Keys: keys})
	case complete && kind == op.Put && (multi || b.Ordered()):
		l.Add(Effect{Kind: PutPairs, N: b.N, Keys: keys, Vals: b.Columns[batch.Vals].Host})
	case complete && (multi && kind == op.DeleteAll || !multi && kind == op.Delete):
		l.Add(Effect{Kind: DeleteKeys, N: b.N, Keys: keys})
	case multi:
		look := b.Select(batch.Keys).Gather(distinct(b))
		l.Add(Effect{Kind: DeleteKeys, N: look.N, Keys: look.Columns[batch.Keys].Host})
		l.pairsIn(look)
	default:
		for lo := 0; lo < b.N; lo += logRows {
			l.states(b.Part(lo, min(lo+logRows, b.N)))
		}
	}
}

// logRows is the number of keys that are looked up at a time to log their state.
const logRows = 1 << 16

// changes returns the rows of a mixed batch with operations other than lookups.
func changes(b *batch.Batch) (rows []uint32) {
	for i, k := range batch.View[op.Kind](b.Columns[batch.Kinds].Host) {
		if k != op.Get {
			rows = append(rows, uint32(i))
		}
	}
	return rows
}

// distinct returns one row for each distinct key of a batch.
func distinct(b *batch.Batch) (rows []uint32) {
	seen := map[string]bool{}
	c := &b.Columns[batch.Keys]
	for i := range b.N {
		if key := c.Row(i); !seen[string(key)] {
			seen[string(key)] = true
			rows = append(rows, uint32(i))
		}
	}
	return rows
}

// states adds the present state of the keys of a batch: the pairs of keys that are in the table,
// and the removal of the other keys.
func (l *logger) states(b *batch.Batch) {
	if l.Failed() {
		return
	}
	t := l.t
	look, found := b.Select(batch.Keys), make([]bool, b.N)
	look.Flags, look.Columns[batch.OK] = t.Policy.MixedFlags(), batch.Output(found)
	if w := t.Widths.Val; w > 0 {
		look.Columns[batch.Vals] = batch.Output(make([]byte, b.N*w)).WithWidth(w)
	}
	done, hits, err := t.Engine.Lookup(l.ctx, nil, t.Leases.Current(), look, 0)
	if err == nil && done < b.N {
		err = fmt.Errorf("a lookup of %d keys ended after %d", b.N, done)
	}
	if err != nil {
		l.Unknown(err)
		return
	}
	present := look
	if hits < b.N {
		absent := look.Gather(flaggedRows(look, look.N, false))
		present = look.Gather(flaggedRows(look, look.N, true))
		l.Add(Effect{Kind: DeleteKeys, N: absent.N, Keys: absent.Columns[batch.Keys].Host})
	}
	if present.N > 0 {
		l.Add(Effect{Kind: PutPairs, N: present.N, Keys: present.Columns[batch.Keys].Host, Vals: present.Columns[batch.Vals].Host})
	}
}

// pairsIn adds the pairs that the table now has for the keys of a batch, or inside its key ranges.
func (l *logger) pairsIn(b *batch.Batch) {
	t := l.t
	for lo := 0; lo < b.N && !l.Failed(); lo += logRows {
		part := b.Chunk(lo, min(lo+logRows, b.N))
		look := &batch.Batch{N: part.N, Flags: t.Policy.MixedFlags()}
		look.Columns[batch.Keys], look.Columns[batch.Keys2] = part.Columns[batch.Keys], part.Columns[batch.Keys2]
		ranges := look.Columns[batch.Keys2].Given()
		offsets := make([]uint64, part.N+1)
		var keys, vals []byte
		err := t.expand(l.ctx, t.Leases.Current(), look, offsets, false,
			func(rows int) (c batch.Columns) {
				vals = make([]byte, rows*t.Widths.Val)
				c[batch.Vals] = batch.Output(vals).WithWidth(t.Widths.Val)
				if ranges {
					keys = make([]byte, rows*t.Widths.Key)
					c[batch.OutKeys] = batch.Output(keys).WithWidth(t.Widths.Key)
				}
				return c
			})
		if err != nil {
			l.Unknown(err)
			return
		}
		n := int(offsets[part.N])
		if !ranges {
			keys = repeat(&part.Columns[batch.Keys], offsets)
		}
		if n > 0 {
			l.Add(Effect{Kind: PutPairs, N: n, Keys: keys[:n*t.Widths.Key], Vals: vals[:n*t.Widths.Val]})
		}
	}
}

// repeat returns a column in which key i occurs offsets[i+1]-offsets[i] times.
func repeat(keys *batch.Column, offsets []uint64) []byte {
	var all []byte
	for i := range len(offsets) - 1 {
		for range offsets[i+1] - offsets[i] {
			all = append(all, keys.Row(i)...)
		}
	}
	return all
}

// Replay implements Logged.
func (t *Table) Replay(ctx context.Context, e *Effect) error {
	key := func(b []byte) batch.Column { return batch.Input(b).WithWidth(t.Widths.Key) }
	b := &batch.Batch{N: e.N, Kind: op.Put, Columns: batch.Columns{batch.Keys: key(e.Keys)}}
	switch e.Kind {
	case PutPairs:
		if w := t.Widths.Val; w > 0 {
			b.Columns[batch.Vals] = batch.Input(e.Vals).WithWidth(w)
		} else {
			b.Kind = op.PutNew
		}
	case DeleteKeys:
		if b.Kind = op.Delete; t.Kind == MultiMap {
			b.Kind = op.DeleteAll
		}
	case DeleteRanges:
		b.Kind, b.Columns[batch.Keys2] = op.DeleteRange, key(e.Keys2)
	case ClearTable:
		return t.Clear(ctx)
	case SetNextID:
		t.nextID = max(t.nextID, e.NextID)
		return nil
	default:
		return fmt.Errorf("%w: unknown effect %d", op.ErrFormat, e.Kind)
	}
	_, err := t.change(ctx, b)
	return t.wrap("replay", err)
}
