package shard

import (
	"context"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// A localOn is a structure that takes batches in the memory of its device, such as a linear.Map on a
// GPU.
type localOn[K weft.Key] interface {
	ContainsOn(
		s *device.Stream,
		keys device.Slice[K],
		found device.Slice[bool],
		hits ...device.Slice[uint64],
	) error
	DeleteOn(
		s *device.Stream,
		keys device.Slice[K],
		deleted device.Slice[bool],
		n ...device.Slice[uint64],
	) error
	Sync(ctx context.Context) error
}

// localMapOn is a map that does.
type localMapOn[K weft.Key, V weft.Value] interface {
	localOn[K]
	GetOn(
		s *device.Stream,
		keys device.Slice[K],
		vals device.Slice[V],
		found device.Slice[bool],
		hits ...device.Slice[uint64],
	) error
	PutOn(
		s *device.Stream,
		keys device.Slice[K],
		vals device.Slice[V],
		inserted ...device.Slice[uint64],
	) error
	ReduceOn(
		s *device.Stream,
		keys device.Slice[K],
		vals device.Slice[V],
		by weft.Reduction,
		inserted ...device.Slice[uint64],
	) error
}

// localSetOn is a set that does.
type localSetOn[K weft.Key] interface {
	localOn[K]
	AddOn(
		s *device.Stream,
		keys device.Slice[K],
		added device.Slice[bool],
		n ...device.Slice[uint64],
	) error
}

// onHost reports whether the device of a stream works in the memory of the host, where batches are
// slices of Go. What was submitted to such a stream is done.
func onHost(s *device.Stream) bool {
	_, ok := s.Device().(device.Host)
	return ok
}

// GetOn is Get for a batch on the device of the shard. found may be empty. The answers are there when
// the stream has done what was submitted.
func (m *Map[K, V]) GetOn(
	ctx context.Context,
	s *device.Stream,
	keys device.Slice[K],
	vals device.Slice[V],
	found device.Slice[bool],
) error {
	mustBeAsLong(methodGet, keys.Len(), vals.Len(), optionalOn(found, keys))
	if onHost(s) {
		_, err := m.Get(ctx, keys.Host(), vals.Host(), found.Host())
		return err
	}
	local, err := asMapOn(m)
	if err == nil && m.r.size == 1 {
		return local.GetOn(s, keys, vals, found)
	}
	return callOn(ctx, &m.table, s, methodGet, 0, keys, found, err, func(x *exchangeOn[K]) {
		answers := bufferOn[V](x, onAnswersOut, x.gotSum)
		x.apply(func() error { return local.GetOn(s, x.received, answers, x.flags()) })
		backOn(x, onAnswersIn, answers, vals)
		x.flagsBack(found)
	})
}

// PutOn is Put for a batch on the device of the shard.
func (m *Map[K, V]) PutOn(
	ctx context.Context,
	s *device.Stream,
	keys device.Slice[K],
	vals device.Slice[V],
) error {
	mustBeAsLong(methodPut, keys.Len(), vals.Len())
	if onHost(s) {
		_, err := m.Put(ctx, keys.Host(), vals.Host())
		return err
	}
	m.foreign = true
	local, err := asMapOn(m)
	if err == nil && m.r.size == 1 {
		return local.PutOn(s, keys, vals)
	}
	return callOn(
		ctx,
		&m.table,
		s,
		methodPut,
		0,
		keys,
		device.Slice[bool]{},
		err,
		func(x *exchangeOn[K]) {
			v := forthOn(x, onValsOut, vals)
			x.apply(func() error { return local.PutOn(s, x.received, v) })
		},
	)
}

// ReduceOn is Reduce for a batch on the device of the shard.
func (m *Map[K, V]) ReduceOn(
	ctx context.Context,
	s *device.Stream,
	keys device.Slice[K],
	vals device.Slice[V],
	by weft.Reduction,
) error {
	mustBeAsLong(methodReduce, keys.Len(), vals.Len())
	if onHost(s) {
		_, err := m.Reduce(ctx, keys.Host(), vals.Host(), by)
		return err
	}
	m.foreign = true
	local, err := asMapOn(m)
	if err == nil && m.r.size == 1 {
		return local.ReduceOn(s, keys, vals, by)
	}
	return callOn(
		ctx,
		&m.table,
		s,
		methodReduce,
		uint8(by),
		keys,
		device.Slice[bool]{},
		err,
		func(x *exchangeOn[K]) {
			v := forthOn(x, onValsOut, vals)
			x.apply(func() error { return local.ReduceOn(s, x.received, v, by) })
		},
	)
}

// AddOn is Add for a batch on the device of the shard. added may be empty.
func (s *Set[K]) AddOn(
	ctx context.Context,
	stream *device.Stream,
	keys device.Slice[K],
	added device.Slice[bool],
) error {
	mustBeAsLong(methodAdd, keys.Len(), optionalOn(added, keys))
	if onHost(stream) {
		_, err := s.Add(ctx, keys.Host(), added.Host())
		return err
	}
	local, ok := s.local.(localSetOn[K])
	if ok && s.r.size == 1 {
		return local.AddOn(stream, keys, added)
	}
	return callOn(
		ctx,
		&s.table,
		stream,
		methodAdd,
		0,
		keys,
		added,
		unlessOn(ok),
		func(x *exchangeOn[K]) {
			x.apply(func() error { return local.AddOn(stream, x.received, x.flags()) })
			x.flagsBack(added)
		},
	)
}

// ContainsOn is Contains for a batch on the device of the shard. found may be empty.
func (t *keyed[K]) ContainsOn(
	ctx context.Context,
	s *device.Stream,
	keys device.Slice[K],
	found device.Slice[bool],
) error {
	mustBeAsLong(methodContains, keys.Len(), optionalOn(found, keys))
	if onHost(s) {
		_, err := t.Contains(ctx, keys.Host(), found.Host())
		return err
	}
	local, ok := t.keys.(localOn[K])
	if ok && t.r.size == 1 {
		return local.ContainsOn(s, keys, found)
	}
	return callOn(
		ctx,
		&t.table,
		s,
		methodContains,
		0,
		keys,
		found,
		unlessOn(ok),
		func(x *exchangeOn[K]) {
			x.apply(func() error { return local.ContainsOn(s, x.received, x.flags()) })
			x.flagsBack(found)
		},
	)
}

// DeleteOn is Delete for a batch on the device of the shard. deleted may be empty.
func (t *keyed[K]) DeleteOn(
	ctx context.Context,
	s *device.Stream,
	keys device.Slice[K],
	deleted device.Slice[bool],
) error {
	mustBeAsLong(methodDelete, keys.Len(), optionalOn(deleted, keys))
	if onHost(s) {
		_, err := t.Delete(ctx, keys.Host(), deleted.Host())
		return err
	}
	local, ok := t.keys.(localOn[K])
	if ok && t.r.size == 1 {
		return local.DeleteOn(s, keys, deleted)
	}
	return callOn(
		ctx,
		&t.table,
		s,
		methodDelete,
		0,
		keys,
		deleted,
		unlessOn(ok),
		func(x *exchangeOn[K]) {
			x.apply(func() error { return local.DeleteOn(s, x.received, x.flags()) })
			x.flagsBack(deleted)
		},
	)
}

// Sync waits for the batches on the device of all ranks. If some operations of a rank found no room,
// the error is weft.ErrFull on all.
func (t *table[K]) Sync(ctx context.Context) error {
	_, err := t.all(ctx, methodSync, func(ctx context.Context) (int, error) {
		local, ok := t.shard.(localOn[K])
		if !ok {
			return 0, unlessOn(ok)
		}
		return 0, local.Sync(ctx)
	})
	return err
}

func asMapOn[K weft.Key, V weft.Value](m *Map[K, V]) (localMapOn[K, V], error) {
	local, ok := m.local.(localMapOn[K, V])
	return local, unlessOn(ok)
}
