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
	// skippedLevel is log2 of the level that is not zeroed in advance.
	skippedLevel uint
	// Buckets that have been drained, and zeroed for a new level, since the pool was opened.
	nDrained, nZeroed uint64
	changed           atomic.Bool // since the pool was opened
	nResizes          uint64      // since the pool was opened
	nRetries          uint64      // batches rerun, since the pool was opened

	// Of the running batch: the error if a value found no memory, and the hashes of keys with
	// deferred operations.
	noSpace  error
	deferred map[uint64]bool
	// mayMove: keys may be moved to make slots.
	mayMove bool
	// anyRegion: the batch has found no memory in the units of its regions. Its values come from
	// any.
	anyRegion bool
	// images are the results of an atomic batch by key, per core.
	images []images
	// placers place records for a GPU, per core.
	placers []placer

	accel   accelerator // works on the pool in place of this engine; nil: none
	lostErr error       // why that device no longer does
}

// accelerator is another device that works on the pool of an engine. The engine itself then only
// decides on growth.
type accelerator interface {
	// fetchSpace finds out which memory of values is in use, and frees unused units. sendSpace
	// passes changes of it back to the device.
	fetchSpace() error
	sendSpace() error
	// installLevels passes the levels to the device, and waits until no reader uses the previous
	// ones. On an error nothing changes.
	installLevels() error
	// refreshSlots passes changes that the host has made to slots.
	refreshSlots() error
	recycle() error
	clearWords(lo, hi uint64) error
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

// Lookup implements [core.Engine].
func (e *engine) Lookup(ctx context.Context, s *device.Stream, _ *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	in := e.rows(b)
	return e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		reads := lookups{rows: in}
		ran = cpu.RunPrefetched(w, rowRange(lo, hi), cpu.Group, in.prefetchBuckets, reads.find)
		reads.readFound()
		return ran, reads.hits
	})
}

// rowRange returns the numbers of operations [lo,hi).
func rowRange(lo, hi int) []uint32 {
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
	row     uint32
	slot    slotRef
	control control
}

// find looks a key up. readRecord checks later whether a record is the key's.
func (l *lookups) find(i uint32, it item) {
	tagged := it
	if l.records() {
		tagged.key = nil
	}
	at, c, ok := l.table.find(&tagged)
	l.setResult(i, ok)
	if !ok || !l.Columns[batch.Vals].Given() && !l.records() {
		return
	}
	if p := l.mem.At(c.block()); p != nil {
		cpu.PrefetchPairs([]unsafe.Pointer{p})
	}
	l.found[l.n] = lookup{it, i, at, c}
	if l.n++; l.n == len(l.found) {
		l.readFound()
	}
}

func (l *lookups) setResult(i uint32, ok bool) {
	if l.setOK(i, ok); ok {
		l.hits++
		return
	}
	clear(l.value(batch.Vals, i))
	if lengths := &l.Columns[batch.Counts]; lengths.Given() {
		clear(lengths.Row(int(i)))
	}
}

// readFound reads the values of keys that have been found. If a slot has changed since, its key is
// looked up again.
func (l *lookups) readFound() {
	for j := range l.found[:l.n] {
		f := &l.found[j]
		if l.records() {
			l.readRecord(f)
			continue
		}
		value := l.value(batch.Vals, f.row)
		l.values.read(f.control.block(), value)
		if control(l.mem.Load(l.control(f.slot))) != f.control {
			l.hits--
			_, ok := l.get(&f.item, value)
			l.setResult(f.row, ok)
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
func (r *rows) value(role batch.Role, i uint32) []byte {
	c := &r.Columns[role]
	if !c.Given() {
		return nil
	}
	return c.Row(int(i))
}

func (r *rows) setOK(i uint32, ok bool) {
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

// prefetchBuckets hashes the keys of operations and prefetches their candidate buckets: the first
// 128 bytes of each, which hold control words and tags.
func (r *rows) prefetchBuckets(ops []uint32, items *[cpu.Group]item) {
	var lines [4 * cpu.Group]unsafe.Pointer
	var memory [maxHashes]uint64
	n := 0
	for j, i := range ops {
		items[j] = r.item(r.key(i))
		for _, l := range r.live {
			for _, b := range r.buckets(l, items[j].hash, memory[:]) {
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
func (e *engine) Caps() core.Caps { return core.Caps{DeletesMayOverflow: e.redo != nil, Updates: true} }

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
	if err := cpu.SyncStream(s); err != nil {
		return 0, nil, err
	}
	if err := e.checkWritable(); err != nil {
		return 0, nil, err
	}
	if err := e.recycle(); err != nil {
		return 0, nil, err
	}
	tally := &e.Parts().(*parts).counters
	e.noSpace, e.deferred = nil, map[uint64]bool{}
	e.mayMove = !e.Leases.Held() && tally.Live < uint64(maxLoad*float64(e.slotsIn(e.openLevels())))
	if e.redo != nil {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		done = min(b.N, e.redo.capacity())
		return done, e.changeAtomic(e.rows(b.Part(0, done)), tally), nil
	}
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		rows := e.rows(b.Part(done, min(done+cpu.PieceOps, b.N)))
		for _, r := range e.runPiece(rows) {
			r.found.appendTo(&rows.Columns[batch.Out])
			tally.Live += uint64(r.live)
			tally.Used += uint64(r.live + r.dead)
			for _, i := range r.failed {
				failed = append(failed, uint32(done)+i)
				e.deferred[e.hash(rows.key(i))] = true
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

// checkWritable precedes changes. It refuses changes of a pool opened for reading, because its
// memory is read-only. After the loss of a GPU it also refuses those that were admitted alongside
// readers.
func (e *engine) checkWritable() error {
	if e.pool.ReadOnly() {
		return ErrReadOnly
	}
	if e.lostErr != nil && !e.Leases.InExclusive() {
		return e.lostErr
	}
	e.changed.Store(true)
	return nil
}

// recycle frees what changes have deleted and replaced so far. It runs before a level is dropped,
// since its tombstones would refer to memory in other use later.
func (e *engine) recycle() error {
	if e.accel != nil {
		return e.accel.recycle()
	}
	e.Parts().(*parts).counters.Used -= uint64(e.values.recycle())
	return nil
}

// result is the result of a share of a piece.
type result struct {
	live, dead int
	failed     []uint32
	noSpace    error
	found      foundValues
}

// runPiece runs a piece of a batch.
func (e *engine) runPiece(r *rows) []result {
	bits := e.bits()
	shares := e.distribute(r, bits)
	results := make([]result, len(shares))
	e.Device.Parallel(len(shares), 1, func(i, _ int) { results[i] = e.runShare(r, shares[i].Ops, bits) })
	return results
}

// distribute distributes the operations of a piece to the cores by the regions of their keys, or
// leaves all to one core.
func (e *engine) distribute(r *rows, bits uint) []cpu.Share {
	e.values.singleWriter = bits == 0 || r.N < minParallelOps || e.anyRegion || e.Device.Properties().Units == 1
	if e.values.singleWriter {
		return []cpu.Share{{Ops: e.Partitioner.AllOps(r.N)}}
	}
	return e.Partitioner.PartitionOps(e.Device, 1<<bits-1, r.N, func(lo, hi int, places []uint32) {
		for i := range places {
			places[i] = uint32(e.hash(r.key(uint32(lo+i))) >> (64 - bits))
		}
	})
}

// minParallelOps is the number of changes below which distributing them costs more than it gains.
// Tests make it smaller.
var minParallelOps = 1 << 11

// runShare runs operations in their order. Operations on a key after one that found no space are
// deferred with it, to run again in that order.
func (e *engine) runShare(r *rows, ops []uint32, bits uint) (sum result) {
	w := e.newWriter(nil, e.mayMove)
	buf, deferred := make([]byte, e.valueSize), map[uint64]bool{}
	if e.records() && !r.Columns[batch.Out].Given() {
		buf = nil // no reader
	}
	cpu.RunPrefetched(cpu.NoWatch(), ops, cpu.Group, r.prefetchBuckets, func(i uint32, it item) {
		var o outcome
		if len(e.deferred) > 0 && e.deferred[it.hash] || len(deferred) > 0 && deferred[it.hash] {
			o.err = errCrowded
		} else {
			w.region = e.values.regionOf(it.hash, bits)
			value := r.value(batch.Vals, i)
			o = w.change(r.kind(i), &it, value, buf, r.combiner(i))
			if o.err != nil && w.freeStale() {
				o = w.change(r.kind(i), &it, value, buf, r.combiner(i))
			}
		}
		if o.err != nil {
			deferred[it.hash] = true
			sum.failed = append(sum.failed, i)
			if o.err != errCrowded {
				sum.noSpace = o.err
			}
			r.setOK(i, false)
			return
		}
		r.setOK(i, o.ok)
		switch out := &r.Columns[batch.Out]; {
		case !out.Given():
		case out.Data != nil && o.hasValue:
			buf = o.value // may have grown
			sum.found.add(out, i, o.value)
		case o.hasValue:
			copy(out.Row(int(i)), buf)
		case out.Data == nil:
			clear(out.Row(int(i)))
		}
	})
	sum.live, sum.dead = w.live, w.dead
	return sum
}

// combiner returns the function by which operation i combines values, or nil.
func (r *rows) combiner(i uint32) reducer {
	kind := r.kind(i)
	if !kind.Reduces() {
		return nil
	}
	return func(existing, given []byte) { cpu.Reduce(r.Flags, kind, existing, given) }
}

// ---- the table as a whole -----------------------------------------------------------

// Extent implements [core.Engine]. Unit 2^n+b is bucket b of the level of 2^n. So units keep their
// numbers when levels come and go, and an iteration in progress is not affected.
func (e *engine) Extent(*core.Lease) (units uint32, rows int) {
	return 2 << e.live[0].bits, int(e.slots)
}

// bucketsOf returns the buckets of a level among units [lo,hi).
func (l level) bucketsOf(lo, hi uint32) (first, end uint64) {
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
		at := slotRef{bucket, slot}
		c := control(e.mem.Load(e.control(at)))
		if c.state() != full || !e.values.isBlock(c.block()) || e.pool.ReadOnly() && !e.valid(at, c) {
			continue
		}
		if n < r.N {
			r.exportPair(n, at, c)
		}
		n++
	}
	return n
}

// valid reports whether a lookup of the slot's key finds this slot, and not another copy that a
// crash has left.
func (e *engine) valid(at slotRef, c control) bool {
	var key [maxKey]byte
	it := e.item(e.keyAt(at, c, key[:e.table.keySize]))
	found, _, _ := e.find(&it)
	return found == at
}

// Clear implements [core.Engine]: it deletes all keys. A crash may leave some, unless batches are
// atomic.
func (e *engine) Clear(context.Context) error {
	if err := e.checkWritable(); err != nil {
		return err
	}
	if e.redo == nil {
		e.wipe()
		return nil
	}
	e.redo.publish(e.redo.firstBatch(0, flagWipe), 0)
	e.wipe()
	e.redo.truncate()
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
	e.values = e.values.emptyCopy() // none is in use
	e.Parts().(*parts).counters = core.Tally{}
}

// exportPair copies a pair to row n.
func (r *rows) exportPair(n int, at slotRef, c control) {
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
		at := e.control(slotRef{bucket, slot})
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
	shadow.values = e.values.emptyCopy()
	in := inspection{table: &shadow, verify: true}
	if err := in.run(ctx, e.Device.Parallel); err != nil {
		return err
	}
	if in.Damaged == 0 && (in.Keys != live || in.Moved != 0 && !e.pool.ReadOnly()) {
		return fmt.Errorf("%w: %d keys are there, of which %d twice, and the counters say %d", op.ErrCorrupt, in.Keys, in.Moved, live)
	}
	if saved, ok := e.savedContents(); ok {
		in.compare(saved)
	}
	if err := in.err(); err != nil || e.redo == nil {
		return err
	}
	if unapplied, err := e.redo.published(); err != nil || len(unapplied) > 0 {
		return errors.Join(fmt.Errorf("%w: redo log: %d batches have not been applied", op.ErrCorrupt, len(unapplied)), err)
	}
	return nil
}
