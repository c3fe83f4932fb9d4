package gphash

import (
	"hash/crc32"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
)

// Values lie in units of the pool, each of which has a word for each of its values,
// and behind these the values: the word is a checksum and the length. So a value of
// 128 bytes is one line of memory, and one that nobody wants verified is read without
// its checksum.
//
// Which memory is free is not in the pool. What control words name is in use, all else
// is free: that is found out when a pool is opened, and cannot be wrong.
type values struct {
	unitLayout
	mem   *pm.Memory
	first uint64 // word at which unit 0 begins
	space space
	parts []region // by the first bits of a hash
	alone bool     // one writer is at work, who may take from any of them
}

// unitLayout is where the values of a unit are, in words.
type unitLayout struct {
	unit  uint64 // words of a unit
	size  uint64 // bytes of a value
	words uint64 // of a value
	per   uint64 // values in a unit
	at    uint64 // before the first value
}

// line is what large values are aligned to, in words: 128 bytes.
const line = 16

func newUnitLayout(unit, size uint64) unitLayout {
	l := unitLayout{unit: unit, size: size, words: pm.WordsOf(int(size))}
	l.per = unit / (l.words + 1)
	l.at = l.per
	if l.words >= line {
		l.at = (l.per + line - 1) / line * line
		l.per = min(l.per, (unit-l.at)/l.words)
	}
	return l
}

func newValues(mem *pm.Memory, first, unit, size uint64) *values {
	v := &values{unitLayout: newUnitLayout(unit, size), mem: mem, first: first}
	v.space.owner = make([]unitOwner, (mem.Words()-first)/unit)
	v.parts = make([]region, 1<<regionBits)
	for i := range v.parts {
		v.parts[i].values = v
	}
	return v
}

// check is the word of a value at a block, of a key of a hash.
func (v *values) check(block, hash uint64, value []byte) uint64 {
	crc := crc32.Checksum(value, castagnoli)
	mixed := (hash ^ block*0x9e3779b97f4a7c15) * 0xd1b54a32d192ed03
	return uint64(len(value))<<32 | uint64(crc^uint32(mixed>>32))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// locate is which value of which unit begins at a word; ok is false if none does.
func (v *values) locate(block uint64) (unit, i uint64, ok bool) {
	if block < v.first {
		return 0, 0, false
	}
	unit, at := (block-v.first)/v.unit, (block-v.first)%v.unit
	if unit >= uint64(len(v.space.owner)) || at < v.at || (at-v.at)%v.words != 0 || (at-v.at)/v.words >= v.per {
		return 0, 0, false
	}
	return unit, (at - v.at) / v.words, true
}

// write writes a value and its checksum.
func (v *values) write(block, hash uint64, value []byte) {
	unit, i, _ := v.locate(block)
	v.mem.Write(block, value)
	v.mem.Store(v.first+unit*v.unit+i, v.check(block, hash, value))
}

func (v *values) read(block uint64, value []byte) { v.mem.Read(block, value) }

// intact reports whether a value is what has been written for a key of a hash.
func (v *values) intact(block, hash uint64, buffer []byte) bool {
	unit, i, ok := v.locate(block)
	if !ok {
		return false
	}
	v.read(block, buffer)
	return v.mem.Load(v.first+unit*v.unit+i) == v.check(block, hash, buffer)
}

// ---- the units ------------------------------------------------------------------

// space hands out units: to levels from the beginning of the pool, to values from its
// end.
type space struct {
	mu    sync.Mutex
	owner []unitOwner
}

type unitOwner struct {
	level  bool
	values atomic.Pointer[extent]
}

func (o *unitOwner) free() bool { return !o.level && o.values.Load() == nil }

// one takes a unit for values.
func (s *space) one(e *extent) (unit uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.owner) - 1; i >= 0; i-- {
		if s.owner[i].free() {
			s.owner[i].values.Store(e)
			return uint64(i), true
		}
	}
	return 0, false
}

// run takes n units in a row for a level.
func (s *space) run(n uint64) (first uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := uint64(0)
	for i := range s.owner {
		if have++; !s.owner[i].free() {
			have = 0
		}
		if have == n {
			first = uint64(i) + 1 - n
			s.level(first, n)
			return first, true
		}
	}
	return 0, false
}

// level marks units as those of a level. Nobody else is at work, or has the mutex.
func (s *space) level(first, n uint64) {
	for i := range n {
		s.owner[first+i].level = true
	}
}

// extent is what a unit of values is known as; several cores may ask at once.
func (s *space) extent(unit uint64, fresh func() *extent) *extent {
	o := &s.owner[unit]
	if e := o.values.Load(); e != nil {
		return e
	}
	e := fresh()
	e.unit = unit
	o.values.CompareAndSwap(nil, e)
	return o.values.Load()
}

func (s *space) giveBack(first, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		s.owner[first+i].level = false
		s.owner[first+i].values.Store(nil)
	}
}

// ---- the values of a unit ---------------------------------------------------------

// extent is a unit that has values.
type extent struct {
	unit uint64
	used []uint64 // a bit for each value
	left uint64   // that are free
	from int      // no word of used before this one has a zero
	of   *region  // that takes from it; nil if none are free
}

func (v *values) newExtent() *extent {
	e := &extent{used: make([]uint64, (v.per+63)/64), left: v.per}
	if tail := v.per % 64; tail > 0 {
		e.used[len(e.used)-1] = ^uint64(0) << tail
	}
	return e
}

// mark says that a value is in use, and reports whether it was free.
func (e *extent) mark(i uint64) (fresh bool) {
	if atomic.OrUint64(&e.used[i/64], 1<<(i%64))>>(i%64)&1 != 0 {
		return false
	}
	atomic.AddUint64(&e.left, ^uint64(0))
	return true
}

// take finds a free value, of which there is one.
func (e *extent) take() (i uint64) {
	for e.used[e.from] == ^uint64(0) {
		e.from++
	}
	bit := bits.TrailingZeros64(^e.used[e.from])
	e.used[e.from] |= 1 << bit
	e.left--
	return uint64(e.from*64 + bit)
}

func (e *extent) free(i uint64) {
	e.used[i/64] &^= 1 << (i % 64)
	e.from = min(e.from, int(i/64))
	e.left++
}

// region is what one writer at a time takes values from, and where it puts what the
// next batch may use again.
type region struct {
	values  *values
	extents []*extent // with free values
	stale   []uint64  // values that have been replaced
	tombs   []uint64  // control words of slots
}

// region is that of a hash: all keys of a region of every level belong to one.
func (v *values) region(h uint64, bits uint) *region {
	return &v.parts[h>>(64-bits)<<(regionBits-bits)]
}

// shadow is what is known of values before any has been found in use.
func (v *values) shadow() *values {
	fresh := newValues(v.mem, v.first, v.unit, v.size)
	for i := range v.space.owner {
		fresh.space.owner[i].level = v.space.owner[i].level
	}
	return fresh
}

// share deals the units that have free values out to the regions, when all that are
// in use have been marked.
func (v *values) share(bits uint) {
	for i := range v.space.owner {
		if e := v.space.owner[i].values.Load(); e != nil && e.left > 0 {
			v.parts[uint64(i)%(1<<bits)<<(regionBits-bits)].adopt(e)
		}
	}
}

// take returns memory for a value.
func (r *region) take() (block uint64, err error) {
	v := r.values
	if len(r.extents) == 0 {
		e, ok := v.fresh()
		if !ok && v.alone {
			e, ok = v.borrowed()
		}
		if !ok {
			return 0, errNoSpace
		}
		r.adopt(e)
	}
	e := r.extents[len(r.extents)-1]
	i := e.take()
	if e.left == 0 {
		r.extents, e.of = r.extents[:len(r.extents)-1], nil
	}
	return v.first + e.unit*v.unit + v.at + i*v.words, nil
}

// fresh is a unit that nothing has used.
func (v *values) fresh() (e *extent, ok bool) {
	e = v.newExtent()
	e.unit, ok = v.space.one(e)
	return e, ok
}

// borrowed is a unit with free values that another region has had: when no other is left.
func (v *values) borrowed() (*extent, bool) {
	for i := range v.parts {
		r := &v.parts[i]
		if n := len(r.extents); n > 0 {
			e := r.extents[n-1]
			r.extents = r.extents[:n-1]
			return e, true
		}
	}
	return nil, false
}

func (r *region) adopt(e *extent) {
	e.of = r
	r.extents = append(r.extents, e)
}

// replaced and buried remember what the next batch may use again.
func (r *region) replaced(block uint64) { r.stale = append(r.stale, block) }
func (r *region) buried(control uint64) { r.tombs = append(r.tombs, control) }

// free gives the memory of a value back; with the last one of a unit, the unit. No
// writer is at work but r's, and that only if it has just taken the memory.
func (r *region) free(block uint64) {
	v := r.values
	unit, i, _ := v.locate(block)
	e := v.space.owner[unit].values.Load()
	if e.free(i); e.of == nil {
		r.adopt(e)
	}
	if list := e.of.extents; e.left == v.per && len(list) > 1 {
		e.of.extents = slices.DeleteFunc(list, func(other *extent) bool { return other == e })
		v.space.giveBack(unit, 1)
	}
}

// release gives back the units in which no value is in use, of which regions keep one each.
func (v *values) release() {
	for i := range v.parts {
		r := &v.parts[i]
		r.extents = slices.DeleteFunc(r.extents, func(e *extent) bool {
			if e.left < v.per {
				return false
			}
			v.space.giveBack(e.unit, 1)
			return true
		})
	}
}

// recycle makes free what has been deleted and replaced before this batch: no writer
// is at work. A crash that keeps a tomb keeps nothing that recovery does not do again.
func (v *values) recycle() (tombs int) {
	for i := range v.parts {
		r := &v.parts[i]
		tombs += r.unbury()
		for _, block := range r.stale {
			r.free(block)
		}
		r.stale = r.stale[:0]
	}
	return tombs
}

// unbury makes the slots free that have been deleted, and counts them.
func (r *region) unbury() (n int) {
	for _, at := range r.tombs {
		c := control(r.values.mem.Load(at))
		r.values.mem.Store(at, uint64(c.next(empty, 0)))
	}
	n = len(r.tombs)
	r.tombs = r.tombs[:0]
	return n
}

// left is how many values there is memory for, besides so many units.
func (v *values) left(without uint64) (n uint64) {
	units := uint64(0)
	for i := range v.space.owner {
		if v.space.owner[i].free() {
			units++
		}
	}
	for i := range v.parts {
		for _, e := range v.parts[i].extents {
			n += e.left
		}
	}
	return n + (max(units, without)-without)*v.per
}
