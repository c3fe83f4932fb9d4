package group

import (
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Func is what an aggregate computes of the rows of a group.
type Func uint8

// The functions, with the types of their results.
const (
	Rows  Func = iota // the number of rows; int64
	Count             // the number of values that are not null; int64
	Sum               // the sum of integers or floats; int64 of signed ones, uint64 of others, float64 of floats
	Min               // the least value; the column's type
	Max               // the greatest value; the column's type
	Mean              // the mean of integers or floats; float64
	First             // the first value that is not null; the column's type
	Last              // the last value that is not null; the column's type
)

var funcs = enum.Names[Func]{Type: "group.Func", Names: []string{"rows", "count", "sum", "min", "max", "mean", "first", "last"}, Err: op.ErrOptions}

// String is the name of the function, in lower case.
func (f Func) String() string { return funcs.String(f) }

// MarshalText is String, or weft.ErrOptions where there is no such function.
func (f Func) MarshalText() ([]byte, error) { return funcs.Text(f) }

// UnmarshalText is [ParseFunc]: so flag.TextVar takes it.
func (f *Func) UnmarshalText(text []byte) error { return funcs.Read(f, text) }

// ParseFunc is the function of a name, in upper or lower case, the inverse of String. Other names are
// weft.ErrOptions, with those there are.
func ParseFunc(name string) (f Func, err error) {
	err = f.UnmarshalText([]byte(name))
	return f, err
}

// Aggregate is a function of a value column.
type Aggregate struct {
	Func Func
	// Column is which of the value columns; [Rows] needs none.
	Column int
}

// Options configure [Groups]. The zero value and nil are good defaults.
type Options struct {
	// SkipNulls leaves rows out in which a key is null. By default null is a
	// key value of its own.
	SkipNulls bool

	// Sorted results are in ascending order of their keys; by default in that
	// in which groups first came.
	Sorted bool

	// WrapSums lets sums of integers wrap around at 64 bits. By default such a
	// sum is an error of Result.
	WrapSums bool

	// Capacity is the number of groups that are expected, 2^31 - 1 at most. Default 0: tables
	// start small and grow. With MaxBytes it makes no more room than half of that.
	Capacity int

	// MaxBytes bounds the memory of groups, that is their tables and keys. Half of it is for keys
	// that do not fit 64 bits together, if they do not, and an eighth for those with a null among several, if
	// there is no bit for it. What a call needs while it runs, some 20 to 70 bytes for each row of at most 16
	// million, and results come on top. A batch that might need more stops with a [weft.PartialError] that
	// wraps [weft.ErrFull] and says how many rows have been added. Where the bound is near, rows are added one by
	// one, which takes up to eighty times as long. Default 0: no bound.
	MaxBytes int64
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	switch {
	case c.Capacity < 0 || c.Capacity > math.MaxInt32:
		return c, fmt.Errorf("group: %w: Options.Capacity is %d, want 0 to %d", op.ErrOptions, c.Capacity, math.MaxInt32)
	case c.MaxBytes < 0:
		return c, fmt.Errorf("group: %w: Options.MaxBytes is %d", op.ErrOptions, c.MaxBytes)
	}
	return c, nil
}

// check reports what makes no sense in aggregates, whatever the types of the columns.
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
