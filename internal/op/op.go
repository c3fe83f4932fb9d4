// Package op defines the types of keys and values, the kinds of operations, and the errors of
// structures. Package weft exports these names to users. The packages below weft use them from
// here.
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

// Kind is the kind of an operation. Kernels and files contain these numbers, so they must not
// change.
type Kind uint8

// Kinds of operations that a mixed batch may contain.
const (
	Get    Kind = iota // look up the key
	Put                // insert the pair or replace the value; in a multimap, add the pair
	PutNew             // insert the pair if the key is absent
	Delete             // remove the key; in a multimap, remove only its first pair

	// DeleteAll removes all pairs of the key one after another. Concurrent operations may see only
	// a part of them. Multimaps only.
	DeleteAll

	// Reductions insert the pair, or combine its value with the existing value. Maps only.
	Sum // integers wrap
	Min // the smaller value in the order of its type; NaN if one value is NaN
	Max
	And // bitwise; integers only
	Or

	_ // kernels return this number for a kind that the structure does not support

	Update // replace the value of an existing key; only structures that support it

	// Lookups and changes of ordered maps, only in batches of one kind.
	Rank        // return the number of smaller keys
	Select      // return the pair at an index in the order of the keys
	Successor   // return the first pair with a larger key
	Predecessor // return the last pair with a smaller key
	DeleteRange // remove the pairs in a range of keys
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

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a Kind.
func (k *Kind) UnmarshalText(text []byte) error { return kinds.Read(k, text) }

var kinds = enum.Names[Kind]{Type: "weft.OpKind", Err: ErrOptions, Names: []string{"Get", "Put", "PutNew", "Delete", "DeleteAll", "Sum", "Min", "Max", "And", "Or", "", "Update", "Rank", "Select", "Successor", "Predecessor", "DeleteRange"}}

// Reduces reports whether the operation combines its value with an existing value of the key.
func (k Kind) Reduces() bool { return k >= Sum && k <= Or }

// Inserts reports whether the operation may need memory for a pair.
func (k Kind) Inserts() bool { return k == Put || k == PutNew || k.Reduces() }

// Errors of structures. Methods wrap them with the names of the structure and the method.
var (
	// ErrClosed reports that the structure, its device, or the stream of the call has been closed.
	ErrClosed = errors.New("closed")
	// ErrFull reports that keys of the batch overflow a structure of fixed size. The other keys
	// were processed.
	ErrFull = errors.New("full")
	// ErrOptions reports options of a constructor that contradict each other or exceed the limits
	// of the structure.
	ErrOptions = errors.New("invalid options")
	// ErrFormat reports that the stream passed to Load was not written by Save, is damaged, or
	// holds pairs of other types.
	ErrFormat = errors.New("invalid stream")
	// ErrCorrupt reports that a structure violates its invariants.
	ErrCorrupt = errors.New("corrupt")
)

// PartialError has the same fields as weft.PartialError, for packages that weft imports. If an
// error chain contains this type, errors.As finds either type. See weft.PartialError for the
// fields.
type PartialError struct {
	Done, Failed int
	Rows         []int
	Err          error
}

// Error describes how many operations were run and why the call stopped.
func (e *PartialError) Error() string {
	if e.Failed > 0 {
		return fmt.Sprintf("%d operations tried, %d failed: %v", e.Done, e.Failed, e.Err)
	}
	return fmt.Sprintf("%d operations done: %v", e.Done, e.Err)
}

// Unwrap returns the error that stopped the call.
func (e *PartialError) Unwrap() error { return e.Err }

// As implements the method that errors.As calls. It sets target if target points to a pointer to a
// type with the same fields, such as weft.PartialError.
func (e *PartialError) As(target any) bool {
	to, is := reflect.ValueOf(target).Elem(), reflect.ValueOf(e)
	if to.Kind() != reflect.Pointer || !is.CanConvert(to.Type()) {
		return false
	}
	to.Set(is.Convert(to.Type()))
	return true
}

// Cause returns the cause of a PartialError, and any other error unchanged. Use it if the row
// numbers in the PartialError do not match the rows of the caller's own batch.
func Cause(err error) error {
	if p := (*PartialError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Partial returns the error of a batch that stopped after done operations. rows lists the
// operations that overflowed.
func Partial(done int, rows []int, err error) *PartialError {
	return &PartialError{Done: done, Failed: len(rows), Rows: rows, Err: err}
}
