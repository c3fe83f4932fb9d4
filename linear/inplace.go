package linear

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
)

// Rehash in place. A border is a line with an empty slot. No path crosses it: it
// would have ended there. So the lines behind one border, up to and with the
// next, hold all pairs whose homes are there, and are rehashed by themselves. In
// each run of lines, one line after the other is copied and emptied, and its
// live pairs go to the first empty slots of their paths.
//
// Each pair then lies in its line or in one before. Let x be the line, h the line
// of a pair's home, and say that no line from h to x has an empty slot when the
// pair's turn comes. Let g be the first line of the longest stretch of such lines
// that ends with x. What lies in g to x now has its home there: from before, it
// would have crossed a line with an empty slot, or the border. And it lay there
// before: pairs have come from lines up to x only. But this pair lay there too,
// so more pairs lay in these lines than they have slots, which cannot be. It
// follows that every pair finds a slot, on no longer a path than before, that it
// stays within the run, that lines which are yet to come are not in the way,
// and that the pairs of one line may go in any order, or all at once.
//
// At the end of a run each pair lies behind no empty slot of its path: slots that
// it has passed were taken, and only the line whose turn it is loses any. Runs
// whose slots are all live or empty stay as they are, and so do the lines before
// the first dead slot of a run. Memory beside the table: one line per core; on a
// GPU a word per segment, 1/512 of the table.

// rehashInPlace gives each core some runs.
func (e *cpuEngine[K, SK, V, SV]) rehashInPlace(ctx context.Context) (bool, error) {
	if e.Leases.Held() {
		return false, nil
	}
	g := e.Parts().(*generation)
	t := tableOf[SK, SV](g)
	borders := t.borders(cpu.SharesPerCore * e.Device.Properties().Units)
	if len(borders) == 0 {
		return false, nil
	}
	var dropped atomic.Uint64
	e.Device.Parallel(len(borders), 1, func(i, _ int) {
		next := borders[(i+1)%len(borders)]
		n := next - borders[i]
		if next <= borders[i] {
			n += t.lines
		}
		dropped.Add(t.rehashInPlace(ctx, borders[i], n))
	})
	g.Tally().Used -= dropped.Load()
	return ctx.Err() == nil, ctx.Err()
}

// borders finds the first border of each of some parts of the table.
func (t *cpuTable[K, V]) borders(parts int) []uint32 {
	var found []uint32
	part := (t.lines-1)/uint32(parts) + 1
	for line := uint32(0); line < t.lines; line++ {
		if _, empty := t.census(line); empty > 0 {
			found = append(found, line)
			line += part - 1 - line%part // to the end of its part
		}
	}
	return found
}

// census counts the dead and the empty slots of a line.
func (t *cpuTable[K, V]) census(line uint32) (dead, empty int) {
	slots := t.line(line)
	for i := range slots {
		switch slots[i].Key {
		case cpu.Sentinel[K](cpu.Dead):
			dead++
		case cpu.Sentinel[K](cpu.Empty):
			empty++
		}
	}
	return dead, empty
}

// linesPerLook is the number of lines rehashed in place between two looks at the
// context: less than a millisecond's work.
const linesPerLook = 1 << 12

// rehashInPlace does it for n lines behind a border, of which the last is one,
// and returns the number of dead slots dropped. It stops at a border when ctx
// ends.
func (t *cpuTable[K, V]) rehashInPlace(ctx context.Context, border, n uint32) (dropped uint64) {
	var pairs [lineBytes / 4]cpu.Slot[K, V]
	dirty := false // a slot since the last border has become empty
	whole := cpu.Share{Hi: t.lines}
	line, look := border, uint32(linesPerLook)
	for done := uint32(0); done < n; done++ {
		if line++; line == t.lines {
			line = 0
		}
		dead, empty := t.census(line)
		dropped += uint64(dead)
		if dirty = dirty || dead > 0; dirty {
			live := 0
			slots := t.line(line)
			for i := range slots {
				if !isSentinel(slots[i].Key) {
					pairs[live] = slots[i]
					live++
				}
			}
			wipeLine(&slots[0])
			for i := range pairs[:live] {
				t.place(whole, home(t.geometry, pairs[i].Key), &pairs[i])
			}
		}
		if empty == 0 {
			continue
		}
		if dirty = false; done >= look {
			if look += linesPerLook; ctx.Err() != nil {
				break
			}
		}
	}
	return dropped
}

// wipeLine empties the line that begins with a slot.
func wipeLine[K cpu.Key, V cpu.Val](first *cpu.Slot[K, V]) {
	words := (*[lineBytes / 8]uint64)(unsafe.Pointer(first))
	for i := range words {
		words[i] = ^uint64(0)
	}
}
