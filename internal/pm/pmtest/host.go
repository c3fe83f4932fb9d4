package pmtest

import (
	"encoding/binary"
	"sync"

	"github.com/weftgo/weft/internal/pm"
)

// Host implements pm.Domain: it is the memory of Kernels as the host works on it between launches
// that it waits for. What it stores a crash may lose, as what kernels store, until it fences; and what
// they have stored its fences do not make durable.
type Host struct {
	*Kernels
	// Mutant, if there is one, may change what an access stores, or leave a store or a fence out by
	// returning true.
	Mutant func(a *Access) bool

	mu      sync.Mutex
	stores  int      // all of them have negative numbers: the simulator counts those of kernels from 0 on
	pending []uint64 // words stored since the last fence
}

// hostStore is the number of the first store of a host; -1 is what was durable before.
const hostStore = -2

// Load is for pm.Domain.
func (h *Host) Load(at uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return binary.NativeEndian.Uint64(h.mapped[at*pm.Word:])
}

// Store is for pm.Domain.
func (h *Host) Store(at, v uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := (Access{Kind: Store, At: at, New: v}); !h.left(&a) {
		h.store(at, a.New)
	}
}

// CompareAndSwap is for pm.Domain.
func (h *Host) CompareAndSwap(at, old, v uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := Access{Kind: CompareAndSwap, At: at, Old: old, New: v}
	left := h.left(&a)
	if binary.NativeEndian.Uint64(h.mapped[at*pm.Word:]) != old {
		return false
	}
	if !left {
		h.store(at, a.New)
	}
	return true
}

// Fence is for pm.Domain.
func (h *Host) Fence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left(&Access{Kind: Fence}) {
		return
	}
	for _, at := range h.pending {
		h.settle(at, func(store int) bool { return store <= hostStore })
	}
	h.pending = h.pending[:0]
	_ = h.step() // a crash here loses no device
}

func (h *Host) left(a *Access) bool { return h.Mutant != nil && h.Mutant(a) }

func (h *Host) store(at, v uint64) {
	binary.NativeEndian.PutUint64(h.mapped[at*pm.Word:], v)
	h.put(at, v, hostStore-h.stores)
	h.stores++
	h.pending = append(h.pending, at)
	_ = h.step()
}
