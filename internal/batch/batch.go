// Package batch defines how a structure's facade, its core and its engines pass operations on: as
// columns of bytes, in host memory or on a device, without types. Decisions about a batch are
// written once for all types of keys and values; engines read the columns as typed values again.
package batch

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Batch is a set of operations in columns.
type Batch struct {
	N       int
	Kind    op.Kind // of all operations, unless the batch has a column of Kinds
	Flags   Flags
	Version uint64 // the version that lookups read; 0 is the current one
	Bulk    bool   // a change with most of what the structure is likely to hold
	Ranges
	Columns
}

// Ranges controls how a lookup finds the pairs of ranges from Keys to Keys2, both inclusive.
type Ranges struct {
	Limit    int  // maximum pairs per range; 0 is no limit
	Backward bool // descending from the last pair of a range
}

// Columns holds the columns of a batch by role.
type Columns [roles]Column

// Role is the meaning of a column.
type Role int

// The roles. Types are those of the structure's keys (K) and values (V), or as
// said.
const (
	Keys    Role = iota // K
	Keys2               // K; a second key: the ends of ranges, the targets of edges
	Vals                // V; written by lookups, read by changes
	Kinds               // op.Kind
	Out                 // V; written by changes: what Get and PutNew found
	OK                  // bool
	Counts              // uint32; pairs of a key
	Offsets             // uint64, one row more than the batch: where variable rows begin
	OutKeys             // K; written by lookups: the keys of what ranges find
	Ranks               // uint64; places in the order of the keys
	roles
)

var names = [roles]string{"keys", "second keys", "values", "kinds", "results", "flags", "counts", "offsets", "resulting keys", "ranks"}

// String returns the name of a role for messages.
func (r Role) String() string { return names[r] }

// Flags are the options of a batch; kernels use the same values (order.cuh).
type Flags uint32

const (
	// Reuse lets inserts reuse the slots of deleted keys: the batch deletes nothing.
	Reuse Flags = 1 << iota
	// Order resolves duplicates in batch order.
	Order
	// Multi selects multimap semantics: Put adds a pair, no slot is reused, and of several pairs of
	// a key the first one counts.
	Multi
	// Signed and Float are the type of values, for operations that combine them: unsigned integers
	// if neither is set.
	Signed
	Float

	// Report makes a change on a stream wait and return the operations that overflowed, instead of
	// counting them. Kernels do not use it.
	Report Flags = 1 << 16
)

// Widths holds the sizes in bytes of a key and of a value in a batch, and of a slot of a hash
// structure. A set has Val 0.
type Widths struct{ Key, Val, Slot int }

// MapWidths returns the widths of a map. Two 32-bit halves share an 8-byte slot; everything else
// takes 16 bytes.
func MapWidths[K op.Key, V op.Value]() Widths {
	w := Widths{Key: size[K](), Val: size[V](), Slot: 16}
	if w.Key == 4 && w.Val == 4 {
		w.Slot = 8
	}
	return w
}

// SetWidths returns the widths of a set, with slots of bare keys.
func SetWidths[K op.Key]() Widths { return Widths{Key: size[K](), Slot: size[K]()} }

func size[T any]() int {
	var x T
	return int(unsafe.Sizeof(x))
}

// Chunk returns rows [lo,hi) of a batch.
func (b *Batch) Chunk(lo, hi int) *Batch {
	part := *b
	part.N = hi - lo
	for r := range part.Columns {
		part.Columns[r] = b.Columns[r].sub(lo, hi)
	}
	return &part
}

// Part is Chunk for callers that write none of its fields: it returns b itself for all rows.
func (b *Batch) Part(lo, hi int) *Batch {
	if lo == 0 && hi == b.N {
		return b
	}
	return b.Chunk(lo, hi)
}

// Select returns a lookup of the content of one column of a batch.
func (b *Batch) Select(r Role) *Batch {
	only := &Batch{N: b.N}
	only.Columns[r] = b.Columns[r]
	return only
}

// Inserts reports whether a batch may need capacity.
func (b *Batch) Inserts() bool { return b.Columns[Kinds].Given() || b.Kind.Inserts() }

// Combines reports whether some operations may combine values.
func (b *Batch) Combines() bool {
	return b.Flags&Multi == 0 && (b.Columns[Kinds].Given() || b.Kind.Reduces())
}

// Reduces reports whether all operations combine values and return nothing.
func (b *Batch) Reduces() bool { return b.Kind.Reduces() && !b.Columns[Kinds].Given() }

// Appends reports whether all operations add a pair without a search.
func (b *Batch) Appends() bool {
	return b.Flags&Multi != 0 && b.Kind == op.Put && !b.Columns[Kinds].Given()
}

// CountInserts counts the operations that may insert. For a mixed batch on a device that the host
// cannot read, it waits for a copy of the kinds.
func (b *Batch) CountInserts(ctx context.Context, s *device.Stream) (n int, err error) {
	switch {
	case !b.Inserts():
		return 0, nil
	case !b.Columns[Kinds].Given():
		return b.N, nil
	}
	kinds := View[op.Kind](b.Columns[Kinds].Host)
	if kinds == nil {
		kinds = make([]op.Kind, b.N)
		if err := s.CopyOut(ctx, device.Bytes(kinds), b.Columns[Kinds].Ptr); err != nil {
			return 0, err
		}
	}
	for _, k := range kinds {
		if k.Inserts() {
			n++
		}
	}
	return n, nil
}

// Ordered reports whether duplicates must be resolved.
func (b *Batch) Ordered() bool { return b.Flags&Order != 0 && !b.Columns[Kinds].Given() }

// MustMatch panics unless each column has a row for each operation. The message names the package
// and the method.
func (b *Batch) MustMatch(name, method string) {
	for r := range b.Columns {
		c := &b.Columns[r]
		want := b.N + c.extra
		if !c.anyRows && c.rows != want && (c.Given() || c.rows > 0 || c.dir != 0 && !c.optional) {
			panic(fmt.Sprintf("%s: %s: %d keys, but %d %v", name, method, b.N, c.rows, Role(r)))
		}
	}
}

// CheckDevice returns device.ErrInvalid unless a stream and all columns belong to a device.
func (b *Batch) CheckDevice(dev device.Device, s *device.Stream) error {
	if s == nil {
		return fmt.Errorf("%w: no stream", device.ErrInvalid)
	}
	if s.Device() != dev {
		return fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name)
	}
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Ptr != 0 && c.dev != dev {
			return fmt.Errorf("%w: the %v lie on another device, %s", device.ErrInvalid, Role(r), c.dev.Properties().Name)
		}
	}
	return nil
}
