// Package feed streams rows of host columns through the memory of a GPU, piece by piece. While
// kernels work on one piece, the next pieces are copied.
//
// A piece occupies a slot of device memory. The copy stream fills slots in rotation, and the work
// stream runs the kernels. Events order both: kernels wait until their piece has been copied, and
// copies into a slot wait for the kernels of the slot's previous piece.
//
// The device copies page-locked columns directly. Other columns are first copied to page-locked
// memory of the slot, on all cores, since one core copies 10.5 GB/s and the link 55 GB/s.
// Page-locking the caller's memory instead takes 42 ms per GiB, more than twice the 20 ms of the
// copy, before the first byte moves.
package feed

import (
	"context"
	"errors"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

const (
	// PieceBytes is the default size of a piece. The link of an H200 takes 1.2 ms to copy it.
	// Launching the kernels of a piece and waiting for one of them takes about 30 us.
	PieceBytes = 64 << 20
	// Slots is the number of slots. Kernels work on one piece while a second is copied. A third is
	// ready to be copied, so that the link does not wait for the host.
	Slots = 3

	minRow = 8

	// unit is the alignment of columns in a slot, and of device memory.
	unit = 256
	// copyGrain is the number of bytes that a core copies to page-locked memory at a time.
	copyGrain = 1 << 20
)

// Column is a column of a piece in device memory. It is zero if the host column is zero.
type Column struct {
	Type   column.Type
	Values device.Ptr
	// Valid is a bitmap. A value is null if its bit is 0. The first value has bit number Offset.
	// Valid is 0 if no value is null.
	Valid  device.Ptr
	Offset int
}

// Piece is a range of N rows, which begins at row First.
type Piece struct {
	First, N int
	Columns  []Column
}

// Feed holds the streams and the slots. Only one goroutine may use it at a time.
type Feed struct {
	work     *device.Stream
	dev      device.Device
	copies   *device.Stream
	bytes    int // size of a piece; 0: PieceBytes
	slots    [Slots]slot
	nextSlot int         // slot of the next piece
	cores    *cpu.Device // copies pageable memory on all cores
}

// slot is memory for one piece.
type slot struct {
	memory device.Slice[uint8]
	staged []byte        // page-locked; nil until a column is pageable
	full   *device.Event // recorded after the copies
	free   *device.Event // recorded after the work
	used   bool
	piece  Piece
}

// New returns a feed with pieces of the given size in bytes; 0 selects PieceBytes. Kernels run on
// stream work of the caller. The feed allocates device memory on demand.
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

// Close waits for all copies and kernels, and frees the memory.
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

func (s *slot) release(dev device.Device) error {
	err := s.memory.Free()
	if s.staged != nil {
		err = errors.Join(err, dev.FreeHost(s.staged))
	}
	s.staged = nil
	return err
}

// Run copies n rows of columns of fixed size to the device in pieces, and calls the function each
// for every piece, in order. The function submits kernels to the work stream. The piece stays valid
// until these kernels end. Run does not copy zero columns. It returns after all copies, even after
// an error, so the caller may then change the columns. After an error the feed can only be closed.
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

// Rows returns the number of rows of a piece of the given size in bytes; 0 selects PieceBytes. The
// number is a multiple of 64, so that bitmaps divide into whole bytes. A row counts as at least
// minRow bytes, since kernels may allocate memory per row.
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

// submitWork submits the kernels of a piece, which run after its copies.
func (f *Feed) submitWork(s *slot, each func(p *Piece) error) error {
	if err := f.work.Wait(s.full); err != nil {
		return err
	}
	if err := each(&s.piece); err != nil {
		return err
	}
	return f.work.Record(s.free)
}

// part is one array of a piece, and its offset in the slot.
type part struct {
	bytes []byte
	at    int
}

// layOut assigns offsets in the slot to the columns of a piece.
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

// submitCopies submits the copies of a piece. They run after the kernels of the slot's previous
// piece, which must have been submitted.
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

// reserve makes the slot's memory at least size bytes large.
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
