package dst

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weftgo/weft"
)

// These operations have no kind in package weft. getAll lists all values of a key. getOrPut is a
// PutNew that returns the present value.
const (
	getAll   = weft.OpKind(0xfe)
	getOrPut = weft.OpKind(0xfd)
)

// run holds the values of a key that one batch added. The device chooses the order of values within
// a run. While the batch is running, any value of its run may be the first. After that, the values
// have a fixed order, which operations reveal step by step.
type run struct {
	batch int
	vals  []uint64
	first uint64 // the first value, or 0 if unknown; 0 is not a value
}

// multiModel returns the model of multimaps. A state consists of the runs of a key, in the order of
// their batches. The facts are the values of the key.
func multiModel() *Model[[]run, event] {
	return &Model[[]run, event]{
		Step:      stepMulti,
		Key:       keyMulti,
		Partition: func(e event) any { return e.op.Key },
		Format:    formatEvents,
		Hint:      hintMulti,
		Has:       func(runs []run, fact any) bool { return slices.Contains(valsOf(runs), fact.(uint64)) },
		Size:      func(runs []run) int { return len(valsOf(runs)) },
	}
}

func valsOf(runs []run) (vals []uint64) {
	for _, r := range runs {
		vals = append(vals, r.vals...)
	}
	return vals
}

// stepMulti implements Step. A DeleteAll removes one value per step and ends when no value is left.
// Columns that are not returned may hold anything.
func stepMulti(runs []run, e event) (next [][]run, rest *event) {
	empty := len(runs) == 0
	ok := func(is bool) bool { return !e.returns.OK || e.ok == is }
	switch kind := e.op.Kind; {
	// The pair overflowed.
	case e.maybeFull && e.returns.OK && !e.ok && (kind == weft.OpPut || kind == weft.OpPutNew && empty):
		return only(runs, e.got() == 0), nil
	case kind == weft.OpPut && ok(true), kind == weft.OpPutNew && empty && ok(true):
		return only(add(runs, e.batch, e.op.Value), e.got() == 0), nil
	case kind == weft.OpGet && empty, kind == weft.OpDelete && empty:
		return only(runs, ok(false) && e.got() == 0), nil
	case kind == weft.OpGet && ok(true), kind == weft.OpPutNew && !empty && ok(false):
		return show(runs, e), nil
	case kind == weft.OpDelete && ok(true):
		return remove(runs), nil
	case kind == weft.OpDeleteAll && empty:
		return only(runs, ok(false) && (!e.returns.Counts || e.removed == 0)), nil
	case kind == weft.OpDeleteAll && ok(true) && (!e.returns.Counts || e.removed > 0):
		e.returns.OK, e.removed = false, e.removed-1
		return remove(runs), &e
	case kind == getAll:
		return list(runs, e.all), nil
	}
	return nil, nil
}

// got returns the value that an operation returned, or 0.
func (e *event) got() uint64 {
	if e.returns.Vals && (e.op.Kind == weft.OpGet || e.op.Kind == weft.OpPutNew) {
		return e.val
	}
	return 0
}

// only returns a list with state s, or an empty list if s is not possible.
func only[S any](s S, possible bool) []S {
	if !possible {
		return nil
	}
	return []S{s}
}

// add returns runs with value v appended to the run of its batch, after the runs of earlier
// batches.
func add(runs []run, batch int, v uint64) []run {
	last := run{batch: batch}
	for n := len(runs); n > 0 && runs[n-1].batch == batch; n-- {
		runs, last.vals = runs[:n-1], append(last.vals, runs[n-1].vals...)
	}
	last.vals = append(last.vals, v)
	return append(slices.Clip(runs), last)
}

// show returns the states in which operation e may have returned its value as the first value.
func show(runs []run, e event) [][]run {
	front, got := runs[0], e.got()
	switch {
	case got == 0:
		return only(runs, !e.returns.Vals)
	case !slices.Contains(front.vals, got) || front.first != 0 && front.first != got:
		return nil
	case front.batch != e.batch && len(front.vals) > 1:
		runs = slices.Clone(runs)
		runs[0].first = got
	}
	return only(runs, true)
}

// remove returns the states after the first value is removed. If the first value is unknown, it may
// be any value of the first run.
func remove(runs []run) (next [][]run) {
	front := runs[0]
	for i, v := range front.vals {
		switch {
		case front.first != 0 && front.first != v:
		case len(front.vals) == 1:
			next = append(next, runs[1:])
		default:
			vals := slices.Delete(slices.Clone(front.vals), i, i+1)
			next = append(next, append([]run{{batch: front.batch, vals: vals}}, runs[1:]...))
		}
	}
	return next
}

// list returns the state after an operation has listed all values, which reveals their order.
func list(runs []run, all []uint64) [][]run {
	var next []run
	for _, r := range runs {
		n := len(r.vals)
		if n > len(all) || r.first != 0 && r.first != all[0] {
			return nil
		}
		for _, v := range all[:n] {
			if !slices.Contains(r.vals, v) {
				return nil
			}
			next = append(next, run{batch: r.batch, vals: []uint64{v}})
		}
		all = all[n:]
	}
	return only(next, len(all) == 0)
}

// keyMulti implements Key. Values that are not live are only counted.
func keyMulti(runs []run, live func(any) bool) string {
	var key []byte
	for _, r := range runs {
		vals := slices.DeleteFunc(slices.Clone(r.vals), func(v uint64) bool { return !live(v) })
		slices.Sort(vals)
		first := 0
		if r.first != 0 {
			first = 2 + slices.Index(vals, r.first)
		}
		for _, n := range []int{r.batch, len(r.vals), len(vals), first} {
			key = binary.AppendUvarint(key, uint64(n))
		}
		for _, v := range vals {
			key = binary.AppendUvarint(key, uint64(v))
		}
	}
	return string(key)
}

func hintMulti(e event) Hint {
	kind, yes, no, count := e.op.Kind, e.returns.OK && e.ok, e.returns.OK && !e.ok, -1
	if e.returns.Counts && kind == weft.OpDeleteAll {
		count = e.removed
	}
	adds, removes := kind == weft.OpPut || kind == weft.OpPutNew, kind == weft.OpDelete || kind == weft.OpDeleteAll
	h := Hint{
		Pure: no || count == 0 || !adds && !removes, Size: -1,
		Class: fmt.Sprint(kind, e.batch, yes, no, count, e.got(), e.returns.Vals, e.all),
	}
	switch {
	case h.Pure:
	case adds:
		h.Provides, h.MaxDelta = []any{e.op.Value}, 1
		if yes || kind == weft.OpPut {
			h.MinDelta = 1
		}
	case count > 0:
		h.MinDelta, h.MaxDelta = -count, -count
	default:
		if h.MinDelta = -1; kind == weft.OpDeleteAll {
			h.MinDelta = -1 << 30
		}
		if yes {
			h.MaxDelta = -1
		}
	}
	switch {
	case kind == getAll:
		h.Size = len(e.all)
		for _, v := range e.all {
			h.Requires = append(h.Requires, v)
		}
	case kind == weft.OpPutNew && yes:
		h.Size = 1
	case kind == weft.OpDeleteAll, no && (kind == weft.OpGet || kind == weft.OpDelete):
		h.Size = 0
	case e.got() != 0 || kind == weft.OpGet && yes && e.returns.Vals:
		h.Requires = []any{e.got()}
	}
	return h
}
