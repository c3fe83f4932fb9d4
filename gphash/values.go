package gphash

import (
	"hash/crc32"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
)

// values manages the memory of values. Values lie in units of the pool. A unit starts with one word
// per value, which holds its checksum and length, and the values follow. So a value of 128 bytes is
// one line of memory, and a lookup does not read its checksum. Records contain their checksums and
// lengths themselves, and are allocated like other values; see records.go.
//
// The pool does not store which memory is free. Values that control words refer to are in use, and
// all other memory is free. Opening a pool computes the free memory, so a crash cannot make it
// wrong.
type values struct {
	unitLayout
	records bool // keys and values lie here together, as records
	// unit layouts by class; values of one length have one class
	classes []unitLayout
	mem     *pm.Memory
	first   uint64 // first word of unit 0
	// number of words, beginning at first, where a value may begin without leaving the pool
	span         uint64
	space        space
	regions      []region // by the first bits of the hash
	singleWriter bool     // the only writer at work may allocate from any region
}

// unitLayout is the layout of a unit of values. Its sizes are in words, except size.
type unitLayout struct {
	unit    uint64 // words per unit
	size    uint64 // bytes per value
	words   uint64 // words per value
	perUnit uint64 // values per unit
	offset  uint64 // words before the first value
}

const largeWords = 16 // alignment of large values: 128 bytes

func newUnitLayout(unit, size uint64) unitLayout {
	l := unitLayout{unit: unit, size: size, words: pm.WordsOf(int(size))}
	l.perUnit = unit / (l.words + 1)
	l.offset = l.perUnit
	if l.words >= largeWords {
		l.offset = (l.perUnit + largeWords - 1) / largeWords * largeWords
		l.perUnit = min(l.perUnit, (unit-l.offset)/l.words)
	}
	return l
}

func (v *values) end() uint64 { return v.first + uint64(len(v.space.owner))*v.unit }

// isBlock reports whether a value may begin at a block. Operations write no other block to control
// words, but another program may have changed the file since the pool was opened. All operations
// treat a slot with such a block as free of keys.
func (v *values) isBlock(block uint64) bool { return block-v.first < v.span }

// newValues returns empty values of size bytes each, or empty records if size is 0.
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
		v.span = v.end() - v.first // method record checks where a record ends
	}
	v.regions = make([]region, 1<<maxRegionBits)
	for i := range v.regions {
		v.regions[i].values = v
	}
	return v
}

// checksumWord returns the word that stores the length and checksum of a value. The checksum covers
// the block and the hash of the key.
func (v *values) checksumWord(block, hash uint64, value []byte) uint64 {
	return uint64(len(value))<<32 | uint64(crc32.Checksum(value, castagnoli)^placeSum(block, hash))
}

// placeSum returns the part of a checksum that depends on the block and the key.
func placeSum(block, hash uint64) uint32 {
	return uint32((hash ^ block*0x9e3779b97f4a7c15) * 0xd1b54a32d192ed03 >> 32)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// locate returns the unit and the index in the unit of the value at a block. ok is false if no
// value begins there. If its class uses several units together, unit is the first one.
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

// classAt returns the class of the value at a block. ok is false if no value begins there.
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

// unitsOf returns the number of consecutive units that a layout uses together. It is one, except
// for large records, since one unit would fit only few of them.
func (v *values) unitsOf(l *unitLayout) uint64 { return l.unit / v.unit }

// index returns the index of the value that begins at a word of a unit. ok is false if none does.
func (l *unitLayout) index(at uint64) (i uint64, ok bool) {
	if at < l.offset || (at-l.offset)%l.words != 0 || (at-l.offset)/l.words >= l.perUnit {
		return 0, false
	}
	return (at - l.offset) / l.words, true
}

func (v *values) write(block, hash uint64, value []byte) {
	unit, i, _ := v.locate(block)
	v.mem.Write(block, value)
	v.mem.Store(v.first+unit*v.unit+i, v.checksumWord(block, hash, value))
}

func (v *values) read(block uint64, value []byte) { v.mem.Read(block, value) }

// intact reports whether the checksum of a value is correct for a key with this hash. It reads the
// value into buffer, which grows if necessary.
func (v *values) intact(block, hash uint64, buffer *[]byte) bool {
	if v.records {
		return v.intactRecord(block, hash, buffer)
	}
	unit, i, ok := v.locate(block)
	if !ok {
		return false
	}
	*buffer = v.appendBytes(block, int(v.size), (*buffer)[:0])
	return v.mem.Load(v.first+unit*v.unit+i) == v.checksumWord(block, hash, *buffer)
}

// ---- the units ------------------------------------------------------------------

// space allocates units: to levels from the beginning of the pool, and to values from its end.
type space struct {
	mu     sync.Mutex
	owner  []unitOwner
	high   int // no free unit has this index or a higher one
	levels int // number of units that belong to levels
}

type unitOwner struct {
	isLevel bool
	extent  atomic.Pointer[extent]
}

func (o *unitOwner) free() bool { return !o.isLevel && o.extent.Load() == nil }

// allocValues takes n consecutive units for values. The first one is a multiple of n.
func (s *space) allocValues(e *extent, n int) (unit uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.high > 0 && !s.owner[s.high-1].free() {
		s.high--
	}
	for at := s.high / n * n; at >= 0; at -= n {
		if s.areFree(at, n) {
			for i := range n {
				s.owner[at+i].extent.Store(e)
			}
			return uint64(at), true
		}
	}
	return 0, false
}

func (s *space) areFree(at, n int) bool {
	for i := range n {
		if at+i >= len(s.owner) || !s.owner[at+i].free() {
			return false
		}
	}
	return true
}

func (s *space) allocLevel(n uint64) (first uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nFree := uint64(0)
	for i := range s.owner {
		if nFree++; !s.owner[i].free() {
			nFree = 0
		}
		if nFree == n {
			first = uint64(i) + 1 - n
			s.markLevel(first, n)
			return first, true
		}
	}
	return 0, false
}

func (s *space) freeUnits() (n uint64) {
	for i := range s.owner {
		if s.owner[i].free() {
			n++
		}
	}
	return n
}

// markLevel marks units as units of a level. The caller holds the mutex, unless no other thread is
// at work.
func (s *space) markLevel(first, n uint64) {
	for i := range n {
		s.owner[first+i].isLevel = true
	}
	s.levels += int(n)
}

// extentAt returns the extent of n units. If the units have none, it makes one with newExtent. If
// one of the units belongs to another extent, it returns that extent. Several cores may call it.
func (s *space) extentAt(unit, n uint64, newExtent func() *extent) *extent {
	e := s.owner[unit].extent.Load()
	if e == nil {
		e = newExtent()
		e.unit = unit
	}
	for i := range n {
		o := &s.owner[unit+i]
		if o.extent.CompareAndSwap(nil, e); o.extent.Load() != e {
			return o.extent.Load()
		}
	}
	return e
}

func (s *space) releaseUnits(first, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		o := &s.owner[first+i]
		if o.isLevel {
			s.levels--
		}
		o.isLevel = false
		o.extent.Store(nil)
	}
	s.high = max(s.high, int(first+n))
}

// ---- the values of a unit ---------------------------------------------------------

// extent is a unit of values, or several consecutive units that a class of large records uses
// together.
type extent struct {
	unit          uint64 // first unit
	class         int
	layout        *unitLayout
	used          []uint64 // a bit per value, set if the value is in use
	nFree         uint64   // number of free values
	firstFreeWord int      // index of the first word of used that may have a zero bit
	region        *region  // region that allocates from the extent; nil if no value is free
}

func (v *values) newExtent(class int) *extent {
	l := &v.classes[class]
	e := &extent{class: class, layout: l, used: make([]uint64, (l.perUnit+63)/64), nFree: l.perUnit}
	if tail := l.perUnit % 64; tail > 0 {
		e.used[len(e.used)-1] = ^uint64(0) << tail
	}
	return e
}

// mark marks a value as in use and reports whether it was free.
func (e *extent) mark(i uint64) (wasFree bool) {
	if atomic.OrUint64(&e.used[i/64], 1<<(i%64))>>(i%64)&1 != 0 {
		return false
	}
	atomic.AddUint64(&e.nFree, ^uint64(0))
	return true
}

// alloc takes a free value. At least one value must be free.
func (e *extent) alloc() (i uint64) {
	for e.used[e.firstFreeWord] == ^uint64(0) {
		e.firstFreeWord++
	}
	bit := bits.TrailingZeros64(^e.used[e.firstFreeWord])
	e.used[e.firstFreeWord] |= 1 << bit
	e.nFree--
	return uint64(e.firstFreeWord*64 + bit)
}

func (e *extent) free(i uint64) {
	e.used[i/64] &^= 1 << (i % 64)
	e.firstFreeWord = min(e.firstFreeWord, int(i/64))
	e.nFree++
}

// region is memory from which one writer at a time allocates values. It also records the memory and
// slots that the next batch may reuse.
type region struct {
	values  *values
	extents [][]*extent // extents with free values, by class
	stale   []uint64    // blocks of replaced and deleted values
	tombs   []uint64    // control words of deleted slots
}

func (r *region) extentsOf(class int) *[]*extent {
	if r.extents == nil {
		r.extents = make([][]*extent, len(r.values.classes))
	}
	return &r.extents[class]
}

// regionOf returns the region of values for a hash. All keys in one region of a level share it.
func (v *values) regionOf(h uint64, bits uint) *region { return &v.regions[v.regionIndex(h, bits)] }

func (v *values) regionIndex(h uint64, bits uint) uint64 {
	return h >> (64 - bits) << (maxRegionBits - bits)
}

// emptyCopy returns a copy of v in which units of levels are marked, but no value is in use.
func (v *values) emptyCopy() *values {
	clone := newValues(v.mem, v.first, v.unit, v.size)
	for i := range v.space.owner {
		clone.space.owner[i].isLevel = v.space.owner[i].isLevel
	}
	clone.space.levels = v.space.levels
	return clone
}

// distributeUnits assigns the units with free values to regions. All values in use must be marked.
func (v *values) distributeUnits(bits uint) {
	for i := range v.space.owner {
		if e := v.space.owner[i].extent.Load(); e != nil && e.unit == uint64(i) && e.nFree > 0 {
			v.regions[uint64(i)%(1<<bits)<<(maxRegionBits-bits)].addExtent(e)
		}
	}
}

// alloc returns memory for a value of a class, or errNoSpace.
func (r *region) alloc(class int) (block uint64, err error) {
	v, list := r.values, r.extentsOf(class)
	if len(*list) == 0 {
		e, ok := v.allocUnits(class)
		if !ok && v.singleWriter {
			e, ok = v.stealUnits(class)
		}
		if !ok {
			return 0, errNoSpace
		}
		r.addExtent(e)
	}
	e := (*list)[len(*list)-1]
	i := e.alloc()
	if e.nFree == 0 {
		*list, e.region = (*list)[:len(*list)-1], nil
	}
	return v.first + e.unit*v.unit + e.layout.offset + i*e.layout.words, nil
}

func (v *values) allocUnits(class int) (e *extent, ok bool) {
	e = v.newExtent(class)
	e.unit, ok = v.space.allocValues(e, int(v.unitsOf(e.layout)))
	return e, ok
}

// stealUnits returns an extent with free values from another region. It is used if no unit is free.
func (v *values) stealUnits(class int) (*extent, bool) {
	for i := range v.regions {
		list := v.regions[i].extentsOf(class)
		if n := len(*list); n > 0 {
			e := (*list)[n-1]
			*list = (*list)[:n-1]
			return e, true
		}
	}
	return nil, false
}

func (r *region) addExtent(e *extent) {
	e.region = r
	list := r.extentsOf(e.class)
	*list = append(*list, e)
}

// addStale records a replaced value and addTomb a deleted slot, which the next batch may reuse.
func (r *region) addStale(block uint64)  { r.stale = append(r.stale, block) }
func (r *region) addTomb(control uint64) { r.tombs = append(r.tombs, control) }

// free frees the memory of a value. If the value's unit becomes empty, free releases the unit, too.
// A region keeps its last unit, unless the units hold records. No writer may be at work, except
// that the writer that uses r may free memory that it has just taken. If no value in use begins at
// block, another program wrote the block, and free does nothing.
func (r *region) free(block uint64) {
	v := r.values
	e, i, ok := v.valueInUse(block)
	if !ok {
		return
	}
	if v.records {
		v.mem.Store(block, 0) // freed memory must not look like a record
	}
	if e.free(i); e.region == nil {
		r.addExtent(e)
	}
	if list := e.region.extentsOf(e.class); e.nFree == e.layout.perUnit && (len(*list) > 1 || v.records) {
		*list = slices.DeleteFunc(*list, func(other *extent) bool { return other == e })
		v.releaseUnits(e)
	}
}

// valueInUse returns the value in use at a block. ok is false if no such value begins there.
func (v *values) valueInUse(block uint64) (e *extent, i uint64, ok bool) {
	if v.isBlock(block) {
		e = v.space.owner[(block-v.first)/v.unit].extent.Load()
	}
	if e == nil {
		return nil, 0, false
	}
	i, ok = e.layout.index((block - v.first) % e.layout.unit)
	return e, i, ok && e.used[i/64]>>(i%64)&1 != 0
}

func (v *values) releaseUnits(e *extent) { v.space.releaseUnits(e.unit, v.unitsOf(e.layout)) }

// releaseEmptyUnits frees all units without values in use, even the one that each region keeps.
func (v *values) releaseEmptyUnits() {
	for i := range v.regions {
		for class, list := range v.regions[i].extents {
			v.regions[i].extents[class] = slices.DeleteFunc(list, func(e *extent) bool {
				if e.nFree < e.layout.perUnit {
					return false
				}
				v.releaseUnits(e)
				return true
			})
		}
	}
}

// recycle frees values and slots that earlier batches deleted or replaced. It returns the number of
// slots. No writer may be at work. If a crash undoes the freeing of a slot, recovery frees the slot
// again.
func (v *values) recycle() (tombs int) {
	for i := range v.regions {
		r := &v.regions[i]
		tombs += r.freeTombs()
		for _, block := range r.stale {
			r.free(block)
		}
		r.stale = r.stale[:0]
	}
	return tombs
}

func (r *region) freeTombs() (n int) {
	for _, at := range r.tombs {
		c := control(r.values.mem.Load(at))
		r.values.mem.Store(at, uint64(c.next(empty, 0)))
	}
	n = len(r.tombs)
	r.tombs = r.tombs[:0]
	return n
}

// freeValues returns how many values of a class fit the free memory, if the given number of units
// stays reserved.
func (v *values) freeValues(class int, reserved uint64) (n uint64) {
	for i := range v.regions {
		for _, e := range *v.regions[i].extentsOf(class) {
			n += e.nFree
		}
	}
	l := &v.classes[class]
	return n + (max(v.space.freeUnits(), reserved)-reserved)/v.unitsOf(l)*l.perUnit
}
