package slab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// room is the name of this package in messages.
const room = "slab"

// table is what maps, sets and multimaps share: everything but the types of
// keys and values. It decides when to grow, in what pieces a batch is run and
// what an outcome means; the engine does the work. What it decides about
// memory is in growth.go.
type table struct {
	opts   Options
	widths batch.Widths
	dev    device.Device
	multi  bool

	// perBucket is the mean number of keys per bucket at which the wanted
	// utilisation is reached; minBuckets are those of Capacity keys.
	perBucket  float64
	minBuckets uint32

	// mu is held for reading by lookups and for writing by everything that
	// changes the table, its size or its memory.
	mu     sync.RWMutex
	engine engine
	closed bool

	bounds bounds
	lost   int // operations without room in batches on the device

	// keys is the number of pairs as last counted; submitted tells that batches
	// have been submitted since.
	keys      atomic.Int64
	submitted atomic.Bool
}

func newTable(dev device.Device, what string, w batch.Widths, multi bool, o *Options) (*table, error) {
	opts, err := o.check(what)
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) (*table, error) {
		return nil, fmt.Errorf("slab: new %s: %w: %s", what, weft.ErrOptions, fmt.Sprintf(format, args...))
	}
	if dev == nil {
		return fail("no device")
	}
	t := &table{opts: opts, widths: w, dev: dev, multi: multi}
	var ok bool
	if t.perBucket, ok = keysPerBucket(opts.Utilisation, w.Slot); !ok {
		return fail("slabs with slots of %d bytes have no Utilisation of %v", w.Slot, opts.Utilisation)
	}
	if t.minBuckets, ok = bucketsFor(uint64(opts.Capacity), t.perBucket); !ok && opts.Buckets == 0 {
		return fail("Capacity %d at utilisation %v needs more than %d GiB", opts.Capacity, opts.Utilisation, maxBuckets*slabBytes>>30)
	}
	if opts.Buckets != 0 {
		t.minBuckets = uint32(opts.Buckets)
	}
	units := chainedFor(uint64(opts.Capacity), t.minBuckets, w.Slot)
	switch {
	case opts.Fixed:
		units = ceilDiv(opts.Capacity, slotsIn(w.Slot)) + min(opts.Capacity, unitsInHand)
	case opts.Buckets != 0: // all growth is in the pool
		units = max(units, chainUnits)
	}
	if units > maxUnits {
		return fail("Capacity %d takes %d slabs of %d bytes from a pool that has %d at most", opts.Capacity, units, slabBytes, maxUnits)
	}
	g := geometry{seed: opts.Seed, buckets: t.minBuckets}
	if err = enough(dev, g, units, opts.Fixed); err == nil {
		t.engine, err = newEngine(dev, w, g, units, opts.Fixed)
	}
	if err != nil {
		return nil, fmt.Errorf("slab: new %s: %w", what, err)
	}
	return t, nil
}

// flagsFor are the flags of a batch that is all of one kind.
func (t *table) flagsFor(kind weft.OpKind) batch.Flags {
	f := t.mixed()
	// In a multimap, all other operations do something for each duplicate.
	if !t.opts.Unordered && (!t.multi || kind == weft.OpPutNew) {
		f |= batch.Order
	}
	// In a multimap, the order of its slots is that of a key's pairs.
	if kind != weft.OpDelete && !t.multi {
		f |= batch.Reuse
	}
	return f
}

// mixed are the flags of lookups and of mixed batches.
func (t *table) mixed() batch.Flags {
	if t.multi {
		return flagMulti
	}
	return 0
}

func (t *table) errClosed(op string) error { return wrap(op, weft.ErrClosed) }

// ---- lookups ----------------------------------------------------------------

func (t *table) get(ctx context.Context, op string, b *batch.Batch) (hits int, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return 0, t.errClosed(op)
	}
	b.Flags = t.mixed()
	hits, err = t.engine.get(ctx, b)
	return hits, wrap(op, err)
}

func (t *table) getOn(s *device.Stream, op string, b *batch.Batch) error {
	b.Flags = t.mixed()
	return t.lookOn(s, op, b, func() error { return t.engine.getOn(s, b) })
}

// lookOn submits a lookup of a batch that lies on the device.
func (t *table) lookOn(s *device.Stream, op string, b *batch.Batch, submit func() error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := b.Lies(t.dev, s); err != nil {
		return wrap(op, err)
	}
	return wrap(op, submit())
}

// tally counts the pairs of each key of a batch.
func (t *table) tally(ctx context.Context, op string, b *batch.Batch, counts []uint32) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return t.errClosed(op)
	}
	return wrap(op, t.engine.tally(ctx, b, counts))
}

// collect fetches all pairs of each key of a batch: it counts them, asks for
// memory for the values, and writes them there. offsets has a row more than
// the batch.
func (t *table) collect(ctx context.Context, op string, b *batch.Batch, offsets []uint64, memory func(rows int) []byte) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return t.errClosed(op)
	}
	counts := make([]uint32, b.N)
	if err := t.engine.tally(ctx, b, counts); err != nil {
		return wrap(op, err)
	}
	for i, n := range counts {
		offsets[i+1] = offsets[i] + uint64(n)
	}
	return wrap(op, t.engine.collect(ctx, b, offsets, memory(int(offsets[b.N]))))
}

// ---- changes ----------------------------------------------------------------

// change runs a batch from host memory and returns by how much the number of
// pairs changed.
func (t *table) change(ctx context.Context, op string, b *batch.Batch) (delta int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, t.errClosed(op)
	}
	before, err := t.count(ctx)
	if err != nil {
		return 0, wrap(op, err)
	}
	full, err := t.changePieces(ctx, b, before)
	after, cerr := t.count(context.WithoutCancel(ctx))
	delta = int(int64(after.live - before.live))
	if full > 0 {
		err = errors.Join(fmt.Errorf("%w: no room for %d of %d operations in %d buckets (%d live, %d dead)",
			weft.ErrFull, full, b.N, t.engine.geometry().buckets, after.live, after.used-after.live), err)
	}
	if err = errors.Join(err, cerr); err == nil {
		err = t.afterwards(ctx, after, delta)
	}
	return delta, wrap(op, err)
}

// afterwards gives memory back that a batch has set free. A context that ends
// meanwhile does not undo the batch: the next one tries again.
func (t *table) afterwards(ctx context.Context, now counters, delta int) error {
	now, err := t.tidy(ctx, now)
	if err == nil && delta < 0 {
		err = t.shrink(ctx, now)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// changePieces runs a batch in pieces, making room for each, and returns the
// number of operations that found none.
func (t *table) changePieces(ctx context.Context, b *batch.Batch, now counters) (full int, err error) {
	for lo := 0; lo < b.N; {
		if err := ctx.Err(); err != nil {
			return full, err
		}
		n := b.N - lo
		if b.Inserts() {
			if n, err = t.makeRoom(ctx, now, nil, b.Sub(lo, b.N, t.widths)); err != nil {
				return full, err
			}
		}
		part := b.Sub(lo, lo+n, t.widths)
		done, failed, err := t.engine.change(ctx, part)
		t.bounds.take(t.worst(part))
		if len(failed) > 0 {
			var again error
			failed, again = t.retry(context.WithoutCancel(ctx), part, failed)
			err = errors.Join(err, again)
		}
		full += len(failed)
		if err != nil {
			return full, err
		}
		lo += done
		if now, err = t.count(ctx); err != nil {
			return full, err
		}
	}
	return full, nil
}

// count reads the counters once submitted work is done.
func (t *table) count(ctx context.Context) (counters, error) {
	c, err := t.engine.counts(ctx)
	if err == nil {
		t.bounds.live, t.bounds.used = c.live, c.used
		t.keys.Store(int64(c.live))
		t.submitted.Store(false)
	}
	return c, err
}

// changeOn submits a batch that lies on the device. It waits only if there may
// not be room for it.
func (t *table) changeOn(s *device.Stream, op string, b *batch.Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := b.Lies(t.dev, s); err != nil {
		return wrap(op, err)
	}
	ctx := context.Background()
	for lo := 0; lo < b.N; {
		n := b.N - lo
		if b.Inserts() && !t.fits(n) {
			now, err := t.count(ctx)
			if err == nil {
				now, err = t.tidy(ctx, now)
			}
			if err == nil {
				n, err = t.makeRoom(ctx, now, s, b.Sub(lo, b.N, t.widths))
			}
			if err != nil {
				return wrap(op, err)
			}
		}
		part := b.Sub(lo, lo+n, t.widths)
		failed, err := t.engine.changeOn(s, part, b.Inserts() && !t.covered(n))
		t.bounds.take(t.worst(part))
		if err == nil && len(failed) > 0 {
			failed, err = t.retryOn(ctx, s, part, failed)
		}
		t.submitted.Store(true)
		t.lost += len(failed)
		if err != nil {
			return wrap(op, err)
		}
		if b.Inserts() {
			t.bounds.live += uint64(n)
			t.bounds.used += uint64(n)
		}
		lo += n
	}
	return nil
}

// sync waits for submitted batches and reports operations without room.
func (t *table) sync(ctx context.Context, op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := t.engine.settle(ctx); err != nil {
		return wrap(op, err)
	}
	lost, err := t.engine.lost(ctx)
	lost, t.lost = lost+t.lost, 0
	if err == nil && lost > 0 {
		err = fmt.Errorf("%w: no room for %d operations since the last Sync, in %d buckets", weft.ErrFull, lost, t.engine.geometry().buckets)
	}
	return wrap(op, err)
}

// ---- the rest ---------------------------------------------------------------

// length is the number of pairs: known, unless batches have been submitted
// since it was counted. 0 when the table is closed.
func (t *table) length() int {
	if t.submitted.Load() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed {
			return 0
		}
		// On an error, which the next call reports, the last count stands.
		_, _ = t.count(context.Background())
	}
	return int(t.keys.Load())
}

// alone runs something on a table that is open, and then counts.
func (t *table) alone(ctx context.Context, op string, f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := ctx.Err(); err != nil {
		return wrap(op, err)
	}
	err := f()
	_, cerr := t.count(context.WithoutCancel(ctx))
	return wrap(op, errors.Join(err, cerr))
}

func (t *table) clear(ctx context.Context, op string) error {
	return t.alone(ctx, op, func() error { return t.engine.clear(context.WithoutCancel(ctx)) })
}

func (t *table) flush(ctx context.Context, op string) error {
	return t.alone(ctx, op, func() error { return t.engine.flush(ctx) })
}

// compact leaves as many buckets and slabs as the options ask for.
func (t *table) compact(ctx context.Context, op string) error {
	return t.alone(ctx, op, func() error {
		if t.opts.Fixed { // no memory beside what it has
			return t.engine.flush(ctx)
		}
		now, err := t.count(ctx)
		if err != nil {
			return err
		}
		buckets := t.engine.geometry().buckets
		if t.opts.Buckets == 0 {
			need, _ := bucketsFor(now.live, t.perBucket)
			buckets = min(buckets, max(need, t.minBuckets))
		}
		return t.resize(ctx, buckets, now.live)
	})
}

func (t *table) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.keys.Store(0)
	return wrap("Close", t.engine.close())
}

// wrap says which method of which package an error comes from, once.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", room, op, err)
}
