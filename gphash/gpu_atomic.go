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

// Atomic batches on a GPU. A batch lies in memory of the device as a whole. One launch runs it like
// any other batch, but on the mirror of the slots. New keys claim slots there, values go to the
// pool, and the new state of each slot is noted in memory of the device. The next launch writes the
// notes to the redo log (redo.cuh). If capacity suffices for the whole batch, the host publishes
// the log, and the batch is durable. Then the mirror changes, and lookups see the batch.
//
// The slots of the pool follow, a line of a bucket at a time, and then the host empties the log.
// They follow before the call returns. With AtomicTail they follow when they lag by that many
// operations. Work that changes slots past the log, or reads those of the pool, first makes them
// follow: growth, moves of keys, Check and Close. The next batch may reuse what a batch frees, also
// in the pool, even before its slots have followed. Recovery applies the log before it inspects
// slots.
//
// So a key with a value of 128 bytes crosses the bus as 160 bytes in a row with others. A changed
// bucket crosses it as one line of 128 bytes. An operation with a fence of its own would also wait
// for each of these.

// noted is the new state of slots of the change in progress.
type noted struct {
	entries *loan // an Entry per operation
	n       int
	batch   *redoBatch // nil: not published yet
	refused bool       // its reservations must be released
}

func (n *noted) ptr() device.Ptr {
	if n.entries == nil {
		return 0
	}
	return n.entries.buf.Ptr
}

// drop releases the memory after the stream's work so far.
func (n *noted) drop(s *device.Stream) {
	if n.entries != nil {
		n.entries.behind(s)
	}
	*n = noted{}
}

// behind is what the slots of the pool lag by: batches that are only in the log and in the mirror.
type behind struct {
	most    int           // max operations when a call returns
	ops     int           // current operations
	last    *redoBatch    // last batch in the log; nil: the log is empty
	buckets device.Buffer // list and bitmap of lagging buckets
	bits    device.Ptr
}

// openBehind allocates the list of lagging buckets.
func (k *launcher) openBehind() (err error) {
	l := k.host.redo
	if l == nil {
		return nil
	}
	list := pm.Word * (k.behind.most + l.capacity())
	bits := (k.host.mem.Words()/k.host.bucketWords + 64) / 32 * 4
	if k.behind.buckets, err = k.dev.Alloc(list + int(bits)); err != nil {
		return err
	}
	k.loans.keep(k.behind.buckets)
	k.behind.bits = k.behind.buckets.Ptr + device.Ptr(list)
	s, err := k.dev.NewStream()
	if err != nil {
		return err
	}
	return errors.Join(s.Fill(k.behind.bits, 0, int(bits/4)), s.Sync(all), s.Close())
}

// next returns a batch after those in the log.
func (k *launcher) next(records uint64) *redoBatch {
	l, last := k.host.redo, k.behind.last
	if last == nil {
		return l.next(records, 0)
	}
	return &redoBatch{at: l.end(last), sequence: last.sequence + 1, count: records}
}

// fits reports whether another batch of n operations fits the log.
func (k *launcher) fits(n int) bool {
	l := k.host.redo
	return l.end(k.next(uint64(n)))+headWords <= l.last
}

// beginNoting allocates the notes of a change, which is a whole batch.
func (k *launcher) beginNoting(s *device.Stream, c *gpu.Change) (err error) {
	if c.Args.First > 0 {
		return fmt.Errorf("%w: an atomic batch is launched at once", device.ErrMemory)
	}
	k.noted.n = c.N
	if k.noted.entries, err = k.loans.take(c.N * entryBytes); err != nil {
		return err
	}
	if err = s.Fill(k.noted.ptr(), 0, c.N*entryBytes/4); err != nil {
		k.noted.drop(s) // notes of another batch must not be undone
	}
	return err
}

const entryBytes = 48 // of Entry in redo.cuh

// writeLog submits writing the notes of a change to the log, after finding keys of the batch that
// were moved.
func writeLog[P any](k *launcher, s *device.Stream, follow device.Kernel, p *P) error {
	r := k.redoParams()
	if err := device.Launch(s, follow, gpu.Wave(k.dev, warp*k.noted.n), gpu.Block, p); err != nil {
		return err
	}
	return device.Launch(s, k.log, gpu.Wave(k.dev, k.noted.n), gpu.Block, &r)
}

func (k *launcher) redoParams() redoParams {
	return redoParams{
		table: k.table.Load().ref, space: k.space, entries: k.noted.ptr(), n: uint64(k.noted.n),
		records: k.next(0).records(), made: k.word(wordMade),
		late: k.behind.buckets.Ptr, lateCount: k.word(wordLate), lateBits: k.behind.bits,
	}
}

// settleBatch submits applying a published batch to the mirror, or releasing the reservations of a
// refused one. It reports whether that was launched, which happens once.
func (k *launcher) settleBatch(s *device.Stream) (launched bool, err error) {
	kernel, r := k.settle, k.redoParams()
	if k.noted.refused {
		kernel = k.undo
	}
	err = k.alone(s, func() error {
		err := device.Launch(s, kernel, gpu.Wave(k.dev, k.noted.n), gpu.Block, &r)
		launched = err == nil
		return err
	})
	return launched, err
}

// bringHome submits copying the lagging slots from the mirror to the pool.
func (k *launcher) bringHome(s *device.Stream) error {
	r := k.redoParams()
	return k.alone(s, func() error {
		if err := device.Launch(s, k.home, gpu.Wave(k.dev, k.behind.ops*2*int(r.table.slots)), gpu.Block, &r); err != nil {
			return err
		}
		return s.Fill(r.lateCount, 0, 1)
	})
}

// ---- batches ---------------------------------------------------------------------------

// atomic runs a batch on the device, or as much of a host batch as fits the log. If capacity for
// its inserts is lacking, all its operations fail and nothing changes. It waits, even for a batch
// on a stream.
func (g *gpuEngine) atomic(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := g.finish(); err != nil {
		return 0, nil, err
	}
	if s != nil {
		if failed, err = g.atomicOn(s, b); err != nil {
			return 0, nil, err
		}
		return b.N, failed, nil
	}
	if done = min(b.N, g.host.redo.capacity()); done == 0 {
		return 0, nil, nil
	}
	return g.carried(ctx, b.Part(0, done))
}

// atomicOn runs a batch on the device. If it is refused, its columns stay unchanged.
func (g *gpuEngine) atomicOn(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	aside := *b
	out := &aside.Columns[batch.Out]
	if out.Given() {
		results, err := g.k.loans.take(out.Width * b.N)
		if err != nil {
			return nil, err
		}
		defer results.behind(s)
		*out = out.Moved(results.buf.Ptr)
	}
	if failed, err = g.whole(s, &aside); err != nil || failed != nil || !out.Given() {
		return failed, err
	}
	if err := s.Copy(b.Columns[batch.Out].Ptr, out.Ptr, out.Width*b.N); err != nil {
		return nil, err
	}
	return nil, s.Sync(all)
}

// whole runs a batch with results in private memory; either all operations fail or none. While the
// pool lags, no key is moved for another one, so a batch that finds no slot is tried again.
func (g *gpuEngine) whole(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	b.Flags |= batch.Report
	if !g.k.fits(b.N) {
		err = g.home()
	}
	if err == nil {
		failed, err = g.try(s, b)
	}
	if err == nil && failed != nil && g.k.behind.ops > 0 {
		if err = g.home(); err == nil {
			failed, err = g.try(s, b)
		}
	}
	return failed, err
}

func (g *gpuEngine) try(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	_, failed, err = g.Engine.Change(all, s, b)
	switch {
	case err != nil:
		return nil, errors.Join(err, g.refuse())
	case len(failed) > 0:
		return core.All(b.N), g.refuse()
	}
	return nil, g.log()
}

// refuse releases the reservations of a batch. If that fails, it is retried before anything else
// changes.
func (g *gpuEngine) refuse() error {
	if g.k.noted.entries == nil {
		return nil
	}
	g.k.noted.refused = true
	return g.settleNoted()
}

// log publishes the batch with its records in the log, and applies it.
func (g *gpuEngine) log() error {
	var made [2]uint64
	if err := g.read(device.Bytes(made[:]), g.k.word(wordMade)); err != nil {
		return errors.Join(err, g.refuse())
	}
	if made[1] == 0 {
		g.k.noted.drop(g.Stream)
		return nil
	}
	g.k.noted.batch, g.k.batch.named = g.k.next(made[1]), true
	g.host.redo.publish(g.k.noted.batch, made[0])
	err := g.finish()
	if g.k.noted.batch == nil || errors.Is(err, device.ErrLost) {
		return err
	}
	g.host.redo.retract(g.k.noted.batch) // no lookup has seen any of it
	g.k.noted.batch, g.k.batch.named = nil, false
	return errors.Join(err, g.refuse())
}

// finish completes the noted batch, and updates the pool if it lags too far. Nothing else may
// change before.
func (g *gpuEngine) finish() error {
	if err := g.settleNoted(); err != nil {
		return err
	}
	if g.k.behind.ops > g.k.behind.most {
		return g.home()
	}
	return nil
}

// settleNoted applies the published batch, or releases the reservations of the refused one, if any.
func (g *gpuEngine) settleNoted() error {
	n := &g.k.noted
	if n.batch == nil && !n.refused {
		return nil
	}
	launched := false
	err := g.Do(all, func(s *device.Stream) (err error) {
		launched, err = g.k.settleBatch(s)
		return err
	})
	if launched {
		if n.batch != nil {
			g.k.behind.ops, g.k.behind.last = g.k.behind.ops+int(n.batch.count), n.batch
		}
		n.drop(g.Stream)
	}
	return err
}

// home copies the lagging slots from the mirror to the pool, and empties the log.
func (g *gpuEngine) home() error {
	if err := g.settleNoted(); err != nil { // while its slots are in place
		return err
	}
	if g.k.behind.ops == 0 {
		return nil
	}
	if err := g.Do(all, g.k.bringHome); err != nil {
		return err
	}
	g.host.redo.retire()
	g.k.behind.ops, g.k.behind.last = 0, nil
	return nil
}

// wiping publishes the following Clear, if batches are atomic; wiped retires it.
func (g *gpuEngine) wiping() error {
	l := g.host.redo
	if l == nil {
		return nil
	}
	if err := g.home(); err != nil {
		return err
	}
	l.publish(l.next(0, flagWipe), 0)
	return nil
}

func (g *gpuEngine) wiped() {
	if l := g.host.redo; l != nil {
		l.retire()
	}
}

// ---- batches of the host -------------------------------------------------------------------

// carried runs a batch of the host. It copies the columns to the device as a whole, and the results
// back afterwards.
func (g *gpuEngine) carried(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	on, columns, err := g.place(b)
	if err != nil {
		return 0, nil, err
	}
	defer columns.behind(g.Stream)
	c, err := g.Carrier()
	if err != nil {
		return 0, nil, err
	}
	defer g.Give(c)
	if ran, err := carry(ctx, c.Ring, b, on, (*batch.Column).IsInput); err != nil || ran < b.N {
		return 0, nil, err
	}
	failed, err = g.whole(g.Stream, on)
	if err != nil {
		return 0, nil, err
	}
	if failed != nil {
		clear(b.Columns[batch.OK].Host)
		return b.N, failed, nil
	}
	_, err = carry(all, c.Ring, b, on, (*batch.Column).IsOutput)
	return b.N, nil, err
}

// place returns a copy of a host batch with columns in memory of the device.
func (g *gpuEngine) place(b *batch.Batch) (on *batch.Batch, columns *loan, err error) {
	size := 0
	take := func(c *batch.Column) (at int) {
		at = size
		size += (c.Width*b.N + 255) &^ 255
		return at
	}
	var at [len(b.Columns)]int
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Given() {
			at[r] = take(c)
		}
	}
	if columns, err = g.k.loans.take(size); err != nil {
		return nil, nil, err
	}
	on = b.Chunk(0, b.N)
	for r := range on.Columns {
		if c := &on.Columns[r]; c.Given() {
			*c = c.Moved(columns.buf.Ptr + device.Ptr(at[r]))
		}
	}
	return on, columns, nil
}

// carry copies some columns of a host batch to the device, or back.
func carry(ctx context.Context, ring *staging.Ring, b, on *batch.Batch, wanted func(*batch.Column) bool) (done int, err error) {
	part, none := *b, true
	for r := range part.Columns {
		if c := &part.Columns[r]; c.Given() && wanted(c) {
			none = false
		} else {
			*c = batch.Column{}
		}
	}
	if none {
		return b.N, nil
	}
	return ring.RunInOrder(ctx, &part, func(p *staging.Piece) error {
		for r := range part.Columns {
			c := &p.Batch.Columns[r]
			if !c.Given() {
				continue
			}
			there := on.Columns[r].Ptr + device.Ptr(p.Lo*c.Width)
			from, to := c.Ptr, there
			if c.IsOutput() {
				from, to = there, c.Ptr
			}
			if err := p.Stream.Copy(to, from, p.Batch.N*c.Width); err != nil {
				return err
			}
		}
		return nil
	})
}
