package gphash

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Batches on the device are submitted to a stream and are done when the stream has done them.
// Changes are then as durable as those from the host. A count, if a slice is given for it, is added
// to its first element.

// batchOn is batch for columns on the device.
func (x *Index) batchOn(kind op.Kind, method string, keys device.Slice[byte], columns batch.Columns) *batch.Batch {
	columns[batch.Keys] = batch.InputOn(keys)
	for _, r := range []batch.Role{batch.Keys, batch.Vals, batch.Out} {
		c, size := &columns[r], x.ValueSize()
		if r == batch.Keys {
			size = x.KeySize()
		}
		if c.Rows()%size != 0 {
			panic(fmt.Sprintf("gphash: %s: %d bytes of %v are no multiple of %d", method, c.Rows(), r, size))
		}
		if c.Given() {
			*c = c.WithWidth(size)
		}
	}
	return &batch.Batch{N: keys.Len() / x.KeySize(), Kind: kind, Columns: columns}
}

// PutOn is Put for a batch on the device.
func (x *Index) PutOn(s *device.Stream, keys, values device.Slice[byte], inserted ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "PutOn", x.batchOn(op.Put, "PutOn", keys, batch.Columns{batch.Vals: batch.InputOn(values)}), inserted...)
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (x *Index) PutNewOn(s *device.Stream, keys, values device.Slice[byte], ok device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "PutNewOn", x.batchOn(op.PutNew, "PutNewOn", keys, batch.Columns{
		batch.Vals: batch.InputOn(values), batch.OK: batch.OptionalOn(ok),
	}), inserted...)
}

// UpdateOn is Update for a batch on the device. It waits for all changes submitted before. found
// receives which keys exist.
func (x *Index) UpdateOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], updated ...device.Slice[uint64]) error {
	return x.core.ReplaceOn(s, "UpdateOn", x.batchOn(op.Put, "UpdateOn", keys, batch.Columns{
		batch.Vals: batch.InputOn(values), batch.OK: batch.OutputOn(found),
	}), updated...)
}

// GetOn is Get for a batch on the device. found may be empty.
func (x *Index) GetOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.core.GetOn(s, "GetOn", nil, x.batchOn(op.Get, "GetOn", keys, batch.Columns{
		batch.Vals: batch.OutputOn(values), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// ContainsOn is Contains for a batch on the device.
func (x *Index) ContainsOn(s *device.Stream, keys device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.core.GetOn(s, "ContainsOn", nil, x.batchOn(op.Get, "ContainsOn", keys, batch.Columns{batch.OK: batch.OptionalOn(found)}), hits...)
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (x *Index) DeleteOn(s *device.Stream, keys device.Slice[byte], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return x.core.ChangeOn(s, "DeleteOn", x.batchOn(op.Delete, "DeleteOn", keys, batch.Columns{batch.OK: batch.OptionalOn(deleted)}), n...)
}

// ApplyOn is Apply for a batch on the device. An operation of an unsupported kind does nothing. ok
// may be empty.
func (x *Index) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, values device.Slice[byte], ok device.Slice[bool]) error {
	return x.core.ChangeOn(s, "ApplyOn", x.batchOn(op.Get, "ApplyOn", keys, batch.Columns{
		batch.Kinds: batch.InputOn(kinds), batch.Vals: batch.InputOn(values), batch.Out: batch.OutputOn(values), batch.OK: batch.OptionalOn(ok),
	}))
}

// Sync waits for all submitted work. Operations that failed for lack of capacity are in a
// [weft.PartialError], which treats the changes since the last Sync as one batch.
func (x *Index) Sync(ctx context.Context) error { return x.core.Sync(ctx) }
