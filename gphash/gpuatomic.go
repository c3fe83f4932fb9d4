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
)

// Atomic batches on a GPU. A batch lies in memory of the device as a whole. One launch settles it as any
// other, but beside the mirror of the slots: new keys claim slots there, values go to the pool, and
// what becomes of each slot is noted in memory of the device. The next one writes the notes to the redo
// log (redo.cuh). If all of it has found room, the host publishes the log: the batch is durable. Then the
// mirror changes, which is where lookups see it, and the slots of the pool, a line of a bucket
// at a time; and the host empties the log.
//
// So a key and a value of 128 bytes cross the bus as 160 bytes that lie in a row with others, and one
// line of 128 for the slot. Where an operation takes a fence by itself, it also waits for each.

// noted is what the change under way makes of slots.
type noted struct {
	entries   *loan // an Entry for each operation
	n         int
	published bool // and not applied
}

func (n *noted) ptr() device.Ptr {
	if n.entries == nil {
		return 0
	}
	return n.entries.buf.Ptr
}

// drop gives the memory back when the stream has done with it.
func (n *noted) drop(s *device.Stream) {
	if n.entries != nil {
		n.entries.behind(s)
	}
	*n = noted{}
}

// beginNoting makes room for what a change makes of slots, which is a whole batch.
func (k *launcher) beginNoting(s *device.Stream, c *gpu.Change) (err error) {
	if c.Args.First > 0 {
		return fmt.Errorf("%w: an atomic batch is launched at once", device.ErrMemory)
	}
	k.noted.n = c.N
	if k.noted.entries, err = k.loans.take(c.N * entryBytes); err != nil {
		return err
	}
	return s.Fill(k.noted.ptr(), 0, c.N*entryBytes/4)
}

const entryBytes = 48 // of Entry in redo.cuh

// writeLog submits writing to the log what a change has noted.
func (k *launcher) writeLog(s *device.Stream, p *changeParams) error {
	r := k.redoParams()
	return errors.Join(
		device.Launch(s, k.follow, gpu.Wave(k.dev, warp*k.noted.n), gpu.Block, p),
		device.Launch(s, k.log, gpu.Wave(k.dev, k.noted.n), gpu.Block, &r))
}

func (k *launcher) redoParams() redoParams {
	l := k.host.redo
	return redoParams{
		table: k.table.Load().ref, space: k.space, entries: k.noted.ptr(), n: uint64(k.noted.n),
		records: l.next(0, 0).records(), made: k.word(wordMade),
	}
}

// apply submits making the changes of a batch that has been published.
func (k *launcher) apply(s *device.Stream) error {
	r := k.redoParams()
	return k.alone(s, func() error {
		return errors.Join(
			device.Launch(s, k.settle, gpu.Wave(k.dev, k.noted.n), gpu.Block, &r),
			device.Launch(s, k.home, gpu.Wave(k.dev, k.noted.n*2*int(r.table.slots)), gpu.Block, &r))
	})
}

// refuse submits giving back what a batch has taken.
func (k *launcher) refuse(s *device.Stream) error {
	r := k.redoParams()
	return k.alone(s, func() error { return device.Launch(s, k.undo, gpu.Wave(k.dev, k.noted.n), gpu.Block, &r) })
}

// ---- batches ---------------------------------------------------------------------------

// atomic runs a batch, or as much of one of the host as the log has room for. If there is no room for what
// it inserts all its operations fail, and nothing of it is there. It waits, also for a batch on a stream.
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

// atomicOn runs a batch on the device, whose columns stay as they are if it is refused.
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
	return nil, errors.Join(s.Copy(b.Columns[batch.Out].Ptr, out.Ptr, out.Width*b.N), s.Sync(all))
}

// whole runs a batch whose results are nobody's until it is there; all its operations fail, or none.
func (g *gpuEngine) whole(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	b.Flags |= batch.Report
	_, failed, err = g.Engine.Change(all, s, b)
	switch {
	case err != nil:
		return nil, errors.Join(err, g.refuse())
	case len(failed) > 0:
		return core.All(b.N), g.refuse()
	}
	return nil, g.log()
}

func (g *gpuEngine) refuse() error {
	if g.k.noted.entries == nil {
		return nil
	}
	defer g.k.noted.drop(g.Stream)
	return g.Do(all, g.k.refuse)
}

// log publishes the batch whose records are in the log, and applies it.
func (g *gpuEngine) log() error {
	var made [2]uint64
	if err := g.read(device.Bytes(made[:]), g.k.word(wordMade)); err != nil {
		return err
	}
	if made[1] == 0 {
		g.k.noted.drop(g.Stream)
		return nil
	}
	l := g.host.redo
	l.publish(l.next(made[1], 0), made[0])
	g.k.noted.published = true
	return g.finish()
}

// finish applies a batch that has been published, if there is one: nothing else may change before.
func (g *gpuEngine) finish() error {
	if !g.k.noted.published {
		return nil
	}
	if err := g.Do(all, g.k.apply); err != nil {
		return err
	}
	g.host.redo.retire()
	g.k.noted.drop(g.Stream)
	return nil
}

// wiping has a Clear count that comes next, if batches are atomic; wiped says that it has been done.
func (g *gpuEngine) wiping() error {
	l := g.host.redo
	if l == nil {
		return nil
	}
	if err := g.finish(); err != nil {
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

// carried runs a batch of the host: its columns go to the device as a whole before, and results come
// back behind.
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

// place is a batch of the host with columns in memory of the device.
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

// carry copies some of the columns of a batch of the host to where they lie on the device, or back.
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
