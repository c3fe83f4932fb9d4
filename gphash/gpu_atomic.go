package gphash

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/pm"
)

// An atomic batch on a GPU lies in device memory as a whole. One launch runs it like any other
// batch, but on the mirror of the slots. New keys claim slots in the mirror, and values go to the
// pool. The launch writes the new state of each slot to an entry in device memory. The next launch
// writes the entries to the redo log (redo.cuh). If capacity suffices for the whole batch, the host
// publishes the log, which makes the batch durable. Then the batch is applied to the mirror, where
// lookups see it.
//
// After that the slots of the pool are updated, one line of a bucket at a time, and the host
// empties the log. Without AtomicTail this happens before the call returns. With AtomicTail it
// happens when the slots lag by AtomicTail operations. Growth, moves of keys, Check and Close
// change or read the pool's slots directly, so they update the slots first. The next batch may
// reuse memory that a batch frees, even before the pool's slots are updated. Recovery applies the
// log before it inspects slots.
//
// So a key with a value of 128 bytes crosses the bus as 160 bytes, in sequence with other keys. A
// changed bucket crosses the bus as one line of 128 bytes. An operation with its own fence would
// also wait for each of these transfers.

type pendingBatch struct {
	entries *pooledBuffer // one Entry per operation
	n       int
	batch   *redoBatch // nil if not published yet
	refused bool       // the reservations must be released
}

func (n *pendingBatch) ptr() device.Ptr {
	if n.entries == nil {
		return 0
	}
	return n.entries.buf.Ptr
}

// release frees the entries once the work submitted to the stream is done.
func (n *pendingBatch) release(s *device.Stream) {
	if n.entries != nil {
		n.entries.releaseAfter(s)
	}
	*n = pendingBatch{}
}

// logTail describes the batches in the log and in the mirror that the pool's slots lack.
type logTail struct {
	maxOps  int           // maximum number of operations when a call returns
	nOps    int           // current number of operations
	last    *redoBatch    // last batch in the log; nil if the log is empty
	buckets device.Buffer // list and bitmap of the lagging buckets
	bits    device.Ptr
}

func (k *launcher) allocTail() (err error) {
	l := k.host.redo
	if l == nil {
		return nil
	}
	list := pm.Word * (k.tail.maxOps + l.capacity())
	bits := (k.host.mem.Words()/k.host.bucketWords + 64) / 32 * 4
	if k.tail.buckets, err = k.dev.Alloc(list + int(bits)); err != nil {
		return err
	}
	k.buffers.freeOnClose(k.tail.buckets)
	k.tail.bits = k.tail.buckets.Ptr + device.Ptr(list)
	s, err := k.dev.NewStream()
	if err != nil {
		return err
	}
	return errors.Join(s.Fill(k.tail.bits, 0, int(bits/4)), s.Sync(uncancelled), s.Close())
}

// nextBatch returns a batch that follows the last one in the log.
func (k *launcher) nextBatch(records uint64) *redoBatch {
	l, last := k.host.redo, k.tail.last
	if last == nil {
		return l.firstBatch(records, 0)
	}
	return &redoBatch{at: l.end(last), sequence: last.sequence + 1, count: records}
}

// hasCapacity reports whether another batch of n operations fits in the log.
func (k *launcher) hasCapacity(n int) bool {
	l := k.host.redo
	return l.end(k.nextBatch(uint64(n)))+headWords <= l.last
}

// allocEntries allocates the entries of a change. c must contain a whole batch, not a part.
func (k *launcher) allocEntries(s *device.Stream, c *gpu.Change) (err error) {
	if c.Args.First > 0 {
		return fmt.Errorf("%w: an atomic batch must be launched in one piece", device.ErrMemory)
	}
	k.pending.n = c.N
	if k.pending.entries, err = k.buffers.acquire(c.N * entryBytes); err != nil {
		return err
	}
	if err = s.Fill(k.pending.ptr(), 0, c.N*entryBytes/4); err != nil {
		k.pending.release(s) // entries of an earlier batch must not be undone
	}
	return err
}

const entryBytes = 48 // size of Entry in redo.cuh

// writeLog submits two launches. The first searches again for keys that were moved within the
// batch, and the second writes the entries of the change to the log.
func writeLog[P any](k *launcher, s *device.Stream, follow device.Kernel, p *P) error {
	r := k.redoParams()
	if err := device.Launch(s, follow, gpu.Wave(k.dev, warp*k.pending.n), gpu.Block, p); err != nil {
		return err
	}
	return device.Launch(s, k.log, gpu.Wave(k.dev, k.pending.n), gpu.Block, &r)
}

func (k *launcher) redoParams() redoParams {
	return redoParams{
		table: k.table.Load().ref, space: k.space, entries: k.pending.ptr(), n: uint64(k.pending.n),
		records: k.nextBatch(0).records(), made: k.word(wordRecords),
		late: k.tail.buckets.Ptr, lateCount: k.word(wordLagging), lateBits: k.tail.bits,
	}
}

// submitApply submits a kernel that applies a published batch to the mirror, or releases the
// reservations of a refused batch. launched reports whether the kernel was launched, which must
// happen once.
func (k *launcher) submitApply(s *device.Stream) (launched bool, err error) {
	kernel, r := k.apply, k.redoParams()
	if k.pending.refused {
		kernel = k.undo
	}
	err = k.submitExclusive(s, func() error {
		err := device.Launch(s, kernel, gpu.Wave(k.dev, k.pending.n), gpu.Block, &r)
		launched = err == nil
		return err
	})
	return launched, err
}

func (k *launcher) submitWriteBack(s *device.Stream) error {
	r := k.redoParams()
	return k.submitExclusive(s, func() error {
		if err := device.Launch(s, k.writeBack, gpu.Wave(k.dev, k.tail.nOps*2*int(r.table.slots)), gpu.Block, &r); err != nil {
			return err
		}
		return s.Fill(r.lateCount, 0, 1)
	})
}

// ---- batches ---------------------------------------------------------------------------

// changeAtomic runs a batch on the device as a whole, or the first part of a host batch that fits
// in the log. If capacity for one of the inserts is lacking, all operations fail and nothing
// changes. changeAtomic waits for the result, even on a stream.
func (g *gpuEngine) changeAtomic(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := g.finishPending(); err != nil {
		return 0, nil, err
	}
	if s != nil {
		if failed, err = g.changeAtomicOn(s, b); err != nil {
			return 0, nil, err
		}
		return b.N, failed, nil
	}
	if done = min(b.N, g.host.redo.capacity()); done == 0 {
		return 0, nil, nil
	}
	return g.changeHostBatch(ctx, b.Part(0, done))
}

// changeAtomicOn runs a batch on the device. If the batch is refused, its columns stay unchanged.
func (g *gpuEngine) changeAtomicOn(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	private := *b
	out := &private.Columns[batch.Out]
	if out.Given() {
		results, err := g.k.buffers.acquire(out.Width * b.N)
		if err != nil {
			return nil, err
		}
		defer results.releaseAfter(s)
		*out = out.WithPtr(results.buf.Ptr)
	}
	if failed, err = g.changeAllOrNone(s, &private); err != nil || failed != nil || !out.Given() {
		return failed, err
	}
	if err := s.Copy(b.Columns[batch.Out].Ptr, out.Ptr, out.Width*b.N); err != nil {
		return nil, err
	}
	return nil, s.Sync(uncancelled)
}

// changeAllOrNone runs a batch with results in private memory. Either all operations fail or none.
// While the pool's slots lag, no key is moved, so a batch that finds no slot runs again once the
// slots are updated.
func (g *gpuEngine) changeAllOrNone(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	b.Flags |= batch.Report
	if !g.k.hasCapacity(b.N) {
		err = g.writeBackTail()
	}
	if err == nil {
		failed, err = g.runBatch(s, b)
	}
	if err == nil && failed != nil && g.k.tail.nOps > 0 {
		if err = g.writeBackTail(); err == nil {
			failed, err = g.runBatch(s, b)
		}
	}
	return failed, err
}

func (g *gpuEngine) runBatch(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	_, failed, err = g.Engine.Change(uncancelled, s, b)
	switch {
	case err != nil:
		return nil, errors.Join(err, g.undoPending())
	case len(failed) > 0:
		return core.AllRows(b.N), g.undoPending()
	}
	return nil, g.publishPending()
}

// undoPending releases the reservations of a batch. If that fails, the next change retries.
func (g *gpuEngine) undoPending() error {
	if g.k.pending.entries == nil {
		return nil
	}
	g.k.pending.refused = true
	return g.applyPending()
}

func (g *gpuEngine) publishPending() error {
	var records [2]uint64
	if err := g.copyOut(device.Bytes(records[:]), g.k.word(wordRecords)); err != nil {
		return errors.Join(err, g.undoPending())
	}
	if records[1] == 0 {
		g.k.pending.release(g.Stream)
		return nil
	}
	g.k.pending.batch, g.k.batch.referenced = g.k.nextBatch(records[1]), true
	g.host.redo.publish(g.k.pending.batch, records[0])
	err := g.finishPending()
	if g.k.pending.batch == nil || errors.Is(err, device.ErrLost) {
		return err
	}
	g.host.redo.unpublish(g.k.pending.batch) // no lookup has seen a part of the batch
	g.k.pending.batch, g.k.batch.referenced = nil, false
	return errors.Join(err, g.undoPending())
}

// finishPending applies the pending batch, and updates the pool's slots if they lag by more than
// AtomicTail operations. Every change must call it first.
func (g *gpuEngine) finishPending() error {
	if err := g.applyPending(); err != nil {
		return err
	}
	if g.k.tail.nOps > g.k.tail.maxOps {
		return g.writeBackTail()
	}
	return nil
}

// applyPending applies the published batch, or releases the reservations of the refused one. It
// does nothing if no batch is pending.
func (g *gpuEngine) applyPending() error {
	n := &g.k.pending
	if n.batch == nil && !n.refused {
		return nil
	}
	launched := false
	err := g.RunSync(uncancelled, func(s *device.Stream) (err error) {
		launched, err = g.k.submitApply(s)
		return err
	})
	if launched {
		if n.batch != nil {
			g.k.tail.nOps, g.k.tail.last = g.k.tail.nOps+int(n.batch.count), n.batch
		}
		n.release(g.Stream)
	}
	return err
}

// writeBackTail copies the lagging slots from the mirror to the pool and empties the log.
func (g *gpuEngine) writeBackTail() error {
	if err := g.applyPending(); err != nil { // the pending batch must be in the mirror first
		return err
	}
	if g.k.tail.nOps == 0 {
		return nil
	}
	if err := g.RunSync(uncancelled, g.k.submitWriteBack); err != nil {
		return err
	}
	g.host.redo.truncate()
	g.k.tail.nOps, g.k.tail.last = 0, nil
	return nil
}

// publishClear writes a Clear to the log, if batches are atomic. retireClear empties the log.
func (g *gpuEngine) publishClear() error {
	l := g.host.redo
	if l == nil {
		return nil
	}
	if err := g.writeBackTail(); err != nil {
		return err
	}
	l.publish(l.firstBatch(0, flagWipe), 0)
	return nil
}

func (g *gpuEngine) retireClear() {
	if l := g.host.redo; l != nil {
		l.truncate()
	}
}

// ---- batches of the host -------------------------------------------------------------------

// changeHostBatch runs a host batch. It copies all columns to the device first, and copies the
// results back at the end.
func (g *gpuEngine) changeHostBatch(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	on, columns, err := g.allocColumns(b)
	if err != nil {
		return 0, nil, err
	}
	defer columns.releaseAfter(g.Stream)
	c, err := g.AcquireTransfer()
	if err != nil {
		return 0, nil, err
	}
	defer g.ReleaseTransfer(c)
	if ran, err := copyColumns(ctx, c.Ring, b, on, (*batch.Column).IsInput); err != nil || ran < b.N {
		return 0, nil, err
	}
	failed, err = g.changeAllOrNone(g.Stream, on)
	if err != nil {
		return 0, nil, err
	}
	if failed != nil {
		clear(b.Columns[batch.OK].Host)
		return b.N, failed, nil
	}
	_, err = copyColumns(uncancelled, c.Ring, b, on, (*batch.Column).IsOutput)
	return b.N, nil, err
}

func (g *gpuEngine) allocColumns(b *batch.Batch) (on *batch.Batch, columns *pooledBuffer, err error) {
	size := 0
	reserve := func(c *batch.Column) (at int) {
		at = size
		size += (c.Width*b.N + 255) &^ 255
		return at
	}
	var at [len(b.Columns)]int
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Given() {
			at[r] = reserve(c)
		}
	}
	if columns, err = g.k.buffers.acquire(size); err != nil {
		return nil, nil, err
	}
	on = b.Chunk(0, b.N)
	for r := range on.Columns {
		if c := &on.Columns[r]; c.Given() {
			*c = c.WithPtr(columns.buf.Ptr + device.Ptr(at[r]))
		}
	}
	return on, columns, nil
}

// copyColumns copies the selected columns of the host batch b: inputs to the device batch on,
// outputs back from it.
func copyColumns(ctx context.Context, ring *staging.Ring, b, on *batch.Batch, selected func(*batch.Column) bool) (done int, err error) {
	part, noColumns := *b, true
	for r := range part.Columns {
		if c := &part.Columns[r]; c.Given() && selected(c) {
			noColumns = false
		} else {
			*c = batch.Column{}
		}
	}
	if noColumns {
		return b.N, nil
	}
	return ring.RunInOrder(ctx, &part, func(p *staging.Piece) error {
		for r := range part.Columns {
			c := &p.Batch.Columns[r]
			if !c.Given() {
				continue
			}
			column := on.Columns[r].Ptr + device.Ptr(p.Lo*c.Width)
			from, to := c.Ptr, column
			if c.IsOutput() {
				from, to = column, c.Ptr
			}
			if err := p.Stream.Copy(to, from, p.Batch.N*c.Width); err != nil {
				return err
			}
		}
		return nil
	})
}
