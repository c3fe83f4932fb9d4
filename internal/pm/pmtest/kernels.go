package pmtest

import (
	"encoding/binary"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm"
)

// Kernels implements sim.Domain. It computes what a crash may leave of host memory that is mapped
// into a device and that kernels store to.
//
// A fence of system scope makes durable what precedes it in causality order: the stores of its
// thread and what the thread has acquired from others. A release of system scope makes nothing
// durable, but what precedes it is at least as durable as the value that it stores. Fences and
// releases of a smaller scope order what threads of the device see of each other. They do not order
// what a crash leaves. The two words of a 16-byte store are independent.
type Kernels struct {
	Images
	// Base is the address of the memory on the device; 0 until the device has mapped it.
	Base device.Ptr
	// Step, if not nil, is called after every store and every fence of system scope. Its error is a
	// crash: the launch ends, and the device is lost.
	Step func() error

	mapped   []byte
	stores   int          // stores reported by the simulator
	steps    int          // calls of Step, or places where Step would be called
	nextDeps []dependency // dependencies of the next store, since it is a release
}

// NewKernels returns the domain of host memory with contents that are durable as they are.
func NewKernels(mapped []byte) *Kernels {
	k := &Kernels{Images: newImages(uint64(len(mapped) / pm.Word)), mapped: mapped}
	k.SyncFromHost()
	return k
}

// SyncFromHost makes the current contents durable, whoever wrote them. The host calls it after it
// has waited for its launches and written the memory itself.
func (k *Kernels) SyncFromHost() {
	clear(k.dirty)
	for at := range uint64(len(k.mapped) / pm.Word) {
		*k.word(at) = binary.NativeEndian.Uint64(k.mapped[at*pm.Word:])
	}
}

// Memory returns the current image, inside the callback of Crash.
func (k *Kernels) Memory() *pm.Memory { return pm.New(k.mapped, &k.Images) }

// Steps returns the number of points at which Step was called or would have been.
func (k *Kernels) Steps() int { return k.steps }

// Holds implements sim.Domain.
func (k *Kernels) Holds(addr device.Ptr) bool {
	return k.Base != 0 && addr >= k.Base && addr < k.Base+device.Ptr(len(k.mapped))
}

// Store implements sim.Domain.
func (k *Kernels) Store(_ sim.Thread, addr device.Ptr, data []byte) error {
	for at, end := uint64(addr-k.Base), uint64(addr-k.Base)+uint64(len(data)); at < end; {
		var word [pm.Word]byte
		binary.NativeEndian.PutUint64(word[:], *k.word(at / pm.Word))
		n := copy(word[at%pm.Word:], data)
		h := k.recordStore(at/pm.Word, binary.NativeEndian.Uint64(word[:]), k.stores)
		for _, n := range k.nextDeps {
			n.value = k.stores
			h.deps = append(h.deps, n)
		}
		at, data = at+uint64(n), data[n:]
	}
	k.nextDeps = nil
	k.stores++
	return k.step()
}

// Release implements sim.Domain.
func (k *Kernels) Release(_ sim.Thread, scope sim.Scope, before sim.Before) error {
	if scope != sim.ScopeSys {
		return nil
	}
	for at, h := range k.dirty {
		if i := h.newest(before); i > 0 {
			k.nextDeps = append(k.nextDeps, dependency{at: at, store: h.stores[i]})
		}
	}
	return nil
}

// Fence implements sim.Domain.
func (k *Kernels) Fence(_ sim.Thread, scope sim.Scope, before sim.Before) error {
	if scope != sim.ScopeSys {
		return nil
	}
	for at := range k.dirty {
		k.makeDurable(at, before)
	}
	return k.step()
}

func (k *Kernels) step() error {
	k.steps++
	if k.Step == nil {
		return nil
	}
	return k.Step()
}
