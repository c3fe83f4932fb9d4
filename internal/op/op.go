// Package op defines operations: the types of keys and values, the kinds of operations, and their
// errors. Package weft gives these names to users; the packages below weft use them from here.
package op

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/weftgo/weft/internal/enum"
)

// Key is the constraint of key types. Every bit pattern is a legal key.
type Key interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint
}

// Value is the constraint of value types. Every bit pattern is a legal value.
type Value interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint | ~float32 | ~float64
}

// Kind is the kind of an operation. Kernels and files contain the numbers.
type Kind uint8

// The kinds of operations of a mixed batch.
const (
	Get    Kind = iota // look the key up
	Put                // insert the pair or replace the value; in a multimap, add the pair
	PutNew             // insert the pair if the key is absent
	Delete             // remove the key; in a multimap, its first pair

	// DeleteAll removes all pairs of the key, one after another: concurrent
	// operations may see it with some of them gone. Multimaps only.
	DeleteAll

	// The reductions insert the pair, or combine its value with the stored one. Maps only.
	Sum // integers wrap
	Min // the smaller by the type of the values; NaN, if one of them is
	Max
	And // bit by bit; integers only
	Or

	_ // the result of kernels for a kind that a structure lacks

	Update // replace the value of a present key; only structures that support it

	// Lookups and changes of ordered maps only, in batches of one kind.
	Rank        // how many keys are smaller
	Select      // the pair at a place in the order of the keys
	Successor   // the first pair with a larger key
	Predecessor // the last pair with a smaller key
	DeleteRange // remove the pairs of a range
)

// String returns the name of the operation.
func (k Kind) String() string {
	if name, err := kinds.Text(k); err == nil {
		return string(name)
	}
	return "invalid operation"
}

// MarshalText returns the name of the operation, or ErrOptions if k is not a known kind.
func (k Kind) MarshalText() ([]byte, error) { return kinds.Text(k) }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar takes a Kind.
func (k *Kind) UnmarshalText(text []byte) error { return kinds.Read(k, text) }

var kinds = enum.Names[Kind]{Type: "weft.OpKind", Err: ErrOptions, Names: []string{"Get", "Put", "PutNew", "Delete", "DeleteAll", "Sum", "Min", "Max", "And", "Or", "", "Update", "Rank", "Select", "Successor", "Predecessor", "DeleteRange"}}

// Reduces reports whether the operation combines values.
func (k Kind) Reduces() bool { return k >= Sum && k <= Or }

// Inserts reports whether the operation may need memory for a pair.
func (k Kind) Inserts() bool { return k == Put || k == PutNew || k.Reduces() }

// Errors of structures, wrapped with the structure and the method.
var (
	// ErrClosed: the structure, its device, or the stream of the call has been closed.
	ErrClosed = errors.New("closed")
	// ErrFull: some keys of the batch overflow a structure of fixed size. The other keys were
	// processed.
	ErrFull = errors.New("full")
	// ErrOptions: the options of a constructor contradict themselves or ask
	// for more than the structure can hold.
	ErrOptions = errors.New("invalid options")
	// ErrFormat: the stream passed to Load was not written by Save, is damaged, or holds pairs of
	// other types.
	ErrFormat = errors.New("invalid stream")
	// ErrCorrupt: a structure breaks its own invariants.
	ErrCorrupt = errors.New("corrupt")
)

// PartialError is weft.PartialError, which documents it, for the packages below package weft. Both
// have the same fields, and errors.As finds either in a chain that has this one.
type PartialError struct {
	Done, Failed int
	Rows         []int
	Err          error
}

// Error describes how far the call came and why it stopped.
func (e *PartialError) Error() string {
	if e.Failed > 0 {
		return fmt.Sprintf("%d operations tried, %d failed: %v", e.Done, e.Failed, e.Err)
	}
	return fmt.Sprintf("%d operations done: %v", e.Done, e.Err)
}

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }

// As implements the method that errors.As looks for. It sets a target that is a pointer to a type
// with the same fields, such as that of package weft.
func (e *PartialError) As(target any) bool {
	to, is := reflect.ValueOf(target).Elem(), reflect.ValueOf(e)
	if to.Kind() != reflect.Pointer || !is.CanConvert(to.Type()) {
		return false
	}
	to.Set(is.Convert(to.Type()))
	return true
}

// Cause returns the cause of a PartialError, and other errors unchanged. A caller uses it if it ran
// only a part of its own caller's request, so that the row numbers have no meaning there.
func Cause(err error) error {
	if p := (*PartialError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Partial returns a PartialError of the first done operations of a batch; rows lists those that
// overflowed.
func Partial(done int, rows []int, err error) *PartialError {
	return &PartialError{Done: done, Failed: len(rows), Rows: rows, Err: err}
}
