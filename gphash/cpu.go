package gphash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pool"
)

// engine runs batches on the cores of the host. Keys are distributed by the first bits of their
// hash: operations on one key stay in order, and each core works on regions of its own, of levels
// and of values.
type engine struct {
	cpu.Engine
	*table
	pool    *pool.Pool
	drained uint64 // drained buckets of the lowest level, if it is closed
	next    *nextLevel
	// unplaced is log2 of the level that is not zeroed in advance.
	unplaced uint
	// Buckets that have been drained, and zeroed for a new level, since the pool was opened.
	moved, zeroes uint64
	changed       atomic.Bool // since the pool was opened
	resizes       uint64      // since the pool was opened
	retries       uint64      // batches rerun, since the pool was opened

	// Of the running batch: the error if a value found no memory, and the hashes of keys with
	// deferred operations.
	noSpace error
	late    map[uint64]bool
	// moves: keys may be moved to make slots.
	moves bool
	// lacked: operations of the batch have found no memory in the units of their regions.
	lacked bool
	// images are the results of an atomic batch by key, per core.
	images []images
	// placers place records for a GPU, per core.
	placers []placer

	far  far   // works on the pool in place of this engine; nil: none
	lost error // why that device no longer does
}

// far is another device that works on the pool of an engine; the engine itself only decides then.
type far interface {
	// fetch finds out which memory of values is in use, and frees unused units. send passes changes
	// of it back to the device.
	fetch() error
	send() error
	// show passes the levels to the device, and waits until no reader uses the previous ones. On an
	// error nothing changes.
	show() error
	// refresh passes changes that the host has made to slots.
	refresh() error
	recycle() error
	clear(lo, hi uint64) error
	moveUp(lo, hi uint64) (ok bool, err error) // of the lowest level; errHeld
}

// parts are the memory of an index: its pool, until it is closed.
type parts struct {
	core.Lines // a GPU has the counters in one, without slots
	counters   core.Tally
	close      func() error
}

func (p *parts) Tally() *core.Tally { return &p.counters }
func (p *parts) Free() error        { return p.close() }

// bits returns log2 of the number of regions by which operations are distributed.
func (t *table) bits() uint { return t.live[len(t.live)-1].regions() }

// ---- lookups --------------------------------------------------------------------

// Look implements [core.Engine].
func (e *engine) Look(ctx context.Context, s *device.Stream, _ *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, 0, err
	}
	in := e.rows(b)
	return e.Each(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		reads := lookups{rows: in}
		ran = cpu.Ahead(w, numbers(lo, hi), cpu.Group, in.ask, reads.find)
		reads.finish()
		return ran, reads.hits
	})
}

// numbers returns the numbers of operations [lo,hi).
func numbers(lo, hi int) []uint32 {
	all := make([]uint32, hi-lo)
	for i := range all {
		all[i] = uint32(lo + i)
	}
	return all
}

// lookups are the lookups of one core. It finds several keys one after the other and then reads
// their values, which have been prefetched by then.
type lookups struct {
	*rows
	found [cpu.Group]lookup
	n     int
	hits  int
}

// lookup is a key that has been found.
type lookup struct {
	item
	row uint32
	at  place
	is  control
}

// find looks a key up. finishRecord checks later whether a record is the key's.
func (l *lookups) find(i uint32, it item) {
	tagged := it
	if l.records() {
		tagged.key = nil
	}
	at, c, ok := l.table.find(&tagged)
	l.answer(i, ok)
	if !ok || !l.Columns[batch.Vals].Given() && !l.records() {
		return
	}
	if p := l.mem.At(c.block()); p != nil {
		cpu.PrefetchPairs([]unsafe.Pointer{p})
	}
	l.found[l.n] = lookup{it, i, at, c}
	if l.n++; l.n == len(l.found) {
		l.finish()
	}
}

func (l *lookups) answer(i uint32, ok bool) {
	if l.flag(i, ok); ok {
		l.hits++
		return
	}
	clear(l.value(batch.Vals, i))
	if lengths := &l.Columns[batch.Counts]; lengths.Given() {
		clear(lengths.Row(int(i)))
	}
}

// finish reads the values of keys that have been found. If a slot has changed since, its key is
// looked up again.
func (l *lookups) finish() {
	for j := range l.found[:l.n] {
		f := &l.found[j]
		if l.records() {
			l.finishRecord(f)
			continue
		}
		value := l.value(batch.Vals, f.row)
		l.values.read(f.is.block(), value)
		if control(l.mem.Load(l.control(f.at))) != f.is {
			l.hits--
			_, ok := l.get(&f.item, value)
			l.answer(f.row, ok)
		}
	}
	l.n = 0
}

// rows gives access to the columns of a batch by row.
type rows struct {
	*table
	*batch.Batch
	ok    []bool
	kinds []op.Kind
}

func (e *engine) rows(b *batch.Batch) *rows {
	return &rows{e.table, b, batch.View[bool](b.Columns[batch.OK].Host), batch.View[op.Kind](b.Columns[batch.Kinds].Host)}
}

func (r *rows) key(i uint32) []byte {
	return r.Columns[batch.Keys].Row(int(i))
}

// value returns a row of a column of values; nil, if the column is missing.
func (r *rows) value(of batch.Role, i uint32) []byte {
	c := &r.Columns[of]
	if !c.Given() {
		return nil
	}
	return c.Row(int(i))
}

func (r *rows) flag(i uint32, ok bool) {
	if r.ok != nil {
		r.ok[i] = ok
	}
}

func (r *rows) kind(i uint32) op.Kind {
	if r.kinds != nil {
		return r.kinds[i]
	}
	return r.Kind
}

// ask hashes the keys of operations and prefetches their candidate buckets: the first 128 bytes of
// each, which hold control words and tags.
func (r *rows) ask(ops []uint32, places *[cpu.Group]item) {
	var lines [4 * cpu.Group]unsafe.Pointer
	var memory [maxHashes]uint64
	n := 0
	for j, i := range ops {
		places[j] = r.item(r.key(i))
		for _, l := range r.live {
			for _, b := range r.buckets(l, places[j].hash, memory[:]) {
				if n == len(lines) {
					cpu.PrefetchPairs(lines[:n])
					n = 0
				}
				if p := r.mem.At(b); p != nil {
					lines[n], n = p, n+1
				}
			}
		}
	}
	cpu.PrefetchPairs(lines[:n])
}

// ---- changes --------------------------------------------------------------------

// Caps implements [core.Engine].
func (e *engine) Caps() core.Caps { return core.Caps{DeletesTakeRoom: e.redo != nil, Updates: true} }

// Combine implements [core.Combiner]. Atomic batches stay whole, because they combine operations
// per key by themselves.
func (e *engine) Combine(b *batch.Batch) *batch.Batch {
	if e.redo != nil {
		return nil
	}
	return e.Engine.Combine(b)
}

// Change implements [core.Engine]. From here on it reuses what the last batch has deleted.
func (e *engine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, nil, err
	}
	if err := e.changeable(); err != nil {
		return 0, nil, err
	}
	if err := e.recycle(); err != nil {
		return 0, nil, err
	}
	tally := &e.Parts().(*parts).counters
	e.noSpace, e.late = nil, map[uint64]bool{}
	e.moves = !e.Leases.Held() && tally.Live < uint64(fullest*float64(e.slotsIn(e.open())))
	if e.redo != nil {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		done = min(b.N, e.redo.capacity())
		return done, e.atomic(e.rows(b.Part(0, done)), tally), nil
	}
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		rows := e.rows(b.Part(done, min(done+cpu.PieceOps, b.N)))
		for _, r := range e.piece(rows) {
			r.found.deliver(&rows.Columns[batch.Out])
			tally.Live += uint64(r.live)
			tally.Used += uint64(r.live + r.dead)
			for _, i := range r.failed {
				failed = append(failed, uint32(done)+i)
				e.late[e.of(rows.key(i))] = true
			}
			if r.noSpace != nil {
				e.noSpace = r.noSpace
			}
		}
		done += rows.N
	}
	slices.Sort(failed)
	return done, failed, nil
}

// changeable precedes changes. It refuses changes of a pool opened for reading, because its memory
// is read-only. After the loss of a GPU it also refuses those that were admitted alongside readers.
func (e *engine) changeable() error {
	if e.pool.ReadOnly() {
		return ErrReadOnly
	}
	if e.lost != nil && !e.Leases.Excluded() {
		return e.lost
	}
	e.changed.Store(true)
	return nil
}

// recycle frees what changes have deleted and replaced so far. It runs before a level is dropped,
// since its tombstones would refer to memory in other use later.
func (e *engine) recycle() error {
	if e.far != nil {
		return e.far.recycle()
	}
	e.Parts().(*parts).counters.Used -= uint64(e.values.recycle())
	return nil
}

// result is the result of a share of a piece.
type result struct {
	live, dead int
	failed     []uint32
	noSpace    error
	found      found
}

// piece runs a piece of a batch.
func (e *engine) piece(r *rows) []result {
	bits := e.bits()
	shares := e.deal(r, bits)
	results := make([]result, len(shares))
	e.Device.Parallel(len(shares), 1, func(i, _ int) { results[i] = e.share(r, shares[i].Ops, bits) })
	return results
}

// deal distributes the operations of a piece to the cores by the regions of their keys, or leaves
// all to one core.
func (e *engine) deal(r *rows, bits uint) []cpu.Share {
	e.values.alone = bits == 0 || r.N < aloneOps || e.lacked || e.Device.Properties().Units == 1
	if e.values.alone {
		return []cpu.Share{{Ops: e.Dealer.All(r.N)}}
	}
	return e.Dealer.Out(e.Device, 1<<bits-1, r.N, func(lo, hi int, places []uint32) {
		for i := range places {
			places[i] = uint32(e.of(r.key(uint32(lo+i))) >> (64 - bits))
		}
	})
}

// aloneOps is the number of changes below which distributing them costs more than it gains. Tests
// make it smaller.
var aloneOps = 1 << 11

// share runs operations in their order. Operations on a key after one that found no space are
// deferred with it, to run again in that order.
func (e *engine) share(r *rows, ops []uint32, bits uint) (sum result) {
	w := e.newWriter(nil, e.moves)
	there, late := make([]byte, e.valueSize), map[uint64]bool{}
	if e.records() && !r.Columns[batch.Out].Given() {
		there = nil // no reader
	}
	cpu.Ahead(cpu.NoWatch(), ops, cpu.Group, r.ask, func(i uint32, it item) {
		var o outcome
		if len(e.late) > 0 && e.late[it.hash] || len(late) > 0 && late[it.hash] {
			o.full = errCrowded
		} else {
			w.region = e.values.region(it.hash, bits)
			given := r.value(batch.Vals, i)
			o = w.change(r.kind(i), &it, given, there, r.combiner(i))
			if o.full != nil && w.reuse() {
				o = w.change(r.kind(i), &it, given, there, r.combiner(i))
			}
		}
		if o.full != nil {
			late[it.hash] = true
			sum.failed = append(sum.failed, i)
			if o.full != errCrowded {
				sum.noSpace = o.full
			}
			r.flag(i, false)
			return
		}
		r.flag(i, o.ok)
		switch out := &r.Columns[batch.Out]; {
		case !out.Given():
		case out.Data != nil && o.had:
			there = o.value // may have grown
			sum.found.add(out, i, o.value)
		case o.had:
			copy(out.Row(int(i)), there)
		case out.Data == nil:
			clear(out.Row(int(i)))
		}
	})
	sum.live, sum.dead = w.live, w.dead
	return sum
}

// combiner returns the function by which operation i combines values, or nil.
func (r *rows) combiner(i uint32) combine {
	kind := r.kind(i)
	if !kind.Reduces() {
		return nil
	}
	return func(there, given []byte) { cpu.Reduce(r.Flags, kind, there, given) }
}

// ---- the table as a whole -----------------------------------------------------------

// Extent implements [core.Engine]. Unit 2^n+b is bucket b of the level of 2^n. So units keep their
// numbers when levels come and go, and an iteration in progress is not affected.
func (e *engine) Extent(*core.Lease) (units uint32, rows int) {
	return 2 << e.live[0].bits, int(e.slots)
}

// bucketsOf returns the buckets of a level among units [lo,hi).
func (l level) bucketsOf(lo, hi uint32) (from, to uint64) {
	n := uint64(1) << l.bits
	return max(uint64(lo), n) - n, max(min(uint64(hi), 2*n), n) - n
}

// Export implements [core.Engine].
func (e *engine) Export(ctx context.Context, _ *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	r := e.rows(out)
	for i := len(e.live) - 1; i >= 0; i-- {
		l := e.live[i]
		from, to := l.bucketsOf(lo, hi)
		for b := from; b < to; b++ {
			if b%1024 == 0 && ctx.Err() != nil {
				return 0, ctx.Err()
			}
			n = e.exportBucket(r, l.base+b*e.bucketWords, n)
		}
	}
	return n, nil
}

// exportBucket copies the pairs of a bucket to rows from number n on, as far as the rows suffice.
// It returns n plus the number of pairs.
func (e *engine) exportBucket(r *rows, bucket uint64, n int) int {
	for slot := range e.slots {
		at := place{bucket, slot}
		c := control(e.mem.Load(e.control(at)))
		if c.state() != full || !e.values.sound(c.block()) || e.pool.ReadOnly() && !e.valid(at, c) {
			continue
		}
		if n < r.N {
			r.export(n, at, c)
		}
		n++
	}
	return n
}

// valid reports whether a lookup of the slot's key finds this slot, and not another copy that a
// crash has left.
func (e *engine) valid(at place, c control) bool {
	var key [maxKey]byte
	it := e.item(e.keyAt(at, c, key[:e.table.keySize]))
	found, _, _ := e.find(&it)
	return found == at
}

// Clear implements [core.Engine]: it deletes all keys. A crash may leave some, unless batches are
// atomic.
func (e *engine) Clear(context.Context) error {
	if err := e.changeable(); err != nil {
		return err
	}
	if e.redo == nil {
		e.wipe()
		return nil
	}
	e.redo.publish(e.redo.next(0, flagWipe), 0)
	e.wipe()
	e.redo.retire()
	return nil
}

// wipe deletes all keys, durably.
func (e *engine) wipe() {
	for _, l := range e.live {
		e.Device.Parallel(1<<l.bits, inspectPiece, func(lo, hi int) {
			for b := lo; b < hi; b++ {
				e.clearBucket(l.base + uint64(b)*e.bucketWords)
			}
		})
	}
	e.mem.Fence()
	e.values = e.values.shadow() // none is in use
	e.Parts().(*parts).counters = core.Tally{}
}

// export copies a pair to row n.
func (r *rows) export(n int, at place, c control) {
	if r.records() {
		r.exportRecord(n, c.block())
		return
	}
	r.keyOf(at, r.key(uint32(n)))
	if v := r.value(batch.Vals, uint32(n)); v != nil {
		r.values.read(c.block(), v)
	}
}

func (e *engine) clearBucket(bucket uint64) {
	for slot := range e.slots {
		at := e.control(place{bucket, slot})
		if c := control(e.mem.Load(at)); c.state() != empty {
			e.mem.Store(at, uint64(c.next(empty, 0)))
		}
	}
}

// Check implements [core.Checker].
func (e *engine) Check(ctx context.Context, _ *core.Lease) error {
	return e.check(ctx, e.Parts().(*parts).counters.Live)
}

// check verifies the index, which must have live keys.
func (e *engine) check(ctx context.Context, live uint64) error {
	shadow := *e.table
	shadow.values = e.values.shadow()
	in := inspection{table: &shadow, verify: true}
	if err := in.run(ctx, e.Device.Parallel); err != nil {
		return err
	}
	if in.Damaged == 0 && (in.Keys != live || in.Moved != 0 && !e.pool.ReadOnly()) {
		return fmt.Errorf("%w: %d keys are there, of which %d twice, and the counters say %d", op.ErrCorrupt, in.Keys, in.Moved, live)
	}
	if was, ok := e.unchanged(); ok {
		in.compare(was)
	}
	if err := in.err(); err != nil || e.redo == nil {
		return err
	}
	if left, err := e.redo.published(); err != nil || len(left) > 0 {
		return errors.Join(fmt.Errorf("%w: redo log: %d batches have not been applied", op.ErrCorrupt, len(left)), err)
	}
	return nil
}
