// Package parts implements kernels that hash, partition and gather rows in device memory. The hash
// equals that of package column.
package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/hash"
)

//go:generate go run ../../../cmd/weftgen -target 80+ptx83,90+ptx83 parts.cu

// MaxRows is the maximum number of rows per call.
const MaxRows = prim.MaxRows

// Column is a column of values in device memory.
type Column struct {
	Type   uint8 // a column.Type of fixed size; 0 for no column
	Values device.Ptr
	// Valid is a bitmap. A value is null if its bit is 0. The first value has bit number Offset.
	// Valid is 0 if no value is null.
	Valid  device.Ptr
	Offset int
}

func (c Column) descriptor() column {
	return column{values: c.Values, valid: c.Valid, offset: uint64(c.Offset), type_: uint32(c.Type)}
}

func wave(dev device.Device, n int) (grid, block device.Dim) {
	const threads, resident = 256, 8
	blocks := min((n+threads-1)/threads, dev.Properties().Units*resident)
	return device.Dim{X: max(1, blocks)}, device.Dim{X: threads}
}

// Keys are the key columns of N rows, and the seed of their hash.
type Keys struct {
	N       int
	Columns []Column
	Seed    uint64
}

func (k *Keys) check() error {
	if k.N > MaxRows {
		return fmt.Errorf(
			"%w: %d rows on a device; %d are possible",
			device.ErrInvalid,
			k.N,
			MaxRows,
		)
	}
	return nil
}

// params returns the parameters of the kernel that extends the hashes by column number columns-1.
func (k *Keys) params(columns int, hashes device.Ptr) hashParams {
	p := hashParams{hashes: hashes, start: hash.RowStart(k.Seed), n: uint32(k.N)}
	if columns > 0 {
		p.column = k.Columns[columns-1].descriptor()
	}
	if columns <= 1 {
		p.first = 1
	}
	return p
}

// hash submits hashing the given number of leading columns.
func (k *Keys) hash(m *partsModule, s *device.Stream, columns int, hashes device.Ptr) error {
	grid, block := wave(s.Device(), k.N)
	for i := min(1, columns); i <= columns; i++ {
		p := k.params(i, hashes)
		if err := m.Hash(s, grid, block, &p); err != nil {
			return err
		}
	}
	return nil
}

// Hash submits hashing rows and does not wait.
func Hash(s *device.Stream, k *Keys, hashes device.Ptr) error {
	if err := k.check(); err != nil || k.N == 0 {
		return err
	}
	m, err := loadParts(s.Device())
	if err != nil {
		return err
	}
	return k.hash(m, s, len(k.Columns), hashes)
}

// Partition describes how to distribute rows to partitions by the hash of their keys.
type Partition struct {
	Keys
	Parts int
	// Mask selects the bits of the hash to use. 0 selects all bits.
	Mask uint64
	// Nulls are columns. A row that is null in one of these is not placed by its hash.
	Nulls []Column
	Deal  bool // distribute these rows round-robin to the partitions; otherwise drop them
	First int  // partition of the first row to distribute
}

// Result lists the rows of each partition. The caller frees both slices.
type Result struct {
	Rows, Offsets device.Slice[uint32]
	N             int // number of rows in partitions, at the front of Rows
	Next          int // partition of the next row to distribute round-robin
}

func (r *Result) free() error { return errors.Join(r.Rows.Free(), r.Offsets.Free()) }

// run is a partition in progress and its memory.
type run struct {
	*Partition
	s *device.Stream
	m *partsModule
	k *prim.Kernels

	rows        device.Ptr
	offsets     device.Ptr
	out         Result // result of Run
	scratch     device.Slice[uint64]
	hashes      device.Ptr
	flags       device.Ptr // 0 if nulls are ignored
	ranks       device.Ptr // N+1 ranks; 0 if flagged rows are dropped
	parts       device.Ptr
	sorted      device.Ptr
	primScratch device.Buffer // scratch memory of primitives
}

// Run partitions rows and waits for the result. It hashes all columns except the last, flags and
// ranks rows with nulls, and computes the partition of each row. It then sorts the rows stably by
// partition and finds the beginning of each partition.
func (p *Partition) Run(ctx context.Context, s *device.Stream) (r Result, err error) {
	if err := p.check(); err != nil {
		return Result{}, err
	}
	t := run{Partition: p, s: s}
	if t.m, err = loadParts(s.Device()); err != nil {
		return Result{}, err
	}
	if t.k, err = prim.Load(s.Device()); err != nil {
		return Result{}, err
	}
	if err = t.allocate(); err == nil {
		err = t.submit()
	}
	if err == nil {
		err = t.read(ctx)
	}
	if err != nil {
		// The submitted work uses the memory, even if the caller no longer waits.
		err = errors.Join(err, s.Sync(context.WithoutCancel(ctx)), t.out.free())
	}
	if e := t.scratch.Free(); e != nil && err == nil {
		return Result{}, errors.Join(e, t.out.free())
	}
	if err != nil {
		return Result{}, err
	}
	return t.out, nil
}

// ScratchBytes returns the size of the scratch memory that Submit needs.
func (p *Partition) ScratchBytes() int {
	t := run{Partition: p}
	return t.carve(0)
}

// Submit submits a partition that has no Nulls, and does not wait. rows receives N row numbers
// (uint32). offsets receives the first index of each partition in rows, and then N.
func (p *Partition) Submit(
	s *device.Stream,
	rows, offsets device.Ptr,
	scratch device.Buffer,
) (err error) {
	if err := p.check(); err != nil {
		return err
	}
	t := run{Partition: p, s: s, rows: rows, offsets: offsets}
	if need := p.ScratchBytes(); len(p.Nulls) > 0 || scratch.Size < need {
		return fmt.Errorf(
			"%w: partition with %d columns of nulls and %d bytes of scratch memory, want none and %d bytes",
			device.ErrInvalid,
			len(p.Nulls),
			scratch.Size,
			need,
		)
	}
	if t.m, err = loadParts(s.Device()); err != nil {
		return err
	}
	if t.k, err = prim.Load(s.Device()); err != nil {
		return err
	}
	t.carve(scratch.Ptr)
	return t.submit()
}

// sort returns the sort of row numbers by partition.
func (t *run) sort() *prim.Sort {
	last := t.Parts - 1
	if len(t.Nulls) > 0 && !t.Deal {
		last++ // an extra partition for dropped rows
	}
	return &prim.Sort{
		Widths: prim.Widths{Key: 4, Val: 4}, N: t.N, Hi: max(1, bits.Len(uint(last))),
		From: prim.Rows{Keys: t.parts}, To: prim.Rows{Keys: t.sorted, Vals: t.rows},
	}
}

func (t *run) scan() *prim.Scan {
	return &prim.Scan{N: t.N, Width: 4, Counts: t.flags, Offsets: t.ranks}
}

func (t *run) allocate() (err error) {
	dev := t.s.Device()
	if t.out.Rows, err = device.Make[uint32](dev, t.N); err != nil {
		return err
	}
	if t.out.Offsets, err = device.Make[uint32](dev, t.Parts+1); err != nil {
		return err
	}
	if t.rows, t.offsets = t.out.Rows.Ptr(), t.out.Offsets.Ptr(); t.N == 0 {
		return nil
	}
	size := t.carve(0)
	if t.scratch, err = device.Make[uint64](dev, (size+7)/8); err != nil {
		return err
	}
	t.carve(t.scratch.Ptr())
	return nil
}

// carve divides the scratch memory at an address, and returns its size.
func (t *run) carve(at device.Ptr) int {
	c := prim.Carve(at)
	if len(t.Columns) > 1 {
		t.hashes = c.Alloc(8 * t.N)
	}
	if len(t.Nulls) > 0 {
		t.flags = c.Alloc(4 * t.N)
		if t.Deal {
			t.ranks = c.Alloc(4 * (t.N + 1))
		}
	}
	t.parts, t.sorted = c.Alloc(4*t.N), c.Alloc(4*t.N)
	t.primScratch.Size = max(t.sort().ScratchBytes(), t.scan().ScratchBytes())
	t.primScratch.Ptr = c.Alloc(t.primScratch.Size)
	return int(device.Ptr(c) - at)
}

func (t *run) submit() error {
	if t.N == 0 {
		return t.s.Fill(t.offsets, 0, t.Parts+1)
	}
	last := len(t.Columns) - 1
	if last > 0 {
		if err := t.hash(t.m, t.s, last, t.hashes); err != nil {
			return err
		}
	}
	if err := t.submitNulls(); err != nil {
		return err
	}
	p := partParams{
		hash: t.params(last+1, t.hashes), flags: t.flags, ranks: t.ranks, parts: t.parts,
		mask: cmp.Or(t.Mask, math.MaxUint64), count: uint32(t.Parts), next: uint32(t.First),
	}
	grid, block := wave(t.s.Device(), t.N)
	if err := t.m.Part(t.s, grid, block, &p); err != nil {
		return err
	}
	if err := t.k.Sort(t.s, t.sort(), t.primScratch); err != nil {
		return err
	}
	grid, block = wave(t.s.Device(), t.Parts+1)
	return t.m.Bound(t.s, grid, block, &boundParams{
		parts: t.sorted, offsets: t.offsets, n: uint32(t.N), count: uint32(t.Parts),
	})
}

func (t *run) submitNulls() error {
	grid, block := wave(t.s.Device(), t.N)
	for i, c := range t.Nulls {
		p := nullParams{column: c.descriptor(), flags: t.flags, n: uint32(t.N)}
		if i == 0 {
			p.first = 1
		}
		if err := t.m.Null(t.s, grid, block, &p); err != nil {
			return err
		}
	}
	if t.ranks == 0 {
		return nil
	}
	return t.k.Scan(t.s, t.scan(), t.primScratch)
}

// read waits for the work and reads the number of rows that were kept or distributed.
func (t *run) read(ctx context.Context) error {
	t.out.N, t.out.Next = t.N, t.First
	var n uint32
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&n)), 4)
	switch {
	case t.N == 0 || t.flags == 0:
		return t.s.Sync(ctx)
	case t.ranks != 0:
		err := t.s.CopyOut(ctx, memory, t.ranks+device.Ptr(4*t.N))
		t.out.Next = (t.First + int(n)) % t.Parts
		return err
	default:
		err := t.s.CopyOut(ctx, memory, t.offsets+device.Ptr(4*t.Parts))
		t.out.N = int(n)
		return err
	}
}

// Take submits gathering n rows from a column, and does not wait. size is the number of rows of the
// column. The bitmap valid, if not 0, consists of whole 32-bit words. If a row number is size or
// more, the result is null and its value is not written.
func Take(
	s *device.Stream, c Column, size int, rows device.Ptr, n int, values, valid device.Ptr,
) error {
	if n == 0 {
		return nil
	}
	m, err := loadParts(s.Device())
	if err != nil {
		return err
	}
	grid, block := wave(s.Device(), n)
	return m.Take(s, grid, block, &takeParams{
		column: c.descriptor(), rows: rows, values: values, valid: valid, n: uint32(n), size: uint32(size),
	})
}

// Put submits storing n values at distinct rows, and does not wait. Values have 1, 4 or 8 bytes.
// Put reverses Take.
func Put(
	s *device.Stream,
	values device.Ptr,
	width int,
	rows device.Ptr,
	n int,
	to device.Ptr,
) error {
	if n == 0 {
		return nil
	}
	m, err := loadParts(s.Device())
	if err != nil {
		return err
	}
	grid, block := wave(s.Device(), n)
	return m.Put(
		s,
		grid,
		block,
		&putParams{values: values, rows: rows, to: to, n: uint32(n), width: uint32(width)},
	)
}
