package pmtest

import (
	"encoding/binary"
	"sync"

	"github.com/weftgo/weft/internal/pm"
)

// Host implements pm.Domain for accesses of the host to the memory of a Kernels. The host may
// access it only while no launch runs. A crash may lose stores of the host until the host fences.
// Fences of the host do not make stores of kernels durable.
type Host struct {
	*Kernels
	// Mutant, if not nil, may change the value that a store writes. If Mutant returns true, the
	// store or fence is omitted.
	Mutant func(a *Access) bool

	mu sync.Mutex
	// number of stores; their ids are negative, since the simulator numbers the stores of kernels
	// from 0
	stores  int
	pending []uint64 // words stored since the last fence
}

// firstHostStore is the id of the host's first store. Id -1 is the initial durable value.
const firstHostStore = -2

// Load implements pm.Domain.
func (h *Host) Load(at uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return binary.NativeEndian.Uint64(h.mapped[at*pm.Word:])
}

// Store implements pm.Domain.
func (h *Host) Store(at, v uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := (Access{Kind: Store, At: at, New: v}); !h.mutate(&a) {
		h.store(at, a.New)
	}
}

// CompareAndSwap implements pm.Domain.
func (h *Host) CompareAndSwap(at, old, v uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := Access{Kind: CompareAndSwap, At: at, Old: old, New: v}
	skip := h.mutate(&a)
	if binary.NativeEndian.Uint64(h.mapped[at*pm.Word:]) != old {
		return false
	}
	if !skip {
		h.store(at, a.New)
	}
	return true
}

// Fence implements pm.Domain.
func (h *Host) Fence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mutate(&Access{Kind: Fence}) {
		return
	}
	for _, at := range h.pending {
		h.makeDurable(at, func(store int) bool { return store <= firstHostStore })
	}
	h.pending = h.pending[:0]
	_ = h.step() // an error would end a launch, and none runs
}

func (h *Host) mutate(a *Access) bool { return h.Mutant != nil && h.Mutant(a) }

func (h *Host) store(at, v uint64) {
	binary.NativeEndian.PutUint64(h.mapped[at*pm.Word:], v)
	h.recordStore(at, v, firstHostStore-h.stores)
	h.stores++
	h.pending = append(h.pending, at)
	_ = h.step()
}
