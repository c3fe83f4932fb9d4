// Package staging carries batches of host memory through a device in pieces of
// constant size: each piece is copied to page-locked memory, to the device,
// worked on, and back. Pieces overlap, and as many cores as there are copy,
// since one core copies 5 to 12 GB/s and a device takes 55 in each direction.
// It is the one way by which structures on a GPU take Go slices.
package staging

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// pieceBytes is the most that a piece copies in one direction: 20 us on the
	// bus. Below 1 MiB Go's copy goes through the cache, where the bus finds
	// the piece and leaves the answer, so that main memory carries the batch
	// once and not three times.
	pieceBytes = 2 << 20
	// unstagedPieces is how much larger a piece is when no core copies.
	unstagedPieces = 4
	// maxSlots bounds the pieces under way, and so the memory of a ring: twice
	// as many as cores keep the cores copying while pieces are on the device.
	maxSlots = 32
)

// Column is a column of a batch in host memory, Width bytes per row. An empty
// Host means that the batch does not have the column. Columns in page-locked
// memory are copied by the device alone.
type Column struct {
	Host  []byte
	Width int

	pinned bool
}

// Piece is a part of a batch whose columns lie on the device.
type Piece struct {
	Lo, N  int            // rows [Lo, Lo+N) of the batch
	In     []device.Ptr   // the columns copied in; 0 for one that is empty
	Out    []device.Ptr   // the columns to be copied out
	Stream *device.Stream // where to submit the work
}

// Ring is the memory and the streams for one batch at a time. Its size depends
// on the number of cores and on the widest rows it has seen, not on batches.
//
// There is one stream per direction and one for the work, tied together by
// events. A stream per slot would be simpler, but a GPU has few queues; streams
// that share one wait for each other, and the two directions no longer overlap.
type Ring struct {
	dev           device.Device
	in, work, out *device.Stream
	slots         []slot
}

// New makes a ring. It takes up its memory when it is first used. Close frees
// it.
func New(dev device.Device) *Ring {
	return &Ring{dev: dev, slots: make([]slot, min(maxSlots, 2*runtime.GOMAXPROCS(0)))}
}

// Run takes the n rows of a batch through the device. For each piece it calls
// launch, which submits work that reads the columns in and writes the columns
// out. Calls of launch are concurrent, in no order. done is the length of the prefix that was run,
// whose output has arrived; nothing else was. When Run returns, for whatever
// reason, the device has stopped using the ring and the batch.
func (r *Ring) Run(ctx context.Context, n int, in, out []Column, launch func(*Piece) error) (done int, err error) {
	return r.run(&batch{ctx: ctx, n: n, rows: rowsPerPiece(in, out), in: in, out: out, launch: launch})
}

// RunInOrder is Run with the calls of launch one at a time, in the order of
// the pieces.
func (r *Ring) RunInOrder(ctx context.Context, n int, in, out []Column, launch func(*Piece) error) (done int, err error) {
	return r.run(&batch{ctx: ctx, n: n, rows: rowsPerPiece(in, out), in: in, out: out, launch: launch, inOrder: true})
}

// RunWhole takes columns out of the device in one piece, for work that decides
// itself how many rows it fills. The ring grows to the size of the piece.
func (r *Ring) RunWhole(ctx context.Context, n int, out []Column, launch func(*Piece) error) (done int, err error) {
	return r.run(&batch{ctx: ctx, n: n, rows: n, out: out, launch: launch})
}

// Close frees the ring. No Run may be under way. Idempotent.
func (r *Ring) Close() (err error) {
	for i := range r.slots {
		err = errors.Join(err, r.slots[i].close(r.dev))
	}
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s != nil {
			err = errors.Join(err, (*s).Close())
			*s = nil
		}
	}
	return err
}

// open makes sure that the streams and some slots of a size are there.
func (r *Ring) open(slots, size int) (err error) {
	for _, s := range []**device.Stream{&r.in, &r.work, &r.out} {
		if *s == nil {
			if *s, err = r.dev.NewStream(); err != nil {
				return err
			}
		}
	}
	for i := range slots {
		if err := r.slots[i].open(r.dev, size); err != nil {
			return err
		}
	}
	return nil
}

// batch is a Run under way.
type batch struct {
	ctx     context.Context
	n, rows int
	in, out []Column
	launch  func(*Piece) error
	inOrder bool

	// turn[i] tells slot i that it has been decided whether the pieces before
	// its next one are run; in order, also that they have been launched.
	turn []chan struct{}

	mu       sync.Mutex
	err      error
	launched int // rows of pieces that are run; does not grow after err
}

func (r *Ring) run(b *batch) (done int, err error) {
	if b.n == 0 {
		return 0, b.ctx.Err()
	}
	staged := false
	for _, columns := range [][]Column{b.in, b.out} {
		for i, c := range columns {
			columns[i].pinned = c.Host != nil && r.dev.Pinned(c.Host)
			staged = staged || c.Host != nil && !columns[i].pinned
		}
	}
	if !staged {
		b.rows *= unstagedPieces // the cores have nothing to do: fewer calls
	}
	b.rows = min(b.rows, b.n)
	slots := min(len(r.slots), (b.n-1)/b.rows+1)
	if err := r.open(slots, b.size()); err != nil {
		return 0, fmt.Errorf("staging: %w", err)
	}
	b.turn = make([]chan struct{}, slots)
	for i := range b.turn {
		b.turn[i] = make(chan struct{}, 1)
	}
	b.turn[0] <- struct{}{}
	var wg sync.WaitGroup
	for i := 1; i < slots; i++ {
		wg.Go(func() { b.carry(r, i) })
	}
	b.carry(r, 0)
	wg.Wait()
	return b.launched, b.err
}

// carry takes every so many-th piece through a slot.
func (b *batch) carry(r *Ring, i int) {
	for lo := i * b.rows; lo < b.n; lo += len(b.turn) * b.rows {
		b.one(r, i, lo)
	}
}

// one takes a piece through a slot: there, in turn, and back.
func (b *batch) one(r *Ring, i, lo int) {
	s := &r.slots[i]
	p := &Piece{Lo: lo, N: min(b.rows, b.n-lo), Stream: r.work}
	err := b.failure()
	if err == nil {
		err = s.send(r, p, b.in, b.out)
	}
	<-b.turn[i]
	if err == nil {
		err = b.failure() // of a piece before this one
	}
	submitted := false
	if err == nil && b.inOrder {
		err = b.submit(r, s, p)
		submitted = err == nil
	}
	b.decided(p, err)
	b.turn[(i+1)%len(b.turn)] <- struct{}{}
	if err == nil && !b.inOrder {
		err = b.submit(r, s, p)
		submitted = err == nil
		b.fail(err) // it was decided that the piece is run
	}
	b.fail(b.comeHome(r, s, p, submitted))
}

// comeHome waits for a piece and copies its output to the batch. If it was not
// submitted, copies may be under way all the same. The context does not count:
// the device is using the slot.
func (b *batch) comeHome(r *Ring, s *slot, p *Piece, submitted bool) error {
	ctx := context.Background()
	if !submitted {
		return errors.Join(r.in.Sync(ctx), r.work.Sync(ctx), r.out.Sync(ctx))
	}
	if err := s.home.Sync(ctx); err != nil {
		return err
	}
	s.unload(p, b.out)
	return nil
}

// submit launches a piece and the copies home.
func (b *batch) submit(r *Ring, s *slot, p *Piece) error {
	if err := r.work.Wait(s.arrived); err != nil {
		return err
	}
	if err := b.launch(p); err != nil {
		return err
	}
	if err := r.work.Record(s.worked); err != nil {
		return err
	}
	return s.bring(r, p, b.out)
}

// decided records whether a piece is run.
func (b *batch) decided(p *Piece, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && err == nil {
		b.launched = p.Lo + p.N
	} else if b.err == nil {
		b.err = err
	}
}

// failure is what ends the batch: an earlier error, or the context's end.
func (b *batch) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.ctx.Err()
}

// fail records that a piece that was to be run did not come home: nothing of
// the batch is known to have arrived. It does nothing without an error.
func (b *batch) fail(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.launched = 0
}

// size is what a slot needs for a piece.
func (b *batch) size() (size int) {
	for _, columns := range [][]Column{b.in, b.out} {
		for _, c := range columns {
			if c.Host != nil {
				size = align(size + b.rows*c.Width)
			}
		}
	}
	return size
}

// rowsPerPiece is how many rows fit a piece in the wider direction.
func rowsPerPiece(in, out []Column) int {
	width := func(columns []Column) (w int) {
		for _, c := range columns {
			if c.Host != nil {
				w += c.Width
			}
		}
		return w
	}
	return max(1, pieceBytes/max(width(in), width(out), 1))
}

// align rounds up to where a column may begin.
func align(n int) int { return (n + 255) &^ 255 }
