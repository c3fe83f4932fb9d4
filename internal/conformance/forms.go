package conformance

import (
	"context"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// pairKind is a kind of maps or multimaps.
func pairKind[S AnyPairs[K, V], K weft.Key, V weft.Value](p place[S]) kind[S, K, V] {
	return kind[S, K, V]{
		place: p, values: true,
		add: func(ctx context.Context, s S, keys []K, vals []V) (int, error) { return s.Put(ctx, keys, vals) },
		look: func(ctx context.Context, s S, keys []K, vals []V, found []bool) (int, error) {
			return s.Get(ctx, keys, vals, found)
		},
		remove: func(ctx context.Context, s S, keys []K, gone []bool) (int, error) { return s.Delete(ctx, keys, gone) },
		all:    func(s S) iter.Seq2[K, V] { return s.All() },
		pages:  func(ctx context.Context, s S) iter.Seq2[weft.Page[K, V], error] { return s.Pages(ctx) },
		forms:  append(pairChanges[S, K, V](), pairLookups[S, K, V]()...),
	}
}

func pairChanges[S AnyPairs[K, V], K weft.Key, V weft.Value]() []form[S, K, V] {
	return []form[S, K, V]{{
		name: "Put", changes: true, counted: true, vals: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.Put(ctx, r.Keys, r.Vals) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.PutOn(to, c.Keys, c.Vals, n...)
		},
	}, {
		name: "PutNew", changes: true, counted: true, optional: true, vals: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.PutNew(ctx, r.Keys, r.Vals, r.OK) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.PutNewOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}, {
		name: "Delete", changes: true, counted: true, optional: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.Delete(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.DeleteOn(to, c.Keys, c.OK, n...)
		},
	}, {
		name: "Apply", changes: true, optional: true, kinds: true, vals: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) {
			ops, res := make([]weft.Op[K, V], len(r.Keys)), make([]weft.Result[V], len(r.Keys))
			for i := range ops {
				ops[i] = weft.Op[K, V]{Kind: r.Kinds[i], Key: r.Keys[i], Value: r.Vals[i]}
				res[i] = weft.Result[V]{Value: r.Vals[i], OK: true}
			}
			err := s.Apply(ctx, ops, res)
			for i := range res {
				r.Vals[i], r.OK[i] = res[i].Value, res[i].OK
			}
			return 0, err
		},
		on: func(s S, to *device.Stream, c *columns[K, V], _ ...device.Slice[uint64]) error {
			return s.ApplyOn(to, c.Kinds, c.Keys, c.Vals, c.OK)
		},
	}}
}

func pairLookups[S AnyPairs[K, V], K weft.Key, V weft.Value]() []form[S, K, V] {
	return []form[S, K, V]{{
		name: "Get", counted: true, optional: true, vals: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.Get(ctx, r.Keys, r.Vals, r.OK) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.GetOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}, {
		name: "Contains", counted: true, optional: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.Contains(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.ContainsOn(to, c.Keys, c.OK, n...)
		},
	}}
}

func mapKind[K weft.Key, V weft.Value](p place[AnyMap[K, V]]) kind[AnyMap[K, V], K, V] {
	k := pairKind[AnyMap[K, V], K, V](p)
	k.forms = append(k.forms, reduceForm[K, V](), getOrPutForm[K, V]())
	if !fractional[V]() {
		k.hosts = []form[AnyMap[K, V], K, V]{{
			name: "Assign", changes: true, counted: true, vals: true,
			host: func(ctx context.Context, s AnyMap[K, V], r *rows[K, V]) (int, error) {
				return s.Assign(ctx, r.Keys, r.Vals)
			},
		}}
	}
	k.copyTo = func(ctx context.Context, s AnyMap[K, V], dev device.Device) (AnyMap[K, V], bool, error) {
		if from, ok := s.(interface {
			CopyTo(context.Context, device.Device) (*weft.OrderedMap[K, V], error)
		}); ok {
			to, err := from.CopyTo(ctx, dev)
			return to, true, err
		}
		from, ok := s.(interface {
			CopyTo(context.Context, device.Device) (*weft.Map[K, V], error)
		})
		if !ok {
			return nil, false, nil
		}
		to, err := from.CopyTo(ctx, dev)
		return to, true, err
	}
	return k
}

// reduceForm reduces so that the outcome does not depend on the order: of floats,
// sums do.
func reduceForm[K weft.Key, V weft.Value]() form[AnyMap[K, V], K, V] {
	by := weft.Sum
	if fractional[V]() {
		by = weft.Max
	}
	return form[AnyMap[K, V], K, V]{
		name: "Reduce", changes: true, counted: true, vals: true,
		host: func(ctx context.Context, s AnyMap[K, V], r *rows[K, V]) (int, error) {
			return s.Reduce(ctx, r.Keys, r.Vals, by)
		},
		on: func(s AnyMap[K, V], to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.ReduceOn(to, c.Keys, c.Vals, by, n...)
		},
	}
}

func getOrPutForm[K weft.Key, V weft.Value]() form[AnyMap[K, V], K, V] {
	return form[AnyMap[K, V], K, V]{
		name: "GetOrPut", changes: true, counted: true, optional: true, loads: true, vals: true,
		host: func(ctx context.Context, s AnyMap[K, V], r *rows[K, V]) (int, error) {
			return s.GetOrPut(ctx, r.Keys, r.Vals, r.OK)
		},
		on: func(s AnyMap[K, V], to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.GetOrPutOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}
}

func multiKind[K weft.Key, V weft.Value](p place[AnyMultiMap[K, V]]) kind[AnyMultiMap[K, V], K, V] {
	type S = AnyMultiMap[K, V]
	k := pairKind[S, K, V](p)
	k.multi = true
	k.copyTo = func(ctx context.Context, s S, dev device.Device) (S, bool, error) {
		from, ok := s.(interface {
			CopyTo(context.Context, device.Device) (*weft.MultiMap[K, V], error)
		})
		if !ok {
			return nil, false, nil
		}
		to, err := from.CopyTo(ctx, dev)
		return to, true, err
	}
	k.forms = append(k.forms, form[S, K, V]{
		name: "Count", counts: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.Count(ctx, r.Keys, r.Counts) },
		on: func(s S, to *device.Stream, c *columns[K, V], _ ...device.Slice[uint64]) error {
			return s.CountOn(to, c.Keys, c.Counts)
		},
	}, form[S, K, V]{
		name: "DeleteAll", changes: true, counted: true, counts: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) { return s.DeleteAll(ctx, r.Keys, r.Counts) },
		on: func(s S, to *device.Stream, c *columns[K, V], n ...device.Slice[uint64]) error {
			return s.DeleteAllOn(to, c.Keys, c.Counts, n...)
		},
	})
	k.rows = []form[S, K, V]{{
		name: "GetAll", counts: true, offsets: true,
		host: func(ctx context.Context, s S, r *rows[K, V]) (int, error) {
			var rows weft.Rows[V]
			err := s.GetAll(ctx, r.Keys, &rows)
			return len(rows.Vals), err
		},
		on: func(s S, to *device.Stream, c *columns[K, V], _ ...device.Slice[uint64]) error {
			return s.GetAllOn(to, c.Keys, c.Counts, c.Offsets, c.Vals)
		},
	}}
	return k
}

func setKind[K weft.Key](p place[AnySet[K]]) kind[AnySet[K], K, uint32] {
	type S = AnySet[K]
	return kind[S, K, uint32]{
		place: p,
		add:   func(ctx context.Context, s S, keys []K, _ []uint32) (int, error) { return s.Add(ctx, keys, nil) },
		look: func(ctx context.Context, s S, keys []K, _ []uint32, found []bool) (int, error) {
			return s.Contains(ctx, keys, found)
		},
		remove: func(ctx context.Context, s S, keys []K, gone []bool) (int, error) { return s.Delete(ctx, keys, gone) },
		all: func(s S) iter.Seq2[K, uint32] {
			return func(yield func(K, uint32) bool) {
				s.All()(func(k K) bool { return yield(k, 0) })
			}
		},
		pages: func(ctx context.Context, s S) iter.Seq2[weft.Page[K, uint32], error] {
			return func(yield func(weft.Page[K, uint32], error) bool) {
				s.Pages(ctx)(func(keys []K, err error) bool {
					return yield(weft.Page[K, uint32]{Keys: keys, Vals: make([]uint32, len(keys))}, err)
				})
			}
		},
		copyTo: func(ctx context.Context, s S, dev device.Device) (S, bool, error) {
			from, ok := s.(interface {
				CopyTo(context.Context, device.Device) (*weft.Set[K], error)
			})
			if !ok {
				return nil, false, nil
			}
			to, err := from.CopyTo(ctx, dev)
			return to, true, err
		},
		forms: setForms[K](),
	}
}

func setForms[K weft.Key]() []form[AnySet[K], K, uint32] {
	type S = AnySet[K]
	type R = *rows[K, uint32]
	type C = *columns[K, uint32]
	return []form[S, K, uint32]{{
		name: "Add", changes: true, counted: true, optional: true,
		host: func(ctx context.Context, s S, r R) (int, error) { return s.Add(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c C, n ...device.Slice[uint64]) error {
			return s.AddOn(to, c.Keys, c.OK, n...)
		},
	}, {
		name: "Delete", changes: true, counted: true, optional: true,
		host: func(ctx context.Context, s S, r R) (int, error) { return s.Delete(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c C, n ...device.Slice[uint64]) error {
			return s.DeleteOn(to, c.Keys, c.OK, n...)
		},
	}, {
		name: "Contains", counted: true, optional: true,
		host: func(ctx context.Context, s S, r R) (int, error) { return s.Contains(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c C, n ...device.Slice[uint64]) error {
			return s.ContainsOn(to, c.Keys, c.OK, n...)
		},
	}}
}
