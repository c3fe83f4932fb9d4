// Package staging moves batches from host memory through a device in pieces. Each piece is copied
// to page-locked memory and to the device, worked on, and copied back. Pieces overlap, and all
// cores copy, since one core copies 5 to 12 GB/s while a device transfers 55 GB/s in each
// direction. All structures on a GPU pass Go slices to the device through this package.
package staging

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

const (
	// pieceBytes is the maximum size of the columns that a piece copies in one direction. Such a
	// copy takes 20 us on the bus. With pieces below 1 MiB, Go's copy would stay in the cache,
	// where the bus reads the piece and writes the results. Main memory then transfers the batch
	// once instead of three times.
	pieceBytes = 2 << 20
	// unstagedPieces is the maximum factor by which pieces grow if no core copies. Fewer pieces
	// mean fewer copies, and every copy starts with a latency.
	unstagedPieces = 4
	// maxSlots is the maximum number of pieces in flight, which bounds the memory of a call. Twice
	// as many slots as cores keep all cores copying while other pieces are on the device.
	maxSlots = 32
	// unstagedSlots is the maximum number of pieces in flight if no core copies: one piece per
	// direction and one in work. With more slots, copies to the device run ahead of copies back,
	// and at the end only one direction is busy.
	unstagedSlots = 3
)

// Piece is a range of rows of a batch.
type Piece struct {
	Lo     int            // index of the piece's first row in the batch
	Batch  *batch.Batch   // the rows, with columns on the device
	Stream *device.Stream // stream for the work on the piece
}

// Ring moves one batch at a time through a device. It holds streams permanently, and memory only
// while a batch runs.
//
// A ring has one stream per direction and one for the work, synchronized by events. A stream per
// slot would be simpler, but a GPU has few queues. Streams that share a queue wait for each other,
// so the two directions would no longer overlap.
type Ring struct {
	dev           device.Device
	memory        *Memory
	in, work, out *device.Stream
	slots         []slot
	cuts          []int // row bounds in the current batch: piece i is rows [cuts[i],cuts[i+1])

	pieceBytes int
	order      func(n int) int // see Settings
}

// New returns a ring, which acquires its slots from memory while a batch runs. The caller must call
// Close.
func New(dev device.Device, memory *Memory) *Ring {
	s := settingsOf(dev)
	return &Ring{dev: dev, memory: memory, slots: make([]slot, s.Slots), pieceBytes: s.PieceBytes, order: s.Order}
}

// Run moves a batch from host memory through the device. It calls launch once per piece. launch
// submits work that reads the piece's input columns and writes its output columns. Calls of launch
// are concurrent and in no order. The device copies page-locked columns directly.
//
// done is the number of rows at the front of the batch that ran and have their output in host
// memory. No other row ran. When Run returns, even with an error, the device has stopped using the
// ring and the batch.
//
// An output column with Offsets has rows of variable size. Run cuts the batch so that these rows
// fit a piece. A single row must not exceed [Ring.PieceBytes].
func (r *Ring) Run(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch})
}

// RunInOrder acts as [Ring.Run], but calls launch for one piece at a time, in the order of the
// pieces.
func (r *Ring) RunInOrder(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, inOrder: true})
}

// RunWhole moves a batch through the device as a single piece. Use it for work that determines
// itself how many rows it fills.
func (r *Ring) RunWhole(ctx context.Context, b *batch.Batch, launch func(*Piece) error) (done int, err error) {
	return r.run(&job{ctx: ctx, b: b, launch: launch, whole: true})
}

// PieceBytes returns the maximum size of the columns that a piece copies in one direction.
func (r *Ring) PieceBytes() int { return r.pieceBytes }

// Work returns the stream on which Run runs the pieces' work. Work that the caller submits to it
// before Run runs first.
func (r *Ring) Work() (*device.Stream, error) {
	err := r.open(0)
	return r.work, err
}

// Close frees the ring. No Run may be in progress. Further calls do nothing.
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

// open creates the streams, and the events of the first slots, unless they exist.
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

func align(n int) int { return (n + columnAlign - 1) &^ (columnAlign - 1) }
