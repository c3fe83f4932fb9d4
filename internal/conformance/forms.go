package conformance

import (
	"context"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// pairKind returns the kind of a map or a multimap, without the methods that only one of them has.
func pairKind[S erasedPairs](p target[S]) kind[S] {
	return kind[S]{
		target: p, values: true,
		add: func(ctx context.Context, s S, keys []uint64, vals []uint64) (int, error) {
			return s.Put(ctx, keys, vals)
		},
		lookup: func(ctx context.Context, s S, keys []uint64, vals []uint64, found []bool) (int, error) {
			return s.Get(ctx, keys, vals, found)
		},
		remove: func(ctx context.Context, s S, keys []uint64, deleted []bool) (int, error) {
			return s.Delete(ctx, keys, deleted)
		},
		all:   func(s S) iter.Seq2[uint64, uint64] { return s.All() },
		pages: func(ctx context.Context, s S) iter.Seq2[weft.Page[uint64, uint64], error] { return s.Pages(ctx) },
		forms: append(pairChanges[S](), pairLookups[S]()...),
	}
}

func pairChanges[S erasedPairs]() []form[S] {
	return []form[S]{{
		name: "Put", changes: true, counted: true, vals: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.Put(ctx, r.Keys, r.Vals) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.PutOn(to, c.Keys, c.Vals, n...)
		},
	}, {
		name: "PutNew", changes: true, counted: true, optional: true, vals: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.PutNew(ctx, r.Keys, r.Vals, r.OK) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.PutNewOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}, {
		name: "Delete", changes: true, counted: true, optional: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.Delete(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.DeleteOn(to, c.Keys, c.OK, n...)
		},
	}, {
		name: "Apply", changes: true, optional: true, kinds: true, vals: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) {
			ops, res := make([]weft.Op[uint64, uint64], len(r.Keys)), make([]weft.Result[uint64], len(r.Keys))
			for i := range ops {
				ops[i] = weft.Op[uint64, uint64]{Kind: r.Kinds[i], Key: r.Keys[i], Value: r.Vals[i]}
				res[i] = weft.Result[uint64]{Value: r.Vals[i], OK: true}
			}
			err := s.Apply(ctx, ops, res)
			for i := range res {
				r.Vals[i], r.OK[i] = res[i].Value, res[i].OK
			}
			return 0, err
		},
		on: func(s S, to *device.Stream, c *columns, _ ...device.Slice[uint64]) error {
			return s.ApplyOn(to, c.Kinds, c.Keys, c.Vals, c.OK)
		},
	}}
}

func pairLookups[S erasedPairs]() []form[S] {
	return []form[S]{{
		name: "Get", counted: true, optional: true, vals: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.Get(ctx, r.Keys, r.Vals, r.OK) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.GetOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}, {
		name: "Contains", counted: true, optional: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.Contains(ctx, r.Keys, r.OK) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.ContainsOn(to, c.Keys, c.OK, n...)
		},
	}}
}

func mapKind(p target[erasedMap]) kind[erasedMap] {
	k := pairKind[erasedMap](p)
	k.forms = append(k.forms, reduceForm(p.floats), getOrPutForm())
	if !p.floats {
		k.hostOnly = []form[erasedMap]{{
			name: "Assign", changes: true, counted: true, vals: true,
			host: func(ctx context.Context, s erasedMap, r *rows) (int, error) {
				return s.Assign(ctx, r.Keys, r.Vals)
			},
		}}
	}
	k.copyTo = erasedMap.copyTo
	return k
}

// reduceForm returns a form with a reduction that does not depend on the order of rows. For floats
// it avoids Sum.
func reduceForm(floats bool) form[erasedMap] {
	by := weft.Sum
	if floats {
		by = weft.Max
	}
	return form[erasedMap]{
		name: "Reduce", changes: true, counted: true, vals: true,
		host: func(ctx context.Context, s erasedMap, r *rows) (int, error) {
			return s.Reduce(ctx, r.Keys, r.Vals, by)
		},
		on: func(s erasedMap, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.ReduceOn(to, c.Keys, c.Vals, by, n...)
		},
	}
}

func getOrPutForm() form[erasedMap] {
	return form[erasedMap]{
		name: "GetOrPut", changes: true, counted: true, optional: true, loads: true, vals: true,
		host: func(ctx context.Context, s erasedMap, r *rows) (int, error) {
			return s.GetOrPut(ctx, r.Keys, r.Vals, r.OK)
		},
		on: func(s erasedMap, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.GetOrPutOn(to, c.Keys, c.Vals, c.OK, n...)
		},
	}
}

func multiKind(p target[erasedMultiMap]) kind[erasedMultiMap] {
	type S = erasedMultiMap
	k := pairKind[S](p)
	k.multi = true
	k.copyTo = erasedMultiMap.copyTo
	k.forms = append(k.forms, form[S]{
		name: "Count", counts: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.Count(ctx, r.Keys, r.Counts) },
		on: func(s S, to *device.Stream, c *columns, _ ...device.Slice[uint64]) error {
			return s.CountOn(to, c.Keys, c.Counts)
		},
	}, form[S]{
		name: "DeleteAll", changes: true, counted: true, counts: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) { return s.DeleteAll(ctx, r.Keys, r.Counts) },
		on: func(s S, to *device.Stream, c *columns, n ...device.Slice[uint64]) error {
			return s.DeleteAllOn(to, c.Keys, c.Counts, n...)
		},
	})
	k.rows = []form[S]{{
		name: "GetAll", counts: true, offsets: true,
		host: func(ctx context.Context, s S, r *rows) (int, error) {
			var rows weft.Rows[uint64]
			err := s.GetAll(ctx, r.Keys, &rows)
			return len(rows.Vals), err
		},
		on: func(s S, to *device.Stream, c *columns, _ ...device.Slice[uint64]) error {
			return s.GetAllOn(to, c.Keys, c.Counts, c.Offsets, c.Vals)
		},
	}}
	return k
}

func setKind(p target[erasedSet]) kind[erasedSet] {
	type S = erasedSet
	return kind[S]{
		target: p,
		add:    func(ctx context.Context, s S, keys []uint64, _ []uint64) (int, error) { return s.Add(ctx, keys, nil) },
		lookup: func(ctx context.Context, s S, keys []uint64, _ []uint64, found []bool) (int, error) {
			return s.Contains(ctx, keys, found)
		},
		remove: func(ctx context.Context, s S, keys []uint64, deleted []bool) (int, error) {
			return s.Delete(ctx, keys, deleted)
		},
		all: func(s S) iter.Seq2[uint64, uint64] {
			return func(yield func(uint64, uint64) bool) {
				s.All()(func(k uint64) bool { return yield(k, 0) })
			}
		},
		pages: func(ctx context.Context, s S) iter.Seq2[weft.Page[uint64, uint64], error] {
			return func(yield func(weft.Page[uint64, uint64], error) bool) {
				s.Pages(ctx)(func(keys []uint64, err error) bool {
					return yield(weft.Page[uint64, uint64]{Keys: keys, Vals: make([]uint64, len(keys))}, err)
				})
			}
		},
		copyTo: erasedSet.copyTo,
		forms:  setForms(),
	}
}

func setForms() []form[erasedSet] {
	type S = erasedSet
	type R = *rows
	type C = *columns
	return []form[S]{{
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
