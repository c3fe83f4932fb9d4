package conformance

import (
	"context"
	"io"
	"iter"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// The suites access structures through interfaces instead of concrete types, so that tests can
// substitute broken structures.

// Structure has the methods that maps, sets and multimaps share.
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

// AnyMap has the methods of [weft.Map] that the suites call.
type AnyMap[K weft.Key, V weft.Value] = mapLike[K, V, device.Slice[K], device.Slice[V]]

// AnyMultiMap has the methods of [weft.MultiMap] that the suites call.
type AnyMultiMap[K weft.Key, V weft.Value] = multiMapLike[K, V, device.Slice[K], device.Slice[V]]

// AnySet has the methods of [weft.Set] that the suites call.
type AnySet[K weft.Key] = setLike[K, device.Slice[K]]

// AnyOrderedMap has the methods of [weft.OrderedMap] that the suites call, except Snapshot.
type AnyOrderedMap[K weft.Key, V weft.Value] = orderedMapLike[K, V, device.Slice[K], device.Slice[V]]

// AnySeeker has the methods that an ordered map and its snapshots share.
type AnySeeker[K weft.Key, V weft.Value] = seekerLike[K, V, device.Slice[K], device.Slice[V]]

// mapLike has the methods of a map. KS and VS are the types of its device columns.
type mapLike[K weft.Key, V weft.Value, KS, VS any] interface {
	pairsLike[K, V, KS, VS]
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (int, error)
	GetOrPutOn(s *device.Stream, keys KS, vals VS, loaded device.Slice[bool], n ...device.Slice[uint64]) error
	Assign(ctx context.Context, keys []K, ids []V) (int, error)
	Reduce(ctx context.Context, keys []K, vals []V, by weft.Reduction) (int, error)
	ReduceOn(s *device.Stream, keys KS, vals VS, by weft.Reduction, n ...device.Slice[uint64]) error
}

// pairsLike has the methods that maps and multimaps share.
type pairsLike[K weft.Key, V weft.Value, KS, VS any] interface {
	Structure
	hostPairs[K, V]
	lookupsLike[K, V, KS, VS]
	PutOn(s *device.Stream, keys KS, vals VS, n ...device.Slice[uint64]) error
	PutNewOn(s *device.Stream, keys KS, vals VS, ok device.Slice[bool], n ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys KS, deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys KS, vals VS, ok device.Slice[bool]) error
}

// lookupsLike has the lookups that maps, multimaps and snapshots share.
type lookupsLike[K weft.Key, V weft.Value, KS, VS any] interface {
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	GetOn(s *device.Stream, keys KS, vals VS, found device.Slice[bool], n ...device.Slice[uint64]) error
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	ContainsOn(s *device.Stream, keys KS, found device.Slice[bool], n ...device.Slice[uint64]) error
	All() iter.Seq2[K, V]
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
}

// hostPairs has the methods that maps and multimaps share for batches in host memory.
type hostPairs[K weft.Key, V weft.Value] interface {
	Put(ctx context.Context, keys []K, vals []V) (int, error)
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (int, error)
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error
}

type multiMapLike[K weft.Key, V weft.Value, KS, VS any] interface {
	pairsLike[K, V, KS, VS]
	hostRows[K, V]
	GetAllOn(s *device.Stream, keys KS, counts device.Slice[uint32], offsets device.Slice[uint64], vals VS) error
	CountOn(s *device.Stream, keys KS, counts device.Slice[uint32]) error
	DeleteAllOn(s *device.Stream, keys KS, removed device.Slice[uint32], n ...device.Slice[uint64]) error
}

// hostRows has the methods that only multimaps have, for batches in host memory.
type hostRows[K weft.Key, V weft.Value] interface {
	GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error
	Count(ctx context.Context, keys []K, counts []uint32) (int, error)
	DeleteAll(ctx context.Context, keys []K, removed []uint32) (int, error)
}

type setLike[K weft.Key, KS any] interface {
	Structure
	Add(ctx context.Context, keys []K, added []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	All() iter.Seq[K]
	Pages(ctx context.Context) iter.Seq2[[]K, error]
	AddOn(s *device.Stream, keys KS, added device.Slice[bool], n ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys KS, found device.Slice[bool], n ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys KS, deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys KS, ok device.Slice[bool]) error
}

type orderedMapLike[K weft.Key, V weft.Value, KS, VS any] interface {
	mapLike[K, V, KS, VS]
	seekerLike[K, V, KS, VS]
	Build(ctx context.Context, keys []K, vals []V) (int, error)
	BuildOn(s *device.Stream, keys KS, vals VS, n ...device.Slice[uint64]) error
	DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (int, error)
	DeleteRangeOn(s *device.Stream, lo, hi KS, removed device.Slice[uint32], n ...device.Slice[uint64]) error
}

type seekerLike[K weft.Key, V weft.Value, KS, VS any] interface {
	lookupsLike[K, V, KS, VS]
	Len() int
	Close() error
	Backward() iter.Seq2[K, V]
	Between(ctx context.Context, lo, hi K) iter.Seq2[weft.Page[K, V], error]
	Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeBackward(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeFirst(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error)
	RangeLast(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error)
	Count(ctx context.Context, lo, hi []K, counts []uint32) (int, error)
	Rank(ctx context.Context, keys []K, ranks []uint64) error
	Select(ctx context.Context, ranks []uint64, keys []K, vals []V, found []bool) (int, error)
	Successor(ctx context.Context, keys, next []K, vals []V, found []bool) (int, error)
	Predecessor(ctx context.Context, keys, previous []K, vals []V, found []bool) (int, error)
	Min(ctx context.Context) (K, V, bool, error)
	Max(ctx context.Context) (K, V, bool, error)
	RangeOn(s *device.Stream, lo, hi KS, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys KS, vals VS) error
	RangeBackwardOn(s *device.Stream, lo, hi KS, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys KS, vals VS) error
	RangeFirstOn(s *device.Stream, lo, hi KS, limit int, counts device.Slice[uint32], keys KS, vals VS, n ...device.Slice[uint64]) error
	RangeLastOn(s *device.Stream, lo, hi KS, limit int, counts device.Slice[uint32], keys KS, vals VS, n ...device.Slice[uint64]) error
	CountOn(s *device.Stream, lo, hi KS, counts device.Slice[uint32]) error
	RankOn(s *device.Stream, keys KS, ranks device.Slice[uint64]) error
	SelectOn(s *device.Stream, ranks device.Slice[uint64], keys KS, vals VS, found device.Slice[bool], n ...device.Slice[uint64]) error
	SuccessorOn(s *device.Stream, keys, next KS, vals VS, found device.Slice[bool], n ...device.Slice[uint64]) error
	PredecessorOn(s *device.Stream, keys, previous KS, vals VS, found device.Slice[bool], n ...device.Slice[uint64]) error
}

// The public types implement these interfaces.
var (
	_ AnyMap[uint64, float32]      = (*weft.Map[uint64, float32])(nil)
	_ AnyMultiMap[uint64, float32] = (*weft.MultiMap[uint64, float32])(nil)
	_ AnySet[uint64]               = (*weft.Set[uint64])(nil)

	_ AnyOrderedMap[uint64, float32] = (*weft.OrderedMap[uint64, float32])(nil)
	_ AnySeeker[uint64, float32]     = (*weft.Snapshot[uint64, float32])(nil)
)

// Maker makes an empty structure that can grow. The suite closes it.
type Maker[S Structure] func(t testing.TB, dev device.Device) S
