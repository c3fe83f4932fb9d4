package number

import (
	"bytes"
	"context"
	"math"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hostmem"
)

// The index of a host has its own tables, called parts. The high bits of a key select its part.
// Cores fill different parts without synchronization. A part fits a core's cache, and a full part
// grows alone. The rows of a large batch are distributed to the parts, so each part is visited
// once.

const (
	// directRows is the maximum number of rows that are entered one by one, without distributing
	// them.
	directRows = 1 << 12
	// dealtRows is the number of rows that a core counts and distributes at a time.
	dealtRows = 1 << 15
	// Tables with more than fewKeys keys have manyParts parts, and with more than manyKeys
	// mostParts.
	fewKeys, manyKeys    = 1 << 15, 1 << 24
	manyParts, mostParts = 1 << 8, 1 << 12
	// A part grows by half when more than partLoad of its slots are in use. At 0.7 the search for
	// an absent key takes six slots on average, at 0.8 thirteen.
	partLoad = 0.7
	minSlots = 8
)

// slot holds a key and its number plus one. A free slot has number 0.
type slot struct{ number, low, high uint32 }

func (s *slot) key() uint64 { return uint64(s.high)<<32 | uint64(s.low) }

func (s *slot) is(key uint64) bool { return s.low == uint32(key) && s.high == uint32(key>>32) }

// part is a hash table with linear probing.
type part struct {
	slots []slot
	n     int // slots in use
	fresh int // new keys of a batch
	moved int // new keys whose slots have changed because the part grew
}

// fresh is a key that is new in a batch. It holds the key's slot, and its row among the rows of its
// part, which finish replaces by the key's number.
type fresh struct{ row, slot uint32 }

// inHost is the index of a host.
type inHost struct {
	parallel func(n, grain int, body func(lo, hi int))
	parts    []part
	measured bool
	mapped   *mapped
	shift    uint // shifts a key so that its top bits select a slot in a part
	n        int
	want     int // minimum slots of a part on the Go heap when it grows
	coming   int // rows after the next batch

	counts []uint32 // by range of rows and part: counts, then destinations
	keys   []uint64 // keys of rows, in the order of the parts
	rows   []uint32
	got    []uint32 // numbers, in the order of the parts
	fresh  []fresh  // new keys; the new keys of a part begin where its rows do
	marks  []bool   // by row: whether it is the first of a key
	first  []uint32
}

// newInHost makes an index with capacity for a number of keys. If measured is set, it has a fixed
// number of parts on the Go heap, so that estimates hold.
func newInHost(parallel func(n, grain int, body func(lo, hi int)), capacity int, measured bool) *inHost {
	n := partsFor(capacity)
	if measured {
		n = manyParts
	}
	x := &inHost{parallel: parallel, measured: measured, parts: make([]part, n),
		shift: uint(bits.TrailingZeros(uint(n)))}
	if !measured {
		x.mapped = newMapped(x)
	}
	slots := slotsForShare(capacity, n)
	if !measured && bytesOf(n*slots) >= hostmem.HugePage && x.move(n, slots) {
		return x
	}
	for i := range x.parts {
		x.parts[i].slots = make([]slot, slots)
	}
	return x
}

// slotsForShare returns the slots of a part if keys spread over the given number of parts. It adds
// four standard deviations, because some parts get more than their share.
func slotsForShare(keys, parts int) int {
	share := float64(keys) / float64(parts)
	return slotsFor(int(share + 4*math.Sqrt(share)))
}

func partsFor(keys int) int {
	switch {
	case keys <= fewKeys:
		return 1
	case keys <= manyKeys:
		return manyParts
	}
	return mostParts
}

// slotsFor returns the number of slots of a part for n keys.
func slotsFor(n int) int { return max(minSlots, int(float64(n)/partLoad)+1) }

// stretch returns the number of slots of a part after it has grown to n keys.
func stretch(slots, n int) int {
	for float64(n-1) >= partLoad*float64(slots) {
		slots += slots / 2
	}
	return slots
}

// enter returns the slot of a key, or a free slot for it. The part grows if it is full.
func (x *inHost) enter(p *part, key uint64) int {
	at := seek(p.slots, key, x.home(key, len(p.slots)))
	if p.slots[at].number == 0 {
		if n := stretch(len(p.slots), p.n+1); n > len(p.slots) {
			x.grow(p, n)
			return seek(p.slots, key, x.home(key, n))
		}
	}
	return at
}

// part returns the part of a key. It shifts twice, because 64-x.shift is 64 if there is one part.
func (x *inHost) part(key uint64) *part { return &x.parts[key>>1>>(63-x.shift)] }

// home returns the first slot to search for a key in a part of n slots. Homes have the order of the
// keys, so a part that grows is read and written sequentially.
func (x *inHost) home(key uint64, n int) int {
	high, _ := bits.Mul64(key<<x.shift, uint64(n))
	return int(high)
}

// seek returns the slot of a key, or the free slot for it. The search begins at slot at.
func seek(slots []slot, key uint64, at int) int {
	for {
		if s := &slots[at]; s.number == 0 || s.is(key) {
			return at
		}
		if at++; at == len(slots) {
			at = 0
		}
	}
}

// settle stores s in a free slot. No slot may have its key. The search begins at slot at.
func settle(slots []slot, s slot, at int) {
	for slots[at].number > 0 {
		if at++; at == len(slots) {
			at = 0
		}
	}
	slots[at] = s
}

func (x *inHost) Len() int { return x.n }

// Expect implements Finder.
func (x *inHost) Expect(rows int) { x.coming = rows }

func (x *inHost) Close() error {
	err := x.mapped.close()
	*x = inHost{}
	return err
}

func (x *inHost) Size(context.Context) (int64, error) {
	n := 0
	for i := range x.parts {
		n += len(x.parts[i].slots)
	}
	return bytesOf(n), nil // without old memory of parts that grew out of the mapping
}

func (x *inHost) Find(_ context.Context, keys []uint64, numbers []uint32, found []bool) error {
	x.parallel(len(keys), grain, func(lo, hi int) { x.FindHere(keys[lo:hi], numbers[lo:hi], found[lo:hi]) })
	return nil
}

// FindHere implements Finder.
func (x *inHost) FindHere(keys []uint64, numbers []uint32, found []bool) (hits int) {
	var places [2][cpu.Group]place
	var at [cpu.Group]unsafe.Pointer
	ask := func(keys []uint64, places *[cpu.Group]place) {
		keys = keys[:min(cpu.Group, len(keys))]
		for i, key := range keys {
			p := x.part(key)
			home := x.home(key, len(p.slots))
			places[i] = place{p.slots, home}
			at[i] = unsafe.Pointer(&p.slots[home])
		}
		cpu.PrefetchPairs(at[:len(keys)])
	}
	ask(keys, &places[0])
	for lo, turn := 0, 0; lo < len(keys); lo, turn = lo+cpu.Group, turn^1 {
		end := min(lo+cpu.Group, len(keys))
		ask(keys[end:], &places[turn^1])
		for i, key := range keys[lo:end] {
			p := &places[turn][i]
			number := p.slots[seek(p.slots, key, p.at)].number
			if found[lo+i] = number > 0; number > 0 {
				hits++
			}
			numbers[lo+i] = max(number, 1) - 1
		}
	}
	return hits
}

// place is where the search for a key begins.
type place struct {
	slots []slot
	at    int
}

func (x *inHost) Assign(_ context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error) {
	if n := partsFor(x.n); n > len(x.parts) && !x.measured {
		x.cut(n)
	}
	if len(keys) <= directRows {
		x.direct(keys, numbers)
		x.resize(0, 0)
		return x.first, len(keys), nil
	}
	x.assignDealt(keys, numbers)
	x.resize(0, 0)
	return x.first, len(keys), nil
}

// assignDealt numbers the keys of rows that are distributed to the parts.
func (x *inHost) assignDealt(keys []uint64, numbers []uint32) {
	if len(x.parts) == 1 && len(keys) <= fewKeys {
		x.direct(keys, numbers)
		return
	}
	if len(x.parts) == 1 {
		x.cut(manyParts)
	}
	x.deal(keys)
	x.marks = sized(x.marks, len(keys))
	clear(x.marks)
	x.got, x.fresh = sized(x.got, len(keys)), sized(x.fresh, len(keys))
	// Hashes spread keys evenly, so the first parts predict the number of new keys in the others to
	// within a few percent. Each part then gets its capacity at once.
	sample := max(1, len(x.parts)/manyParts)
	fresh := x.work(0, sample)
	x.expect(fresh*(len(x.parts)/sample), len(keys))
	fresh += x.work(sample, len(x.parts))
	x.rank(numbers, fresh)
}

// view returns flags as bytes.
func view(flags []bool) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(flags))), len(flags))
}

// direct numbers the keys of a small batch one by one.
func (x *inHost) direct(keys []uint64, numbers []uint32) {
	x.first = x.first[:0]
	for i, key := range keys {
		p := x.part(key)
		s := &p.slots[x.enter(p, key)]
		if s.number == 0 {
			x.n++
			p.n++
			*s = slot{uint32(x.n), uint32(key), uint32(key >> 32)}
			x.first = append(x.first, uint32(i))
		}
		numbers[i] = s.number - 1
	}
}

// deal sorts keys and their rows by part.
func (x *inHost) deal(keys []uint64) {
	n, parts := len(keys), len(x.parts)
	ranges := (n + dealtRows - 1) / dealtRows
	x.counts = sized(x.counts, ranges*parts)
	clear(x.counts)
	x.keys, x.rows = sized(x.keys, n), sized(x.rows, n)
	high := 63 - x.shift
	x.parallel(n, dealtRows, func(lo, hi int) {
		counts := x.counts[lo/dealtRows*parts:][:parts]
		for _, key := range keys[lo:hi] {
			counts[key>>1>>high]++
		}
	})
	at := uint32(0)
	for p := range parts {
		for r := range ranges {
			c := &x.counts[r*parts+p]
			at, *c = at+*c, at
		}
	}
	x.parallel(n, dealtRows, func(lo, hi int) {
		counts := x.counts[lo/dealtRows*parts:][:parts]
		for i, key := range keys[lo:hi] {
			to := &counts[key>>1>>high]
			x.keys[*to], x.rows[*to] = key, uint32(lo+i)
			*to++
		}
	})
}

// dealt returns the range of the rows of part k.
func (x *inHost) dealt(k int) (from, to uint32) {
	last := x.counts[len(x.counts)-len(x.parts):] // end of each part
	if k > 0 {
		from = last[k-1]
	}
	return from, last[k]
}

// work looks up the keys of parts [from,to), and enters the new ones. It returns the number of new
// keys.
func (x *inHost) work(from, to int) (fresh int) {
	x.parallel(to-from, 1, func(lo, hi int) {
		for k := from + lo; k < from+hi; k++ {
			x.fill(k)
		}
	})
	for k := from; k < to; k++ {
		fresh += x.parts[k].fresh
	}
	return fresh
}

// fill looks up the keys of part k, and enters the new ones. New keys get provisional numbers: the
// number of keys before the batch, plus the number of earlier new keys of the part.
func (x *inHost) fill(k int) {
	p := &x.parts[k]
	from, to := x.dealt(k)
	keys, rows, got, news := x.keys[from:to], x.rows[from:to], x.got[from:to], x.fresh[from:to]
	number, n := uint32(x.n)+1, 0
	p.moved = 0
	slots, room, marks := p.slots, p.room(), x.marks
	var ahead [cpu.Group]unsafe.Pointer
	for lo := 0; lo < len(keys); lo += cpu.Group {
		end := min(lo+cpu.Group, len(keys))
		next := keys[end:min(end+cpu.Group, len(keys))]
		for i, key := range next {
			ahead[i] = unsafe.Pointer(&slots[x.home(key, len(slots))])
		}
		cpu.PrefetchPairs(ahead[:len(next)])
		for i, key := range keys[lo:end] {
			at := seek(slots, key, x.home(key, len(slots)))
			s := &slots[at]
			if s.number > 0 {
				got[lo+i] = s.number - 1
				continue
			}
			if n == room {
				p.n, p.moved = p.n+n, n
				x.grow(p, max(stretch(len(slots), p.n+1), x.want))
				slots, room = p.slots, n+p.room()
				p.n -= n
				at = seek(slots, key, x.home(key, len(slots)))
				s = &slots[at]
			}
			*s = slot{number, uint32(key), uint32(key >> 32)}
			row := lo + i
			got[row], news[n], marks[rows[row]] = number-1, fresh{uint32(row), uint32(at)}, true
			number++
			n++
		}
	}
	p.n, p.fresh = p.n+n, n
}

// rank counts the first rows of new keys, which gives these keys their numbers. It writes the
// numbers of all rows.
func (x *inHost) rank(numbers []uint32, fresh int) {
	base := uint32(x.n)
	x.first = sized(x.first, fresh)
	if x.n += fresh; fresh > 0 {
		before := make([]uint32, (len(numbers)+dealtRows-1)/dealtRows+1)
		x.parallel(len(numbers), dealtRows, func(lo, hi int) {
			before[lo/dealtRows+1] = uint32(bytes.Count(view(x.marks[lo:hi]), []byte{1}))
		})
		for r := range len(before) - 1 {
			before[r+1] += before[r]
		}
		x.parallel(len(numbers), dealtRows, func(lo, hi int) {
			n, last := before[lo/dealtRows], before[lo/dealtRows+1]
			for i, m := range view(x.marks[lo:hi]) {
				if n == last {
					break
				}
				// If the row is not a first row, the next row or finish overwrites these values.
				x.first[n], numbers[lo+i] = uint32(lo+i), base+n
				n += uint32(m)
			}
		})
	}
	x.parallel(len(x.parts), 1, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			x.finish(k, base, numbers)
		}
	})
}

// finish replaces the provisional numbers of a part's new keys, and writes the numbers of all its
// rows.
func (x *inHost) finish(k int, base uint32, numbers []uint32) {
	p := &x.parts[k]
	from, to := x.dealt(k)
	keys, rows, news := x.keys[from:to], x.rows[from:to], x.fresh[from:to][:p.fresh]
	for i, f := range news[:p.moved] {
		key := keys[f.row]
		news[i].slot = uint32(seek(p.slots, key, x.home(key, len(p.slots))))
	}
	var at [cpu.Group]unsafe.Pointer
	for lo := 0; lo < len(news); lo += cpu.Group {
		some := news[lo:min(lo+cpu.Group, len(news))]
		for i := range some {
			f := &some[i]
			f.row = numbers[rows[f.row]]
			at[i] = unsafe.Pointer(&p.slots[f.slot])
		}
		cpu.PrefetchPairs(at[:len(some)])
		for _, f := range some {
			p.slots[f.slot].number = f.row + 1
		}
	}
	for i, v := range x.got[from:to] {
		if v >= base {
			v = news[v-base].row
		}
		numbers[rows[i]] = v
	}
	p.fresh = 0
}

// room returns the number of keys that a part takes before it has to grow.
func (p *part) room() int { return max(0, int(math.Ceil(partLoad*float64(len(p.slots))))-p.n) }

// grow rehashes a part to the given number of slots.
func (x *inHost) grow(p *part, slots int) {
	old := p.slots
	p.slots = make([]slot, slots)
	for _, s := range old {
		if s.number > 0 {
			settle(p.slots, s, x.home(s.key(), slots))
		}
	}
	if x.mapped != nil {
		x.mapped.grown.Store(true)
	}
}

// cut splits the parts into n parts.
func (x *inHost) cut(n int) {
	if x.mapped != nil && x.mapped.memory != nil && x.move(n, slotsForShare(x.n, n)) {
		return
	}
	old := x.parts
	x.parts, x.shift = make([]part, n), uint(bits.TrailingZeros(uint(n)))
	each := n / len(old)
	x.parallel(len(old), 1, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			parts := x.parts[k*each : (k+1)*each]
			for _, s := range old[k].slots {
				if s.number > 0 {
					parts[int(s.key()>>1>>(63-x.shift))-k*each].n++
				}
			}
			for i := range parts {
				parts[i].slots = make([]slot, slotsFor(parts[i].n+parts[i].n/4))
			}
			for _, s := range old[k].slots {
				if s.number > 0 {
					p := x.part(s.key())
					settle(p.slots, s, x.home(s.key(), len(p.slots)))
				}
			}
			old[k].slots = nil
		}
	})
}

// hostEstimate counts the added keys of each part.
type hostEstimate struct {
	x     *inHost
	slots []int // by part
	more  []int
	bytes int64
	twice int64 // bytes of the largest part that grows, as its old and new slots exist at once
}

func (x *inHost) Estimate(ctx context.Context) (Estimate, error) {
	n, err := x.Size(ctx)
	e := &hostEstimate{x: x, more: make([]int, len(x.parts)), slots: make([]int, len(x.parts)), bytes: n}
	for i := range x.parts {
		e.slots[i] = len(x.parts[i].slots)
	}
	return e, err
}

func (e *hostEstimate) With(key uint64) int64 {
	k := key >> 1 >> (63 - e.x.shift)
	e.more[k]++
	if n := stretch(e.slots[k], e.x.parts[k].n+e.more[k]); n > e.slots[k] {
		e.bytes += bytesOf(n - e.slots[k])
		e.twice = max(e.twice, bytesOf(len(e.x.parts[k].slots)))
		e.slots[k] = n
	}
	return e.bytes + e.twice
}

// Reserve implements Index. Parts grow one after another.
func (x *inHost) Reserve(_ context.Context, keys []uint64, found []bool, _ int) error {
	more := make([]int, len(x.parts))
	for i, key := range keys {
		if !found[i] {
			more[key>>1>>(63-x.shift)]++
		}
	}
	for k := range x.parts {
		if p := &x.parts[k]; more[k] > 0 {
			if n := stretch(len(p.slots), p.n+more[k]); n > len(p.slots) {
				x.grow(p, n)
			}
		}
	}
	return nil
}

func bytesOf(slots int) int64 { return int64(slots) * int64(unsafe.Sizeof(slot{})) }
