package linear

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
const room = "linear"

// table is what maps and sets share: everything but the types of keys and
// values. It decides when to grow, in what pieces a batch is run and what an
// outcome means; the engine does the work.
type table struct {
	opts   Options
	widths batch.Widths
	dev    device.Device

	// mu is held for reading by lookups and for writing by everything that
	// changes the table, its size or its memory.
	mu     sync.RWMutex
	engine engine
	closed bool

	// usedBound is not below the number of slots in use, counting every
	// operation of submitted batches as a new key.
	usedBound uint64
	upkeep
	minLines uint32 // what Capacity asks for
	lost     int    // operations of submitted batches known to have found no room

	// keys is the number of keys as last counted; submitted tells that batches
	// have been submitted since.
	keys      atomic.Int64
	submitted atomic.Bool
}

func newTable(dev device.Device, what string, w batch.Widths, o *Options) (*table, error) {
	opts, err := o.check(what)
	if err != nil {
		return nil, err
	}
	if dev == nil {
		return nil, fmt.Errorf("linear: new %s: %w: no device", what, weft.ErrOptions)
	}
	lines, ok := linesFor(uint64(opts.Capacity), opts.MaxLoad, w.Slot)
	if !ok {
		return nil, fmt.Errorf("linear: new %s: %w: Capacity %d at load %g needs more than %d GiB",
			what, weft.ErrOptions, opts.Capacity, opts.MaxLoad, (maxLines+extraLines)*lineBytes>>30)
	}
	eng, err := newEngine(dev, w, geometry{seed: opts.Seed, lines: lines}, opts.Fixed)
	if err != nil {
		return nil, fmt.Errorf("linear: new %s: %w", what, err)
	}
	return &table{opts: opts, widths: w, dev: dev, engine: eng, minLines: lines}, nil
}

func (t *table) errClosed(op string) error { return wrap(op, weft.ErrClosed) }

// ---- lookups ----------------------------------------------------------------

func (t *table) get(ctx context.Context, op string, b *batch.Batch) (hits int, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return 0, t.errClosed(op)
	}
	b.Load = t.load()
	hits, err = t.engine.get(ctx, b)
	return hits, wrap(op, err)
}

func (t *table) getOn(s *device.Stream, op string, b *batch.Batch) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := b.Lies(t.dev, s); err != nil {
		return wrap(op, err)
	}
	b.Load = t.load()
	return wrap(op, t.engine.getOn(s, b))
}

// ---- changes ----------------------------------------------------------------

// change runs a batch from host memory and returns by how much the number of
// keys changed.
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
		err = errors.Join(fmt.Errorf("%w: no room for %d of %d operations in %d slots (%d live, %d dead)",
			weft.ErrFull, full, b.N, t.slots(), after.live, after.used-after.live), err)
	}
	if err = errors.Join(err, cerr); err == nil && delta < 0 {
		t.shrink(ctx, after)
	}
	return delta, wrap(op, err)
}

// changePieces runs a batch in pieces that fit the table, growing it between
// them, and returns the number of operations that found no room.
func (t *table) changePieces(ctx context.Context, b *batch.Batch, now counters) (full int, err error) {
	for lo := 0; lo < b.N; {
		if err := ctx.Err(); err != nil {
			return full, err
		}
		n := b.N - lo
		switch {
		case b.Inserts() && t.opts.Fixed:
			if now, n, err = t.clean(ctx, now); err != nil {
				return full, err
			}
			n = min(n, b.N-lo)
		case b.Inserts():
			if n, err = t.makeRoom(ctx, now, nil, b.Sub(lo, b.N, t.widths)); err != nil {
				return full, err
			}
		}
		b.Load = t.load()
		done, failed, err := t.engine.change(ctx, b.Sub(lo, lo+n, t.widths))
		if len(failed) > 0 {
			var again error
			failed, again = t.retry(context.WithoutCancel(ctx), b.Sub(lo, lo+n, t.widths), failed)
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

// makeRoom grows the table, if it must, so that operations of a batch have
// room: the whole batch, or at least a piece. It returns how many have room.
// The batch lies on the device if there is a stream.
func (t *table) makeRoom(ctx context.Context, now counters, s *device.Stream, b *batch.Batch) (int, error) {
	piece := min(b.N, batch.Piece)
	if room := t.room(now.used); room >= piece {
		return min(b.N, room), nil
	}
	// Updates need no room. A lookup is cheaper than growing for nothing, and
	// its outcome tells how much room the whole batch is likely to need.
	need, err := b.Sub(0, piece, t.widths).Insertions(ctx, s)
	if err != nil {
		return 0, err
	}
	if now.live > 0 {
		there, err := t.engine.present(ctx, s, b.Sub(0, piece, t.widths))
		if err != nil {
			return 0, err
		}
		need = min(need, piece-there)
	}
	if need <= t.room(now.used) {
		return piece, nil
	}
	expect := uint64(float64(need) / float64(piece) * float64(b.N))
	for _, fresh := range []uint64{expect, uint64(need)} { // be content with the piece
		lines, ok := linesFor(now.live+fresh, t.opts.MaxLoad, t.widths.Slot)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", weft.ErrFull, now.live+fresh)
			continue
		}
		if err = t.resize(ctx, t.stretch(lines, now), true); err == nil {
			return max(piece, min(b.N, t.room(now.live))), nil
		}
		if !errors.Is(err, device.ErrMemory) && !errors.Is(err, weft.ErrFull) {
			return 0, err
		}
	}
	// No memory to grow, or keys that crowd in any size: use what room there is.
	if room := t.room(now.used); room > 0 {
		return min(piece, room), nil
	}
	return 0, err
}

// stretch is the size to grow to when lines are needed: at least double, so
// that growth costs each key a constant number of moves, unless dropping dead
// slots alone makes half the table free.
func (t *table) stretch(lines uint32, now counters) uint32 {
	have := t.engine.geometry().lines
	switch {
	case lines > have/2 && lines < 2*have:
		lines = uint32(min(2*uint64(have), maxLines))
	case lines <= have/2:
		lines = have
	}
	return max(lines, t.minLines)
}

// room is how many more slots may be used.
func (t *table) room(used uint64) int { return roomIn(t.slots(), t.opts.MaxLoad) - int(used) }

// load is the share of slots in use, or more if batches have been submitted
// since the last count.
func (t *table) load() float64 { return float64(t.usedBound) / float64(t.slots()) }

func (t *table) slots() int {
	return int(t.engine.geometry().lines) * lineBytes / t.widths.Slot
}

// resize rehashes to a number of lines. A thorough one gives up later when keys
// crowd.
func (t *table) resize(ctx context.Context, lines uint32, thorough bool) error {
	have := t.engine.geometry().lines
	if err := t.engine.rehash(ctx, lines, thorough); err != nil {
		return err
	}
	t.opts.Logger.Debug("linear: rehash", "from_lines", have, "to_lines", lines, "bytes", t.engine.geometry().bytes())
	return nil
}

// count reads the counters once submitted work is done.
func (t *table) count(ctx context.Context) (counters, error) {
	c, err := t.engine.counts(ctx)
	if err == nil {
		t.usedBound = c.used
		t.liveBound, t.deadBound = c.live, c.used-c.live
		t.keys.Store(int64(c.live))
		t.submitted.Store(false)
	}
	return c, err
}

// changeOn submits a batch that lies on the device.
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
	if err := t.cleanOn(ctx, b); err != nil {
		return wrap(op, err)
	}
	for lo := 0; lo < b.N; {
		n := b.N - lo
		if b.Inserts() && !t.opts.Fixed {
			// Only when the bound says that the table could overflow is it
			// worth waiting for the true count.
			n = min(n, t.room(t.usedBound))
			if n < min(b.N-lo, batch.Piece) {
				now, err := t.count(ctx)
				if err != nil {
					return wrap(op, err)
				}
				if n, err = t.makeRoom(ctx, now, s, b.Sub(lo, b.N, t.widths)); err != nil {
					return wrap(op, err)
				}
				if _, err = t.count(ctx); err != nil {
					return wrap(op, err)
				}
			}
		}
		b.Load = t.load()
		part := b.Sub(lo, lo+n, t.widths)
		failed, err := t.engine.changeOn(s, part)
		if err == nil && len(failed) > 0 {
			failed, err = t.retry(ctx, part, failed)
		}
		t.submitted.Store(true)
		t.lost += len(failed)
		if err != nil {
			return wrap(op, err)
		}
		if b.Inserts() {
			t.usedBound += uint64(n)
		}
		t.submit(b, n)
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
		err = fmt.Errorf("%w: no room for %d operations since the last Sync, in %d slots", weft.ErrFull, lost, t.slots())
	}
	return wrap(op, err)
}

// ---- the rest ---------------------------------------------------------------

// length is the number of keys: known, unless batches have been submitted
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

func (t *table) clear(ctx context.Context, op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.errClosed(op)
	}
	if err := ctx.Err(); err != nil {
		return wrap(op, err)
	}
	// What is cleared is cleared, whatever becomes of the context.
	ctx = context.WithoutCancel(ctx)
	err := t.engine.clear(ctx)
	if err == nil {
		_, err = t.count(ctx)
	}
	return wrap(op, err)
}

// compact drops dead slots, and in a table that may shrink also room beyond
// what its keys need.
func (t *table) compact(ctx context.Context, op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.errClosed(op)
	}
	now, err := t.count(ctx)
	if err != nil {
		return wrap(op, err)
	}
	return wrap(op, t.compacted(ctx, now))
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
