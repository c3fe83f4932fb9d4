package gphash

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// The methods below run batches that lie in device memory. They return once the work is submitted
// to stream s, and the batch is done when the stream has done the work. The changes are then as
// durable as changes from host memory. If a slice for a count is given, the count is added to its
// first element.

// batchOn returns a batch with columns in device memory.
func (x *Index) batchOn(kind op.Kind, method string, keys device.Slice[byte], columns batch.Columns) *batch.Batch {
	columns[batch.Keys] = batch.InputOn(keys)
	for _, r := range []batch.Role{batch.Keys, batch.Vals, batch.Out} {
		c, size := &columns[r], x.ValueSize()
		if r == batch.Keys {
			size = x.KeySize()
		}
		if c.Rows()%size != 0 {
			panic(fmt.Sprintf("gphash: %s: %d bytes of %v are not a multiple of %d", method,
				c.Rows(), r, size))
		}
		if c.Given() {
			*c = c.WithWidth(size)
		}
	}
	return &batch.Batch{N: keys.Len() / x.KeySize(), Kind: kind, Columns: columns}
}

// PutOn inserts pairs or replaces values. The batch lies in device memory. PutOn adds the number of
// new keys to inserted[0], if given. See [Index.Put].
func (x *Index) PutOn(s *device.Stream, keys, values device.Slice[byte], inserted ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "PutOn", x.batchOn(op.Put, "PutOn", keys, batch.Columns{batch.Vals: batch.InputOn(values)}), inserted...)
}

// PutNewOn inserts the pairs with absent keys. The batch lies in device memory. ok, if not empty,
// reports which pairs were inserted. See [Index.PutNew].
func (x *Index) PutNewOn(s *device.Stream, keys, values device.Slice[byte], ok device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "PutNewOn", x.batchOn(op.PutNew, "PutNewOn", keys, batch.Columns{
		batch.Vals: batch.InputOn(values), batch.OK: batch.OptionalOn(ok),
	}), inserted...)
}

// UpdateOn replaces the values of existing keys. The batch lies in device memory. UpdateOn waits
// for all changes submitted before. found reports which keys exist. See [Index.Update].
func (x *Index) UpdateOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], updated ...device.Slice[uint64]) error {
	return x.core.ReplaceOn(s, "UpdateOn", x.batchOn(op.Put, "UpdateOn", keys, batch.Columns{
		batch.Vals: batch.InputOn(values), batch.OK: batch.OutputOn(found),
	}), updated...)
}

// GetOn looks up keys. The batch lies in device memory. found, if not empty, reports which keys
// exist. See [Index.Get].
func (x *Index) GetOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.core.GetOn(s, "GetOn", nil, x.batchOn(op.Get, "GetOn", keys, batch.Columns{
		batch.Vals: batch.OutputOn(values), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// ContainsOn finds out which keys exist. The batch lies in device memory. See [Index.Contains].
func (x *Index) ContainsOn(s *device.Stream, keys device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.core.GetOn(s, "ContainsOn", nil, x.batchOn(op.Get, "ContainsOn", keys, batch.Columns{batch.OK: batch.OptionalOn(found)}), hits...)
}

// DeleteOn removes keys. The batch lies in device memory. deleted, if not empty, reports which keys
// existed. See [Index.Delete].
func (x *Index) DeleteOn(s *device.Stream, keys device.Slice[byte], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "DeleteOn", x.batchOn(op.Delete, "DeleteOn", keys, batch.Columns{batch.OK: batch.OptionalOn(deleted)}), n...)
}

// ApplyOn runs a mixed batch in the order of its rows. The batch lies in device memory. Operations
// of an unsupported kind do nothing. ok may be empty. See [Index.Apply] for the results.
func (x *Index) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, values device.Slice[byte], ok device.Slice[bool]) error {
	return x.core.ChangeOn(s, "ApplyOn", x.batchOn(op.Get, "ApplyOn", keys, batch.Columns{
		batch.Kinds: batch.InputOn(kinds), batch.Vals: batch.InputOn(values), batch.Out: batch.OutputOn(values), batch.OK: batch.OptionalOn(ok),
	}))
}

// Sync waits for all submitted work. It returns operations that failed for lack of capacity in a
// [weft.PartialError]. The error counts all changes since the last Sync as one batch.
func (x *Index) Sync(ctx context.Context) error { return x.core.Sync(ctx) }
