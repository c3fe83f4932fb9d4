package linear

import (
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/deal"
)

// changer runs the changes of one piece of a batch, or a share of them.
type changer[K, SK storedKey, V, SV storedVal] struct {
	table cpuTable[SK, SV]
	to    *counters
	part  deal.Share

	keys  []K
	vals  []V
	kinds []weft.OpKind
	out   []V
	ok    []bool
	kind  weft.OpKind
	reuse bool

	late        []uint32 // operations that need lines of others
	failed      []uint32 // operations that found no room
	fresh, live int64    // slots taken that were empty; change of the number of keys
}

func newChanger[K, SK storedKey, V, SV storedVal](g *generation, b *batch.Batch) *changer[K, SK, V, SV] {
	c := &changer[K, SK, V, SV]{
		table: tableOf[SK, SV](g),
		to:    countersOf(g),
		keys:  batch.View[K](b.Keys.Host),
		vals:  batch.View[V](b.Vals.Host),
		kinds: batch.View[weft.OpKind](b.Kinds.Host),
		out:   batch.View[V](b.Out.Host),
		ok:    batch.View[bool](b.OK.Host),
		kind:  b.Kind,
		reuse: b.Flags&batch.Reuse != 0,
	}
	c.part = deal.Share{Hi: g.lines + 1}
	return c
}

// run runs operations in order. While a group is worked on, the cache lines of
// the next are on their way.
func (c *changer[K, SK, V, SV]) run(ops []uint32) {
	var homes [2][group]uint32
	c.ask(ops[:min(group, len(ops))], &homes[0])
	for lo, turn := 0, 0; lo < len(ops); lo, turn = lo+group, turn^1 {
		hi := min(lo+group, len(ops))
		c.ask(ops[hi:min(hi+group, len(ops))], &homes[turn^1])
		for j, i := range ops[lo:hi] {
			c.one(i, homes[turn][j])
		}
	}
}

// ask works out where the paths of a group begin, and prefetches it.
func (c *changer[K, SK, V, SV]) ask(ops []uint32, homes *[group]uint32) {
	for j, i := range ops {
		homes[j] = home(c.table.geometry, SK(c.keys[i]))
	}
	c.table.prefetch(homes[:len(ops)])
}

// one runs one operation.
func (c *changer[K, SK, V, SV]) one(i, home uint32) {
	kind := c.kind
	if c.kinds != nil {
		kind = c.kinds[i]
	}
	key := stored(SK(c.keys[i]))
	var s spot[SK, SV]
	switch at := c.table.nearSlot(key, home); {
	case at == nil:
		if s = c.table.search(c.part, home, key); s.late {
			c.late = append(c.late, i)
			return
		}
	case at.key == key:
		s.live = at
	default:
		s.free = at
	}
	ok, failed := false, false
	switch {
	case s.live != nil:
		ok = c.present(i, kind, s.live)
	case kind == weft.OpPut || kind == weft.OpPutNew:
		ok = c.insert(i, key, s)
		failed = !ok
	}
	if c.ok != nil {
		c.ok[i] = ok
	}
	// One that found no room may run again, with the value that it brought:
	// its output may lie there.
	answers := kind == weft.OpGet || kind == weft.OpPutNew
	if c.out != nil && !failed && !(answers && s.live != nil) {
		var none V
		c.out[i] = none
	}
}

// present runs an operation whose key is there.
func (c *changer[K, SK, V, SV]) present(i uint32, kind weft.OpKind, s *slot[SK, SV]) (ok bool) {
	switch kind {
	case weft.OpGet, weft.OpPutNew:
		if c.out != nil {
			c.out[i] = *(*V)(unsafe.Pointer(&s.val))
		}
		return kind == weft.OpGet
	case weft.OpPut:
		c.set(i, s)
	case weft.OpDelete:
		kill(s)
		c.live--
		return true
	}
	return false
}

// insert runs a Put or PutNew whose key is absent.
func (c *changer[K, SK, V, SV]) insert(i uint32, key SK, s spot[SK, SV]) bool {
	at := s.free
	switch {
	case c.reuse && s.dead != nil:
		at = s.dead
	case !c.reuse && s.own != nil:
		at = s.own
	case at == nil:
		c.failed = append(c.failed, i)
		return false
	default:
		c.fresh++
	}
	at.key = key
	c.set(i, at)
	c.live++
	return true
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
func (c *changer[K, SK, V, SV]) count() {
	c.to.live += uint64(c.live)
	c.to.used += uint64(c.fresh)
}
