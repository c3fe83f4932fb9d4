package linear

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Map is a hash map from K to V. See the package documentation for what it
// promises about concurrency, duplicates and errors.
type Map[K weft.Key, V weft.Value] struct {
	table *table
	pages pager
}

// New makes an empty map on a device, which must outlive it. Errors:
// [weft.ErrOptions], [device.ErrMemory], and those of loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, "map", mapWidths[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{table: t}, nil
}

// mapWidths are the widths of a map: two 32-bit halves share an 8-byte slot,
// everything else takes 16 bytes.
func mapWidths[K weft.Key, V weft.Value]() widths {
	var k K
	var v V
	w := widths{key: int(unsafe.Sizeof(k)), val: int(unsafe.Sizeof(v)), slot: 16}
	if w.key == 4 && w.val == 4 {
		w.slot = 8
	}
	return w
}

// Put inserts pairs or replaces values and counts the keys that were new. Of
// duplicates, the last one in the batch wins (any one with
// Options.Unordered). REPLACE in the SlabHash paper; the article's insert.
func (m *Map[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	mustMatch("Put", "vals", len(keys), len(vals))
	return m.table.change(ctx, "Put", &batch{
		n: len(keys), kind: weft.OpPut, flags: m.table.flagsFor(weft.OpPut),
		keys: hostColumn(keys), vals: hostColumn(vals),
	})
}

// PutNew inserts the pairs whose keys are absent and counts them. ok, if not
// nil, reports which. Of duplicates, the first one in the batch is inserted
// (any one with Options.Unordered).
func (m *Map[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	mustMatch("PutNew", "vals", len(keys), len(vals))
	mustMatchOptional("PutNew", "ok", len(keys), ok)
	return m.table.change(ctx, "PutNew", &batch{
		n: len(keys), kind: weft.OpPutNew, flags: m.table.flagsFor(weft.OpPutNew),
		keys: hostColumn(keys), vals: hostColumn(vals), ok: hostColumn(ok),
	})
}

// Get looks keys up and counts those found. vals[i] is zero where the key is
// absent; found, if not nil, reports which are there.
func (m *Map[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	mustMatch("Get", "vals", len(keys), len(vals))
	mustMatchOptional("Get", "found", len(keys), found)
	return m.table.get(ctx, "Get", &batch{
		n: len(keys), keys: hostColumn(keys), vals: hostColumn(vals), ok: hostColumn(found),
	})
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (m *Map[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	mustMatchOptional("Contains", "found", len(keys), found)
	return m.table.get(ctx, "Contains", &batch{n: len(keys), keys: hostColumn(keys), ok: hostColumn(found)})
}

// Delete removes keys and counts those that were there. deleted, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered).
func (m *Map[K, V]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	mustMatchOptional("Delete", "deleted", len(keys), deleted)
	delta, err := m.table.change(ctx, "Delete", &batch{
		n: len(keys), kind: weft.OpDelete, flags: m.table.flagsFor(weft.OpDelete),
		keys: hostColumn(keys), ok: hostColumn(deleted),
	})
	return -delta, err
}

// Apply runs a mixed batch: its operations are concurrent, and what they return
// is explained by some order of them. On a CPU that order is the batch's, except
// that operations that find no room at first run again after the others. res
// may be nil. An operation of no kind is device.ErrInvalid, and then none is
// run.
func (m *Map[K, V]) Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error {
	if res != nil {
		mustMatch("Apply", "res", len(ops), len(res))
	}
	for i, op := range ops {
		if op.Kind > weft.OpDelete {
			return fmt.Errorf("linear: Apply: operation %d: %w: kind %d", i, device.ErrInvalid, op.Kind)
		}
	}
	// Columns of a piece at a time: the memory does not grow with the batch.
	c := newOpColumns[K, V](min(len(ops), changePiece), res != nil)
	var full error
	for {
		n := min(len(ops), changePiece)
		_, err := m.table.change(ctx, "Apply", c.batch(ops[:n]))
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

// opColumns are the columns of a piece of a mixed batch from host memory. The
// values found have a column apart from the values to be written, which an
// operation that finds no room at first needs again.
type opColumns[K weft.Key, V weft.Value] struct {
	keys      []K
	vals, out []V
	kinds     []weft.OpKind
	ok        []bool
}

func newOpColumns[K weft.Key, V weft.Value](n int, results bool) *opColumns[K, V] {
	c := &opColumns[K, V]{keys: make([]K, n), vals: make([]V, n), kinds: make([]weft.OpKind, n)}
	if results {
		c.out, c.ok = make([]V, n), make([]bool, n)
	}
	return c
}

// batch fills the columns.
func (c *opColumns[K, V]) batch(ops []weft.Op[K, V]) *batch {
	n := len(ops)
	for i, op := range ops {
		c.keys[i], c.vals[i], c.kinds[i] = op.Key, op.Value, op.Kind
	}
	b := &batch{n: n, keys: hostColumn(c.keys[:n]), vals: hostColumn(c.vals[:n]), kinds: hostColumn(c.kinds[:n])}
	if c.ok != nil {
		clear(c.out) // a call that is cut short leaves zeros
		clear(c.ok)
		b.out, b.ok = hostColumn(c.out[:n]), hostColumn(c.ok[:n])
	}
	return b
}

func (c *opColumns[K, V]) results(res []weft.Result[V]) {
	for i := range res {
		res[i] = weft.Result[V]{Value: c.out[i], OK: c.ok[i]}
	}
}

// Len is the number of pairs. It waits for submitted batches.
func (m *Map[K, V]) Len() int { return m.table.length() }

// All iterates over the pairs, in no order. It reads a page at a time; after
// a rehash it goes on in the old table, so every pair that is not changed
// meanwhile is seen exactly once. See [Map.Err].
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.pages.each(m.table, func(keys, vals []byte) bool {
			v := view[V](vals)
			for i, k := range view[K](keys) {
				if !yield(k, v[i]) {
					return false
				}
			}
			return true
		})
	}
}

// Err is the error that ended the last iteration early, or nil.
func (m *Map[K, V]) Err() error { return m.pages.err() }

// Clear removes everything and keeps the memory.
func (m *Map[K, V]) Clear(ctx context.Context) error { return m.table.clear(ctx, "Clear") }

// Compact drops the slots of deleted keys and gives back memory beyond what
// MaxLoad and Capacity ask for. It needs both tables at once.
func (m *Map[K, V]) Compact(ctx context.Context) error { return m.table.compact(ctx, "Compact") }

// Stats looks at every slot; see [Stats].
func (m *Map[K, V]) Stats(ctx context.Context) (Stats, error) { return m.table.stats(ctx) }

// Close frees the map. Idempotent; later calls return [weft.ErrClosed].
func (m *Map[K, V]) Close() error { return m.table.close() }

// ---- batches on the device --------------------------------------------------
//
// The On methods take batches that lie on the map's device and submit them to
// a stream: they return before the work is done, copy nothing, and the slices
// must stay until the stream has done it. Changes run in the order of the
// calls, whatever their streams; lookups on one stream see the changes
// submitted to it before.

// PutOn is Put for a batch on the device.
func (m *Map[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	mustMatch("PutOn", "vals", keys.Len(), vals.Len())
	return m.table.changeOn(s, "PutOn", &batch{
		n: keys.Len(), kind: weft.OpPut, flags: m.table.flagsFor(weft.OpPut),
		keys: deviceColumn(keys), vals: deviceColumn(vals),
	})
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (m *Map[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	mustMatch("PutNewOn", "vals", keys.Len(), vals.Len())
	mustMatchSlice("PutNewOn", "ok", keys.Len(), ok)
	return m.table.changeOn(s, "PutNewOn", &batch{
		n: keys.Len(), kind: weft.OpPutNew, flags: m.table.flagsFor(weft.OpPutNew),
		keys: deviceColumn(keys), vals: deviceColumn(vals), ok: deviceColumn(ok),
	})
}

// GetOn is Get for a batch on the device, in a single launch. found may be
// empty.
func (m *Map[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error {
	mustMatch("GetOn", "vals", keys.Len(), vals.Len())
	mustMatchSlice("GetOn", "found", keys.Len(), found)
	return m.table.getOn(s, "GetOn", &batch{
		n: keys.Len(), keys: deviceColumn(keys), vals: deviceColumn(vals), ok: deviceColumn(found),
	})
}

// ContainsOn is Contains for a batch on the device.
func (m *Map[K, V]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool]) error {
	mustMatch("ContainsOn", "found", keys.Len(), found.Len())
	return m.table.getOn(s, "ContainsOn", &batch{n: keys.Len(), keys: deviceColumn(keys), ok: deviceColumn(found)})
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (m *Map[K, V]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	mustMatchSlice("DeleteOn", "deleted", keys.Len(), deleted)
	return m.table.changeOn(s, "DeleteOn", &batch{
		n: keys.Len(), kind: weft.OpDelete, flags: m.table.flagsFor(weft.OpDelete),
		keys: deviceColumn(keys), ok: deviceColumn(deleted),
	})
}

// ApplyOn is Apply for a batch on the device, in columns: vals holds the
// values of OpPut and OpPutNew and receives those of OpGet and OpPutNew, and
// zeros; ok receives Result.OK and may be empty. Kinds other than those of
// weft do nothing.
func (m *Map[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	mustMatch("ApplyOn", "kinds", keys.Len(), kinds.Len())
	mustMatch("ApplyOn", "vals", keys.Len(), vals.Len())
	mustMatchSlice("ApplyOn", "ok", keys.Len(), ok)
	v := deviceColumn(vals)
	return m.table.changeOn(s, "ApplyOn", &batch{
		n: keys.Len(), kinds: deviceColumn(kinds), keys: deviceColumn(keys), vals: v, out: v, ok: deviceColumn(ok),
	})
}

// Sync waits until all submitted batches are done. It returns [weft.ErrFull]
// if operations submitted since the last Sync found no room: in fixed maps, or
// on a GPU where keys crowd a path beyond its bound.
func (m *Map[K, V]) Sync(ctx context.Context) error { return m.table.sync(ctx, "Sync") }

// flagsFor are the flags of a batch that is all of one kind.
func (t *table) flagsFor(kind weft.OpKind) (f flags) {
	if !t.opts.Unordered {
		f |= flagOrder
	}
	// Sets can't remember a dead key, see KeyOnly in layout.cuh.
	if kind != weft.OpDelete && (t.opts.Tombstones == Reuse || t.widths.val == 0) {
		f |= flagReuse
	}
	return f
}

func hostColumn[T device.Elem](s []T) column { return column{host: device.Bytes(s)} }

func deviceColumn[T device.Elem](s device.Slice[T]) column {
	return column{ptr: s.Ptr(), host: device.Bytes(s.Host()), dev: s.Device()}
}

func mustMatch(op, name string, keys, n int) {
	if keys != n {
		panic(fmt.Sprintf("linear: %s: %d keys, but len(%s) = %d", op, keys, name, n))
	}
}

func mustMatchOptional[T any](op, name string, keys int, s []T) {
	if s != nil {
		mustMatch(op, name, keys, len(s))
	}
}

func mustMatchSlice[T device.Elem](op, name string, keys int, s device.Slice[T]) {
	if s.Len() != 0 {
		mustMatch(op, name, keys, s.Len())
	}
}
