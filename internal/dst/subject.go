package dst

import (
	"context"
	"fmt"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Columns is a batch in device memory.
type Columns[K weft.Key, V weft.Value] struct {
	// Kinds is empty if all operations have the kind Kind.
	Kind  weft.OpKind
	Kinds device.Slice[weft.OpKind]
	Keys  device.Slice[K]
	Vals  device.Slice[V] // input and output
	OK    device.Slice[bool]

	Removed device.Slice[uint32] // counts of DeleteAlls in a multimap
}

// Subject is a structure under test.
type Subject[K weft.Key, V weft.Value] interface {
	// Submit submits a batch. Its result says which columns hold results; the runner ignores all
	// other columns.
	Submit(s *device.Stream, c *Columns[K, V]) (Returns, error)
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// HostSubject is a Subject that also runs host batches and iterations.
type HostSubject[K weft.Key, V weft.Value] interface {
	Subject[K, V]
	// Call runs a host batch. If kinds is nil, all operations have the given kind. Call returns
	// which of vals and ok hold results.
	Call(ctx context.Context, kind weft.OpKind, kinds []weft.OpKind, keys []K, vals []V, ok []bool) (Returns, error)
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
	Clear(ctx context.Context) error
}

// Returns specifies which columns of a batch hold results.
type Returns struct {
	OK, Vals, Counts bool
	Loaded           bool // OK reports, for PutNews, that the key was present
}

// OnMap has the methods of a map that programs call, including On methods.
type OnMap[K weft.Key, V weft.Value] interface {
	HostMap[K, V]
	PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], inserted ...device.Slice[uint64]) error
	PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], inserted ...device.Slice[uint64]) error
	GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// uniqueMap has the methods that maps have and multimaps lack.
type uniqueMap[K weft.Key, V weft.Value] interface {
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (int, error)
	GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], inserted ...device.Slice[uint64]) error
	Reduce(ctx context.Context, keys []K, vals []V, by weft.Reduction) (int, error)
	ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], by weft.Reduction, inserted ...device.Slice[uint64]) error
}

// HostMap has the methods that maps and multimaps share, except On methods.
type HostMap[K weft.Key, V weft.Value] interface {
	Put(ctx context.Context, keys []K, vals []V) (int, error)
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (int, error)
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
	Clear(ctx context.Context) error
}

// Map returns a HostSubject for a map.
func Map[K weft.Key, V weft.Value](m OnMap[K, V]) HostSubject[K, V] { return mapSubject[K, V]{m} }

type mapSubject[K weft.Key, V weft.Value] struct{ OnMap[K, V] }

func (m mapSubject[K, V]) Submit(s *device.Stream, c *Columns[K, V]) (Returns, error) {
	if c.Kinds.Len() > 0 {
		return Returns{OK: true, Vals: true}, m.ApplyOn(s, c.Kinds, c.Keys, c.Vals, c.OK)
	}
	switch c.Kind {
	case weft.OpPut:
		return Returns{}, m.PutOn(s, c.Keys, c.Vals)
	case getOrPut:
		return Returns{OK: true, Vals: true, Loaded: true}, m.OnMap.(uniqueMap[K, V]).GetOrPutOn(s, c.Keys, c.Vals, c.OK)
	case weft.OpPutNew:
		return Returns{OK: true}, m.PutNewOn(s, c.Keys, c.Vals, c.OK)
	case weft.OpDelete:
		return Returns{OK: true}, m.DeleteOn(s, c.Keys, c.OK)
	case weft.OpSum, weft.OpMin, weft.OpMax, weft.OpAnd, weft.OpOr:
		return Returns{}, m.OnMap.(uniqueMap[K, V]).ReduceOn(s, c.Keys, c.Vals, weft.Reduction(c.Kind))
	}
	return Returns{OK: true, Vals: true}, m.GetOn(s, c.Keys, c.Vals, c.OK)
}

// Call implements [HostSubject].
func (m mapSubject[K, V]) Call(ctx context.Context, kind weft.OpKind, kinds []weft.OpKind, keys []K, vals []V, ok []bool) (r Returns, err error) {
	if kinds != nil {
		ops, res := make([]weft.Op[K, V], len(keys)), make([]weft.Result[V], len(keys))
		for i := range ops {
			ops[i] = weft.Op[K, V]{Kind: kinds[i], Key: keys[i], Value: vals[i]}
		}
		err = m.Apply(ctx, ops, res)
		for i, r := range res {
			vals[i], ok[i] = r.Value, r.OK
		}
		return Returns{OK: true, Vals: true}, err
	}
	var n int
	switch kind {
	case weft.OpPut:
		_, err = m.Put(ctx, keys, vals)
		return Returns{}, err
	case getOrPut:
		n, err = m.OnMap.(uniqueMap[K, V]).GetOrPut(ctx, keys, vals, ok)
		return Returns{OK: true, Vals: true, Loaded: true}, counted(len(keys)-n, ok, err)
	case weft.OpPutNew:
		n, err = m.PutNew(ctx, keys, vals, ok)
		return Returns{OK: true}, counted(n, ok, err)
	case weft.OpDelete:
		n, err = m.Delete(ctx, keys, ok)
		return Returns{OK: true}, counted(n, ok, err)
	case weft.OpSum, weft.OpMin, weft.OpMax, weft.OpAnd, weft.OpOr:
		_, err = m.OnMap.(uniqueMap[K, V]).Reduce(ctx, keys, vals, weft.Reduction(kind))
		return Returns{}, err
	}
	n, err = m.Get(ctx, keys, vals, ok)
	return Returns{OK: true, Vals: true}, counted(n, ok, err)
}

// counted returns an error unless the count that a call returned equals the number of flags set.
func counted(n int, ok []bool, err error) error {
	for _, set := range ok {
		if set {
			n--
		}
	}
	if err == nil && n != 0 {
		return fmt.Errorf("counts %d more than it flags", n)
	}
	return err
}

// OnSet has the methods of a set that programs call, including On methods.
type OnSet[K weft.Key] interface {
	Add(ctx context.Context, keys []K, added []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	Delete(ctx context.Context, keys []K, deleted []bool) (int, error)
	AddOn(s *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error
	Pages(ctx context.Context) iter.Seq2[[]K, error]
	Clear(ctx context.Context) error
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// Set returns a HostSubject for a set. Config.Uniform must be set.
func Set[K weft.Key](s OnSet[K]) HostSubject[K, uint32] { return setSubject[K]{s} }

type setSubject[K weft.Key] struct{ OnSet[K] }

// Pages implements [HostSubject].
func (m setSubject[K]) Pages(ctx context.Context) iter.Seq2[weft.Page[K, uint32], error] {
	return func(yield func(weft.Page[K, uint32], error) bool) {
		for keys, err := range m.OnSet.Pages(ctx) {
			if !yield(weft.Page[K, uint32]{Keys: keys, Vals: make([]uint32, len(keys))}, err) {
				return
			}
		}
	}
}

// Call implements [HostSubject].
func (m setSubject[K]) Call(ctx context.Context, kind weft.OpKind, _ []weft.OpKind, keys []K, _ []uint32, ok []bool) (Returns, error) {
	f := m.Contains
	switch kind {
	case weft.OpPut, weft.OpPutNew:
		f = m.Add
	case weft.OpDelete:
		f = m.Delete
	}
	n, err := f(ctx, keys, ok)
	return Returns{OK: true}, counted(n, ok, err)
}

func (m setSubject[K]) Submit(s *device.Stream, c *Columns[K, uint32]) (Returns, error) {
	switch c.Kind {
	case weft.OpPut, weft.OpPutNew:
		return Returns{OK: true}, m.AddOn(s, c.Keys, c.OK)
	case weft.OpDelete:
		return Returns{OK: true}, m.DeleteOn(s, c.Keys, c.OK)
	}
	return Returns{OK: true}, m.ContainsOn(s, c.Keys, c.OK)
}

// OnMultiMap has the methods of a multimap that programs call, including On methods.
type OnMultiMap[K weft.Key, V weft.Value] interface {
	OnMap[K, V]
	DeleteAll(ctx context.Context, keys []K, removed []uint32) (int, error)
	GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error
	DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error
	GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error
}

// MultiMap returns a HostSubject for a multimap. Config.Multi must be set.
func MultiMap[K weft.Key, V weft.Value](m OnMultiMap[K, V]) HostSubject[K, V] {
	return multiSubject[K, V]{m, mapSubject[K, V]{m}}
}

type multiSubject[K weft.Key, V weft.Value] struct {
	OnMultiMap[K, V]
	asMap mapSubject[K, V]
}

func (m multiSubject[K, V]) Submit(s *device.Stream, c *Columns[K, V]) (Returns, error) {
	if c.Kinds.Len() == 0 && c.Kind == weft.OpDeleteAll {
		return Returns{Counts: true}, m.DeleteAllOn(s, c.Keys, c.Removed)
	}
	return m.asMap.Submit(s, c)
}

// Call implements [HostSubject].
func (m multiSubject[K, V]) Call(ctx context.Context, kind weft.OpKind, kinds []weft.OpKind, keys []K, vals []V, ok []bool) (Returns, error) {
	if kinds != nil || kind != weft.OpDeleteAll {
		return m.asMap.Call(ctx, kind, kinds, keys, vals, ok)
	}
	counts := make([]uint32, len(keys))
	_, err := m.DeleteAll(ctx, keys, counts)
	for i, n := range counts {
		ok[i] = n > 0
	}
	return Returns{OK: true}, err
}
