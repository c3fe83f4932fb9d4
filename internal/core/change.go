package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Change runs a batch in host memory and returns the change in the number of pairs.
func (t *Table) Change(ctx context.Context, method string, b *batch.Batch) (delta int, err error) {
	b.MustMatch(t.Name, method)
	delta, err = t.change(ctx, b)
	return delta, t.wrap(method, err)
}

// change implements Change. The caller has checked the columns and adds its method name to the
// error.
func (t *Table) change(ctx context.Context, b *batch.Batch) (delta int, err error) {
	var done int
	var failed []int
	err = t.runDurable(ctx, t.needsExclusive(), func() (err error) {
		delta, done, failed, err = t.changeLocked(ctx, b)
		return err
	})
	return delta, partial(b, done, failed, err)
}

// changeLocked implements change. The caller holds the writer lock and, if needed, has begun an
// exclusive section.
func (t *Table) changeLocked(ctx context.Context, b *batch.Batch) (delta, done int, failed []int, err error) {
	t.setFlags(b)
	delta, done, failed, err = t.runCounted(ctx, b, t.runChunks)
	if err == nil {
		t.releaseMemory(ctx, t.bound, delta)
	}
	return delta, done, failed, err
}

// runCounted runs a batch by calling chunks and returns its outcome. done is the length of the
// prefix that was run; failed lists its operations that overflowed, ascending.
func (t *Table) runCounted(ctx context.Context, b *batch.Batch, chunks func(context.Context, *batch.Batch) (done int, failed []int, err error)) (delta, done int, failed []int, err error) {
	t.setLabels(ctx, b)
	defer t.clearLabels(ctx)
	before, err := t.readCounters(ctx)
	if err == nil {
		err = t.reserveLog(ctx, b)
	}
	if err != nil {
		return 0, 0, nil, err
	}
	done, failed, err = chunks(ctx, b)
	_, cerr := t.readCounters(context.WithoutCancel(ctx))
	after := t.bound // counters of the last successful reading
	delta = int(int64(after.Live - before.Live))
	switch {
	case len(failed) == 0:
	// A retry was interrupted and might have succeeded.
	case errors.Is(err, device.ErrLost), err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%d of %d operations were not retried: %w", len(failed), b.N, err)
	default:
		err = errors.Join(fmt.Errorf("%w: no room for %d of %d operations %s (%d live, %d dead)",
			op.ErrFull, len(failed), b.N, t.Policy.Describe(), after.Live, after.Dead), err)
	}
	err = errors.Join(err, cerr)
	return delta, done, failed, errors.Join(err, t.commit(ctx), t.logBatch(ctx, b, delta, failed, err))
}

func (t *Table) commit(ctx context.Context) error {
	if p, ok := t.Engine.(Persister); ok {
		return p.Commit(context.WithoutCancel(ctx))
	}
	return nil
}

func (t *Table) setFlags(b *batch.Batch) {
	if b.Columns[batch.Kinds].Given() {
		b.Flags = t.Policy.MixedFlags()
	} else {
		b.Flags = t.Policy.Flags(b.Kind)
	}
	b.Flags |= t.Types.Val.flags()
	t.nextStale = t.nextStale || b.Inserts()
}

// releaseMemory releases memory that a successful call no longer needs. If that fails, the next
// call tries again.
func (t *Table) releaseMemory(ctx context.Context, now Counters, delta int) {
	err := t.Policy.Trim(ctx, now, delta)
	if _, cerr := t.readCounters(context.WithoutCancel(ctx)); err == nil {
		err = cerr
	}
	if err != nil && ctx.Err() == nil {
		t.Logger.Debug(t.Name+": memory could not be released", "error", err)
	}
}

func (t *Table) needsCapacity(b *batch.Batch) bool {
	return b.Inserts() || t.Engine.Caps().DeletesMayOverflow
}

// runChunks runs a batch chunk by chunk and reserves capacity before each chunk. done is the length
// of the prefix that was run; failed lists its operations that overflowed, ascending.
func (t *Table) runChunks(ctx context.Context, b *batch.Batch) (done int, failed []int, err error) {
	refused := 0 // rows before this index are not combined
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		if done >= refused {
			ran, overflowed, err := t.runCombined(ctx, b, done)
			done, failed = done+ran, appendRows(failed, done, overflowed)
			if err != nil {
				return done, failed, err
			}
			if ran > 0 {
				continue
			}
			refused = done + reduceRows
		}
		n := b.N - done
		if t.needsCapacity(b) {
			if n, _, err = t.Policy.Prepare(ctx, t.bound, nil, b.Part(done, b.N)); err != nil {
				return done, failed, err
			}
		}
		part := b.Part(done, done+n)
		ran, overflowed, err := t.Engine.Change(ctx, nil, part)
		if len(overflowed) > 0 {
			var rerr error
			overflowed, rerr = t.retry(ctx, part, overflowed)
			err = errors.Join(err, rerr)
		}
		done, failed = done+ran, appendRows(failed, done, overflowed)
		if err != nil {
			return done, failed, err
		}
		if _, err = t.readCounters(ctx); err != nil {
			return done, failed, err
		}
	}
	return done, failed, nil
}

// retry runs operations again that overflowed, until the policy can free no more capacity or the
// context ends. It returns the operations that still overflow.
func (t *Table) retry(ctx context.Context, b *batch.Batch, failed []uint32) (remaining []uint32, err error) {
	for retryable := true; ; {
		if failed, err = t.resolvePresent(context.WithoutCancel(ctx), b, failed); err != nil || len(failed) == 0 || !retryable {
			return failed, err
		}
		now, err := t.readCounters(context.WithoutCancel(ctx))
		if err = errors.Join(err, ctx.Err()); err != nil {
			return failed, err
		}
		rerun := b.Gather(failed)
		remaining, retryable, err = t.Policy.Retry(ctx, now, rerun)
		b.Scatter(rerun, failed)
		for i, j := range remaining {
			remaining[i] = failed[j]
		}
		if err != nil {
			return remaining, err
		}
		failed = remaining
	}
}

// resolvePresent removes failed operations of an ordered batch if their keys are present now.
// Another operation has inserted each such key, so it resolves both operations as duplicates.
func (t *Table) resolvePresent(ctx context.Context, b *batch.Batch, failed []uint32) ([]uint32, error) {
	if !b.Ordered() || !b.Inserts() || len(failed) == 0 {
		return failed, nil
	}
	found := make([]bool, len(failed))
	look := b.Select(batch.Keys).Gather(failed)
	look.Flags, look.Columns[batch.OK] = t.Policy.MixedFlags(), batch.Output(found)
	if _, _, err := t.Engine.Lookup(ctx, nil, t.Leases.Current(), look, 0); err != nil {
		return failed, err
	}
	left, met := failed[:0], []uint32(nil)
	for i, at := range failed {
		if found[i] {
			met = append(met, at)
		} else {
			left = append(left, at)
		}
	}
	return left, t.resolveFirstWins(ctx, b, met)
}

// ChangeOn submits a batch that lies in device memory. It waits only if the table may overflow. The
// number of pairs added or removed is added to the counter in counts, if given.
func (t *Table) ChangeOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	return t.Submit(context.Background(), s, method, b, counts...)
}

// Submit implements ChangeOn. ctx can end its waits.
func (t *Table) Submit(ctx context.Context, s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	b.MustMatch(t.Name, method)
	return t.wrap(method, t.changeOn(ctx, s, b, counts, func(ctx context.Context) (done int, failed []int, err error) {
		err = t.withExclusive(ctx, t.needsExclusive(), func() error {
			done, failed, err = t.submitChunks(ctx, s, b)
			return err
		})
		return done, failed, err
	}))
}

// changeOn calls submit under the writer lock to submit the chunks of a batch. submit returns the
// operations that are known to have overflowed. If submit succeeds, Sync reports those operations.
func (t *Table) changeOn(ctx context.Context, s *device.Stream, b *batch.Batch, counts []device.Slice[uint64], submit func(context.Context) (done int, failed []int, err error)) error {
	var done int
	var failed []int
	to, err := t.prepareCounter(ctx, s, b, counts)
	if err == nil {
		err = t.runLocked(ctx, false, func() (err error) {
			t.setFlags(b)
			if err := t.reserveLog(ctx, b); err != nil {
				return err
			}
			// The count is the difference between the numbers of pairs before and after the batch.
			inserts := b.Inserts()
			if to.Len() > 0 {
				if err := t.Engine.AddPairs(s, to, inserts); err != nil {
					return err
				}
			}
			done, failed, err = submit(ctx)
			if to.Len() > 0 {
				err = errors.Join(err, t.Engine.AddPairs(s, to, !inserts))
			}
			if err == nil {
				t.sent.add(b.N, failed)
			}
			return errors.Join(err, t.logStream(ctx, s, b, failed, err))
		})
	}
	if err != nil {
		return op.Partial(done, failed, err)
	}
	return nil
}

// prepareCounter checks a batch in device memory, waits until the engine is ready, and returns the
// counter in counts.
func (t *Table) prepareCounter(ctx context.Context, s *device.Stream, b *batch.Batch, counts []device.Slice[uint64]) (to device.Slice[uint64], err error) {
	if err := b.CheckDevice(t.Device, s); err != nil {
		return to, err
	}
	if to, err = t.Counter(counts); err != nil {
		return to, err
	}
	return to, t.await(ctx)
}

// submitChunks submits a batch chunk by chunk. done is the length of the prefix that was submitted;
// failed lists its operations that are known to have overflowed.
func (t *Table) submitChunks(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []int, err error) {
	for done < b.N {
		n, report, err := t.reserveOn(ctx, s, b.Part(done, b.N))
		if err != nil {
			return done, failed, err
		}
		part := b.Chunk(done, done+n)
		if report {
			part.Flags |= batch.Report
		}
		ran, overflowed, err := t.Engine.Change(ctx, s, part)
		if len(overflowed) > 0 && err == nil {
			overflowed, err = t.retryOn(context.WithoutCancel(ctx), s, part, overflowed)
		}
		done, failed = done+ran, appendRows(failed, done, overflowed)
		t.bound.addSubmitted(part) // also after an error, because a part may have run
		if err != nil {
			return done, failed, err
		}
	}
	if !t.Engine.Caps().Streams {
		_, err = t.readCounters(ctx)
	}
	return done, failed, err
}

// addSubmitted increases the bounds by the possible effect of a batch that may still be running.
func (c *Counters) addSubmitted(b *batch.Batch) {
	c.Exact = false
	mixed := b.Columns[batch.Kinds].Given()
	if b.Inserts() {
		c.Live += uint64(b.N)
		c.Used += uint64(b.N)
	}
	if mixed || !b.Inserts() {
		c.Dead += uint64(b.N)
	}
}

// reserveOn reserves capacity for operations of a batch in device memory, and returns their number.
// It waits for submitted work only if the bounds do not prove sufficient capacity.
func (t *Table) reserveOn(ctx context.Context, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if !t.needsCapacity(b) {
		return b.N, false, nil
	}
	n, report, err = t.Policy.Prepare(ctx, t.bound, s, b)
	if err != nil || n > 0 {
		return n, report, err
	}
	now, err := t.readCounters(ctx)
	if err != nil {
		return 0, false, err
	}
	if n, report, err = t.Policy.Prepare(ctx, now, s, b); err != nil {
		return 0, false, err
	}
	_, err = t.readCounters(ctx) // Prepare may have removed dead slots
	return n, report, err
}

// retryOn implements retry for a batch in device memory that has run to its end.
func (t *Table) retryOn(ctx context.Context, s *device.Stream, b *batch.Batch, failed []uint32) ([]uint32, error) {
	host, err := b.Fetch(ctx, s)
	if err != nil {
		return failed, err
	}
	failed, err = t.retry(ctx, host, failed)
	return failed, errors.Join(err, b.Store(s, host))
}

// Rerun runs operations again that overflowed. Policies call it. remaining lists the operations
// that overflowed again or did not run because of an error, ascending.
func Rerun(ctx context.Context, e Engine, failed *batch.Batch) (remaining []uint32, err error) {
	for done := 0; done < failed.N && err == nil; {
		var ran int
		var overflowed []uint32
		ran, overflowed, err = e.Change(ctx, nil, failed.Chunk(done, failed.N))
		for _, i := range overflowed {
			remaining = append(remaining, uint32(done)+i)
		}
		done += ran
		for i := done; err != nil && i < failed.N; i++ {
			remaining = append(remaining, uint32(i))
		}
	}
	return remaining, err
}

// AllRows returns the indices 0 to n-1, which list all operations of a batch as failed.
func AllRows(n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}
