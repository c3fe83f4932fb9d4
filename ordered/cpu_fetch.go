package ordered

import (
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
)

// prefetchLeaves is the number of leaves to prefetch while one is being processed.
const prefetchLeaves = 6

func (m *merger[K, V]) prefetch(id uint32) {
	l := unsafe.Pointer(m.at(id))
	var at [(int(unsafe.Sizeof(leaf[uint64, uint64]{})) + lineBytes - 1) / lineBytes]unsafe.Pointer
	n := int(unsafe.Sizeof(leaf[K, V]{})) / lineBytes
	for i := range n {
		at[i] = unsafe.Add(l, i*lineBytes)
	}
	cpu.PrefetchPairs(at[:n])
}
