// Package groups has the kernels of group by on a GPU: counts, sums, minima and maxima of rows that have the same
// key, in one pass over columns in device memory.
//
// A table has a record for each key, with linear probing: 64-bit words, of which the first is the key, claimed by
// compare-and-swap, and the others are added to by atomics that return nothing. The record of a count and a sum is a
// sector of 32 bytes. Each block of threads has a table in shared memory before that, for as long as rows find their
// keys there; it is emptied into the records when they do not, and then the block goes to the records at once, for
// one, two, four rounds of rows and so on, before it tries again.
//
// # Sums
//
// An integer is added as two: its lower 32 bits with their sign, and what is left, which is 0 of all numbers that 32 bits can
// hold. Neither sum of 2^31 of them goes over 64 bits, in whatever order they come, so no atomic need
// return what was there before, and the sum of both is exact. After so many rows a kernel carries the first
// sum over into the second.
//
// # Keys
//
// Several key columns are packed side by side into one word, each with a bit for null where there is room. Longer keys are rows
// of words, to which [Numbers] gives numbers first: these are the keys of a table then.
//
// # First and last
//
// Of them the number of the row is kept, by atomic maxima; behind each batch a kernel goes through the records, and
// stores the values of rows that are among these.
//
// # Growth
//
// Where more keys may come than the table has room for, the host waits for the kernel. A row that finds no room is
// listed, and no block begins another round; then the records move to a larger table, and each block goes on with its
// list, and with the round that it had come to.
package groups

import (
	"math"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 groups.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type AddParams=.addParams -type Table=.table keys.cu
//go:generate go run ../../../cmd/weftgen -target 80+ptx83,90+ptx83 -struct weft::groups::Field -struct weft::groups::Head -struct weft::groups::Key -struct weft::groups::KeyOutput -struct weft::groups::Output layout.cuh

// Type is the type of keys or of values.
type Type uint32

// The types, as kernels number them.
const (
	Int8 Type = iota
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Bool
	Float32
	Float64
)

// Size is that of a value in bytes.
func (t Type) Size() int {
	switch t {
	case Int8, Uint8, Bool:
		return 1
	case Int16, Uint16:
		return 2
	case Int32, Uint32, Float32:
		return 4
	}
	return 8
}

// Column is values in device memory.
type Column struct {
	Type   Type
	Values device.Ptr
	// Valid is a bitmap, of which bit number Offset is that of the first value; values whose bit is 0 are null. 0: none is.
	Valid  device.Ptr
	Offset int
}

func (c Column) from(row int) Column {
	c.Values += device.Ptr(row * c.Type.Size())
	c.Offset += row
	return c
}

// known is a column as kernels know it.
func (c Column) known() column {
	return column{values: c.Values, valid: c.Valid, offset: uint64(c.Offset)}
}

// Filter is which rows are meant, by their keys.
type Filter uint32

// The filters, as kernels number them.
const (
	AllRows      Filter = iota
	WithoutNulls        // those of which no key is null
	WithNulls           // the others
)

// Rows are rows that lie on a device: of each column as many.
type Rows struct {
	N            int
	Keys, Values []Column
	Filter       Filter
	// Numbers are keys that [Numbers] has numbered, in the place of Keys.
	Numbers device.Ptr
	// Before is how many rows there were before these, for what is first and last.
	Before int
}

// From is the n rows from a row on.
func (r Rows) From(row, n int) Rows {
	from := Rows{N: n, Filter: r.Filter, Numbers: r.Numbers, Before: r.Before + row}
	for _, c := range r.Keys {
		from.Keys = append(from.Keys, c.from(row))
	}
	for _, c := range r.Values {
		from.Values = append(from.Values, c.from(row))
	}
	if from.Numbers != 0 {
		from.Numbers += device.Ptr(4 * row)
	}
	return from
}

// nulls tells whether there may be some among keys.
func (r Rows) nulls() bool {
	return slices.ContainsFunc(r.Keys, func(c Column) bool { return c.Valid != 0 })
}

// Op is what is kept of the values of a group.
type Op uint32

// The operations, as kernels number them.
const (
	Sum      Op = iota // of integers: two words
	SumFloat           // float64
	Min                // NaN if one of the values is; -0 is less than 0
	Max
	Nulls    // how many there are; all others look at values that are not null
	FirstRow // the number of the row, and its value: two words
	LastRow
)

// Field is what is kept of a column of values.
type Field struct {
	Op     Op
	Type   Type
	Column int
}

func (f Field) words() int {
	if f.Op == Sum || f.Op == FirstRow || f.Op == LastRow {
		return 2
	}
	return 1
}

// Func is what a column of results is, of the rows of a group or of a column of values.
type Func uint32

// The functions, as kernels number them.
const (
	CountRows Func = iota
	CountOf
	SumOf
	MeanOf
	SumOfFloats
	MeanOfFloats
	Least
	Greatest
	First
	Last
)

// keeps are what functions need to be kept.
var keeps = map[Func]Op{
	SumOf: Sum, MeanOf: Sum, SumOfFloats: SumFloat, MeanOfFloats: SumFloat, Least: Min, Greatest: Max, First: FirstRow, Last: LastRow,
}

// Aggregate is a function of a column of values.
type Aggregate struct {
	Func   Func
	Type   Type // of the values
	Column int
}

// Layout is what a table keeps of each key, beside the number of its rows.
type Layout struct {
	Keys   Keys
	Fields []Field
}

// LayoutOf keeps what aggregates need.
func LayoutOf(keys Keys, aggs []Aggregate) Layout {
	l := Layout{Keys: keys}
	for _, a := range aggs {
		if f, ok := a.field(); ok && !slices.Contains(l.Fields, f) {
			l.Fields = append(l.Fields, f)
		}
	}
	return l
}

func (a Aggregate) field() (f Field, ok bool) {
	kept, ok := keeps[a.Func]
	return Field{Op: kept, Type: a.Type, Column: a.Column}, ok
}

// nullsOf is the field that counts the nulls of a column of values; -1 if there is none.
func (l *Layout) nullsOf(column int) int {
	return slices.IndexFunc(l.Fields, func(f Field) bool { return f.Op == Nulls && f.Column == column })
}

// Twins of layout.cuh.
const (
	blockThreads = 256
	blocksOfUnit = 4
	localBytes   = 48<<10 - 64
	firstWord    = 2
	none         = math.MaxUint32
)

// words are those of a record that have a meaning.
func (l *Layout) words() int { return l.word(len(l.Fields)) }

// word is where a field is.
func (l *Layout) word(field int) int {
	at := firstWord
	for _, f := range l.Fields[:field] {
		at += f.words()
	}
	return at
}

// stride is the number of words from record to record: a record is in no more sectors than it must be.
func (l *Layout) stride() int {
	if n := l.words(); n > 2 {
		return (n + 3) / 4 * 4
	}
	return firstWord
}

// simple tells whether there is a kernel for just this, where no value is null.
func (l *Layout) simple() bool {
	return len(l.Fields) == 1 && l.Fields[0].Op == Sum
}

// cells is how many keys tables in shared memory have room for.
func (l *Layout) cells() int {
	return localBytes/(8*l.words())/2*2 - 1
}

// kernels are those of a device.
type kernels struct {
	sum, add, move, carry, result device.Kernel
}

func load(dev device.Device) (k kernels, err error) {
	err = gpu.Load(dev, &groupsImage, []gpu.Entry{
		{Name: "sum", To: &k.sum}, {Name: "add", To: &k.add}, {Name: "move", To: &k.move}, {Name: "carry", To: &k.carry},
		{Name: "result", To: &k.result},
	})
	return k, err
}

// keyKernels are those that not all tables need, and that the first which does loads.
type keyKernels struct {
	sum, add, pick, find, number, reindex device.Kernel
}

func (k *keyKernels) load(dev device.Device) error {
	if k.sum != nil {
		return nil
	}
	return gpu.Load(dev, &keysImage, []gpu.Entry{
		{Name: "sum", To: &k.sum}, {Name: "add", To: &k.add}, {Name: "pick", To: &k.pick}, {Name: "find", To: &k.find},
		{Name: "number", To: &k.number}, {Name: "reindex", To: &k.reindex},
	})
}

// Check is device.ErrNoKernels where a device runs none.
func Check(dev device.Device) error {
	_, err := load(dev)
	return err
}
