package linear

import (
	"iter"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
)

// cpuTable reads and writes a generation in Go. Only sector, line, prefetch, match and
// matchFirstLines use pointer arithmetic.
type cpuTable[K cpu.Key, V cpu.Val] struct {
	geometry
	base      unsafe.Pointer
	pathLines uint32 // maxPathLines(), computed once
}

func tableOf[K cpu.Key, V cpu.Val](g *generation) cpuTable[K, V] {
	return cpuTable[K, V]{g.geometry, unsafe.Pointer(unsafe.SliceData(g.Buf.Host)), g.maxPathLines()}
}

func (t *cpuTable[K, V]) sector(i uint32) []cpu.Slot[K, V] {
	return unsafe.Slice((*cpu.Slot[K, V])(unsafe.Add(t.base, uintptr(i)*sectorBytes)), t.perSector())
}

func (t *cpuTable[K, V]) line(i uint32) []cpu.Slot[K, V] {
	return unsafe.Slice((*cpu.Slot[K, V])(unsafe.Add(t.base, uintptr(i)*lineBytes)), lineSectors*t.perSector())
}

func (t *cpuTable[K, V]) perSector() int {
	var s cpu.Slot[K, V]
	return sectorBytes / int(unsafe.Sizeof(s))
}

func (t *cpuTable[K, V]) prefetch(sectors []uint32) { cpu.Prefetch(t.base, sectors, sectorShift) }

// pathSector returns the index of the o-th sector, counted from 0, on the path that begins at home.
// The path visits the home sector, then the other sectors of that line by exclusive or, and then
// line by line around the table (layout.cuh, Path).
func (t *cpuTable[K, V]) pathSector(home, o uint32) uint32 {
	line := home/lineSectors + o/lineSectors
	if line >= t.lines && home/lineSectors != t.lines {
		line -= t.lines
	}
	return line*lineSectors + (home%lineSectors ^ o%lineSectors)
}

// isExtra reports whether a path lies in the extra line, which holds keys that look like sentinels.
func (t *cpuTable[K, V]) isExtra(home uint32) bool { return home/lineSectors == t.lines }

func (t *cpuTable[K, V]) pathLength(home uint32) uint32 {
	if t.isExtra(home) {
		return lineSectors
	}
	return t.pathLines * lineSectors
}

// nearSectors is the number of sectors at the start of a path that share one cache line.
const nearSectors = 2

const nearBytes = nearSectors * sectorBytes

// findInFirstLine looks for a stored key in the first cache line of its path. It returns the key's
// live slot or nil. decided is false if the search must continue after that line.
func (t *cpuTable[K, V]) findInFirstLine(key K, home uint32) (s *cpu.Slot[K, V], decided bool) {
	for o := range uint32(nearSectors) {
		slots := t.sector(home ^ o)
		for i := range slots {
			k := slots[i].Key
			if k == key {
				return &slots[i], true
			}
			if k == cpu.Sentinel[K](cpu.Empty) {
				return nil, true
			}
		}
	}
	return nil, false
}

// match searches one cache line for a key and returns the index of its slot, or the number of slots
// if the key is absent. It takes the same steps in all cases, because one mispredicted jump costs
// as much as the whole line.
//
//go:noinline
func match[K cpu.Key, V cpu.Val](line unsafe.Pointer, key K) (at int) {
	var one cpu.Slot[K, V]
	size := int(unsafe.Sizeof(one))
	at = nearBytes / size
	for i := 0; i < nearBytes/size; i += 4 {
		s := (*[4]cpu.Slot[K, V])(unsafe.Add(line, i*size))
		if s[0].Key == key {
			at = i
		}
		if s[1].Key == key {
			at = i + 1
		}
		if s[2].Key == key {
			at = i + 2
		}
		if s[3].Key == key {
			at = i + 3
		}
	}
	return at
}

// matchLines is the number of cache lines that matchFirstLines reads.
const matchLines = 4

// matchFirstLines returns the slot of a stored key if it lies in the first cache lines of its path
// and within the share part. Otherwise it returns nil.
func (t *cpuTable[K, V]) matchFirstLines(part cpu.Share, home uint32, key K) *cpu.Slot[K, V] {
	for o := uint32(0); o < min(matchLines*nearSectors, t.pathLength(home)); o += nearSectors {
		sector := t.pathSector(home, o)
		if line := sector / lineSectors; line < part.Lo || line >= part.Hi {
			return nil
		}
		line := unsafe.Add(t.base, uintptr(sector&^(nearSectors-1))*sectorBytes)
		if at := match[K, V](line, key); at < nearSectors*t.perSector() {
			return &unsafe.Slice((*cpu.Slot[K, V])(line), nearSectors*t.perSector())[at]
		}
		if match[K, V](line, cpu.Sentinel[K](cpu.Empty)) < nearSectors*t.perSector() {
			return nil // the path ends in this line
		}
	}
	return nil
}

// firstLineSlot returns the slot of a stored key in the first cache line of its path, or the empty
// slot at which the path ends. It returns nil if the line has neither, or if a dead slot comes
// first, because the choice of a slot then needs a full search.
func (t *cpuTable[K, V]) firstLineSlot(key K, home uint32) *cpu.Slot[K, V] {
	for o := range uint32(nearSectors) {
		slots := t.sector(home ^ o)
		for i := range slots {
			switch k := slots[i].Key; k {
			case key, cpu.Sentinel[K](cpu.Empty):
				return &slots[i]
			case cpu.Sentinel[K](cpu.Dead):
				return nil
			}
		}
	}
	return nil
}

// findInRest continues the search of findInFirstLine after the first cache line.
func (t *cpuTable[K, V]) findInRest(key K, home uint32) *cpu.Slot[K, V] {
	for o := uint32(nearSectors); o < t.pathLength(home); o++ {
		slots := t.sector(t.pathSector(home, o))
		for i := range slots {
			k := slots[i].Key
			if k == key {
				return &slots[i]
			}
			if k == cpu.Sentinel[K](cpu.Empty) {
				return nil
			}
		}
	}
	return nil
}

type searchResult[K cpu.Key, V cpu.Val] struct {
	live        *cpu.Slot[K, V] // the key's slot, if present
	tombstone   *cpu.Slot[K, V] // the dead slot that holds the key
	dead        *cpu.Slot[K, V] // the first dead slot
	free        *cpu.Slot[K, V] // the first empty slot
	leavesShare bool            // the path leaves the share before it ends
	read        int             // sectors read before the last one
}

// insertSlot returns the slot for an absent key: with reuse the first dead slot, otherwise the dead
// slot that holds the key. If there is no such dead slot, it returns the first empty slot, or nil.
func (s *searchResult[K, V]) insertSlot(reuse bool) *cpu.Slot[K, V] {
	switch {
	case reuse && s.dead != nil:
		return s.dead
	case !reuse && s.tombstone != nil:
		return s.tombstone
	}
	return s.free
}

// search looks for a key on its path, up to the end of the path, or until the path leaves the share
// part.
func (t *cpuTable[K, V]) search(part cpu.Share, home uint32, key K) (s searchResult[K, V]) {
	for o := range t.pathLength(home) {
		sector := t.pathSector(home, o)
		s.read = int(o)
		if line := sector / lineSectors; line < part.Lo || line >= part.Hi {
			s.leavesShare = true
			return s
		}
		slots := t.sector(sector)
		for i := range slots {
			switch k := slots[i].Key; k {
			case key:
				s.live = &slots[i]
				return s
			case cpu.Sentinel[K](cpu.Empty):
				s.free = &slots[i]
				return s
			case cpu.Sentinel[K](cpu.Dead):
				if s.dead == nil {
					s.dead = &slots[i]
				}
				if s.tombstone == nil && slots[i].HeldKey(key) {
					s.tombstone = &slots[i]
				}
			}
		}
	}
	return s
}

// tryInsert stores a pair with an absent key in the first empty slot of its path, and returns how
// many sectors it has read. ok is false if the path leaves the share or has no empty slot.
func (t *cpuTable[K, V]) tryInsert(part cpu.Share, home uint32, pair *cpu.Slot[K, V]) (read uint32, ok bool) {
	for o := range t.pathLength(home) {
		sector := t.pathSector(home, o)
		if line := sector / lineSectors; line < part.Lo || line >= part.Hi {
			return o, false
		}
		slots := t.sector(sector)
		for i := range slots {
			if slots[i].Key == cpu.Sentinel[K](cpu.Empty) {
				slots[i] = *pair
				return o + 1, true
			}
		}
	}
	return t.pathLength(home), false
}

func (t *cpuTable[K, V]) live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]] {
	return func(yield func(*cpu.Slot[K, V]) bool) {
		for i := lo * lineSectors; i < hi*lineSectors; i++ {
			slots := t.sector(i)
			for j := range slots {
				if !isSentinel(slots[j].Key) && !yield(&slots[j]) {
					return
				}
			}
		}
	}
}

// probeLengths returns the sum and the maximum of the probe lengths of all keys in lines [lo,hi).
// The probe length of a key is the number of slots before it on its path.
func (t *cpuTable[K, V]) probeLengths(lo, hi uint32) (sum uint64, longest uint32) {
	per := uint32(t.perSector())
	for i := lo * lineSectors; i < hi*lineSectors; i++ {
		slots := t.sector(i)
		for j := range slots {
			if isSentinel(slots[j].Key) {
				continue
			}
			h := home(t.geometry, slots[j].Key)
			lines := i/lineSectors - h/lineSectors
			if i/lineSectors < h/lineSectors {
				lines += t.lines
			}
			length := (lines*lineSectors+(i%lineSectors^h%lineSectors))*per + uint32(j)
			sum += uint64(length)
			longest = max(longest, length)
		}
	}
	return sum, longest
}
