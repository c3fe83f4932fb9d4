package gpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// OrderKernels are the kernels that resolve duplicates. Contend, Claim and Reset take a Contest.
// Last resolves Put; First resolves PutNew and Delete. Last and First take a struct of the
// structure that contains Winners.
type OrderKernels struct{ Contend, Claim, Last, First, Reset device.Kernel }

// Entries returns the kernels to load. Sets load no kernels for Put.
func (k *OrderKernels) Entries(w batch.Widths) []Entry {
	entries := []Entry{{"contend", &k.Contend}, {"reset", &k.Reset}, {"winners_first", &k.First}}
	if w.Val > 0 {
		entries = append(entries, Entry{"claim", &k.Claim}, Entry{"winners_last", &k.Last})
	}
	return entries
}

// Winners returns the kernel that resolves duplicates in a batch of the given kind.
func (k *OrderKernels) Winners(kind op.Kind) device.Kernel {
	if kind == op.Put {
		return k.Last
	}
	return k.First
}

// Variant returns the name of the image variant for the key and value widths in w, in bits, such as
// "64_32".
func Variant(w batch.Widths) string { return fmt.Sprintf("%d_%d", w.Key*8, w.Val*8) }

// SlotVariant returns the name of the image variant for the widths in w. Slots of 16 bytes have a
// single variant, "64_64", for all key and value widths.
func SlotVariant(w batch.Widths) string {
	if w.Slot == 16 {
		w.Key, w.Val = 8, 8
	}
	return Variant(w)
}

// ResolveOps is the maximum number of operations among which one pass resolves duplicates.
const ResolveOps = 1 << 23

// Contend prepares a batch for the resolution of duplicates. contended is the list in which the
// kernel of a change records operations with outcomes that duplicates may have decided. ok is
// column OK of the batch, or scratch memory if the batch lacks the column but the resolution needs
// it. In a batch that is not ordered, no operation contends.
func (q *Queue) Contend(s *device.Stream, b *batch.Batch, x *Scratch) (contended List, ok device.Ptr, err error) {
	ok = b.Columns[batch.OK].Ptr
	if !b.Ordered() {
		return List{}, ok, nil
	}
	if ok == 0 && b.Kind != op.Put {
		ok = x.flags()
	}
	return List{Items: x.contendedItems(), Count: q.Word(WordContended)}, ok, q.SetWord(s, WordContended, 0)
}

// Contest returns the arguments of the kernels that resolve duplicates. The table of winners has
// two entries per operation.
func (x *Scratch) Contest(b *batch.Batch, contended List) Contest {
	return Contest{
		Keys: b.Columns[batch.Keys].Ptr, Winners: x.winners(), Contended: contended,
		Mask: uint32(2*scratchOps(b.N) - 1), N: uint32(b.N), Kind: uint32(b.Kind), Narrow: narrow(b),
	}
}

// resolve resolves the contended operations of a change, in batch order. If the change listed none,
// the kernels end at once. winners launches the structure's kernel.
func (x *Scratch) resolve(s *device.Stream, k *OrderKernels, contest *Contest, winners func() error) error {
	if !x.clean { // new, or an earlier batch ended early
		if err := s.Fill(x.winners(), 0, 2*x.Ops); err != nil {
			return err
		}
	}
	x.clean = false
	wave := Wave(s.Device(), int(contest.N))
	if err := device.Launch(s, k.Contend, wave, Block, contest); err != nil {
		return err
	}
	if op.Kind(contest.Kind) == op.Put {
		if err := device.Launch(s, k.Claim, wave, Block, contest); err != nil {
			return err
		}
	}
	if err := winners(); err != nil {
		return err
	}
	err := device.Launch(s, k.Reset, wave, Block, contest)
	x.clean = err == nil
	return err
}
