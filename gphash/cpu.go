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

// engine runs batches on the cores of the host. It distributes operations by the first bits of
// their keys' hashes. Operations on one key stay in order, and each core has separate regions of
// levels and of values.
type engine struct {
	cpu.Engine
	*table
	pool    *pool.Pool
	drained uint64 // number of drained buckets of the lowest level, if that level is closed
	next    *nextLevel
	// log2 of the number of buckets of the level that is not zeroed in advance
	skippedLevel uint
	// numbers of buckets drained, and zeroed for a new level, since the pool was opened
	nDrained, nZeroed uint64
	changed           atomic.Bool // the pool has been changed since it was opened
	nResizes          uint64      // number of resizes since the pool was opened
	nRetries          uint64      // number of batches rerun since the pool was opened

	// State of the running batch: the error if a value found no memory, and the hashes of the keys
	// with deferred operations.
	noSpace  error
	deferred map[uint64]bool
	// the running batch may move keys to free slots
	mayMove bool
	// values may use any region, since the regions of the batch's keys are full
	anyRegion bool
	// per core: new states of the keys in an atomic batch
	images []images
	// per core: placement of records for a GPU
	placers []placer

	accel   accelerator // runs batches instead of this engine; nil if none
	lostErr error       // why the accelerator was lost
}

// accelerator is a device that runs the batches on an engine's pool. The engine itself then only
// decides when the index grows.
type accelerator interface {
	// fetchSpace reads from the device which memory of values is in use, and frees unused units.
	// sendSpace sends the host's changes of that state back to the device.
	fetchSpace() error
	sendSpace() error
	// installLevels sends the levels to the device and waits until no reader uses the previous
	// levels. On an error nothing changes.
	installLevels() error
	// refreshSlots sends the host's changes of slots to the device.
	refreshSlots() error
	recycle() error
	clearWords(lo, hi uint64) error
	// moveUp moves keys up from buckets [lo,hi) of the lowest level, or returns errHeld.
	moveUp(lo, hi uint64) (ok bool, err error)
}

// parts is the memory of an index: the mapped pool and the counters.
type parts struct {
	core.Lines // counters on a GPU; unused on the host
	counters   core.Tally
	close      func() error
}

func (p *parts) Tally() *core.Tally { return &p.counters }
func (p *parts) Free() error        { return p.close() }

// bits returns log2 of the number of regions in the lowest level, by which operations are
// distributed.
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

func rowRange(lo, hi int) []uint32 {
	all := make([]uint32, hi-lo)
	for i := range all {
		all[i] = uint32(lo + i)
	}
	return all
}

// lookups runs the lookups of one core. It prefetches the values of several keys before it reads
// them.
type lookups struct {
	*rows
	found [cpu.Group]lookup
	n     int
	hits  int
}

type lookup struct {
	item
	row     uint32
	slot    slotRef
	control control
}

// find searches for a key. In pools with records it only compares hashes; readRecord compares keys.
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

// readFound reads the values of the keys that were found. If a slot has changed since then,
// readFound looks up the key again.
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

// rows provides access to the rows of a batch.
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

// value returns row i of a column of values, or nil if the batch has no such column.
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

// prefetchBuckets hashes the keys of operations and prefetches the first 128 bytes of their
// candidate buckets, which hold control words and tags.
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

// Combine implements [core.Combiner]. It leaves atomic batches unchanged, because changeAtomic
// combines operations per key itself.
func (e *engine) Combine(b *batch.Batch) *batch.Batch {
	if e.redo != nil {
		return nil
	}
	return e.Engine.Combine(b)
}

// Change implements [core.Engine]. It first frees memory of earlier batches.
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

// checkWritable returns an error if the pool must not be changed. A pool opened for reading is
// mapped read-only. After the loss of a GPU, changes that run alongside readers return the loss.
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

// recycle frees the memory that earlier batches deleted or replaced. It must run before a level is
// dropped, since tombstones refer to the level's memory.
func (e *engine) recycle() error {
	if e.accel != nil {
		return e.accel.recycle()
	}
	e.Parts().(*parts).counters.Used -= uint64(e.values.recycle())
	return nil
}

type result struct {
	live, dead int
	failed     []uint32
	noSpace    error
	found      foundValues
}

func (e *engine) runPiece(r *rows) []result {
	bits := e.bits()
	shares := e.distribute(r, bits)
	results := make([]result, len(shares))
	e.Device.Parallel(len(shares), 1, func(i, _ int) { results[i] = e.runShare(r, shares[i].Ops, bits) })
	return results
}

// distribute divides the operations of a piece among the cores by the regions of their keys. Small
// pieces go to one core.
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

// minParallelOps is the minimum number of operations in a piece that several cores share. For
// fewer, distribution costs more than it gains. Tests make it smaller.
var minParallelOps = 1 << 11

// runShare runs operations in order. If an operation finds no space, it and all later operations on
// its key are deferred, to run again in that order.
func (e *engine) runShare(r *rows, ops []uint32, bits uint) (sum result) {
	w := e.newWriter(nil, e.mayMove)
	buf, deferred := make([]byte, e.valueSize), map[uint64]bool{}
	if e.records() && !r.Columns[batch.Out].Given() {
		buf = nil // the batch returns no values
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
			buf = o.value // the buffer may have grown
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

// combiner returns the function that combines values for operation i, or nil if i has none.
func (r *rows) combiner(i uint32) reducer {
	kind := r.kind(i)
	if !kind.Reduces() {
		return nil
	}
	return func(existing, given []byte) { cpu.Reduce(r.Flags, kind, existing, given) }
}

// ---- the table as a whole -----------------------------------------------------------

// Extent implements [core.Engine]. Unit 2^n+b is bucket b of the level with 2^n buckets. So units
// keep their numbers when levels come and go, and an iteration in progress is not affected.
func (e *engine) Extent(*core.Lease) (units uint32, rows int) {
	return 2 << e.live[0].bits, int(e.slots)
}

// bucketsOf returns the range of buckets of a level that units [lo,hi) contain.
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

// exportBucket copies the pairs of a bucket to the rows of r, beginning at row n, until no row is
// left. It returns n plus the number of pairs in the bucket.
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

// valid reports whether a lookup finds this slot. After a crash another slot may hold the key, too.
func (e *engine) valid(at slotRef, c control) bool {
	var key [maxKey]byte
	it := e.item(e.keyAt(at, c, key[:e.table.keySize]))
	found, _, _ := e.find(&it)
	return found == at
}

// Clear implements [core.Engine]. After a crash keys may remain, unless batches are atomic.
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

// wipe durably deletes all keys.
func (e *engine) wipe() {
	for _, l := range e.live {
		e.Device.Parallel(1<<l.bits, inspectPiece, func(lo, hi int) {
			for b := lo; b < hi; b++ {
				e.clearBucket(l.base + uint64(b)*e.bucketWords)
			}
		})
	}
	e.mem.Fence()
	e.values = e.values.emptyCopy() // no value is in use now
	e.Parts().(*parts).counters = core.Tally{}
}

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

// check verifies the index. The index must hold live keys.
func (e *engine) check(ctx context.Context, live uint64) error {
	shadow := *e.table
	shadow.values = e.values.emptyCopy()
	in := inspection{table: &shadow, verify: true}
	if err := in.run(ctx, e.Device.Parallel); err != nil {
		return err
	}
	if in.Damaged == 0 && (in.Keys != live || in.Moved != 0 && !e.pool.ReadOnly()) {
		return fmt.Errorf("%w: found %d keys, %d of them twice, but the counters say %d",
			op.ErrCorrupt, in.Keys, in.Moved, live)
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
