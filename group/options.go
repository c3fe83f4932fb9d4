package group

import (
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Func is a function of the values of a column in one group.
type Func uint8

// The functions, each with the type of its result.
const (
	Rows  Func = iota // the number of rows; int64
	Count             // the number of values that are not null; int64
	// Sum is the sum of integers or floats: int64, uint64 for unsigned integers, float64 for
	// floats.
	Sum
	Min   // the least value; the column's type
	Max   // the greatest value; the column's type
	Mean  // the mean of integers or floats; float64
	First // the first value that is not null; the column's type
	Last  // the last value that is not null; the column's type
	Any   // some value that is not null; the column's type
	// AnyTrue and AllTrue report whether any value of a column of bools is true, and whether all
	// are; bool. Nulls do not count.
	AnyTrue
	AllTrue
	// Var and StdDev are the variance and the standard deviation of a sample of integers or floats:
	// the squared distances from the mean, over the number of values less one; float64. They are
	// null for fewer than two values, and NaN if the sum of the squares is not finite. Squares
	// below the range of float64 count as 0.
	Var
	StdDev
)

var funcs = enum.Names[Func]{Type: "group.Func", Names: []string{
	"rows", "count", "sum", "min", "max", "mean", "first", "last",
	"any", "any_true", "all_true", "var", "stddev",
}, Err: op.ErrOptions}

// numeric reports whether the function takes only integers and floats.
func (f Func) numeric() bool { return f == Sum || f == Mean || f.isSpread() }

// isSpread reports whether the function measures how far values are from their mean.
func (f Func) isSpread() bool { return f == Var || f == StdDev }

// String returns the name of the function, in lower case.
func (f Func) String() string { return funcs.String(f) }

// MarshalText returns the text of String, or weft.ErrOptions for an invalid function.
func (f Func) MarshalText() ([]byte, error) { return funcs.Text(f) }

// UnmarshalText sets f as [ParseFunc] does, so flag.TextVar accepts a Func.
func (f *Func) UnmarshalText(text []byte) error { return funcs.Read(f, text) }

// ParseFunc returns the function with a name, in upper or lower case. It is the inverse of String.
// For other names it returns weft.ErrOptions, and the message lists the valid names.
func ParseFunc(name string) (f Func, err error) {
	err = f.UnmarshalText([]byte(name))
	return f, err
}

// Aggregate is a function of a value column.
type Aggregate struct {
	Func Func
	// Column is the index of the value column. [Rows] ignores it.
	Column int
}

// Options configure [Groups]. The zero value and nil are good defaults.
type Options struct {
	// SkipNulls leaves out rows with a null in a key column. By default null is a key value.
	SkipNulls bool

	// Sorted makes results ascend by their keys. By default groups are in the order of their first
	// rows.
	Sorted bool

	// WrapSums makes sums of integers wrap around at 64 bits. By default Result returns an error
	// for a sum that does not fit.
	WrapSums bool

	// Capacity is the expected number of groups, at most 2^31 - 1. Default 0: tables start small
	// and grow. With Memory, tables reserve no more than Memory allows.
	Capacity int

	// Memory bounds, in bytes, the memory of groups and of the work on them. It is at least
	// MinMemory. Groups that exceed it go to a temporary file, one partition of the keys at a time,
	// and results come from there. A single row or group may exceed the bound. Columns of the
	// caller and results do not count. [Groups.Pages] returns large results in pieces. Default 0:
	// no bound, and no file. For [ByOn] it bounds the memory of a GPU.
	Memory int64

	// TempDir is the directory of the temporary file. The file has no name there and ends with the
	// process. The directory must not be in memory. Default: $TMPDIR, or /var/tmp if that is not
	// set.
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

// check returns an error for aggregates that are invalid for all types of columns.
func check(aggs []Aggregate) error {
	for i, a := range aggs {
		if int(a.Func) >= len(funcs.Names) {
			return fmt.Errorf("group: %w: aggregate %d has the unknown function %v", op.ErrOptions,
				i, a.Func)
		}
		if a.Column < 0 {
			return fmt.Errorf("group: %w: aggregate %d has the negative value column %d",
				op.ErrOptions, i, a.Column)
		}
	}
	return nil
}
