package dst

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftgo/weft"
)

// getAll is the operation of batches that list all values of keys.
const getAll = weft.OpDeleteAll + 1

// A run is the values of a key that one batch added. The order within a run is
// the device's affair. While its batch runs, any value of the run may come
// first; from then on they have an order, which operations show bit by bit.
type run[V weft.Value] struct {
	batch int
	vals  []V
	first V // the one that comes first, if that has shown, or 0, which is no value
}

// multiModel is the model of multimaps. A state is the runs of a key, those of
// earlier batches before those of later ones. The facts are the values that the
// key has, and 0 that it has none.
func multiModel[K weft.Key, V weft.Value]() *Model[[]run[V], event[K, V]] {
	return &Model[[]run[V], event[K, V]]{
		Step:      stepMulti[K, V],
		Key:       keyMulti[V],
		Partition: byKey[K, V],
		Tell:      tell[K, V],
		Hint:      hintMulti[K, V],
		Has: func(runs []run[V], fact any) bool {
			has := func(r run[V]) bool { return slices.Contains(r.vals, fact.(V)) }
			return fact == V(0) && len(runs) == 0 || slices.ContainsFunc(runs, has)
		},
		Excludes: func(a, b any) bool { return a != b && (a == V(0) || b == V(0)) },
		Size: func(runs []run[V]) (n int) {
			for _, r := range runs {
				n += len(r.vals)
			}
			return n
		},
	}
}

// stepMulti is what an operation does. A DeleteAll removes one value a step and
// ends when it finds none. What is not returned may be anything.
func stepMulti[K weft.Key, V weft.Value](runs []run[V], e event[K, V]) (next []Outcome[[]run[V], event[K, V]]) {
	var left *event[K, V]
	var states [][]run[V]
	empty := len(runs) == 0
	ok := func(is bool) bool { return !e.returns.OK || e.ok == is }
	switch {
	case e.refused(empty):
		states = same(runs, e.got() == 0)
	case e.op.Kind == weft.OpPut && ok(true), e.op.Kind == weft.OpPutNew && empty && ok(true) && e.got() == 0:
		states = [][]run[V]{add(runs, e.batch, e.op.Value)}
	case e.op.Kind == weft.OpGet && empty:
		states = same(runs, ok(false) && e.got() == 0)
	case e.op.Kind == weft.OpGet && ok(true), e.op.Kind == weft.OpPutNew && !empty && ok(false):
		states = show(runs, e)
	case e.op.Kind == weft.OpDelete && empty:
		states = same(runs, ok(false))
	case e.op.Kind == weft.OpDeleteAll && empty:
		states = same(runs, ok(false) && (!e.returns.Counts || e.removed == 0))
	case e.op.Kind == weft.OpDelete && ok(true):
		states = remove(runs)
	case e.op.Kind == weft.OpDeleteAll && ok(true) && (!e.returns.Counts || e.removed > 0):
		rest := e
		rest.returns.OK = false
		rest.removed--
		left, states = &rest, remove(runs)
	case e.op.Kind == getAll:
		states = list(runs, e.all)
	}
	for _, s := range states {
		next = append(next, Outcome[[]run[V], event[K, V]]{s, left})
	}
	return next
}

// got is the value that an operation returned, or 0.
func (e *event[K, V]) got() V {
	if e.returns.Vals && (e.op.Kind == weft.OpGet || e.op.Kind == weft.OpPutNew) {
		return e.val
	}
	return 0
}

// refused reports whether there was no room for an operation's value.
func (e *event[K, V]) refused(empty bool) bool {
	return e.full && e.returns.OK && !e.ok && (e.op.Kind == weft.OpPut || e.op.Kind == weft.OpPutNew && empty)
}

// same is what is there after an operation that changes nothing.
func same[V weft.Value](runs []run[V], ok bool) [][]run[V] {
	if !ok {
		return nil
	}
	return [][]run[V]{runs}
}

// add puts a value behind those of earlier batches.
func add[V weft.Value](runs []run[V], batch int, v V) []run[V] {
	last := run[V]{batch: batch}
	for n := len(runs); n > 0 && runs[n-1].batch == batch; n-- {
		runs, last.vals = runs[:n-1], append(last.vals, runs[n-1].vals...)
	}
	last.vals = append(last.vals, v)
	return append(slices.Clip(runs), last)
}

// show lets an operation return the first value.
func show[K weft.Key, V weft.Value](runs []run[V], e event[K, V]) [][]run[V] {
	front, got := runs[0], e.got()
	switch {
	case got == 0:
		return same(runs, !e.returns.Vals)
	case !slices.Contains(front.vals, got) || front.first != 0 && front.first != got:
		return nil
	case front.batch != e.batch && len(front.vals) > 1:
		runs = slices.Clone(runs)
		runs[0].first = got
	}
	return [][]run[V]{runs}
}

// remove removes the first value, which may be any of the first run.
func remove[V weft.Value](runs []run[V]) (next [][]run[V]) {
	front := runs[0]
	for i, v := range front.vals {
		switch {
		case front.first != 0 && front.first != v:
		case len(front.vals) == 1:
			next = append(next, runs[1:])
		default:
			vals := slices.Delete(slices.Clone(front.vals), i, i+1)
			next = append(next, append([]run[V]{{batch: front.batch, vals: vals}}, runs[1:]...))
		}
	}
	return next
}

// list lets an operation return all values, and with them their order.
func list[V weft.Value](runs []run[V], all []V) [][]run[V] {
	var next []run[V]
	for _, r := range runs {
		n := len(r.vals)
		if n > len(all) || r.first != 0 && r.first != all[0] {
			return nil
		}
		for _, v := range all[:n] {
			if !slices.Contains(r.vals, v) {
				return nil
			}
			next = append(next, run[V]{batch: r.batch, vals: []V{v}})
		}
		all = all[n:]
	}
	return same(next, len(all) == 0)
}

// keyMulti takes values that are not live for one and the same.
func keyMulti[V weft.Value](runs []run[V], live func(any) bool) string {
	var key strings.Builder
	for _, r := range runs {
		first, vals := r.first, slices.DeleteFunc(slices.Clone(r.vals), func(v V) bool { return !live(v) })
		if !live(first) {
			first = 0
		}
		slices.Sort(vals)
		fmt.Fprint(&key, r.batch, len(r.vals), vals, r.first != 0, first)
	}
	return key.String()
}

// hintMulti is what is known of an operation.
func hintMulti[K weft.Key, V weft.Value](e event[K, V]) Hint {
	yes, no, count := e.returns.OK && e.ok, e.returns.OK && !e.ok, -1
	if e.returns.Counts && e.op.Kind == weft.OpDeleteAll {
		count = e.removed
	}
	adds := (e.op.Kind == weft.OpPut || e.op.Kind == weft.OpPutNew) && !no
	removes := (e.op.Kind == weft.OpDelete || e.op.Kind == weft.OpDeleteAll) && !no && count != 0
	h := Hint{Pure: !adds && !removes, Size: -1}
	switch {
	case adds:
		h.Gives, h.Most = []any{e.op.Value}, 1
		if yes || e.op.Kind == weft.OpPut {
			h.Least = 1
		}
	case count > 0:
		h.Gives, h.Least, h.Most = []any{V(0)}, -count, -count
	case removes:
		h.Gives, h.Least = []any{V(0)}, -1
		if yes {
			h.Most = -1
		}
		if e.op.Kind == weft.OpDeleteAll {
			h.Least = -1 << 30
		}
	}
	switch {
	case e.op.Kind == getAll:
		h.Size = len(e.all)
		for _, v := range e.all {
			h.Needs = append(h.Needs, v)
		}
		return h
	case e.op.Kind == weft.OpPutNew && yes, (e.op.Kind == weft.OpGet || e.op.Kind == weft.OpDelete) && no:
		h.Size = 0
		fallthrough
	case e.op.Kind == weft.OpDeleteAll:
		h.Needs = []any{V(0)}
	case e.got() != 0:
		h.Needs = []any{e.got()}
	}
	if e.op.Kind != weft.OpPutNew || e.returns.OK {
		h.Class = fmt.Sprint(e.op.Kind, e.batch, yes, no, count, e.got(), e.returns.Vals)
	}
	return h
}
