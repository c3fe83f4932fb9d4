package gphash

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Strings is a persistent hash index between byte strings of variable length: keys of 1 to 4,096
// bytes, and values of up to 65,536 bytes. Either keys or values may have a fixed length instead.
// Methods take the keys and the values of a batch as columns of type [Bytes]. If a key or value has
// a forbidden length, they return [device.ErrInvalid] with the first such row and change nothing.
type Strings struct {
	core   *core.Table
	engine *engine
}

// CreateStrings creates a pool in a new file and opens an empty index of byte strings in the pool.
// At least one of o.KeySize and o.ValueSize must be 0, which allows any length. See [Create].
func CreateStrings(path string, dev device.Device, o Options) (*Strings, error) {
	t, e, err := create(path, dev, &o, byteStrings, true)
	if err != nil {
		return nil, err
	}
	return &Strings{t, e}, nil
}

// OpenStrings opens the index of byte strings in a pool. It returns [weft.ErrFormat] if both keys
// and values of the pool have a fixed length. See [Open] for recovery and the other errors.
func OpenStrings(ctx context.Context, path string, dev device.Device, o OpenOptions) (*Strings, *Report, error) {
	t, e, report, err := open(ctx, path, dev, o, byteStrings, true, batch.Widths{})
	if err != nil {
		return nil, report, err
	}
	return &Strings{t, e}, report, nil
}

// batch returns a batch of byte strings. values is nil if the operations store no values.
func (x *Strings) batch(kind op.Kind, method string, keys *Bytes, values *Bytes, kinds []weft.OpKind, columns batch.Columns) (*batch.Batch, error) {
	b := &batch.Batch{N: keys.Len(), Kind: kind, Columns: columns}
	if kinds != nil {
		b.Columns[batch.Kinds] = batch.Input(kinds)
	}
	var err error
	if b.Columns[batch.Keys], err = keys.column("key", x.engine.keyLength(), func(int) bool { return true }); err == nil && values != nil {
		b.Columns[batch.Vals], err = values.column("value", x.engine.valueLength(), func(i int) bool {
			return kinds == nil || i < len(kinds) && (kinds[i].Inserts() || kinds[i] == weft.OpUpdate)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("gphash: %s: %w", method, err)
	}
	b.MustMatch("gphash", method)
	if values == nil {
		return b, nil
	}
	for i := range b.N {
		key, value := len(b.Columns[batch.Keys].Row(i)), len(b.Columns[batch.Vals].Row(i))
		if err := x.engine.values.validateRecord(key, value); err != nil {
			return nil, fmt.Errorf("gphash: %s: %w: pair %d: %w", method, device.ErrInvalid, i, err)
		}
	}
	return b, nil
}

func (x *Strings) change(ctx context.Context, kind op.Kind, method string, keys, values *Bytes, ok []bool) (delta int, err error) {
	b, err := x.batch(kind, method, keys, values, nil, batch.Columns{batch.OK: batch.Optional(ok)})
	if err != nil {
		return 0, err
	}
	return x.core.Change(ctx, method, b)
}

// Put inserts pairs or replaces the values of existing keys, and returns the number of new keys. If
// a key occurs in several pairs, the last pair wins. When Put returns, the pairs have the
// durability that [Strings.Durability] reports.
func (x *Strings) Put(ctx context.Context, keys, values Bytes) (inserted int, err error) {
	return x.change(ctx, op.Put, "Put", &keys, &values, nil)
}

// PutNew inserts the pairs with absent keys and returns their number. If a key occurs in several
// pairs, the first pair is inserted. ok, if not nil, reports which pairs were inserted.
func (x *Strings) PutNew(ctx context.Context, keys, values Bytes, ok []bool) (inserted int, err error) {
	return x.change(ctx, op.PutNew, "PutNew", &keys, &values, ok)
}

// Update replaces the values of existing keys and returns the number of pairs with an existing key.
// See [Index.Update].
func (x *Strings) Update(ctx context.Context, keys, values Bytes, found []bool) (updated int, err error) {
	b, err := x.batch(op.Put, "Update", &keys, &values, nil, batch.Columns{batch.OK: batch.Optional(found)})
	if err != nil {
		return 0, err
	}
	return x.core.Replace(ctx, "Update", b)
}

// Delete removes keys and returns the number of keys that existed. deleted, if not nil, reports
// which keys existed.
func (x *Strings) Delete(ctx context.Context, keys Bytes, deleted []bool) (n int, err error) {
	delta, err := x.change(ctx, op.Delete, "Delete", &keys, nil, deleted)
	return -delta, err
}

// Contains returns the number of keys that exist. found, if not nil, reports which keys exist.
func (x *Strings) Contains(ctx context.Context, keys Bytes, found []bool) (hits int, err error) {
	b, err := x.batch(op.Get, "Contains", &keys, nil, nil, batch.Columns{batch.OK: batch.Optional(found)})
	if err != nil {
		return 0, err
	}
	return x.core.Get(ctx, "Contains", nil, b)
}

// Get looks up keys and returns the number of keys that exist. It appends one row per key to
// values; the row of an absent key is empty. found, if not nil, reports which keys exist. If the
// values take more than half of the host's free memory, Get returns [device.ErrMemory]. On an error
// values stays unchanged.
func (x *Strings) Get(ctx context.Context, keys Bytes, values *Bytes, found []bool) (hits int, err error) {
	records := make([]uint64, keys.Len())
	b, err := x.batch(op.Get, "Get", &keys, nil, nil, batch.Columns{batch.OK: batch.Optional(found), batch.Out: batch.Output(records)})
	if err != nil {
		return 0, err
	}
	at, first := values.Len(), len(values.Data)
	offsets := slices.Grow(values.Offsets[:at], b.N+1)[:at+b.N+1]
	offsets[at] = uint64(first)
	data := values.Data
	err = x.core.Expand(ctx, "Get", nil, b, offsets[at:], func(n int) batch.Columns {
		data = slices.Grow(data, n)[:first+n]
		return batch.Columns{batch.Vals: batch.Output(data[first:])}
	})
	if err != nil {
		return 0, err
	}
	values.Offsets, values.Data = offsets, data
	for _, record := range records {
		if record != 0 {
			hits++
		}
	}
	return hits, nil
}

// Apply runs a mixed batch of OpGet, OpPut, OpPutNew, OpUpdate and OpDelete in the order of its
// rows. values holds the values of operations that store one; other rows are ignored. If results is
// not nil, Apply appends one row per operation: the existing value for OpGet, and for OpPutNew if
// it finds its key. All other rows of results are empty. ok, if not nil, reports which keys were
// found, inserted, updated or deleted.
func (x *Strings) Apply(ctx context.Context, kinds []weft.OpKind, keys, values Bytes, results *Bytes, ok []bool) error {
	if err := checkKinds(kinds); err != nil {
		return err
	}
	var data []byte
	columns := batch.Columns{batch.OK: batch.Optional(ok)}
	if results != nil {
		columns[batch.Out] = batch.StringsTo(&data, make([]batch.Span, keys.Len()))
	}
	b, err := x.batch(op.Get, "Apply", &keys, &values, kinds, columns)
	if err != nil {
		return err
	}
	_, err = x.core.Change(ctx, "Apply", b)
	for i := range b.N {
		if results != nil {
			results.Append(b.Columns[batch.Out].Row(i))
		}
	}
	return err
}

// KeySize returns the length of keys in bytes, or 0 if the length varies.
func (x *Strings) KeySize() int { return int(x.engine.keySize) }

// ValueSize returns the length of values in bytes, or 0 if the length varies.
func (x *Strings) ValueSize() int { return int(x.engine.valueSize) }

// Len returns the number of keys. It never waits for a running batch.
func (x *Strings) Len() int { return x.core.Len() }

// All iterates over the pairs in no particular order. Both slices are valid for one iteration of
// the loop. A pair that does not change during the iteration is returned exactly once.
func (x *Strings) All(ctx context.Context) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for p := range x.Pages(ctx) {
			for i := range p.Keys.Len() {
				if !yield(p.Keys.Row(i), p.Values.Row(i)) {
					return
				}
			}
		}
	}
}

// StringsPage is a part of an index's pairs. It is valid for one iteration of the loop.
type StringsPage struct{ Keys, Values Bytes }

// Pages iterates over the pairs in pages; see [Strings.All] for the guarantees. If the iteration
// fails, the last page is empty and comes with the error.
func (x *Strings) Pages(ctx context.Context) iter.Seq2[StringsPage, error] {
	return func(yield func(StringsPage, error) bool) {
		ended := false
		err := x.core.Pages(ctx, "Pages", nil, func(p *core.Page) bool {
			ended = !yield(StringsPage{inOrder(&p.Keys, p.N), inOrder(&p.Vals, p.N)}, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(StringsPage{}, err)
		}
	}
}

func inOrder(c *batch.Column, n int) Bytes {
	b := Bytes{make([]uint64, n+1), *c.Data}
	for i := range n {
		b.Offsets[i+1] = b.Offsets[i] + uint64(len(c.Row(i)))
	}
	return b
}

// Clear removes all pairs. If the process crashes during Clear, pairs may remain, unless the pool
// has Options.AtomicBatch.
func (x *Strings) Clear(ctx context.Context) error { return x.core.Clear(ctx) }

// Compact finishes a resize, and then compacts records until no more units can be freed.
func (x *Strings) Compact(ctx context.Context) error { return x.core.Compact(ctx) }

// Check reads the whole index, including records and checksums. It returns the first damage that it
// finds as [weft.ErrCorrupt].
func (x *Strings) Check(ctx context.Context) error { return x.core.Check(ctx) }

// Stats returns statistics of the index. It waits for the writer lock.
func (x *Strings) Stats(ctx context.Context) (Stats, error) { return stats(ctx, x.core, x.engine) }

// Durability returns the durability that the pool provides.
func (x *Strings) Durability() Durability { return Durability(x.engine.pool.Durability()) }

// Close closes the pool. A second Close does nothing. After Close, the other methods return
// [weft.ErrClosed].
func (x *Strings) Close() error { return x.core.Close() }
