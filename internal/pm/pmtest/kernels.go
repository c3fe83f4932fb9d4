package pmtest

import (
	"encoding/binary"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm"
)

// Kernels implements sim.Domain. It computes what a crash may leave in host memory that is mapped
// into a device and that kernels store to.
//
// A fence of system scope makes all stores durable that precede it in causality order: the stores
// of its thread and those that the thread has acquired from others. A release of system scope makes
// no store durable. But if the value of the release is durable, the stores that precede the release
// are durable, too. Fences and releases of a smaller scope order only what threads of the device
// see, not what a crash leaves. The two words of a 16-byte store are independent.
type Kernels struct {
	Images
	// Base is the address of the memory on the device, or 0 until the device has mapped it.
	Base device.Ptr
	// Step, if not nil, is called after every store and every fence of system scope. If it returns
	// an error, the launch ends and the device is lost, which simulates a crash.
	Step func() error

	mapped   []byte
	stores   int          // number of stores that the simulator has reported
	steps    int          // number of calls of Step, including calls omitted because Step is nil
	nextDeps []dependency // dependencies of the next store, if it is a release
}

// NewKernels returns the domain of mapped host memory. The current contents are durable.
func NewKernels(mapped []byte) *Kernels {
	k := &Kernels{Images: newImages(uint64(len(mapped) / pm.Word)), mapped: mapped}
	k.SyncFromHost()
	return k
}

// SyncFromHost makes the current contents durable. Call it after the host has waited for its
// launches and has written to the memory directly.
func (k *Kernels) SyncFromHost() {
	clear(k.dirty)
	for at := range uint64(len(k.mapped) / pm.Word) {
		*k.word(at) = binary.NativeEndian.Uint64(k.mapped[at*pm.Word:])
	}
}

// Memory returns the current image. Call it only inside the callback of Crash.
func (k *Kernels) Memory() *pm.Memory { return pm.New(k.mapped, &k.Images) }

// Steps returns the number of points at which Step was called, or would have been.
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
