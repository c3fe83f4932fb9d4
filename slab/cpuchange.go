package slab

import (
	"context"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Tuning of changes.
const (
	// pieceOps is the number of changes that are dealt out to the cores at a
	// time; their keys and the deal stay in the second-level cache. Contexts
	// are looked at between pieces.
	pieceOps = 1 << 17

	// aloneOps is the number of changes below which dealing them out costs
	// more than it gains.
	aloneOps = 1 << 11
)

func (e *cpuEngine[K, SK, V, SV]) change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	w := e.widths()
	for lo := 0; lo < b.N; lo += pieceOps {
		if err := ctx.Err(); err != nil {
			return lo, failed, err
		}
		hi := min(lo+pieceOps, b.N)
		c := newChanger[K, SK, V, SV](e.gen, b.Sub(lo, hi, w))
		if hi-lo < aloneOps || e.dev.Properties().Units == 1 {
			c.run(e.deal.All(hi - lo))
		} else {
			e.changeTogether(c)
		}
		c.count(countersOf(e.gen))
		for _, i := range c.failed {
			failed = append(failed, uint32(lo)+i)
		}
	}
	return b.N, failed, nil
}

// changeTogether runs the changes of a piece on all cores.
func (e *cpuEngine[K, SK, V, SV]) changeTogether(c *changer[K, SK, V, SV]) {
	shares := e.deal.Out(e.dev, c.table.buckets, len(c.keys), func(lo, hi int, places []uint32) {
		for i, k := range c.keys[lo:hi] {
			places[i] = bucketOf(c.table.geometry, SK(k))
		}
	})
	failed := make([][]uint32, len(shares))
	var fresh, live atomic.Int64
	e.dev.Parallel(len(shares), 1, func(i, _ int) {
		own := *c
		own.units = c.table.units.Worker()
		own.run(shares[i].Ops)
		failed[i] = own.failed
		fresh.Add(own.fresh)
		live.Add(own.live)
	})
	c.fresh, c.live = fresh.Load(), live.Load()
	c.failed = slices.Concat(failed...)
	slices.Sort(c.failed)
}

// changeOn waits in any case, so it may as well return what found no room.
func (e *cpuEngine[K, SK, V, SV]) changeOn(s *device.Stream, b *batch.Batch, _ bool) (failed []uint32, err error) {
	if err := s.Sync(context.Background()); err != nil {
		return nil, err
	}
	_, failed, err = e.change(context.Background(), b)
	return failed, err
}

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK storedKey, V, SV storedVal] struct {
	table cpuTable[SK, SV]
	units alloc.Worker

	keys   []K
	vals   []V
	kinds  []weft.OpKind
	out    []V
	ok     []bool
	counts []uint32
	kind   weft.OpKind
	reuse  bool
	multi  bool
	dead   bool // there may be dead slots

	failed      []uint32 // operations that found no room
	fresh, live int64    // slots taken that were empty; change of the number of pairs
}

func newChanger[K, SK storedKey, V, SV storedVal](g *generation, b *batch.Batch) *changer[K, SK, V, SV] {
	now := countersOf(g)
	c := &changer[K, SK, V, SV]{
		table:  tableOf[SK, SV](g),
		keys:   batch.View[K](b.Keys.Host),
		vals:   batch.View[V](b.Vals.Host),
		kinds:  batch.View[weft.OpKind](b.Kinds.Host),
		out:    batch.View[V](b.Out.Host),
		ok:     batch.View[bool](b.OK.Host),
		counts: batch.View[uint32](b.Counts.Host),
		kind:   b.Kind,
		reuse:  b.Flags&batch.Reuse != 0,
		multi:  b.Flags&flagMulti != 0,
		dead:   now.used > now.live || b.Kinds.There(),
	}
	c.units = c.table.units.Worker()
	return c
}

// run runs operations in order. While a group is worked on, the base slabs of
// the next are on their way.
func (c *changer[K, SK, V, SV]) run(ops []uint32) {
	var bases [2][group]unsafe.Pointer
	c.ask(ops[:min(group, len(ops))], &bases[0])
	for lo, turn := 0, 0; lo < len(ops); lo, turn = lo+group, turn^1 {
		hi := min(lo+group, len(ops))
		c.ask(ops[hi:min(hi+group, len(ops))], &bases[turn^1])
		for j, i := range ops[lo:hi] {
			c.one(i, bases[turn][j])
		}
	}
}

// ask works out the base slabs of a group, and prefetches them.
func (c *changer[K, SK, V, SV]) ask(ops []uint32, bases *[group]unsafe.Pointer) {
	for j, i := range ops {
		bases[j] = c.table.base(bucketOf(c.table.geometry, SK(c.keys[i])))
	}
	prefetchSlabs(bases[:len(ops)])
}

// outcome is what became of an operation.
type outcome struct {
	ok       bool
	answered bool   // the value that was there has been written
	full     bool   // there was no room
	removed  uint32 // pairs, by OpDeleteAll
}

// one runs one operation and reports what became of it.
func (c *changer[K, SK, V, SV]) one(i uint32, base unsafe.Pointer) {
	kind := c.kind
	if c.kinds != nil {
		kind = c.kinds[i]
	}
	o := c.do(i, kind, stored(SK(c.keys[i])), base)
	if o.full {
		c.failed = append(c.failed, i)
	}
	if c.ok != nil {
		c.ok[i] = o.ok
	}
	if c.counts != nil {
		c.counts[i] = o.removed
	}
	// One that found no room may run again, with the value that it brought:
	// its output may lie there.
	if c.out != nil && !o.answered && !o.full {
		var none V
		c.out[i] = none
	}
}

func (c *changer[K, SK, V, SV]) do(i uint32, kind weft.OpKind, key SK, base unsafe.Pointer) outcome {
	if c.multi {
		switch kind {
		case weft.OpPut:
			return c.add(i, key, base)
		case weft.OpDeleteAll:
			n := c.table.killAll(base, key)
			c.live -= int64(n)
			return outcome{ok: n > 0, removed: n}
		}
	}
	if s := c.table.find(base, key); s != nil {
		return c.present(i, kind, s)
	}
	if kind == weft.OpPut || kind == weft.OpPutNew {
		return c.insert(i, key, base)
	}
	return outcome{}
}

// present runs an operation whose key is there.
func (c *changer[K, SK, V, SV]) present(i uint32, kind weft.OpKind, s *slot[SK, SV]) outcome {
	switch kind {
	case weft.OpGet, weft.OpPutNew:
		if c.out != nil {
			c.out[i] = *(*V)(unsafe.Pointer(&s.val))
		}
		return outcome{ok: kind == weft.OpGet, answered: true}
	case weft.OpPut:
		c.set(i, s)
	case weft.OpDelete, weft.OpDeleteAll:
		kill(s)
		c.live--
		return outcome{ok: true, removed: 1}
	}
	return outcome{}
}

// insert runs a Put or PutNew whose key is absent. In a map a dead slot will
// do, but among deletes only the key's own.
func (c *changer[K, SK, V, SV]) insert(i uint32, key SK, base unsafe.Pointer) outcome {
	if c.dead && !c.multi {
		at, own := c.table.graves(base, key)
		if !c.reuse {
			at = own
		}
		if at != nil {
			at.key = key
			c.set(i, at)
			c.live++
			return outcome{ok: true}
		}
	}
	return c.add(i, key, base)
}

// add puts operation i's pair at the end of its bucket, if there is room.
func (c *changer[K, SK, V, SV]) add(i uint32, key SK, base unsafe.Pointer) outcome {
	at := c.table.end(base, &c.units)
	if at == nil {
		return outcome{full: true}
	}
	at.key = key
	c.set(i, at)
	c.live++
	c.fresh++
	return outcome{ok: true}
}

// set writes the value of operation i.
func (c *changer[K, SK, V, SV]) set(i uint32, s *slot[SK, SV]) {
	if c.vals == nil {
		return
	}
	var none SV
	if unsafe.Sizeof(c.vals[0]) < unsafe.Sizeof(none) {
		s.val = none
	}
	*(*V)(unsafe.Pointer(&s.val)) = c.vals[i]
}

// count adds what was done to the table's counters.
func (c *changer[K, SK, V, SV]) count(to *counters) {
	to.live += uint64(c.live)
	to.used += uint64(c.fresh)
}
