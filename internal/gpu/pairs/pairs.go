// Package pairs implements the kernels of joins on a GPU. They build an index of rows by key, and
// write the pairs of rows that have equal keys.
//
// A span is a 64-bit word that represents the rows with one key. The upper half is their number.
// The lower half is the index of the first of them in the column Rows or, for a single row, that
// row. Rows with equal keys are adjacent in Rows and ascend.
package pairs

import (
	"errors"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 pairs.cu

// MaxRows is the maximum number of rows of an index.
const MaxRows = prim.MaxRows

// Kernels holds the kernels loaded on a device. They are safe for concurrent use.
type Kernels struct {
	dev                                          device.Device
	prim                                         *prim.Kernels
	number, groups, bounds, spans, counts, pairs device.Kernel
	adder                                        gpu.Adder
}

// Load loads the kernels onto a device. It returns device.ErrNoKernels if the device runs no
// kernels.
func Load(dev device.Device) (k *Kernels, err error) {
	k = &Kernels{dev: dev}
	if k.prim, err = prim.Load(dev); err != nil {
		return nil, err
	}
	if k.adder, err = gpu.LoadAdder(dev); err != nil {
		return nil, err
	}
	return k, gpu.Load(dev, &pairsImage, []gpu.Entry{
		{Name: "number", To: &k.number}, {Name: "groups", To: &k.groups}, {Name: "bounds", To: &k.bounds},
		{Name: "spans", To: &k.spans}, {Name: "counts", To: &k.counts}, {Name: "write", To: &k.pairs},
	})
}

// Build builds an index of rows by key. First submit Number. Insert the absent keys of all rows
// into a map, with Vals as values, and replace Vals by the values that the map then holds. Then
// submit Sort, and replace the values in the map by Vals.
type Build struct {
	k       *Kernels
	n       int
	Vals    device.Slice[uint64]
	Rows    device.Slice[uint32] // rows ordered by key; spans refer to it; the caller frees it
	groups  device.Slice[uint32] // for each row, one row with an equal key
	sorted  device.Slice[uint32]
	begin   device.Slice[uint32]
	end     device.Slice[uint32]
	scratch device.Slice[uint8]
}

// NewBuild allocates memory for n rows: 28 bytes each, and about 8 bytes each of scratch memory.
func (k *Kernels) NewBuild(n int) (*Build, error) {
	b := &Build{k: k, n: n}
	if err := b.allocate(); err != nil {
		return nil, errors.Join(err, b.Free(), b.Rows.Free())
	}
	return b, nil
}

func (b *Build) allocate() (err error) {
	for _, s := range []*device.Slice[uint32]{&b.Rows, &b.groups, &b.sorted, &b.begin, &b.end} {
		if *s, err = device.Make[uint32](b.k.dev, b.n); err != nil {
			return err
		}
	}
	if b.Vals, err = device.Make[uint64](b.k.dev, b.n); err != nil {
		return err
	}
	b.scratch, err = device.Make[uint8](b.k.dev, b.order().ScratchBytes())
	return err
}

// order returns the sort that groups rows with equal keys. The sort key is the first row with the
// same key, in as few bits as n needs.
func (b *Build) order() *prim.Sort {
	return &prim.Sort{
		Widths: prim.Widths{Key: 4, Val: 4}, N: b.n, Hi: max(1, bits.Len(uint(max(b.n-1, 0)))),
		From: prim.Rows{Keys: b.groups.Ptr()}, To: prim.Rows{Keys: b.sorted.Ptr(), Vals: b.Rows.Ptr()},
	}
}

func (b *Build) params() *buildParams {
	return &buildParams{
		vals: b.Vals.Ptr(), groups: b.groups.Ptr(), sorted: b.sorted.Ptr(), begin: b.begin.Ptr(), end: b.end.Ptr(), rows: b.Rows.Ptr(), n: uint32(b.n),
	}
}

func (b *Build) launch(s *device.Stream, k device.Kernel) error {
	return device.Launch(s, k, gpu.Wave(b.k.dev, b.n), gpu.Block, b.params())
}

// Number submits setting Vals to the row numbers.
func (b *Build) Number(s *device.Stream) error { return b.launch(s, b.k.number) }

// Sort submits replacing Vals by spans. Before, Vals must hold the same row for all rows with equal
// keys.
func (b *Build) Sort(s *device.Stream) error {
	if err := b.launch(s, b.k.groups); err != nil {
		return err
	}
	if err := b.k.prim.Sort(s, b.order(), device.Buffer{Ptr: b.scratch.Ptr(), Size: b.scratch.Len()}); err != nil {
		return err
	}
	if err := b.launch(s, b.k.bounds); err != nil {
		return err
	}
	return b.launch(s, b.k.spans)
}

// Free frees all memory except Rows. All submitted work must have ended.
func (b *Build) Free() error {
	return errors.Join(b.Vals.Free(), b.groups.Free(), b.sorted.Free(), b.begin.Free(), b.end.Free(), b.scratch.Free())
}

// Matches holds the spans that a batch of rows has found in an index, and counts the resulting
// pairs.
type Matches struct {
	k       *Kernels
	Spans   device.Slice[uint64]
	counts  device.Slice[uint32]
	offsets device.Slice[uint64]
	scratch device.Slice[uint8]
}

// NewMatches allocates memory for batches of up to n rows: slightly more than 20 bytes each.
func (k *Kernels) NewMatches(n int) (*Matches, error) {
	f := &Matches{k: k}
	if err := f.allocate(n); err != nil {
		return nil, errors.Join(err, f.Free())
	}
	return f, nil
}

func (f *Matches) allocate(n int) (err error) {
	if f.Spans, err = device.Make[uint64](f.k.dev, n); err != nil {
		return err
	}
	if f.offsets, err = device.Make[uint64](f.k.dev, n+1); err != nil {
		return err
	}
	if f.counts, err = device.Make[uint32](f.k.dev, n); err != nil {
		return err
	}
	o := prim.Scan{N: n, Width: 8}
	f.scratch, err = device.Make[uint8](f.k.dev, o.ScratchBytes())
	return err
}

// Count submits counting the pairs of the first n spans. With outer, a row without a match counts
// as one pair, with no row on the right. Counts, AddTotal and Write use the result.
func (f *Matches) Count(s *device.Stream, n int, outer bool) error {
	p := findParams{spans: f.Spans.Ptr(), counts: f.counts.Ptr(), n: uint32(n)}
	if outer {
		p.all = 1
	}
	if n > 0 {
		if err := device.Launch(s, f.k.counts, gpu.Wave(f.k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
	}
	o := prim.Scan{N: n, Width: 8, Counts: f.counts.Ptr(), Offsets: f.offsets.Ptr()}
	return f.k.prim.Scan(s, &o, device.Buffer{Ptr: f.scratch.Ptr(), Size: f.scratch.Len()})
}

// Counts returns the number of pairs per row.
func (f *Matches) Counts() device.Slice[uint32] { return f.counts }

// AddTotal submits adding the number of pairs of the first n rows to a counter.
func (f *Matches) AddTotal(s *device.Stream, n int, to device.Slice[uint64]) error {
	return f.k.adder.AddFrom(s, to.Ptr(), f.offsets.Sub(n, n+1).Ptr())
}

// Write submits writing pairs of the first n spans to left and right. first is the number of the
// first pair to write. Write stops when left is full. rows is the column Rows of the index.
func (f *Matches) Write(s *device.Stream, n int, rows device.Slice[uint32], first uint64, left, right device.Slice[uint32]) error {
	if n == 0 || left.Len() == 0 {
		return nil
	}
	p := writeParams{
		spans: f.Spans.Ptr(), offsets: f.offsets.Ptr(), rows: rows.Ptr(), left: left.Ptr(), right: right.Ptr(),
		first: first, limit: uint64(left.Len()), n: uint32(n),
	}
	return device.Launch(s, f.k.pairs, gpu.Resident(f.k.dev, (left.Len()+3)/4, 8), gpu.Block, &p)
}

// Free frees the memory. All submitted work must have ended.
func (f *Matches) Free() error {
	return errors.Join(f.Spans.Free(), f.counts.Free(), f.offsets.Free(), f.scratch.Free())
}
