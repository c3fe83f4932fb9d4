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
// its checksum. Records, which have these words themselves, are values like others to all
// that hands out memory; see records.go.
//
// Which memory is free is not in the pool. What control words name is in use, all else
// is free: that is found out when a pool is opened, and cannot be wrong.
type values struct {
	unitLayout
	records bool         // keys have records here, of any length
	classes []unitLayout // of units, by class; values of one length are of one
	mem     *pm.Memory
	first   uint64 // word at which unit 0 begins
	span    uint64 // words from there on at which a value may begin, without reaching beyond the pool
	space   space
	parts   []region // by the first bits of a hash
	alone   bool     // one writer is at work, who may take from any of them
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

// end is behind the last unit.
func (v *values) end() uint64 { return v.first + uint64(len(v.space.owner))*v.unit }

// sound reports whether a value may begin at a block. Operations write no other to control words; whoever
// else has written the pool since it was opened may have. Such a slot has no key, for all operations.
func (v *values) sound(block uint64) bool { return block-v.first < v.span }

// newValues is memory for values of a size; for records, if that is 0.
func newValues(mem *pm.Memory, first, unit, size uint64) *values {
	v := &values{unitLayout: newUnitLayout(unit, size), records: size == 0, mem: mem, first: first}
	v.classes = []unitLayout{v.unitLayout}
	if v.records {
		v.classes = recordClasses(unit)
	}
	v.space.owner = make([]unitOwner, (mem.Words()-first)/unit)
	v.space.high = len(v.space.owner)
	v.span = v.end() - v.first - max(v.words, 1) + 1
	if v.records {
		v.span = v.end() - v.first // record says where one ends
	}
	v.parts = make([]region, 1<<regionBits)
	for i := range v.parts {
		v.parts[i].values = v
	}
	return v
}

// check is the word of a value at a block, of a key of a hash.
func (v *values) check(block, hash uint64, value []byte) uint64 {
	return uint64(len(value))<<32 | uint64(crc32.Checksum(value, castagnoli)^mixed(block, hash))
}

// mixed is what a checksum knows of the place, and of the key.
func mixed(block, hash uint64) uint32 {
	return uint32((hash ^ block*0x9e3779b97f4a7c15) * 0xd1b54a32d192ed03 >> 32)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// locate is which value of which unit begins at a word; ok is false if none does. Of
// records it is the first of their units.
func (v *values) locate(block uint64) (unit, i uint64, ok bool) {
	class, ok := v.classAt(block)
	if !ok || block < v.first || block >= v.end() {
		return 0, 0, false
	}
	l := &v.classes[class]
	i, ok = l.index((block - v.first) % l.unit)
	unit = (block - v.first) / l.unit * v.unitsOf(l)
	return unit, i, ok && unit+v.unitsOf(l) <= uint64(len(v.space.owner))
}

// classAt is the class of the value at a block; ok is false if there is none.
func (v *values) classAt(block uint64) (class int, ok bool) {
	if !v.records {
		return 0, true
	}
	h, ok := v.record(block)
	if class = classOf(h.words()); !ok || class >= len(v.classes) {
		return 0, false
	}
	return class, true
}

// unitsOf is how many units of the pool have values of a layout together: one, but for
// records, of which there would be few in it.
func (v *values) unitsOf(l *unitLayout) uint64 { return l.unit / v.unit }

// index is which value begins at a word of a unit; ok is false if none does.
func (l *unitLayout) index(at uint64) (i uint64, ok bool) {
	if at < l.at || (at-l.at)%l.words != 0 || (at-l.at)/l.words >= l.per {
		return 0, false
	}
	return (at - l.at) / l.words, true
}

// write writes a value and its checksum.
func (v *values) write(block, hash uint64, value []byte) {
	unit, i, _ := v.locate(block)
	v.mem.Write(block, value)
	v.mem.Store(v.first+unit*v.unit+i, v.check(block, hash, value))
}

func (v *values) read(block uint64, value []byte) { v.mem.Read(block, value) }

// intact reports whether a value is what has been written for a key of a hash. It reads
// it into a buffer that grows as it has to.
func (v *values) intact(block, hash uint64, buffer *[]byte) bool {
	if v.records {
		return v.intactRecord(block, hash, buffer)
	}
	unit, i, ok := v.locate(block)
	if !ok {
		return false
	}
	*buffer = v.append(block, int(v.size), (*buffer)[:0])
	return v.mem.Load(v.first+unit*v.unit+i) == v.check(block, hash, *buffer)
}

// ---- the units ------------------------------------------------------------------

// space hands out units: to levels from the beginning of the pool, to values from its
// end.
type space struct {
	mu     sync.Mutex
	owner  []unitOwner
	high   int // no unit from this one on is free
	levels int // units that belong to levels
}

type unitOwner struct {
	level  bool
	values atomic.Pointer[extent]
}

func (o *unitOwner) free() bool { return !o.level && o.values.Load() == nil }

// take takes n units in a row for values, of which the first has a multiple of n for its
// number.
func (s *space) take(e *extent, n int) (unit uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.high > 0 && !s.owner[s.high-1].free() {
		s.high--
	}
	for at := s.high / n * n; at >= 0; at -= n {
		if s.vacant(at, n) {
			for i := range n {
				s.owner[at+i].values.Store(e)
			}
			return uint64(at), true
		}
	}
	return 0, false
}

// vacant reports whether n units in a row are there, and free.
func (s *space) vacant(at, n int) bool {
	for i := range n {
		if at+i >= len(s.owner) || !s.owner[at+i].free() {
			return false
		}
	}
	return true
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

// left is how many units are free.
func (s *space) left() (n uint64) {
	for i := range s.owner {
		if s.owner[i].free() {
			n++
		}
	}
	return n
}

// level marks units as those of a level. Nobody else is at work, or has the mutex.
func (s *space) level(first, n uint64) {
	for i := range n {
		s.owner[first+i].level = true
	}
	s.levels += int(n)
}

// extent is what n units of values are known as, or one of them, if others are known as
// something else; several cores may ask at once.
func (s *space) extent(unit, n uint64, fresh func() *extent) *extent {
	e := s.owner[unit].values.Load()
	if e == nil {
		e = fresh()
		e.unit = unit
	}
	for i := range n {
		o := &s.owner[unit+i]
		if o.values.CompareAndSwap(nil, e); o.values.Load() != e {
			return o.values.Load()
		}
	}
	return e
}

func (s *space) giveBack(first, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		o := &s.owner[first+i]
		if o.level {
			s.levels--
		}
		o.level = false
		o.values.Store(nil)
	}
	s.high = max(s.high, int(first+n))
}

// ---- the values of a unit ---------------------------------------------------------

// extent is a unit that has values, or some in a row.
type extent struct {
	unit   uint64 // the first
	class  int
	layout *unitLayout
	used   []uint64 // a bit for each value
	left   uint64   // that are free
	from   int      // no word of used before this one has a zero
	of     *region  // that takes from it; nil if none are free
}

func (v *values) newExtent(class int) *extent {
	l := &v.classes[class]
	e := &extent{class: class, layout: l, used: make([]uint64, (l.per+63)/64), left: l.per}
	if tail := l.per % 64; tail > 0 {
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
	extents [][]*extent // with free values, by class
	stale   []uint64    // values that have been replaced
	tombs   []uint64    // control words of slots
}

// list are those of a class.
func (r *region) list(class int) *[]*extent {
	if r.extents == nil {
		r.extents = make([][]*extent, len(r.values.classes))
	}
	return &r.extents[class]
}

// region is that of a hash: all keys of a region of every level belong to one.
func (v *values) region(h uint64, bits uint) *region { return &v.parts[v.part(h, bits)] }

// part is its number.
func (v *values) part(h uint64, bits uint) uint64 { return h >> (64 - bits) << (regionBits - bits) }

// shadow is what is known of values before any has been found in use.
func (v *values) shadow() *values {
	fresh := newValues(v.mem, v.first, v.unit, v.size)
	for i := range v.space.owner {
		fresh.space.owner[i].level = v.space.owner[i].level
	}
	fresh.space.levels = v.space.levels
	return fresh
}

// share deals the units that have free values out to the regions, when all that are
// in use have been marked.
func (v *values) share(bits uint) {
	for i := range v.space.owner {
		if e := v.space.owner[i].values.Load(); e != nil && e.unit == uint64(i) && e.left > 0 {
			v.parts[uint64(i)%(1<<bits)<<(regionBits-bits)].adopt(e)
		}
	}
}

// take returns memory for a value of a class.
func (r *region) take(class int) (block uint64, err error) {
	v, list := r.values, r.list(class)
	if len(*list) == 0 {
		e, ok := v.fresh(class)
		if !ok && v.alone {
			e, ok = v.borrowed(class)
		}
		if !ok {
			return 0, errNoSpace
		}
		r.adopt(e)
	}
	e := (*list)[len(*list)-1]
	i := e.take()
	if e.left == 0 {
		*list, e.of = (*list)[:len(*list)-1], nil
	}
	return v.first + e.unit*v.unit + e.layout.at + i*e.layout.words, nil
}

// fresh is a unit that nothing has used.
func (v *values) fresh(class int) (e *extent, ok bool) {
	e = v.newExtent(class)
	e.unit, ok = v.space.take(e, int(v.unitsOf(e.layout)))
	return e, ok
}

// borrowed is a unit with free values that another region has had: when no other is left.
func (v *values) borrowed(class int) (*extent, bool) {
	for i := range v.parts {
		list := v.parts[i].list(class)
		if n := len(*list); n > 0 {
			e := (*list)[n-1]
			*list = (*list)[:n-1]
			return e, true
		}
	}
	return nil, false
}

func (r *region) adopt(e *extent) {
	e.of = r
	list := r.list(e.class)
	*list = append(*list, e)
}

// replaced and buried remember what the next batch may use again.
func (r *region) replaced(block uint64) { r.stale = append(r.stale, block) }
func (r *region) buried(control uint64) { r.tombs = append(r.tombs, control) }

// free gives the memory of a value back; with the last one of a unit, the unit: but for
// one that a region keeps, if that can have nothing else. No writer is at work but r's, and
// that only if it has just taken the memory. What is no value in use, somebody else has written
// to a control word: nothing is freed.
func (r *region) free(block uint64) {
	v := r.values
	e, i, ok := v.taken(block)
	if !ok {
		return
	}
	if v.records {
		v.mem.Store(block, 0) // what is free passes for nobody's record, whatever names it
	}
	if e.free(i); e.of == nil {
		r.adopt(e)
	}
	if list := e.of.list(e.class); e.left == e.layout.per && (len(*list) > 1 || v.records) {
		*list = slices.DeleteFunc(*list, func(other *extent) bool { return other == e })
		v.giveBack(e)
	}
}

// taken is which value begins at a block; ok is false if none does that is in use.
func (v *values) taken(block uint64) (e *extent, i uint64, ok bool) {
	if v.sound(block) {
		e = v.space.owner[(block-v.first)/v.unit].values.Load()
	}
	if e == nil {
		return nil, 0, false
	}
	i, ok = e.layout.index((block - v.first) % e.layout.unit)
	return e, i, ok && e.used[i/64]>>(i%64)&1 != 0
}

func (v *values) giveBack(e *extent) { v.space.giveBack(e.unit, v.unitsOf(e.layout)) }

// release gives back the units in which no value is in use, of which regions keep one each.
func (v *values) release() {
	for i := range v.parts {
		for class, list := range v.parts[i].extents {
			v.parts[i].extents[class] = slices.DeleteFunc(list, func(e *extent) bool {
				if e.left < e.layout.per {
					return false
				}
				v.giveBack(e)
				return true
			})
		}
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

// left is how many values of a class there is memory for, besides so many units.
func (v *values) left(class int, without uint64) (n uint64) {
	for i := range v.parts {
		for _, e := range *v.parts[i].list(class) {
			n += e.left
		}
	}
	l := &v.classes[class]
	return n + (max(v.space.left(), without)-without)/v.unitsOf(l)*l.per
}
