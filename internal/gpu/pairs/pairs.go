// Package pairs has the kernels of joins on a GPU: they make an index of rows that a map of keys
// leads to, and write the pairs of rows with equal keys.
//
// A span is the rows of a key in a word: their number in the upper half; in the lower half their first
// place in the index's column of rows, or, if there is one row, that row. Rows with equal keys are in
// ascending order there.
package pairs

import (
	"errors"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 pairs.cu

// MaxRows is how many rows an index has at most.
const MaxRows = prim.MaxRows

// Kernels are those of a device. They are safe for concurrent use.
type Kernels struct {
	dev                                          device.Device
	prim                                         *prim.Kernels
	number, groups, bounds, spans, counts, pairs device.Kernel
	adder                                        gpu.Adder
}

// Load makes the kernels of a device; device.ErrNoKernels if it runs none.
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

// Build is an index that is being built: submit Number; insert the keys of all rows with Vals, those that are
// not there; replace Vals by what is found; submit Sort; replace what the map has by Vals.
type Build struct {
	k       *Kernels
	n       int
	Vals    device.Slice[uint64]
	Rows    device.Slice[uint32] // in order of their keys: what spans lead into; the caller's to free
	groups  device.Slice[uint32] // of each row, then its bounds
	sorted  device.Slice[uint32]
	begin   device.Slice[uint32]
	end     device.Slice[uint32]
	scratch device.Slice[uint8]
}

// NewBuild takes the memory for n rows, 28 bytes each and scratch memory of some 8.
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

// order sorts rows by the first row that has their key, which has so many bits.
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

// Number submits making Vals the numbers of rows.
func (b *Build) Number(s *device.Stream) error { return b.launch(s, b.k.number) }

// Sort submits making Vals the spans of rows, of Vals that are one row for all with equal keys.
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

// Free returns all memory but that of Rows; what has been submitted is done.
func (b *Build) Free() error {
	return errors.Join(b.Vals.Free(), b.groups.Free(), b.sorted.Free(), b.begin.Free(), b.end.Free(), b.scratch.Free())
}

// Found is the spans of a batch, and the pairs that they stand for.
type Found struct {
	k       *Kernels
	Spans   device.Slice[uint64]
	counts  device.Slice[uint32]
	offsets device.Slice[uint64]
	scratch device.Slice[uint8]
}

// NewFound takes the memory for batches of up to n rows, 20 bytes each and some.
func (k *Kernels) NewFound(n int) (*Found, error) {
	f := &Found{k: k}
	if err := f.allocate(n); err != nil {
		return nil, errors.Join(err, f.Free())
	}
	return f, nil
}

func (f *Found) allocate(n int) (err error) {
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

// Count submits counting the pairs of the first n spans; all: rows without one get one with no row. What
// AddTotal and Counts are of is then there.
func (f *Found) Count(s *device.Stream, n int, all bool) error {
	p := findParams{spans: f.Spans.Ptr(), counts: f.counts.Ptr(), n: uint32(n)}
	if all {
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

// Counts are the pairs of each row.
func (f *Found) Counts() device.Slice[uint32] { return f.counts }

// AddTotal submits adding the number of pairs of the first n rows to a counter.
func (f *Found) AddTotal(s *device.Stream, n int, to device.Slice[uint64]) error {
	return f.k.adder.AddFrom(s, to.Ptr(), f.offsets.Sub(n, n+1).Ptr())
}

// Write submits writing pairs from number first on, as many as there are and left and right have room for, of the
// first n spans, which lead into rows.
func (f *Found) Write(s *device.Stream, n int, rows device.Slice[uint32], first uint64, left, right device.Slice[uint32]) error {
	if n == 0 || left.Len() == 0 {
		return nil
	}
	p := writeParams{
		spans: f.Spans.Ptr(), offsets: f.offsets.Ptr(), rows: rows.Ptr(), left: left.Ptr(), right: right.Ptr(),
		first: first, limit: uint64(left.Len()), n: uint32(n),
	}
	return device.Launch(s, f.k.pairs, gpu.Resident(f.k.dev, (left.Len()+3)/4, 8), gpu.Block, &p)
}

// Free returns the memory; what has been submitted is done.
func (f *Found) Free() error {
	return errors.Join(f.Spans.Free(), f.counts.Free(), f.offsets.Free(), f.scratch.Free())
}
