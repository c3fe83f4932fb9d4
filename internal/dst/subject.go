package dst

import (
	"context"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Columns are a batch on the device.
type Columns[K weft.Key, V weft.Value] struct {
	// Kinds are empty if all operations are of one Kind.
	Kind  weft.OpKind
	Kinds device.Slice[weft.OpKind]
	Keys  device.Slice[K]
	Vals  device.Slice[V] // in and out
	OK    device.Slice[bool]

	Removed device.Slice[uint32] // by DeleteAlls of a multimap
}

// A Subject is a structure under test.
type Subject[K weft.Key, V weft.Value] interface {
	// Submit runs a batch. It reports which results it returns: what lies in
	// vals and ok afterwards counts only as far as that.
	Submit(s *device.Stream, c *Columns[K, V]) (Returns, error)
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// Returns says which columns of a batch hold results.
type Returns struct {
	OK, Vals, Counts bool
}

// OnMap are the methods of a map that take batches on the device.
type OnMap[K weft.Key, V weft.Value] interface {
	PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error
	PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error
	GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// Map makes a subject of a map.
func Map[K weft.Key, V weft.Value](m OnMap[K, V]) Subject[K, V] { return mapSubject[K, V]{m} }

type mapSubject[K weft.Key, V weft.Value] struct{ OnMap[K, V] }

func (m mapSubject[K, V]) Submit(s *device.Stream, c *Columns[K, V]) (Returns, error) {
	if c.Kinds.Len() > 0 {
		return Returns{OK: true, Vals: true}, m.ApplyOn(s, c.Kinds, c.Keys, c.Vals, c.OK)
	}
	switch c.Kind {
	case weft.OpPut:
		return Returns{}, m.PutOn(s, c.Keys, c.Vals)
	case weft.OpPutNew:
		return Returns{OK: true}, m.PutNewOn(s, c.Keys, c.Vals, c.OK)
	case weft.OpDelete:
		return Returns{OK: true}, m.DeleteOn(s, c.Keys, c.OK)
	}
	return Returns{OK: true, Vals: true}, m.GetOn(s, c.Keys, c.Vals, c.OK)
}

// OnSet are the methods of a set that take batches on the device.
type OnSet[K weft.Key] interface {
	AddOn(s *device.Stream, keys device.Slice[K], added device.Slice[bool]) error
	ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool]) error
	DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error
	Sync(ctx context.Context) error
	Len() int
	Close() error
}

// Set makes a subject of a set; its configuration must have Uniform set.
func Set[K weft.Key](s OnSet[K]) Subject[K, uint32] { return setSubject[K]{s} }

type setSubject[K weft.Key] struct{ OnSet[K] }

func (m setSubject[K]) Submit(s *device.Stream, c *Columns[K, uint32]) (Returns, error) {
	switch c.Kind {
	case weft.OpPut, weft.OpPutNew:
		return Returns{OK: true}, m.AddOn(s, c.Keys, c.OK)
	case weft.OpDelete:
		return Returns{OK: true}, m.DeleteOn(s, c.Keys, c.OK)
	}
	return Returns{OK: true}, m.ContainsOn(s, c.Keys, c.OK)
}

// OnMultiMap are the methods of a multimap that take batches on the device.
type OnMultiMap[K weft.Key, V weft.Value] interface {
	OnMap[K, V]
	DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32]) error
	GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error
}

// MultiMap makes a subject of a multimap; its configuration must have Multi
// set.
func MultiMap[K weft.Key, V weft.Value](m OnMultiMap[K, V]) Subject[K, V] {
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
