package shard

import (
	"context"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// flagsOn is a method that takes keys in device memory and writes flags, such as ContainsOn.
type flagsOn[K weft.Key] func(
	s *device.Stream, keys device.Slice[K], flags device.Slice[bool], n ...device.Slice[uint64],
) error

// localOn is a structure that supports batches in device memory, such as a linear.Map on a GPU.
type localOn[K weft.Key] interface {
	ContainsOn(
		s *device.Stream, keys device.Slice[K], found device.Slice[bool],
		hits ...device.Slice[uint64],
	) error
	DeleteOn(
		s *device.Stream, keys device.Slice[K], deleted device.Slice[bool],
		n ...device.Slice[uint64],
	) error
	Sync(ctx context.Context) error
}

type localMapOn[K weft.Key, V weft.Value] interface {
	localOn[K]
	GetOn(
		s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool],
		hits ...device.Slice[uint64],
	) error
	PutOn(
		s *device.Stream, keys device.Slice[K], vals device.Slice[V],
		inserted ...device.Slice[uint64],
	) error
	ReduceOn(
		s *device.Stream, keys device.Slice[K], vals device.Slice[V], by weft.Reduction,
		inserted ...device.Slice[uint64],
	) error
}

type localSetOn[K weft.Key] interface {
	localOn[K]
	AddOn(
		s *device.Stream, keys device.Slice[K], added device.Slice[bool],
		n ...device.Slice[uint64],
	) error
}

// onHost reports whether a stream's device uses host memory, where batches are Go slices. Work
// submitted to such a stream is done at once.
func onHost(s *device.Stream) bool {
	_, ok := s.Device().(device.Host)
	return ok
}

// GetOn looks up keys that lie in device memory. The answers are in vals and found once the stream
// has done the submitted work. found may be empty. See [Map.Get] for the answers.
func (m *Map[K, V]) GetOn(
	ctx context.Context, s *device.Stream, keys device.Slice[K], vals device.Slice[V],
	found device.Slice[bool],
) error {
	mustMatchLen(methodGet, keys.Len(), vals.Len(), optionalOn(found, keys))
	if onHost(s) {
		_, err := m.Get(ctx, keys.Host(), vals.Host(), found.Host())
		return err
	}
	local, ok := m.local.(localMapOn[K, V])
	if ok && m.r.size == 1 {
		return local.GetOn(s, keys, vals, found)
	}
	return callOn(ctx, &m.table, s, methodGet, 0, keys, found, ok, func(x *exchangeOn[K]) {
		answers := bufferOn[V](x, onAnswersOut, x.receivedSum)
		x.apply(func() error { return local.GetOn(s, x.recvKeys, answers, x.flags()) })
		returnAnswersOn(x, onAnswersIn, answers, vals)
		x.flagsBack(found)
	})
}

// PutOn inserts pairs that lie in device memory, or replaces values. See [Map.Put].
func (m *Map[K, V]) PutOn(
	ctx context.Context, s *device.Stream, keys device.Slice[K], vals device.Slice[V],
) error {
	if onHost(s) {
		_, err := m.Put(ctx, keys.Host(), vals.Host())
		return err
	}
	put := func(local localMapOn[K, V], keys device.Slice[K], vals device.Slice[V]) error {
		return local.PutOn(s, keys, vals)
	}
	return m.changeOn(ctx, s, methodPut, 0, keys, vals, put)
}

// ReduceOn combines pairs that lie in device memory with the pairs of the map. See [Map.Reduce].
func (m *Map[K, V]) ReduceOn(
	ctx context.Context, s *device.Stream, keys device.Slice[K], vals device.Slice[V],
	by weft.Reduction,
) error {
	if onHost(s) {
		_, err := m.Reduce(ctx, keys.Host(), vals.Host(), by)
		return err
	}
	reduce := func(local localMapOn[K, V], keys device.Slice[K], vals device.Slice[V]) error {
		return local.ReduceOn(s, keys, vals, by)
	}
	return m.changeOn(ctx, s, methodReduce, uint8(by), keys, vals, reduce)
}

func (m *Map[K, V]) changeOn(
	ctx context.Context, s *device.Stream, method method, arg uint8, keys device.Slice[K],
	vals device.Slice[V],
	change func(local localMapOn[K, V], keys device.Slice[K], vals device.Slice[V]) error,
) error {
	mustMatchLen(method, keys.Len(), vals.Len())
	m.foreign = true
	local, ok := m.local.(localMapOn[K, V])
	if ok && m.r.size == 1 {
		return change(local, keys, vals)
	}
	none := device.Slice[bool]{}
	return callOn(ctx, &m.table, s, method, arg, keys, none, ok, func(x *exchangeOn[K]) {
		v := sendColumnOn(x, onValsOut, vals)
		x.apply(func() error { return change(local, x.recvKeys, v) })
	})
}

// AddOn inserts keys that lie in device memory. added may be empty. See [Set.Add].
func (s *Set[K]) AddOn(
	ctx context.Context, stream *device.Stream, keys device.Slice[K], added device.Slice[bool],
) error {
	var on flagsOn[K]
	if local, ok := s.local.(localSetOn[K]); ok {
		on = local.AddOn
	}
	return flagOn(ctx, &s.table, stream, methodAdd, keys, added, s.Add, on)
}

// ContainsOn looks up keys that lie in device memory. found may be empty. See Contains.
func (t *keyed[K]) ContainsOn(
	ctx context.Context, s *device.Stream, keys device.Slice[K], found device.Slice[bool],
) error {
	var on flagsOn[K]
	if local, ok := t.keys.(localOn[K]); ok {
		on = local.ContainsOn
	}
	return flagOn(ctx, &t.table, s, methodContains, keys, found, t.Contains, on)
}

// DeleteOn deletes keys that lie in device memory. deleted may be empty. See Delete.
func (t *keyed[K]) DeleteOn(
	ctx context.Context, s *device.Stream, keys device.Slice[K], deleted device.Slice[bool],
) error {
	var on flagsOn[K]
	if local, ok := t.keys.(localOn[K]); ok {
		on = local.DeleteOn
	}
	return flagOn(ctx, &t.table, s, methodDelete, keys, deleted, t.Delete, on)
}

// flagOn runs a call that sends keys and returns flags. It calls the function host if the device
// uses host memory, and the function on otherwise. on is nil if the structure does not support the
// call.
func flagOn[K weft.Key](
	ctx context.Context, t *table[K], s *device.Stream, m method, keys device.Slice[K],
	flags device.Slice[bool], host func(context.Context, []K, []bool) (int, error), on flagsOn[K],
) error {
	mustMatchLen(m, keys.Len(), optionalOn(flags, keys))
	if onHost(s) {
		_, err := host(ctx, keys.Host(), flags.Host())
		return err
	}
	if on != nil && t.r.size == 1 {
		return on(s, keys, flags)
	}
	return callOn(ctx, t, s, m, 0, keys, flags, on != nil, func(x *exchangeOn[K]) {
		x.apply(func() error { return on(s, x.recvKeys, x.flags()) })
		x.flagsBack(flags)
	})
}

// Sync waits for the batches on the devices of all ranks. If operations on one rank exceeded the
// capacity, the error is weft.ErrFull on all.
func (t *table[K]) Sync(ctx context.Context) error {
	_, err := t.all(ctx, methodSync, func(ctx context.Context) (int, error) {
		local, ok := t.shard.(localOn[K])
		if !ok {
			return 0, errNotOn
		}
		return 0, local.Sync(ctx)
	})
	return err
}
