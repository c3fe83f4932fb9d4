// Package feed streams rows of host columns through memory of a GPU, piece by piece. While kernels
// work on one piece, the pieces after it are copied.
//
// A piece lies in a slot. The copy stream fills slots in turn, and the work stream runs the
// kernels. Events order both: kernels wait for the copies of their piece, and copies into a slot
// wait for the kernels of the piece that was there before.
//
// Page-locked columns are copied directly. All cores copy other columns into page-locked memory of
// the slot first. One core copies 10.5 GB/s, the link 55. Page-locking the memory of the caller
// instead takes 42 ms per GiB, more than twice the 20 ms of the copy, before the first byte can go.
package feed

import (
	"context"
	"errors"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

const (
	// PieceBytes is the size of a piece: 1.2 ms of the link of an H200. Launching the kernels of a
	// piece and waiting for one of them takes about 30 us.
	PieceBytes = 64 << 20
	// Slots is the number of slots: one piece is worked on, one is copied and one is ready to be
	// copied, so that the link need not wait for the host.
	Slots = 3

	minRow = 8

	// unit is the alignment of columns in a slot, which is that of device memory.
	unit = 256
	// copyGrain is the amount that a core copies to page-locked memory at a time.
	copyGrain = 1 << 20
)

// Column is a column of a piece in device memory. It is the zero Column if the feed was given the
// zero column in its place.
type Column struct {
	Type   column.Type
	Values device.Ptr
	// Valid is a bitmap with the bit of the first value at number Offset; values with a 0 bit are
	// null. 0: no nulls.
	Valid  device.Ptr
	Offset int
}

// Piece is N rows from row First on.
type Piece struct {
	First, N int
	Columns  []Column
}

// Feed holds the streams and the memory of pieces. Only one goroutine may use it at a time.
type Feed struct {
	work     *device.Stream
	dev      device.Device
	copies   *device.Stream
	bytes    int // of a piece; 0: PieceBytes
	slots    [Slots]slot
	nextSlot int         // slot of the next piece
	cores    *cpu.Device // cores that copy pageable memory
}

// slot is the memory of a piece.
type slot struct {
	memory device.Slice[uint8]
	staged []byte        // page-locked; nil until a column is pageable
	full   *device.Event // after the copies
	free   *device.Event // after the work
	used   bool
	piece  Piece
}

// New returns a feed with pieces of the given size; 0 is PieceBytes. Work is the caller's stream.
// Memory is allocated on demand.
func New(work *device.Stream, bytes int) (f *Feed, err error) {
	f = &Feed{work: work, dev: work.Device(), bytes: bytes}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Feed) open() (err error) {
	if f.copies, err = f.dev.NewStream(); err != nil {
		return err
	}
	for i := range f.slots {
		if f.slots[i].full, err = f.dev.NewEvent(); err != nil {
			return err
		}
		if f.slots[i].free, err = f.dev.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// Close waits for all copies and work, and frees the memory.
func (f *Feed) Close() (err error) {
	if f.copies != nil {
		err = f.copies.Close()
	}
	err = errors.Join(err, f.work.Sync(context.Background()))
	for i := range f.slots {
		err = errors.Join(err, f.slots[i].close(f.dev))
	}
	if f.cores != nil {
		err = errors.Join(err, f.cores.Close())
	}
	return err
}

func (s *slot) close(dev device.Device) (err error) {
	for _, e := range []*device.Event{s.full, s.free} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return errors.Join(err, s.release(dev))
}

// release frees the memory, which is not in use.
func (s *slot) release(dev device.Device) error {
	err := s.memory.Free()
	if s.staged != nil {
		err = errors.Join(err, dev.FreeHost(s.staged))
	}
	s.staged = nil
	return err
}

// Run copies n rows of columns of fixed size to the device in pieces, and calls each for every
// piece, in order. each submits work to the work stream. The piece stays valid until that work is
// done. Zero columns are not copied. Run returns when the columns may change: after all copies,
// even if each or the context ended it early. After an error a feed can only be closed.
func (f *Feed) Run(
	ctx context.Context, columns []column.Column, n int, each func(p *Piece) error,
) (err error) {
	defer func() {
		if end := f.copies.Sync(context.WithoutCancel(ctx)); err == nil {
			err = end
		}
	}()
	rows, first := Rows(f.bytes, columns), f.nextSlot
	pieces, sent := (n+rows-1)/rows, 0
	f.nextSlot = (first + pieces) % Slots
	for i := range pieces {
		for ; sent < min(i+Slots, pieces); sent++ {
			lo, s := sent*rows, &f.slots[(first+sent)%Slots]
			if err := f.submitCopies(ctx, s, columns, lo, min(rows, n-lo)); err != nil {
				return err
			}
		}
		if err := f.submitWork(&f.slots[(first+i)%Slots], each); err != nil {
			return err
		}
	}
	return nil
}

// Rows returns the number of rows of a piece of the given size, or of PieceBytes for 0. The rows
// fill whole bytes of bitmaps. Narrow rows count minRow bytes, since the memory that kernels
// allocate per row does not depend on its width.
func Rows(bytes int, columns []column.Column) int {
	if bytes == 0 {
		bytes = PieceBytes
	}
	bits := 0
	for _, c := range columns {
		if bits += 8 * c.Type().Size(); c.HasNulls() {
			bits++
		}
	}
	return max(64, 8*bytes/max(8*minRow, bits)/64*64)
}

// submitWork submits the work on a piece after its copies.
func (f *Feed) submitWork(s *slot, each func(p *Piece) error) error {
	if err := f.work.Wait(s.full); err != nil {
		return err
	}
	if err := each(&s.piece); err != nil {
		return err
	}
	return f.work.Record(s.free)
}

// part is a range of bytes of a piece, and its place in the slot.
type part struct {
	bytes []byte
	at    int
}

// layOut assigns the columns of a piece their places in the slot.
func (s *slot) layOut(columns []column.Column, lo, n int) (parts []part, size int) {
	s.piece = Piece{First: lo, N: n, Columns: make([]Column, len(columns))}
	add := func(b []byte) (at device.Ptr) {
		parts = append(parts, part{b, size})
		at = device.Ptr(size)
		size += (len(b) + unit - 1) / unit * unit
		return at
	}
	for i, c := range columns {
		if c.Type() == column.None {
			continue
		}
		rows := c.Slice(lo, lo+n)
		to := Column{Type: c.Type(), Values: add(rows.Raw())}
		if c.HasNulls() {
			bits, offset := rows.Valid().Raw()
			to.Valid, to.Offset = add(bits[offset/8:(offset+n+7)/8]), offset%8
		}
		s.piece.Columns[i] = to
	}
	return parts, size
}

// submitCopies submits the copies of a piece to its slot, after the work on the slot's previous
// piece has been submitted.
func (f *Feed) submitCopies(ctx context.Context, s *slot, columns []column.Column, lo, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	parts, size := s.layOut(columns, lo, n)
	if err := f.reserve(s, size); err != nil {
		return err
	}
	if s.used {
		if err := f.copies.Wait(s.free); err != nil {
			return err
		}
	}
	s.used = true
	for i := range s.piece.Columns {
		c := &s.piece.Columns[i]
		if c.Type == column.None {
			continue
		}
		if c.Values += s.memory.Ptr(); columns[i].HasNulls() {
			c.Valid += s.memory.Ptr()
		}
	}
	for _, p := range parts {
		if err := f.submitCopy(ctx, s, p); err != nil {
			return err
		}
	}
	return f.copies.Record(s.full)
}

// reserve makes the memory of a slot large enough for a piece.
func (f *Feed) reserve(s *slot, size int) (err error) {
	if s.memory.Len() >= size {
		return nil
	}
	if s.used { // the memory to free may be in use
		if err := s.free.Sync(context.Background()); err != nil {
			return err
		}
	}
	if err := s.release(f.dev); err != nil {
		return err
	}
	s.memory, err = device.Make[uint8](f.dev, size)
	return err
}

// submitCopy submits the copy of a part.
func (f *Feed) submitCopy(ctx context.Context, s *slot, p part) (err error) {
	if len(p.bytes) == 0 {
		return nil
	}
	if !f.dev.Pinned(p.bytes) {
		if p.bytes, err = f.stage(ctx, s, p); err != nil {
			return err
		}
	}
	return f.copies.CopyInAsync(s.memory.Ptr()+device.Ptr(p.at), p.bytes)
}

// stage copies a part to page-locked memory, on all cores.
func (f *Feed) stage(ctx context.Context, s *slot, p part) (staged []byte, err error) {
	if f.cores == nil {
		if f.cores, err = cpu.Open(nil); err != nil {
			return nil, err
		}
	}
	if s.staged == nil {
		if s.staged, err = f.dev.AllocHost(s.memory.Len()); err != nil {
			return nil, err
		}
	}
	// Wait for the copies of the slot's previous piece.
	if err := s.full.Sync(ctx); err != nil {
		return nil, err
	}
	staged = s.staged[p.at : p.at+len(p.bytes)]
	f.cores.Parallel(len(staged), copyGrain,
		func(lo, hi int) { copy(staged[lo:hi], p.bytes[lo:hi]) })
	return staged, nil
}
