package linear

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// Extent is for [core.Engine]: lines, the extra one last.
func (e *cpuEngine[K, SK, V, SV]) Extent(l *core.Lease) (units uint32, rows int) {
	return l.Parts.(*generation).extent(int(unsafe.Sizeof(cpu.Slot[SK, SV]{})))
}

// Export is for [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t := tableOf[SK, SV](g)
	k, v := batch.View[K](out.Columns[batch.Keys].Host), batch.View[V](out.Columns[batch.Vals].Host)
	order := core.SpreadOver(g.lines)
	n := 0
	var lines [2]spreadLines // what is read, and what is on its way
	t.askLines(order, lo, hi, &lines[0])
	for turn := 0; lo < hi; turn ^= 1 {
		lo += uint32(lines[turn].n)
		t.askLines(order, lo, hi, &lines[turn^1])
		for _, line := range lines[turn].at[:lines[turn].n] {
			name := SK(0) // what turns the stored name into the key
			if line == g.lines {
				name = ^name
			}
			slots := t.line(line)
			for i := range slots {
				key := slots[i].Key
				if isSentinel(key) {
					continue
				}
				k[n] = K(key ^ name)
				if v != nil {
					v[n] = *(*V)(unsafe.Pointer(&slots[i].Val))
				}
				n++
			}
		}
	}
	return n, nil
}

// spreadLines are some consecutive lines of the order in which a table is read.
type spreadLines struct {
	at [group]uint32
	n  int
}

// askLines works out which lines are number lo and on, up to hi, and prefetches them.
// The last number is that of the extra line.
func (t *cpuTable[K, V]) askLines(order core.Spread, lo, hi uint32, to *spreadLines) {
	var sectors [2 * group]uint32 // a line is two lines of a cache
	at := order.At(lo)
	for to.n = 0; to.n < group && lo < hi; to.n++ {
		if to.at[to.n] = at; lo == t.lines {
			to.at[to.n] = lo
		}
		sectors[2*to.n] = to.at[to.n] * lineSectors
		sectors[2*to.n+1] = sectors[2*to.n] + near
		at = order.Next(at)
		lo++
	}
	t.prefetch(sectors[:2*to.n])
}

func (e *cpuEngine[K, SK, V, SV]) probeLengths(context.Context) (uint64, uint32, error) {
	t := tableOf[SK, SV](e.Memory().(*generation))
	var sum atomic.Uint64
	var longest atomic.Uint32
	e.Device.Parallel(int(t.lines), 1<<10, func(lo, hi int) {
		s, l := t.probeLengths(uint32(lo), uint32(hi))
		sum.Add(s)
		for old := longest.Load(); l > old && !longest.CompareAndSwap(old, l); {
			old = longest.Load()
		}
	})
	return sum.Load(), longest.Load(), nil
}
