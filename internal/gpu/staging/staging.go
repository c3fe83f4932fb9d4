// Package staging moves batches of host memory through a device in pieces of constant size. Each
// piece is copied to page-locked memory and to the device, worked on, and copied back. Pieces
// overlap, and all cores copy, since one core copies 5 to 12 GB/s and a device takes 55 in each
// direction. All structures on a GPU take Go slices through this package.
package staging

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

const (
	// pieceBytes is the maximum that a piece copies in one direction: 20 us on the bus. Below 1 MiB
	// Go's copy goes through the cache, where the bus finds the piece and leaves the answer. So
	// main memory transfers the batch once and not three times.
	pieceBytes = 2 << 20
	// unstagedPieces is the maximum factor by which a piece is larger when no core copies: fewer
	// pieces reduce the total latency at the start of copies.
	unstagedPieces = 4
	// maxSlots bounds the pieces in flight, and so the memory of a call. Twice the number of
	// cores keep the cores copying while pieces are on the device.
	maxSlots = 32
	// unstagedSlots is the same when no core copies: one piece for each direction and one that
	// is worked on. With more, copies in get ahead of copies out, and at the end only one direction
	// is busy.
	unstagedSlots = 3
)

// Piece is a part of a batch with columns on the device.
type Piece struct {
	Lo     int            // number of its first row in the batch
	Batch  *batch.Batch   // its columns lie on the device
	Stream *device.Stream // where to submit the work
}

// Ring holds the streams for one batch at a time, and the memory while a batch runs.
//
// It has one stream per direction and one for the work, synchronized by events. A stream per
// slot would be simpler, but a GPU has few queues. Streams that share a queue wait for each
// other, and the two directions no longer overlap.
type Ring struct {
	dev           device.Device
	memory        *Memory
	in, work, out *device.Stream
	slots         []slot
	cuts          []int // of the current batch: piece i is rows [cuts[i],cuts[i+1])

	pieceBytes int
	order      func(n int) int // see Settings
}

// New returns a ring, which acquires its slots from memory while it runs a batch. Close frees
// it.
func New(dev device.Device, memory *Memory) *Ring {
	s := settingsOf(dev)
	return &Ring{dev: dev, memory: memory, slots: make([]slot, s.Slots), pieceBytes: s.PieceBytes, order: s.Order}
}

// Run takes a batch in host memory through the device. For each piece it calls launch, which
// submits work that reads the input columns and writes the output columns. The device copies
// columns in page-locked memory directly. Calls of launch are concurrent, in no order. done is the
// length of the prefix that was run and whose output has arrived; nothing else was run. When Run
// returns, for any reason, the device has stopped using the ring and the batch.
//
// An output with Offsets has rows of variable size, and pieces are cut so that it fits them. A
// single row must not be larger than [Ring.PieceBytes].
func (r *Ring) Run(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch})
}

// RunInOrder is Run with the calls of launch one at a time, in the order of
// the pieces.
func (r *Ring) RunInOrder(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, inOrder: true})
}

// RunWhole takes a batch through the device in one piece, for work that decides itself how many
// rows it fills.
func (r *Ring) RunWhole(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, whole: true})
}

// PieceBytes returns the maximum that a piece copies in one direction.
func (r *Ring) PieceBytes() int { return r.pieceBytes }

// Work returns the stream that the pieces' work is submitted to, for work that must come before.
func (r *Ring) Work() (*device.Stream, error) {
	err := r.open(0)
	return r.work, err
}

// Close frees the ring. No Run may be under way. Idempotent.
func (r *Ring) Close() (err error) {
	for i := range r.slots {
		err = errors.Join(err, r.slots[i].close())
	}
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s != nil {
			err = errors.Join(err, (*s).Close())
			*s = nil
		}
	}
	return err
}

// open makes the streams, and the events of the given number of slots, if missing.
func (r *Ring) open(slots int) (err error) {
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s == nil {
			if *s, err = r.dev.NewStream(); err != nil {
				return err
			}
		}
	}
	for i := range slots {
		if err := r.slots[i].open(r.dev); err != nil {
			return err
		}
	}
	return nil
}

// columnAlign is the alignment of columns in a slot.
const columnAlign = 256

// align rounds up to the alignment of a column.
func align(n int) int { return (n + columnAlign - 1) &^ (columnAlign - 1) }
