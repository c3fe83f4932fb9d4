package group

import (
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Func is a function of the rows of a group.
type Func uint8

// The functions, with the types of their results.
const (
	Rows  Func = iota // the number of rows; int64
	Count             // the number of values that are not null; int64
	// Sum is the sum of integers or floats: int64, uint64 for unsigned ones, float64 for floats.
	Sum
	Min   // the least value; the column's type
	Max   // the greatest value; the column's type
	Mean  // the mean of integers or floats; float64
	First // the first value that is not null; the column's type
	Last  // the last value that is not null; the column's type
)

var funcs = enum.Names[Func]{Type: "group.Func", Names: []string{"rows", "count", "sum", "min", "max", "mean", "first", "last"}, Err: op.ErrOptions}

// String returns the name of the function, in lower case.
func (f Func) String() string { return funcs.String(f) }

// MarshalText returns String, or weft.ErrOptions for an invalid function.
func (f Func) MarshalText() ([]byte, error) { return funcs.Text(f) }

// UnmarshalText is [ParseFunc], so flag.TextVar accepts a Func.
func (f *Func) UnmarshalText(text []byte) error { return funcs.Read(f, text) }

// ParseFunc returns the function with a name, in upper or lower case, as the inverse of String. For
// other names it returns weft.ErrOptions, with the valid ones.
func ParseFunc(name string) (f Func, err error) {
	err = f.UnmarshalText([]byte(name))
	return f, err
}

// Aggregate is a function of a value column.
type Aggregate struct {
	Func Func
	// Column is the index of the value column. [Rows] needs none.
	Column int
}

// Options configure [Groups]. The zero value and nil are good defaults.
type Options struct {
	// SkipNulls leaves out rows with a null key. By default null is a key value of its own.
	SkipNulls bool

	// Sorted results are in ascending order of their keys. By default groups have the order of
	// their first rows.
	Sorted bool

	// WrapSums lets sums of integers wrap around at 64 bits. By default such a
	// sum is an error of Result.
	WrapSums bool

	// Capacity is the expected number of groups, at most 2^31 - 1. Default 0: tables start small
	// and grow. With Memory they reserve no more than it holds.
	Capacity int

	// Memory bounds, in bytes, the memory of groups and of the work on them. Groups that exceed it
	// go to a temporary file, a part of all keys at a time, and results come from there. Memory is
	// at least MinMemory. A single row or group of any size is held. Columns of the caller, and
	// results until the caller drops them, come on top. [Groups.Pages] returns large results in
	// pieces. Default 0: no bound, and no file. For [ByOn] it bounds the memory of a GPU.
	Memory int64

	// TempDir is the directory of the temporary file, which has no name there and ends with the
	// process. It must not be in memory. Default: $TMPDIR, or /var/tmp where that is not set.
	TempDir string
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	switch {
	case c.Capacity < 0 || c.Capacity > math.MaxInt32:
		return c, fmt.Errorf("group: %w: Options.Capacity is %d, want 0 to %d", op.ErrOptions, c.Capacity, math.MaxInt32)
	case c.Memory != 0 && c.Memory < MinMemory:
		return c, fmt.Errorf("group: %w: Options.Memory is %d, want 0 or at least %d", op.ErrOptions, c.Memory, MinMemory)
	}
	return c, nil
}

// check reports invalid aggregates, for any types of columns.
func check(aggs []Aggregate) error {
	for i, a := range aggs {
		if int(a.Func) >= len(funcs.Names) {
			return fmt.Errorf("group: %w: aggregate %d is %v, which there is not", op.ErrOptions, i, a.Func)
		}
		if a.Column < 0 {
			return fmt.Errorf("group: %w: aggregate %d is of value column %d", op.ErrOptions, i, a.Column)
		}
	}
	return nil
}
