package baseline

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Batches in the memory of the GPU that runs them. As in package gphash, they are submitted to a
// stream and end with it. Unlike there, the next call waits for the previous one, so the stream
// must stay open until then.

// PutOn submits Puts of pairs in device memory. Unless omitted, inserted receives the number of new
// keys. See [Index.Put].
func (x *Index) PutOn(s *device.Stream, keys, values device.Slice[byte], inserted ...device.Slice[uint64]) error {
	return x.on(s, op.Put, keys, batch.Columns{batch.Vals: batch.InputOn(values)}, inserted...)
}

// GetOn submits a lookup of keys in device memory. Unless omitted, hits receives the number of keys
// found. See [Index.Get].
func (x *Index) GetOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.on(s, op.Get, keys, batch.Columns{batch.Vals: batch.OutputOn(values), batch.OK: batch.OptionalOn(found)}, hits...)
}

// ContainsOn submits a lookup that writes no values. Unless omitted, hits receives the number of
// keys found.
func (x *Index) ContainsOn(s *device.Stream, keys device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return x.on(s, op.Get, keys, batch.Columns{batch.OK: batch.OptionalOn(found)}, hits...)
}

// DeleteOn submits deleting keys in device memory. Unless omitted, n receives the change in the
// number of keys, which is zero or negative. See [Index.Delete].
func (x *Index) DeleteOn(s *device.Stream, keys device.Slice[byte], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return x.on(s, op.Delete, keys, batch.Columns{batch.OK: batch.OptionalOn(deleted)}, n...)
}

// ApplyOn submits a mixed batch in device memory. See [Index.Apply].
func (x *Index) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, values device.Slice[byte], ok device.Slice[bool]) error {
	return x.on(s, op.Get, keys, batch.Columns{
		batch.Kinds: batch.InputOn(kinds), batch.Vals: batch.InputOn(values), batch.Out: batch.OutputOn(values), batch.OK: batch.OptionalOn(ok),
	})
}

func (x *Index) on(s *device.Stream, kind op.Kind, keys device.Slice[byte], c batch.Columns, count ...device.Slice[uint64]) error {
	if x.gpu == nil {
		return fmt.Errorf("baseline: %w: a batch on a device, for an index of the host", device.ErrUnsupported)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.sync(); err != nil {
		return err
	}
	c[batch.Keys] = batch.InputOn(keys)
	if err := x.gpu.begin(s); err != nil {
		return err
	}
	x.last = submission{s, kind != op.Get || c[batch.Kinds].Given()}
	if err := x.gpu.submit(s, &batch.Batch{N: keys.Len() / x.o.KeySize, Kind: kind, Columns: c}); err != nil {
		return err
	}
	for _, to := range count {
		if err := s.Copy(to.Ptr(), x.gpu.index.tally, 8); err != nil {
			return err
		}
	}
	return nil
}

// submission is a batch on the device that has not been waited for.
type submission struct {
	stream  *device.Stream // nil if there is none
	changes bool           // the batch may change the number of keys
}

// Sync waits for the last batch on the device. It returns an error if the pool had no space left.
func (x *Index) Sync(context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sync()
}

func (x *Index) sync() error {
	last := x.last
	if last.stream == nil {
		return nil
	}
	x.last = submission{}
	n, err := x.gpu.end(last.stream)
	if last.changes {
		x.keys += n
	}
	return err
}
