package dst

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// placed is a value together with the batch that added it. A list of them has the slot order of a
// key.
type placed struct {
	batch int
	val   uint64
}

// front returns the indexes of values that an operation of a batch may find first: all values that
// its own batch added, or else the first value.
func front(list []placed, batch int) []int {
	var at []int
	for i, p := range list {
		if i == 0 || p.batch == batch && list[0].batch == batch {
			at = append(at, i)
		}
	}
	return at
}

// multiHistory generates a history of one key in a multimap. If wild is set, batches return
// different columns.
func multiHistory(rng *rand.Rand, batches, maxOps int, fixed, wild bool) (h []event) {
	var list []placed
	next, now := uint64(0), int64(0)
	counts := rng.IntN(2) == 0
	for batch := range batches {
		n := 1 + rng.IntN(maxOps)
		start := now + 1
		spread := 1 + rng.Int64N(int64(20*n))
		var part []event
		returns := Returns{OK: true, Vals: true}
		if wild {
			returns = Returns{OK: rng.IntN(2) == 0, Vals: rng.IntN(2) == 0}
		}
		for range n {
			now += 10
			next++
			e := event{batch: 2 * batch, maybeFull: fixed, returns: returns, start: max(start, now-rng.Int64N(spread)), end: now + rng.Int64N(spread)}
			e.op = weft.Op[uint64, uint64]{Kind: pick(rng, true), Key: 1, Value: next}
			at := front(list, 2*batch)
			present := len(at) > 0
			// Take possible steps of running DeleteAlls.
			for i := range part {
				if o := &part[i]; o.op.Kind == weft.OpDeleteAll && o.removed < 0 && present {
					list = slices.Delete(list, at[0], at[0]+1)
					o.removed--
					at = front(list, 2*batch)
					present = len(at) > 0
				}
			}
			full := fixed && rng.IntN(4) == 0
			switch e.op.Kind {
			case weft.OpGet:
				if e.ok = present; present {
					e.val = list[at[rng.IntN(len(at))]].val
				}
			case weft.OpPut:
				if e.ok = !full; e.ok {
					list = insert(rng, list, placed{2 * batch, next})
				}
			case weft.OpPutNew:
				if present {
					e.val = list[at[rng.IntN(len(at))]].val
				} else if e.ok = !full; e.ok {
					list = append(list, placed{2 * batch, next})
				}
			case weft.OpDelete:
				if e.ok = present; present {
					i := at[rng.IntN(len(at))]
					list = slices.Delete(list, i, i+1)
				}
			case weft.OpDeleteAll:
				if e.removed = len(list); rng.IntN(3) == 0 { // it continues for a while
					e.removed = -1
					break
				}
				list = nil
			}
			part = append(part, e)
		}
		now += 10
		for i := range part { // running DeleteAlls end here
			if e := &part[i]; e.op.Kind == weft.OpDeleteAll && e.removed < 0 {
				e.removed = -1 - e.removed + len(list)
				list, e.end = nil, now
			}
			if e := &part[i]; e.op.Kind == weft.OpDeleteAll {
				e.ok = e.removed > 0
				e.returns = Returns{OK: !counts, Counts: counts}
			}
			part[i].end = min(part[i].end, now)
		}
		now += 10
		rng.Shuffle(n, func(i, j int) { part[i], part[j] = part[j], part[i] })
		h = append(h, part...)
		if batch == batches-1 || rng.IntN(3) == 0 {
			e := event{batch: 2*batch + 1, start: now, end: now + 1, op: weft.Op[uint64, uint64]{Kind: getAll, Key: 1}}
			for _, p := range list {
				e.all = append(e.all, p.val)
			}
			h = append(h, e)
			now += 10
		}
	}
	return h
}

// insert inserts a value at a random index among the values of its batch.
func insert(rng *rand.Rand, list []placed, p placed) []placed {
	at := len(list)
	for at > 0 && list[at-1].batch == p.batch && rng.IntN(2) == 0 {
		at--
	}
	return slices.Insert(list, at, p)
}

func spoil(rng *rand.Rand, h []event) {
	e := &h[rng.IntN(len(h))]
	o := &h[rng.IntN(len(h))]
	switch rng.IntN(6) {
	case 0:
		e.ok = !e.ok
	case 1:
		e.val = rng.Uint64N(uint64(len(h) + 2))
	case 2:
		e.ok, o.ok, e.val, o.val = o.ok, e.ok, o.val, e.val
	case 3:
		e.removed += 1 - 2*rng.IntN(2)
	case 4:
		if n := len(e.all); n > 1 {
			i := rng.IntN(n - 1)
			e.all = slices.Clone(e.all)
			e.all[i], e.all[i+1] = e.all[i+1], e.all[i]
		}
	}
}

// slotModel returns a model of multimaps without runs. A state is the list of values in slot order.
func slotModel() *Model[[]placed, event] {
	return &Model[[]placed, event]{
		Key: func(s []placed, _ func(any) bool) string { return fmt.Sprint(s) },
		Step: func(s []placed, e event) ([][]placed, *event) {
			next := stepMany(s, e)
			if e.op.Kind != weft.OpDeleteAll || len(s) == 0 {
				return next, nil
			}
			e.returns.OK, e.removed = false, e.removed-1
			return next, &e
		},
	}
}

// stepMany returns the possible contents after an operation, given its results. It returns none if
// the results are impossible.
func stepMany(list []placed, e event) (next [][]placed) {
	at := front(list, e.batch)
	present := len(at) > 0
	removed := func() {
		for _, i := range at {
			next = append(next, slices.Delete(slices.Clone(list), i, i+1))
		}
	}
	ok := func(is bool) bool { return !e.returns.OK || e.ok == is }
	full := e.maybeFull && e.returns.OK && !e.ok
	none := !e.returns.Vals || e.val == 0
	finds := present && (!e.returns.Vals || slices.ContainsFunc(at, func(i int) bool { return list[i].val == e.val }))
	switch e.op.Kind {
	case weft.OpGet:
		if ok(present) && (finds || !present && none) {
			next = append(next, list)
		}
	case weft.OpPut:
		if !ok(true) {
			if full {
				next = append(next, list)
			}
			break
		}
		for i := len(list); i >= 0; i-- {
			next = append(next, slices.Insert(slices.Clone(list), i, placed{e.batch, e.op.Value}))
			if i > 0 && list[i-1].batch != e.batch {
				break
			}
		}
	case weft.OpPutNew:
		switch {
		case ok(false) && finds, !present && full && none:
			next = append(next, list)
		case !present && ok(true) && none:
			next = append(next, []placed{{e.batch, e.op.Value}})
		}
	case weft.OpDelete:
		if present && ok(true) {
			removed()
		} else if !present && ok(false) {
			next = append(next, list)
		}
	case weft.OpDeleteAll:
		if e.returns.OK && e.ok != present || e.returns.Counts && (e.removed != 0) != present {
			break
		}
		if removed(); !present {
			next = append(next, list)
		}
	case getAll:
		if slices.EqualFunc(list, e.all, func(p placed, v uint64) bool { return p.val == v }) {
			next = append(next, list)
		}
	}
	return next
}

// The values of a batch must keep an order once an operation has seen it.
func TestRuns(t *testing.T) {
	of := func(batch int, e event) event {
		e.batch, e.start, e.end = batch, int64(2*batch), int64(2*batch+1)
		return e
	}
	list := func(batch int, all ...uint64) event {
		return of(batch, event{op: weft.Op[uint64, uint64]{Kind: getAll, Key: 1}, all: all})
	}
	put := func(v uint64) event { return of(1, at(0, 0, weft.OpPut, v, true, 0)) }
	get := func(batch int, v uint64) event { return of(batch, at(0, 0, weft.OpGet, 0, true, v)) }
	remove := of(3, at(0, 0, weft.OpDelete, 0, true, 0))
	for _, test := range []struct {
		name  string
		h     []event
		legal bool
	}{
		{"any value may come first", []event{put(5), put(6), get(2, 6)}, true},
		{"any while the batch runs", []event{put(5), put(6), get(1, 5), get(1, 6), get(1, 5)}, true},
		{"one only from then on", []event{put(5), put(6), get(2, 6), get(4, 5)}, false},
		{"the first one goes", []event{put(5), put(6), get(2, 6), remove, list(4, 5)}, true},
		{"another one goes", []event{put(5), put(6), get(2, 6), remove, list(4, 6)}, false},
		{"a list shows the order", []event{put(5), put(6), put(7), list(2, 6, 7, 5), remove, list(4, 7, 5)}, true},
		{"and nobody changes it", []event{put(5), put(6), put(7), list(2, 6, 7, 5), remove, list(4, 5, 7)}, false},
		{"what is first is first in a list", []event{put(5), put(6), get(2, 6), list(4, 5, 6)}, false},
	} {
		if _, err := multiModel().Check(test.h, func(i, j int) bool { return test.h[i].end < test.h[j].start }); (err == nil) != test.legal {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// The search and porcupine must agree, for orders by time and for partial orders. Porcupine judges
// with both models.
func TestMultiSearchAgreesWithPorcupine(t *testing.T) {
	var byTime, byEdges agreement
	m := multiModel()
	for seed := range trials(1300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fixed := rng.IntN(4) == 0
		h := multiHistory(rng, 1+rng.IntN(3), 4, fixed, rng.IntN(2) == 0)
		spoil(rng, h)
		agree(t, &byTime, m, m, h, times(h))
		agree(t, &byTime, m, slotModel(), h, times(h))
		agree(t, &byEdges, m, m, h, sparse(rng, len(h), times(h)))
	}
	byTime.requireBoth(t)
	byEdges.requireBoth(t)
}

// The search must take few steps for histories of realistic size, including histories with one long
// batch.
func TestMultiSearchIsShort(t *testing.T) {
	few, many := 0, 0
	m := multiModel()
	for seed := range trials(200) {
		few = max(few, short(t, m, seed, multiHistory(rand.New(rand.NewPCG(seed, 4)), 3, 16, false, false), 4000))
		if seed%20 == 0 {
			many = max(many, short(t, m, seed, multiHistory(rand.New(rand.NewPCG(seed, 4)), 1, 260, false, false), 4000))
		}
	}
	t.Logf("longest searches: %d steps for batches of 16 operations, %d of 260", few, many)
}

// hostMulti is a multimap in host memory that implements the interface of a multimap on the device.
// If broken, it removes the latest pair first for keys with a certain bit.
type hostMulti struct {
	m      map[uint64][]uint64
	broken bool
}

func (h *hostMulti) Submit(s *device.Stream, c *Columns[uint64, uint64]) (Returns, error) {
	n := c.Keys.Len()
	keys, vals, ok, removed, kinds := make([]uint64, n), make([]uint64, n), make([]bool, n), make([]uint32, n), make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = c.Kind
	}
	err := errors.Join(c.Keys.CopyTo(context.Background(), s, keys), c.Vals.CopyTo(context.Background(), s, vals))
	if c.Kinds.Len() > 0 {
		err = errors.Join(err, c.Kinds.CopyTo(context.Background(), s, kinds))
	}
	for i, k := range keys {
		list, put := h.m[k], vals[i]
		present := len(list) > 0
		if vals[i] = 0; present && (kinds[i] == weft.OpGet || kinds[i] == weft.OpPutNew) {
			vals[i] = list[0]
		}
		ok[i] = present != (kinds[i] == weft.OpPutNew) || kinds[i] == weft.OpPut
		switch {
		case kinds[i] == weft.OpPut, kinds[i] == weft.OpPutNew && !present:
			h.m[k] = append(list, put)
		case kinds[i] == weft.OpDelete && present && h.broken && k&2 != 0:
			h.m[k] = list[:len(list)-1]
		case kinds[i] == weft.OpDelete && present:
			h.m[k] = list[1:]
		case kinds[i] == weft.OpDeleteAll:
			removed[i] = uint32(len(list))
			delete(h.m, k)
		}
	}
	return Returns{OK: true, Vals: c.Kinds.Len() > 0 || c.Kind == weft.OpGet, Counts: c.Kinds.Len() == 0 && c.Kind == weft.OpDeleteAll},
		errors.Join(err, c.Vals.CopyFrom(s, vals), c.OK.CopyFrom(s, ok), c.Removed.CopyFrom(s, removed))
}

func (h *hostMulti) GetAllOn(s *device.Stream, keys device.Slice[uint64], _ device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[uint64]) error {
	k, at, all := make([]uint64, keys.Len()), make([]uint64, keys.Len()+1), make([]uint64, vals.Len())
	err := keys.CopyTo(context.Background(), s, k)
	for i := range k {
		at[i+1] = at[i] + uint64(copy(all[at[i]:], h.m[k[i]]))
	}
	return errors.Join(err, offsets.CopyFrom(s, at), vals.CopyFrom(s, all))
}

func (h *hostMulti) Sync(context.Context) error { return nil }
func (h *hostMulti) Close() error               { return nil }
func (h *hostMulti) Len() (n int) {
	for _, list := range h.m {
		n += len(list)
	}
	return n
}

// A correct multimap must pass, and maintenance between batches must run. A multimap that removes
// the wrong pair must be detected.
func TestFindMulti(t *testing.T) {
	done, broken := 0, false
	cfg := Config[uint64, uint64]{
		Multi: true,
		New: func(device.Device, Shape) (Subject[uint64, uint64], error) {
			return &hostMulti{map[uint64][]uint64{}, broken}, nil
		},
		Upkeep: []Upkeep[uint64, uint64]{{Name: "counted", Do: func(Subject[uint64, uint64]) error { done++; return nil }}},
	}
	if f, tried := Find(cfg); f != nil || done == 0 {
		t.Errorf("a multimap that works: %+v after %v; upkeep %d times", f, tried, done)
	}
	broken = true
	f, _ := Find(cfg)
	if f == nil {
		t.Fatal("a multimap that removes the latest pair passes")
	}
	if f.Ops > 5 || !strings.Contains(f.Shrunk, "Delete") {
		t.Errorf("shrunk to %d operations: %v\n%s", f.Ops, f.Err, f.Shrunk)
	}
}
