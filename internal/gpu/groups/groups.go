// Package groups implements the kernels of group by on a GPU: counts, sums, minima and maxima of
// rows that have the same key, in one pass over columns in device memory.
//
// A table has a record per key, with linear probing. A record is 64-bit words. The first is the
// key, claimed by compare-and-swap; atomics without results add to the others. The record of a
// count and a sum is a sector of 32 bytes. Each block of threads first uses a table in shared
// memory, as long as rows find their keys there. When they do not, the block empties it into the
// records. Then it adds to the records directly for one, two, four rounds of rows and so on, before
// it tries again.
//
// # Sums
//
// An integer is added as two: its lower 32 bits with their sign, and the rest, which is 0 for all
// numbers of 32 bits. Neither sum overflows 64 bits with 2^31 numbers, in whatever order they come.
// So no atomic need return the previous value, and the total of both is exact. After 2^31 rows a
// kernel carries the first sum over into the second.
//
// # Keys
//
// Several key columns are packed side by side into one word, each with a bit for null if it fits.
// Longer keys are rows of words. [Numbers] numbers these first, and the numbers are the keys of a
// table.
//
// # First and last
//
// For these, atomic maxima keep the number of the row. After each batch a kernel reads the records,
// and stores the values of kept rows that are in the batch.
//
// # Growth
//
// If more keys may come than fit in the table, the host waits for the kernel. A row that overflows
// is listed, and no block begins another round. Then the records move to a larger table. Each block
// continues with its list, and with the round that it had reached. A table of package linear cannot
// do that, because lookups may use it meanwhile. It grows ahead, for keys that may never come.
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

// Size returns the size of a value in bytes.
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

// Column is a column of values in device memory.
type Column struct {
	Type   Type
	Values device.Ptr
	// Valid is a bitmap with the bit of the first value at number Offset; values with a 0 bit are
	// null. 0: no nulls.
	Valid  device.Ptr
	Offset int
}

func (c Column) offsetBy(row int) Column {
	c.Values += device.Ptr(row * c.Type.Size())
	c.Offset += row
	return c
}

// descriptor returns a column in the kernels' form.
func (c Column) descriptor() column {
	return column{values: c.Values, valid: c.Valid, offset: uint64(c.Offset)}
}

// Filter selects rows by the nulls in their keys.
type Filter uint32

// The filters, as kernels number them.
const (
	AllRows      Filter = iota
	WithoutNulls        // rows without a null key
	WithNulls           // the other rows
)

// Rows are rows on a device; all columns have equal length.
type Rows struct {
	N            int
	Keys, Values []Column
	Filter       Filter
	// Numbers holds keys that [Numbers] has numbered, in place of Keys.
	Numbers device.Ptr
	// Before is the number of rows before these, for first and last.
	Before int
}

// Slice returns n rows from a row on.
func (r Rows) Slice(row, n int) Rows {
	part := Rows{N: n, Filter: r.Filter, Numbers: r.Numbers, Before: r.Before + row}
	for _, c := range r.Keys {
		part.Keys = append(part.Keys, c.offsetBy(row))
	}
	for _, c := range r.Values {
		part.Values = append(part.Values, c.offsetBy(row))
	}
	if part.Numbers != 0 {
		part.Numbers += device.Ptr(4 * row)
	}
	return part
}

// nulls reports whether keys may be null.
func (r Rows) nulls() bool {
	return slices.ContainsFunc(r.Keys, func(c Column) bool { return c.Valid != 0 })
}

// Op is what a table keeps of the values of a group.
type Op uint32

// The operations, as kernels number them.
const (
	Sum      Op = iota // of integers: two words
	SumFloat           // float64
	Min                // NaN if one of the values is; -0 is less than 0
	Max
	Nulls    // number of nulls; all others ignore nulls
	FirstRow // number of the row, and its value: two words
	LastRow
)

// Field is what a table keeps of a column of values.
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

// Func is a function of the rows of a group, or of a column of their values.
type Func uint32

// The functions, as kernels number them.
const (
	CountRows Func = iota
	CountOf
	SumOf
	MeanOf
	SumOfFloats
	MeanOfFloats
	MinOf
	MaxOf
	// HighSumOf is the part of a sum of integers above 64 bits. The sum is SumOf plus 2^64 times
	// it.
	HighSumOf
	FirstOf
	LastOf
)

// fieldOps holds the field that each function requires.
var fieldOps = map[Func]Op{
	SumOf: Sum, MeanOf: Sum, HighSumOf: Sum, SumOfFloats: SumFloat, MeanOfFloats: SumFloat,
	MinOf: Min, MaxOf: Max, FirstOf: FirstRow, LastOf: LastRow,
}

// Aggregate is a function of a column of values.
type Aggregate struct {
	Func   Func
	Type   Type // of the values
	Column int
}

// Layout is what a table keeps per key, in addition to the number of its rows.
type Layout struct {
	Keys   Keys
	Fields []Field
}

// LayoutOf returns the layout that aggregates require.
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
	kept, ok := fieldOps[a.Func]
	return Field{Op: kept, Type: a.Type, Column: a.Column}, ok
}

// nullsOf returns the field that counts the nulls of a column of values, or -1.
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

// words returns the number of used words of a record.
func (l *Layout) words() int { return l.word(len(l.Fields)) }

// word returns the first word of a field.
func (l *Layout) word(field int) int {
	at := firstWord
	for _, f := range l.Fields[:field] {
		at += f.words()
	}
	return at
}

// stride returns the number of words per record: a record spans as few sectors as possible.
func (l *Layout) stride() int {
	if n := l.words(); n > 2 {
		return (n + 3) / 4 * 4
	}
	return firstWord
}

// simple reports whether a special kernel for one integer sum serves the layout.
func (l *Layout) simple() bool {
	return len(l.Fields) == 1 && l.Fields[0].Op == Sum
}

// cells returns how many keys fit in a table in shared memory.
func (l *Layout) cells() int {
	return localBytes/(8*l.words())/2*2 - 1
}

// kernels holds the kernels of a device.
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

// keyKernels holds kernels that only some tables need. The first of these loads them.
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

// Check returns device.ErrNoKernels if a device runs none.
func Check(dev device.Device) error {
	_, err := load(dev)
	return err
}
