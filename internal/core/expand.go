package core

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
)

// Count counts the pairs of each key of a batch in host memory, and returns the total.
func (t *Table) Count(ctx context.Context, method string, at *Snapshot, b *batch.Batch) (total int, err error) {
	if !b.Columns[batch.Counts].Given() {
		b.Columns[batch.Counts] = batch.Output(make([]uint32, b.N))
	}
	if _, err = t.Get(ctx, method, at, b); err != nil {
		return 0, err
	}
	for _, n := range batch.View[uint32](b.Columns[batch.Counts].Host) {
		total += int(n)
	}
	return total, nil
}

// Expand finds all rows of each key of a batch in host memory, or of each range from Keys to Keys2
// up to the limit. It counts the rows, calls memory to allocate their columns, and writes the rows.
// offsets has one row more than the batch. The caller sets offsets[0] to the number of rows that
// precede the batch's rows. memory returns columns for rows offsets[0] to offsets[n]: Vals, and
// OutKeys for ranges. If changes run concurrently, Expand may find fewer rows than it has counted.
func (t *Table) Expand(ctx context.Context, method string, at *Snapshot, b *batch.Batch, offsets []uint64, memory func(rows int) batch.Columns) error {
	b.MustMatch(t.Name, method)
	lease, err := t.acquireLease(ctx, at, b)
	if err == nil {
		b.Flags = t.Policy.MixedFlags()
		err = errors.Join(t.expand(ctx, lease, b, offsets, true, memory), t.releaseLease(at, lease))
	}
	return t.wrap(method, partial(b, 0, nil, err))
}

func (t *Table) expand(ctx context.Context, lease *Lease, b *batch.Batch, offsets []uint64, limited bool, memory func(rows int) batch.Columns) error {
	// The counts use the second half of the offsets as memory. The loop reads each count before it
	// overwrites the count with an offset.
	counts := batch.View[uint32](device.Bytes(offsets))[b.N+2:]
	count := *b
	count.Columns[batch.Counts] = batch.Output(counts)
	if _, _, err := t.Engine.Lookup(ctx, nil, lease, &count, 0); err != nil {
		return err
	}
	for i, n := range counts {
		offsets[i+1] = offsets[i] + uint64(n)
	}
	rows := offsets[b.N] - offsets[0]
	if limited {
		if err := t.checkResultSize(rows, t.rowBytes(b)); err != nil {
			return err
		}
	}
	for r, c := range memory(int(rows)) {
		if c.Width > 0 {
			c.Offsets = offsets
			b.Columns[r] = c
		}
	}
	var found []uint32 // rows found per key; nil if they equal the counts
	if t.Engine.Caps().ConcurrentReads {
		found = make([]uint32, b.N)
		b.Columns[batch.Counts] = batch.Output(found)
	}
	if err := t.Engine.(Expander).Expand(ctx, nil, lease, b); err != nil {
		return err
	}
	closeGaps(b, offsets, found)
	return nil
}

// closeGaps moves result rows together where concurrent changes left a key with fewer rows than
// Expand had counted.
func closeGaps(b *batch.Batch, offsets []uint64, found []uint32) {
	first, from := offsets[0], offsets[0]
	to := first
	for i, n := range found {
		rows := min(uint64(n), offsets[i+1]-from)
		if to < from {
			for _, r := range []batch.Role{batch.Vals, batch.OutKeys} {
				c := &b.Columns[r]
				w := uint64(c.Width)
				if c.Given() {
					copy(c.Host[(to-first)*w:], c.Host[(from-first)*w:][:rows*w])
				}
			}
		}
		from, to = offsets[i+1], to+rows
		offsets[i+1] = to
	}
}

// smallResult is the maximum size in bytes of results that need no check of the free memory.
const smallResult = 64 << 20

// rowBytes returns the size in bytes of a result row; for ranges it includes the key.
func (t *Table) rowBytes(b *batch.Batch) int {
	if b.Columns[batch.Keys2].Given() {
		return t.Widths.Key + t.Widths.Val
	}
	return t.Widths.Val
}

// checkResultSize returns device.ErrMemory if results would exceed Config.ResultLimit. It runs
// before the memory of the results is allocated.
func (t *Table) checkResultSize(rows uint64, rowBytes int) error {
	limit := uint64(t.ResultLimit)
	hi, size := bits.Mul64(rows, uint64(rowBytes))
	if limit == 0 && hi == 0 && size > smallResult {
		limit = cpu.HostMemory().Free / 2
	}
	if hi == 0 && (limit == 0 || size <= limit) {
		return nil
	}
	return fmt.Errorf("%w: the results are %d rows of %d bytes, and the limit is %d bytes (Options.ResultLimit): ask for fewer keys at a time",
		device.ErrMemory, rows, rowBytes, limit)
}

// ExpandOn submits a search for all rows of each key of a batch in device memory. It writes Counts
// and Offsets. Vals, and OutKeys for ranges, receive as many rows as fit.
func (t *Table) ExpandOn(s *device.Stream, method string, at *Snapshot, b *batch.Batch) error {
	return t.submitRead(s, method, at, b, func(lease *Lease) error {
		return t.Engine.(Expander).Expand(context.Background(), s, lease, b)
	})
}
