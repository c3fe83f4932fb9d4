// Package groups implements the kernels of group by on a GPU. In one pass over columns in device
// memory they compute counts, sums, minima and maxima of the rows that have equal keys.
//
// A table has one record per key, found by linear probing. A record consists of 64-bit words. The
// first word is the key, which a thread claims by compare-and-swap. Threads add to the other words
// by atomics without results. A record with a count and one sum is a sector of 32 bytes.
//
// A block of threads first collects rows in a local table in shared memory, while most rows find
// their keys there. When few rows do, the block empties the local table into the records. It then
// adds rows to the records directly for one round, later for two, four and more rounds, before it
// tries a local table again.
//
// # Sums
//
// An integer is added in two parts: its lower 32 bits with their sign, and the rest, which is 0 for
// every 32-bit number. Neither sum overflows 64 bits within 2^31 rows, in any order of additions.
// Atomics therefore need not return the previous value, and the total is exact. After 2^31 rows a
// kernel carries the first sum over into the second.
//
// # Keys
//
// Several key columns are packed into one word, each with a null bit if it fits. Longer keys take
// several words. [Numbers] first assigns a number to each of these, and the numbers are the keys of
// a table.
//
// # First and last
//
// To find the first or last row of a group, atomic maxima keep its row number. After each batch, a
// kernel reads the records and stores the values of the kept rows that are in the batch.
//
// # Growth
//
// If a batch may bring more keys than fit in the table, the host waits for the kernel. A row that
// overflows is listed, and no block begins another round. The records then move to a larger table,
// and each block continues with its list and its next round. A table of package linear cannot grow
// in this way, because lookups may use it at the same time. It must grow in advance, for keys that
// may not exist.
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

// Type is the type of keys or values.
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
	// Valid is a bitmap. A value is null if its bit is 0. The first value has bit number Offset.
	// Valid is 0 if no value is null.
	Valid  device.Ptr
	Offset int
}

func (c Column) offsetBy(row int) Column {
	c.Values += device.Ptr(row * c.Type.Size())
	c.Offset += row
	return c
}

// descriptor returns the column as kernels read it.
func (c Column) descriptor() column {
	return column{values: c.Values, valid: c.Valid, offset: uint64(c.Offset)}
}

// Filter selects rows by the nulls in their keys.
type Filter uint32

// The filters, as kernels number them.
const (
	AllRows      Filter = iota
	WithoutNulls        // rows without a null key
	WithNulls           // rows with a null key
)

// Rows are rows in device memory. All columns have N rows.
type Rows struct {
	N            int
	Keys, Values []Column
	Filter       Filter
	// Numbers holds the key numbers that [Numbers] has assigned. It replaces Keys.
	Numbers device.Ptr
	// Before is the number of rows in earlier batches. FirstRow and LastRow add it to row numbers.
	Before int
}

// Slice returns n rows, starting at the given row.
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

func (r Rows) nulls() bool {
	return slices.ContainsFunc(r.Keys, func(c Column) bool { return c.Valid != 0 })
}

// Op is a way to combine the values of a group.
type Op uint32

// The operations, as kernels number them.
const (
	Sum      Op = iota // of integers, in two words
	SumFloat           // of float64
	Min                // NaN if a value is NaN; -0 is less than 0
	Max
	Nulls    // number of nulls; other operations ignore nulls
	FirstRow // two words: number of the row, and its value
	LastRow
)

// Field describes one or two words of a record: the column of values that they combine, and the
// operation.
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

// Func is a result that is computed per group.
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
	// HighSumOf is the upper part of an integer sum. The sum is SumOf plus 2^64 times HighSumOf.
	HighSumOf
	FirstOf
	LastOf
)

// fieldOps holds the operation of the field that each function requires.
var fieldOps = map[Func]Op{
	SumOf: Sum, MeanOf: Sum, HighSumOf: Sum, SumOfFloats: SumFloat, MeanOfFloats: SumFloat,
	MinOf: Min, MaxOf: Max, FirstOf: FirstRow, LastOf: LastRow,
}

// Aggregate is a function of a column of values.
type Aggregate struct {
	Func   Func
	Type   Type // type of the values
	Column int
}

// Layout describes the records of a table. In addition to Fields, a record has the key and the
// number of rows.
type Layout struct {
	Keys   Keys
	Fields []Field
}

// LayoutOf returns the layout that the aggregates require.
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

// nullsOf returns the index of the field that counts the nulls of a column, or -1.
func (l *Layout) nullsOf(column int) int {
	return slices.IndexFunc(l.Fields, func(f Field) bool { return f.Op == Nulls && f.Column == column })
}

// The same constants as in layout.cuh.
const (
	blockThreads = 256
	blocksOfUnit = 4
	localBytes   = 48<<10 - 64
	firstWord    = 2
	none         = math.MaxUint32
)

func (l *Layout) words() int { return l.word(len(l.Fields)) }

// word returns the index of a field's first word in a record.
func (l *Layout) word(field int) int {
	at := firstWord
	for _, f := range l.Fields[:field] {
		at += f.words()
	}
	return at
}

// stride returns the distance between records in words. It makes each record span as few sectors as
// possible.
func (l *Layout) stride() int {
	if n := l.words(); n > 2 {
		return (n + 3) / 4 * 4
	}
	return firstWord
}

// simple reports whether the kernel for a single integer sum suffices.
func (l *Layout) simple() bool {
	return len(l.Fields) == 1 && l.Fields[0].Op == Sum
}

// cells returns the number of keys that fit in a local table in shared memory.
func (l *Layout) cells() int {
	return localBytes/(8*l.words())/2*2 - 1
}

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

// keyKernels holds kernels that few tables need. They are loaded on first use.
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

// Check returns device.ErrNoKernels if a device runs no kernels.
func Check(dev device.Device) error {
	_, err := load(dev)
	return err
}
