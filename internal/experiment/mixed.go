package experiment

import (
	"context"
	"errors"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
)

// mixedBytes is the device memory that a mixed batch takes per key of the
// table: half of a key, two values, a kind and a flag.
const mixedBytes = (8 + 2*8 + 1 + 1) / 2

// batch is a mixed batch on the device: half lookups of keys that stay, a
// quarter insertions of new keys, a quarter deletions, in random order. No
// key occurs twice, so every operation succeeds whatever the order of
// execution.
type batch[K weft.Key, V weft.Value] struct {
	kinds device.Slice[weft.OpKind]
	keys  device.Slice[K]
	put   device.Slice[V] // values to insert
	vals  device.Slice[V] // the same again for each run, which leaves its answers there
	ok    device.Slice[bool]
	// before is how many of the columns' keys must be in the table before;
	// the insertions add the others, up to n.
	before int
}

func newBatch[K weft.Key, V weft.Value](r *runner, n int) (b *batch[K, V], err error) {
	eighth := n / 8
	size := 4 * eighth
	b = &batch[K, V]{before: n - eighth}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.free())
		}
	}()
	kinds, keys, vals := make([]weft.OpKind, size), make([]K, size), make([]V, size)
	order := workload.NewPermutation(uint64(size), r.Seed+2)
	for i := range size {
		var counter int
		switch j := int(order.At(uint64(i))); {
		case j < 2*eighth:
			kinds[i], counter = weft.OpGet, j
		case j < 3*eighth:
			kinds[i], counter = weft.OpDelete, j
		default:
			kinds[i], counter = weft.OpPut, b.before+j-3*eighth
		}
		keys[i] = workload.Key[K](r.Seed, uint64(counter))
	}
	workload.Values(vals, keys)
	if b.kinds, err = device.Upload(r.stream, kinds); err != nil {
		return b, err
	}
	if b.keys, err = device.Upload(r.stream, keys); err != nil {
		return b, err
	}
	if b.put, err = device.Upload(r.stream, vals); err != nil {
		return b, err
	}
	if b.vals, err = device.Make[V](r.Device, size); err != nil {
		return b, err
	}
	b.ok, err = device.Make[bool](r.Device, size)
	return b, err
}

func (b *batch[K, V]) free() error {
	return errors.Join(b.kinds.Free(), b.keys.Free(), b.put.Free(), b.vals.Free(), b.ok.Free())
}

// mixed measures a mixed batch. Sets have none.
func (s *sweep[K, V]) mixed(ctx context.Context) (err error) {
	m, ok := s.table.(mapSubject[K, V])
	if !ok {
		return nil
	}
	s.step("%s %s at load %g: mixed", s.structure, s.width(), s.load)
	b, err := newBatch[K, V](s.runner, s.cols.n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.free()) }()
	refill := s.refill(ctx, b.before)
	prepare := func() error {
		if err := refill(); err != nil {
			return err
		}
		return s.stream.Copy(b.vals.Ptr(), b.put.Ptr(), b.put.Len()*s.valueBits/8)
	}
	t, err := s.median(ctx, prepare, func() error {
		return m.ApplyOn(s.stream, b.kinds, b.keys, b.vals, b.ok)
	})
	if err != nil {
		return err
	}
	if err := s.table.Sync(ctx); err != nil {
		return err
	}
	if err := checkFlags(ctx, s.runner, b.ok, "mixed", b.ok.Len()); err != nil {
		return err
	}
	s.report("mixed", b.keys.Len(), t, s.mixedLimit(s.read, s.write), Row{})
	return nil
}
