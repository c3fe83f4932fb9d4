package pmtest

import (
	"encoding/binary"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm"
)

// Kernels implements sim.Domain: it tells what a crash may leave of memory of the host
// that is mapped into a device, and that kernels store to.
//
// A fence of system scope makes durable what comes before it in causality order: what
// its thread has stored, and what it has acquired from others. A release of system scope
// makes nothing durable, but what comes before it is at least as durable as the one value
// that it stores. Fences and releases of a smaller scope order what threads of the device
// see of each other, and nothing that a crash leaves. Both of the words of a store of 16
// bytes are on their own.
type Kernels struct {
	Images
	// Base is where the device has mapped the memory; 0 as long as it has not.
	Base device.Ptr
	// Step, if there is one, is called behind every store and every fence of system
	// scope. Its error is a crash: it ends the launch, and the device is lost.
	Step func() error

	mapped []byte
	stores int    // of which the simulator has told
	now    int    // calls of Step, or where it would have been
	needs  []need // of the store that comes next, since it is a release
}

// NewKernels is the domain of memory of the host, all of which is durable as it is.
func NewKernels(mapped []byte) *Kernels {
	k := &Kernels{Images: newImages(uint64(len(mapped) / pm.Word)), mapped: mapped}
	k.Settle()
	return k
}

// Settle makes all durable that is in the memory, by whoever it has been written: for when
// the host has waited for its launches, and has written itself.
func (k *Kernels) Settle() {
	clear(k.dirty)
	for at := range uint64(len(k.mapped) / pm.Word) {
		*k.word(at) = binary.NativeEndian.Uint64(k.mapped[at*pm.Word:])
	}
}

// Memory is the image that is looked at, within look of Crash.
func (k *Kernels) Memory() *pm.Memory { return pm.New(k.mapped, &k.Images) }

// Now is how many points there have been at which Step was called, or would have been.
func (k *Kernels) Now() int { return k.now }

// Holds is for sim.Domain.
func (k *Kernels) Holds(addr device.Ptr) bool {
	return k.Base != 0 && addr >= k.Base && addr < k.Base+device.Ptr(len(k.mapped))
}

// Store is for sim.Domain.
func (k *Kernels) Store(_ sim.Thread, addr device.Ptr, data []byte) error {
	for at, end := uint64(addr-k.Base), uint64(addr-k.Base)+uint64(len(data)); at < end; {
		var word [pm.Word]byte
		binary.NativeEndian.PutUint64(word[:], *k.word(at / pm.Word))
		n := copy(word[at%pm.Word:], data)
		h := k.put(at/pm.Word, binary.NativeEndian.Uint64(word[:]), k.stores)
		for _, n := range k.needs {
			n.value = k.stores
			h.after = append(h.after, n)
		}
		at, data = at+uint64(n), data[n:]
	}
	k.needs = nil
	k.stores++
	return k.step()
}

// Release is for sim.Domain.
func (k *Kernels) Release(_ sim.Thread, scope sim.Scope, before sim.Before) error {
	if scope != sim.ScopeSys {
		return nil
	}
	for at, h := range k.dirty {
		if i := h.last(before); i > 0 {
			k.needs = append(k.needs, need{at: at, store: h.stores[i]})
		}
	}
	return nil
}

// Fence is for sim.Domain.
func (k *Kernels) Fence(_ sim.Thread, scope sim.Scope, before sim.Before) error {
	if scope != sim.ScopeSys {
		return nil
	}
	for at := range k.dirty {
		k.settle(at, before)
	}
	return k.step()
}

func (k *Kernels) step() error {
	k.now++
	if k.Step == nil {
		return nil
	}
	return k.Step()
}
