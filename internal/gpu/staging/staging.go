// Package staging carries batches of host memory through a device in pieces of
// constant size: each piece is copied to page-locked memory, to the device,
// worked on, and back. Pieces overlap, and as many cores as there are copy,
// since one core copies 5 to 12 GB/s and a device takes 55 in each direction.
// It is the one way by which structures on a GPU take Go slices.
package staging

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

const (
	// pieceBytes is the most that a piece copies in one direction: 20 us on the
	// bus. Below 1 MiB Go's copy goes through the cache, where the bus finds
	// the piece and leaves the answer, so that main memory carries the batch
	// once and not three times.
	pieceBytes = 2 << 20
	// unstagedPieces is how much larger a piece is at most when no core copies:
	// the fewer, the less it counts that copies take a while to begin.
	unstagedPieces = 4
	// maxSegments bounds the pieces under way, and so the memory of a call: twice
	// as many as cores keep the cores copying while pieces are on the device.
	maxSegments = 32
	// unstagedSegments is the same when no core copies: a piece for each direction
	// and one that is worked on. With more, copies in get ahead of copies out, and
	// at the end only one direction is at work.
	unstagedSegments = 3
)

// Piece is a part of a batch whose columns lie on the device.
type Piece struct {
	Lo     int            // its first row's number in the batch
	Batch  *batch.Batch   // with the columns at their places on the device
	Stream *device.Stream // where to submit the work
}

// Ring has the streams for one batch at a time, and while it runs one the memory.
//
// There is one stream per direction and one for the work, tied together by
// events. A stream per segment would be simpler, but a GPU has few queues; streams
// that share one wait for each other, and the two directions no longer overlap.
type Ring struct {
	dev           device.Device
	memory        *Memory
	in, work, out *device.Stream
	segments      []segment
	cuts          []int // of the batch that runs: piece i is rows [cuts[i],cuts[i+1])

	pieceBytes int
	order      func(n int) int // see Settings
}

// New makes a ring, which has its segments from memory while it runs a batch.
// Close frees it.
func New(dev device.Device, memory *Memory) *Ring {
	s := settingsOf(dev)
	return &Ring{dev: dev, memory: memory, segments: make([]segment, s.Segments), pieceBytes: s.PieceBytes, order: s.Order}
}

// Run takes a batch in host memory through the device. For each piece it calls
// launch, which submits work that reads the columns to be read and writes those
// to be written. Columns in page-locked memory are copied by the device alone.
// Calls of launch are concurrent, in no order. done is the length of the prefix
// that was run, whose output has arrived; nothing else was. When Run returns,
// for whatever reason, the device has stopped using the ring and the batch.
//
// An output with Offsets has rows of variable size, and pieces are cut so that
// it fits them: one row of it must not be larger than [Ring.PieceBytes].
func (r *Ring) Run(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch})
}

// RunInOrder is Run with the calls of launch one at a time, in the order of
// the pieces.
func (r *Ring) RunInOrder(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, inOrder: true})
}

// RunWhole takes a batch through the device in one piece, for work that decides
// itself how many rows it fills.
func (r *Ring) RunWhole(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, whole: true})
}

// PieceBytes is the most that a piece copies in one direction.
func (r *Ring) PieceBytes() int { return r.pieceBytes }

// Work is the stream that the pieces' work is submitted to, for what must be done
// before.
func (r *Ring) Work() (*device.Stream, error) {
	err := r.open(0)
	return r.work, err
}

// Close frees the ring. No Run may be under way. Idempotent.
func (r *Ring) Close() (err error) {
	for i := range r.segments {
		err = errors.Join(err, r.segments[i].close())
	}
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s != nil {
			err = errors.Join(err, (*s).Close())
			*s = nil
		}
	}
	return err
}

// open makes sure that the streams and the events of some segments are there.
func (r *Ring) open(segments int) (err error) {
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s == nil {
			if *s, err = r.dev.NewStream(); err != nil {
				return err
			}
		}
	}
	for i := range segments {
		if err := r.segments[i].open(r.dev); err != nil {
			return err
		}
	}
	return nil
}

// columnAlign is where columns begin in a segment.
const columnAlign = 256

// align rounds up to where a column may begin.
func align(n int) int { return (n + columnAlign - 1) &^ (columnAlign - 1) }
