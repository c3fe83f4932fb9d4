// Package staging carries batches of host memory through a device in pieces of
// constant size: each piece is copied to page-locked memory by all cores,
// to the device, worked on, and back, and the pieces overlap. It is the one
// way by which structures on a GPU take Go slices.
package staging

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
)

const (
	// slots is the number of pieces under way: one being filled, one each on
	// the way in, in the kernel and on the way out, one being emptied.
	slots = 5
	// pieceBytes is the most that a piece copies in one direction. A copy of 8
	// MiB takes 150 us, fifty times the cost of submitting it.
	pieceBytes = 8 << 20
	// maxRows keeps a piece of narrow rows within a kernel's reach.
	maxRows = 1 << 20
)

// Column is a column of a batch in host memory, Width bytes per row. An empty
// Host means that the batch does not have the column.
type Column struct {
	Host  []byte
	Width int
}

// Piece is a part of a batch whose columns lie on the device.
type Piece struct {
	Lo, N  int            // rows [Lo, Lo+N) of the batch
	In     []device.Ptr   // the columns copied in; 0 for one that is empty
	Out    []device.Ptr   // the columns to be copied out
	Stream *device.Stream // where to submit the work
}

// Ring is the memory and the streams for one batch at a time. Its size depends
// on the widest rows it has seen, not on batches.
type Ring struct {
	dev   device.Device
	slots [slots]slot
}

// slot is the way of one piece.
type slot struct {
	stream *device.Stream
	done   *device.Event
	host   []byte
	buf    device.Buffer
	busy   bool

	piece Piece
	out   [][]byte // where the piece's output goes
}

// New makes a ring. Close frees it.
func New(dev device.Device) (*Ring, error) {
	r := &Ring{dev: dev}
	for i := range r.slots {
		var err error
		if r.slots[i].stream, err = dev.NewStream(); err == nil {
			r.slots[i].done, err = dev.NewEvent()
		}
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("staging: %w", err)
		}
	}
	return r, nil
}

// Run takes the n rows of a batch through the device. For each piece, in
// order, it calls launch, which submits work that reads the columns in and
// writes the columns out. Streams of different pieces are not ordered among
// each other. done is the length of the prefix whose output has arrived; when
// Run returns, for whatever reason, the device has stopped using the ring and
// the batch.
func (r *Ring) Run(ctx context.Context, n int, in, out []Column, launch func(*Piece) error) (done int, err error) {
	return r.run(ctx, n, rowsPerPiece(in, out), in, out, launch)
}

func (r *Ring) run(ctx context.Context, n, rows int, in, out []Column, launch func(*Piece) error) (done int, err error) {
	if err := r.reserve(min(n, rows), in, out); err != nil {
		return 0, fmt.Errorf("staging: %w", err)
	}
	next := 0
	for lo := 0; lo < n && err == nil; lo += rows {
		s := &r.slots[next]
		next = (next + 1) % slots
		if err = r.collect(s, &done); err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.send(s, lo, min(rows, n-lo), in, out, launch)
		}
	}
	// Collect in order, also after an error: what was sent is done.
	for range slots {
		s := &r.slots[next]
		next = (next + 1) % slots
		if e := r.collect(s, &done); err == nil {
			err = e
		}
	}
	return done, err
}

// RunWhole takes columns out of the device in one piece, for work that decides
// itself how many rows it fills. The ring grows to the size of the piece.
func (r *Ring) RunWhole(ctx context.Context, n int, out []Column, launch func(*Piece) error) (done int, err error) {
	return r.run(ctx, n, n, nil, out, launch)
}

// send fills a slot with a piece and submits it.
func (r *Ring) send(s *slot, lo, n int, in, out []Column, launch func(*Piece) error) error {
	s.piece = Piece{Lo: lo, N: n, In: s.piece.In[:0], Out: s.piece.Out[:0], Stream: s.stream}
	// Until all is submitted there is nothing to bring home, but there may be
	// copies to wait for.
	s.busy, s.out = true, nil
	home := make([][]byte, 0, len(out))
	at := 0
	for _, c := range in {
		if c.Host == nil {
			s.piece.In = append(s.piece.In, 0)
			continue
		}
		size := n * c.Width
		copyAll(s.host[at:at+size], c.Host[lo*c.Width:])
		if err := s.stream.CopyInAsync(s.buf.Ptr+device.Ptr(at), s.host[at:at+size]); err != nil {
			return err
		}
		s.piece.In = append(s.piece.In, s.buf.Ptr+device.Ptr(at))
		at = align(at + size)
	}
	first := at
	for _, c := range out {
		if c.Host == nil {
			s.piece.Out = append(s.piece.Out, 0)
			home = append(home, nil)
			continue
		}
		s.piece.Out = append(s.piece.Out, s.buf.Ptr+device.Ptr(at))
		home = append(home, c.Host[lo*c.Width:(lo+n)*c.Width])
		at = align(at + n*c.Width)
	}
	if err := launch(&s.piece); err != nil {
		return err
	}
	// The columns out lie side by side: one copy brings them all.
	if at > first {
		if err := s.stream.CopyOutAsync(s.host[first:at], s.buf.Ptr+device.Ptr(first)); err != nil {
			return err
		}
	}
	if err := s.stream.Record(s.done); err != nil {
		return err
	}
	s.out = home
	return nil
}

// collect waits for a slot's piece and copies its output to the batch. It does
// not give up when the context ends: the device is using the ring.
func (r *Ring) collect(s *slot, done *int) error {
	if !s.busy {
		return nil
	}
	s.busy = false
	ctx := context.Background()
	if s.out == nil {
		return s.stream.Sync(ctx)
	}
	if err := s.done.Sync(ctx); err != nil {
		return err
	}
	at := s.firstOut()
	for i, dst := range s.out {
		if s.piece.Out[i] != 0 {
			copyAll(dst, s.host[at:at+len(dst)])
			at = align(at + len(dst))
		}
	}
	*done = s.piece.Lo + s.piece.N
	return nil
}

// firstOut is the offset of the first column out.
func (s *slot) firstOut() int {
	for _, p := range s.piece.Out {
		if p != 0 {
			return int(p - s.buf.Ptr)
		}
	}
	return 0
}

// reserve makes the slots large enough for pieces of that many rows.
func (r *Ring) reserve(rows int, in, out []Column) error {
	size := 0
	for _, columns := range [][]Column{in, out} {
		for _, c := range columns {
			if c.Host != nil {
				size = align(size + rows*c.Width)
			}
		}
	}
	for i := range r.slots {
		s := &r.slots[i]
		if len(s.host) >= size {
			continue
		}
		if err := s.free(r.dev); err != nil {
			return err
		}
		// Round up, so that batches of slowly growing size don't reallocate.
		size := max(1<<12, nextPow2(size))
		host, err := r.dev.AllocHost(size)
		if err != nil {
			return err
		}
		s.host = host
		if s.buf, err = r.dev.Alloc(size); err != nil {
			return err
		}
	}
	return nil
}

func (s *slot) free(dev device.Device) (err error) {
	if s.buf.Size != 0 {
		err = dev.Free(s.buf)
		s.buf = device.Buffer{}
	}
	if s.host != nil {
		if e := dev.FreeHost(s.host); err == nil {
			err = e
		}
		s.host = nil
	}
	return err
}

// Close frees the ring. No Run may be under way. Idempotent.
func (r *Ring) Close() (err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	for i := range r.slots {
		s := &r.slots[i]
		keep(s.free(r.dev))
		if s.done != nil {
			keep(s.done.Close())
		}
		if s.stream != nil {
			keep(s.stream.Close())
		}
		*s = slot{}
	}
	return err
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
	return min(maxRows, pieceBytes/max(width(in), width(out), 1))
}

// align rounds up to where a column may begin.
func align(n int) int { return (n + 255) &^ 255 }

func nextPow2(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
