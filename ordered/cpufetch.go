package ordered

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// leavesAhead is how many leaves are on their way while one is worked on.
const leavesAhead = 6

// fetch asks for a leaf.
func (m *merger[K, V]) fetch(id uint32) {
	l := unsafe.Pointer(m.at(id))
	var at [(int(unsafe.Sizeof(leaf[uint64, uint64]{})) + lineBytes - 1) / lineBytes]unsafe.Pointer
	n := int(unsafe.Sizeof(leaf[K, V]{})) / lineBytes
	for i := range n {
		at[i] = unsafe.Add(l, i*lineBytes)
	}
	cpu.PrefetchPairs(at[:n])
}

// column is memory of a batch with 1<<shift bytes for each row.
type column struct {
	base  unsafe.Pointer
	shift uint
}

// columnsOf are those that changes read or write, but for the keys, which are in the items.
func columnsOf(b *batch.Batch) (rows []column) {
	for _, r := range []batch.Role{batch.Kinds, batch.Vals, batch.Out, batch.OK} {
		if c := &b.Columns[r]; len(c.Host) > 0 {
			rows = append(rows, column{unsafe.Pointer(unsafe.SliceData(c.Host)), uint(bits.TrailingZeros(uint(c.Width)))})
		}
	}
	return rows
}

// fetchRows asks for the rows of items that come next, as the chunk has got to number x.
func (m *merger[K, V]) fetchRows(x int) {
	if x+cpu.Group < m.ahead || m.ahead >= m.c.hi {
		return
	}
	end := min(m.ahead+cpu.Group, m.c.hi)
	var at group
	for i, it := range m.items[m.ahead:end] {
		at[i] = it.Row
	}
	for _, c := range m.rows {
		cpu.Prefetch(c.base, at[:end-m.ahead], c.shift)
	}
	m.ahead = end
}
