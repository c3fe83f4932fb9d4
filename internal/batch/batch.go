// Package batch defines the form in which a structure's public methods, its core and its engines
// exchange operations. A batch consists of untyped columns of bytes, in host memory or on a device.
// So the code of the public methods and the core exists once for all types of keys and values.
// Engines convert the columns back to typed values.
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
	Kind    op.Kind // kind of all operations, unless the column Kinds is given
	Flags   Flags
	Version uint64 // version that lookups read; 0 is the current one
	Ranges
	Columns
}

// Ranges controls how a lookup finds the pairs inside the ranges from Keys to Keys2, both
// inclusive.
type Ranges struct {
	Limit    int  // maximum pairs per range; 0 is no limit
	Backward bool // descending from the last pair of each range
}

// Columns holds the columns of a batch by role.
type Columns [roles]Column

// Role is the meaning of a column.
type Role int

// The roles. The comments name the element types; K and V are the structure's types of keys and
// values.
const (
	Keys    Role = iota // K
	Keys2               // K; second keys: ends of ranges, targets of edges
	Vals                // V; written by lookups, read by changes
	Kinds               // op.Kind; kind of each operation
	Out                 // V; written by changes: values found by Get and PutNew
	OK                  // bool; whether the key was found or the pair is new
	Counts              // uint32; number of pairs per key or range
	Offsets             // uint64, one row longer than the batch: first element of each row
	OutKeys             // K; written by lookups: keys found inside ranges
	Ranks               // uint64; ranks of pairs: numbers of smaller keys
	roles
)

var names = [roles]string{"keys", "second keys", "values", "kinds", "results", "flags", "counts", "offsets", "resulting keys", "ranks"}

// String returns the name of a role for messages.
func (r Role) String() string { return names[r] }

// Flags are the options of a batch. Kernels use the same values (order.cuh).
type Flags uint32

const (
	// Reuse allows inserts to reuse the slots of deleted keys. The batch must not delete keys.
	Reuse Flags = 1 << iota
	// Order makes operations with equal keys take effect in batch order.
	Order
	// Multi selects multimap semantics: Put adds a pair, no slot is reused, and lookups return the
	// first pair of a key.
	Multi
	// Signed and Float describe the type of values for operations that combine values. Without
	// either flag, values are unsigned integers.
	Signed
	Float

	// Report makes a change on a stream wait and return the operations that overflowed. Without
	// Report they are only counted. Kernels do not use this flag.
	Report Flags = 1 << 16
)

// Widths holds the sizes in bytes of a key, a value, and a slot of a hash structure. In a set, Val
// is 0.
type Widths struct{ Key, Val, Slot int }

// MapWidths returns the widths of a map with keys K and values V. A 32-bit key and a 32-bit value
// share an 8-byte slot; all other slots take 16 bytes.
func MapWidths[K op.Key, V op.Value]() Widths {
	w := Widths{Key: size[K](), Val: size[V](), Slot: 16}
	if w.Key == 4 && w.Val == 4 {
		w.Slot = 8
	}
	return w
}

// SetWidths returns the widths of a set. Its slots hold only keys.
func SetWidths[K op.Key]() Widths { return Widths{Key: size[K](), Slot: size[K]()} }

func size[T any]() int {
	var x T
	return int(unsafe.Sizeof(x))
}

// Chunk returns a batch with rows [lo,hi) of b.
func (b *Batch) Chunk(lo, hi int) *Batch {
	part := *b
	part.N = hi - lo
	for r := range part.Columns {
		part.Columns[r] = b.Columns[r].sub(lo, hi)
	}
	return &part
}

// Part returns a batch with rows [lo,hi) of b, or b itself for all rows. The caller must not write
// the fields of the result.
func (b *Batch) Part(lo, hi int) *Batch {
	if lo == 0 && hi == b.N {
		return b
	}
	return b.Chunk(lo, hi)
}

// Select returns a lookup batch with only column r of b.
func (b *Batch) Select(r Role) *Batch {
	only := &Batch{N: b.N}
	only.Columns[r] = b.Columns[r]
	return only
}

// Inserts reports whether some operations may insert pairs, which may need capacity.
func (b *Batch) Inserts() bool { return b.Columns[Kinds].Given() || b.Kind.Inserts() }

// Combines reports whether some operations may combine their values with stored values.
func (b *Batch) Combines() bool {
	return b.Flags&Multi == 0 && (b.Columns[Kinds].Given() || b.Kind.Reduces())
}

// Reduces reports whether all operations combine values and none returns a result.
func (b *Batch) Reduces() bool { return b.Kind.Reduces() && !b.Columns[Kinds].Given() }

// Appends reports whether all operations add a pair without a search for its key.
func (b *Batch) Appends() bool {
	return b.Flags&Multi != 0 && b.Kind == op.Put && !b.Columns[Kinds].Given()
}

// CountInserts counts the operations that may insert. If the batch is mixed and its device memory
// is not addressable by the host, CountInserts waits for a copy of the column Kinds.
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

// Ordered reports whether operations with equal keys must take effect in batch order.
func (b *Batch) Ordered() bool { return b.Flags&Order != 0 && !b.Columns[Kinds].Given() }

// MustMatch panics unless each column that the operations need is given with the right number of
// rows. The panic message names the package and the method.
func (b *Batch) MustMatch(name, method string) {
	for r := range b.Columns {
		c := &b.Columns[r]
		want := b.N + c.extra
		if !c.anyRows && c.rows != want && (c.Given() || c.rows > 0 || c.dir != 0 && !c.optional) {
			panic(fmt.Sprintf("%s: %s: %d keys, but %d %v", name, method, b.N, c.rows, Role(r)))
		}
	}
}

// CheckDevice returns device.ErrInvalid unless s and all columns in device memory belong to dev.
func (b *Batch) CheckDevice(dev device.Device, s *device.Stream) error {
	if s == nil {
		return fmt.Errorf("%w: the stream is nil", device.ErrInvalid)
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
