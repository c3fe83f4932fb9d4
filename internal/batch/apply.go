package batch

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Piece is the number of changes between two looks at a structure's counters,
// and the room that a batch is sure to get before it starts.
const Piece = 1 << 20

// CheckKinds returns device.ErrInvalid if a mixed batch has an operation
// beyond the last that a structure knows.
func CheckKinds[K weft.Key, V weft.Value](ops []weft.Op[K, V], last weft.OpKind) error {
	for i, op := range ops {
		if op.Kind > last {
			return fmt.Errorf("operation %d: %w: kind %d (%v)", i, device.ErrInvalid, op.Kind, op.Kind)
		}
	}
	return nil
}

// Apply runs a mixed batch from host memory in pieces, so that the memory of
// its columns does not grow with it. run runs one of them; after weft.ErrFull
// the others follow. res may be nil.
func Apply[K weft.Key, V weft.Value](ops []weft.Op[K, V], res []weft.Result[V], run func(*Batch) error) error {
	c := newColumns[K, V](min(len(ops), Piece), res != nil)
	var full error
	for {
		n := min(len(ops), Piece)
		err := run(c.batch(ops[:n]))
		if res != nil {
			c.results(res[:n])
			res = res[n:]
		}
		if err != nil && !errors.Is(err, weft.ErrFull) {
			return err
		}
		full = errors.Join(full, err) // the other operations count
		if ops = ops[n:]; len(ops) == 0 {
			return full
		}
	}
}

// columns are those of a piece of a mixed batch from host memory. The values
// found have a column apart from the values to be written, which an operation
// that finds no room at first needs again.
type columns[K weft.Key, V weft.Value] struct {
	keys      []K
	vals, out []V
	kinds     []weft.OpKind
	ok        []bool
}

func newColumns[K weft.Key, V weft.Value](n int, results bool) *columns[K, V] {
	c := &columns[K, V]{keys: make([]K, n), vals: make([]V, n), kinds: make([]weft.OpKind, n)}
	if results {
		c.out, c.ok = make([]V, n), make([]bool, n)
	}
	return c
}

// batch fills the columns.
func (c *columns[K, V]) batch(ops []weft.Op[K, V]) *Batch {
	n := len(ops)
	for i, op := range ops {
		c.keys[i], c.vals[i], c.kinds[i] = op.Key, op.Value, op.Kind
	}
	b := &Batch{N: n, Keys: Host(c.keys[:n]), Vals: Host(c.vals[:n]), Kinds: Host(c.kinds[:n])}
	if c.ok != nil {
		clear(c.out) // a call that is cut short leaves zeros
		clear(c.ok)
		b.Out, b.OK = Host(c.out[:n]), Host(c.ok[:n])
	}
	return b
}

func (c *columns[K, V]) results(res []weft.Result[V]) {
	for i := range res {
		res[i] = weft.Result[V]{Value: c.out[i], OK: c.ok[i]}
	}
}
