package prim

import (
	"math"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 reduce.cu

// Constants compiled into the kernels.
const (
	reduceThreads = 256
	reduceTile    = 8 * reduceThreads // values plus segment ends per tile
	warpThreads   = 32
)

// ReduceOp is a way to combine numbers. Kernels use the same values.
type ReduceOp uint32

// The ways to combine numbers. Integer sums wrap around at their width. Minima and maxima ignore
// NaNs.
const (
	Sum ReduceOp = iota
	Min
	Max
)

// opNames are the names of the operations in kernel names.
var opNames = [...]string{Sum: "sum", Min: "min", Max: "max"}

// Number is a type of numbers that Reduce accepts.
type Number uint8

// The types of numbers.
const (
	Uint32 Number = iota
	Uint64
	Int32
	Int64
	Float32
	Float64
)

// numbers holds, per type, its name in kernels, its size in bytes, and the bits of three
// identities. The identity of a sum is 0, of a minimum the largest number, and of a maximum the
// smallest number.
var numbers = map[Number]struct {
	name     string
	width    int
	identity [3]uint64
}{
	Uint32:  {"u32", 4, [3]uint64{0, math.MaxUint32, 0}},
	Uint64:  {"u64", 8, [3]uint64{0, math.MaxUint64, 0}},
	Int32:   {"i32", 4, [3]uint64{0, math.MaxInt32, 1 << 31}},
	Int64:   {"i64", 8, [3]uint64{0, math.MaxInt64, 1 << 63}},
	Float32: {"f32", 4, [3]uint64{0, uint64(math.Float32bits(float32(math.Inf(1)))), uint64(math.Float32bits(float32(math.Inf(-1))))}},
	Float64: {"f64", 8, [3]uint64{0, math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1))}},
}

// Reduce combines the numbers of each segment and writes one result per segment to Out. Segment i
// is Values[Offsets[i]] to Values[Offsets[i+1]-1]. The sum of an empty segment is 0. Its minimum
// and maximum are the largest and the smallest number of the type, or infinities. Equal inputs give
// equal floating-point sums, because the order of additions is fixed.
//
// N is an upper bound of the number of values in all segments, and Segments of the number of
// segments. If Count is not 0, it points to the exact number of segments (uint32), as [Group]
// writes it. Offsets have Width bytes, 4 or 8.
type Reduce struct {
	Op                          ReduceOp
	Type                        Number
	N, Segments, Width          int
	Values, Offsets, Count, Out device.Ptr
}

func (o *Reduce) tiles() int { return tiles(max(o.N, 0)+max(o.Segments, 0), reduceTile) }

func (o *Reduce) scratch(at device.Ptr) (cuts, carries, end device.Ptr) {
	c := Carve(at)
	cuts = c.Alloc(8 * (o.tiles() + 1))
	carries = c.Alloc(8 * o.tiles())
	return cuts, carries, device.Ptr(c)
}

// ScratchBytes returns the size of the scratch memory that the reduction needs.
func (o *Reduce) ScratchBytes() int {
	_, _, end := o.scratch(0)
	return int(end)
}

// Reduce submits a reduction. It returns ErrInvalid if types, widths or columns are invalid, or if
// the scratch memory is too small.
func (k *Kernels) Reduce(s *device.Stream, o *Reduce, scratch device.Buffer) error {
	number, ok := numbers[o.Type]
	if !ok || o.Op > Max || o.Width != 4 && o.Width != 8 {
		return invalid("reduction %d of numbers of type %d by offsets of %d bytes", o.Op, o.Type, o.Width)
	}
	if o.Segments < 0 || o.Segments > MaxRows {
		return invalid("reduction of %d segments; 0 to %d are possible", o.Segments, MaxRows)
	}
	columns := []column{{"offsets", o.Offsets, o.Width}, {"results", o.Out, number.width}}
	if o.N > 0 {
		columns = append(columns, column{"values", o.Values, number.width})
	}
	if o.Segments == 0 {
		columns = nil
	}
	if err := check("reduction", o.N, o.ScratchBytes(), scratch, columns...); err != nil || o.Segments == 0 {
		return err
	}
	cuts, carries, _ := o.scratch(scratch.Ptr)
	p := reduceParams{
		values: o.Values, offsets: o.Offsets, count: o.Count, out: o.Out, cuts: cuts, carries: carries,
		identity: number.identity[o.Op], segments: uint32(o.Segments), tiles: uint32(o.tiles()), op: uint32(o.Op),
	}
	if o.Width == 8 {
		p.wide = 1
	}
	for _, kernel := range []struct {
		name   string
		blocks int
	}{
		{"cut", tiles(o.tiles()+1, reduceThreads)}, {opNames[o.Op] + "_" + number.name, o.tiles()},
		{"carry_" + number.name, tiles(o.tiles(), reduceThreads/warpThreads)},
	} {
		if err := launch(k, s, &reduceImage, "reduce_"+kernel.name, kernel.blocks, reduceThreads, &p); err != nil {
			return err
		}
	}
	return nil
}
