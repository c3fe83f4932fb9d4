package conformance

import (
	"context"
	"io"
	"iter"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// The suites take structures by what they can do and not by their types, so
// that they can be handed broken ones.

// Structure is what maps, sets and multimaps have in common.
type Structure interface {
	Len() int
	Clear(ctx context.Context) error
	Compact(ctx context.Context) error
	Sync(ctx context.Context) error
	Save(ctx context.Context, w io.Writer) (n int, err error)
	Load(ctx context.Context, r io.Reader) (n int, err error)
	Check(ctx context.Context) error
	Close() error
}

// AnyMap is a map like [weft.Map].
type AnyMap[K weft.Key, V weft.Value] interface {
	AnyPairs[K, V]
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (int, error)
	GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], n ...device.Slice[uint64]) error
	Assign(ctx context.Context, keys []K, ids []V) (int, error)
	Reduce(ctx context.Context, keys []K, vals []V, by weft.Reduction) (int, error)
	ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], by weft.Reduction, n ...device.Slice[uint64]) error
}

// AnyPairs is a map or a multimap.
type AnyPairs[K weft.Key, V weft.Value] interface {
	Structure
	hostPairs[K, V]
	All() iter.Seq2[K, V]
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
	PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error
	PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], n ...device.Slice[uint64]) error
	GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], n ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error
}

// hostPairs are the methods of maps and multimaps for batches of the host.
type hostPairs[K weft.Key, V weft.Value] interface {
	Put(ctx context.Context, keys []K, vals []V) (int, error)
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (int, error)
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error
}

// AnyMultiMap is a multimap like [weft.MultiMap].
type AnyMultiMap[K weft.Key, V weft.Value] interface {
	AnyPairs[K, V]
	hostRows[K, V]
	GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error
	CountOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32]) error
	DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error
}

// hostRows are the methods that multimaps alone have for batches of the host.
type hostRows[K weft.Key, V weft.Value] interface {
	GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error
	Count(ctx context.Context, keys []K, counts []uint32) (int, error)
	DeleteAll(ctx context.Context, keys []K, removed []uint32) (int, error)
}

// AnySet is a set like [weft.Set].
type AnySet[K weft.Key] interface {
	Structure
	Add(ctx context.Context, keys []K, added []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	All() iter.Seq[K]
	Pages(ctx context.Context) iter.Seq2[[]K, error]
	AddOn(s *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], n ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], ok device.Slice[bool]) error
}

// The types of users are such structures.
var (
	_ AnyMap[uint64, float32]      = (*weft.Map[uint64, float32])(nil)
	_ AnyMultiMap[uint64, float32] = (*weft.MultiMap[uint64, float32])(nil)
	_ AnySet[uint64]               = (*weft.Set[uint64])(nil)

	_ AnyOrderedMap[uint64, float32] = (*weft.OrderedMap[uint64, float32])(nil)
	_ AnySeeker[uint64, float32]     = (*weft.Snapshot[uint64, float32])(nil)
)

// Maker makes an empty structure that grows by itself; the suite closes it.
type Maker[S Structure] func(t testing.TB, dev device.Device) S
