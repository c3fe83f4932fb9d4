package gpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// OrderKernels resolve duplicates. Contend, Claim and Reset take a Contest; Last,
// for Put, and First, for PutNew and Delete, take a struct of the structure's
// that has Winners within.
type OrderKernels struct{ Contend, Claim, Last, First, Reset device.Kernel }

// Entries are the names of the kernels. A set has no Put.
func (k *OrderKernels) Entries(w batch.Widths) []Entry {
	entries := []Entry{{"contend", &k.Contend}, {"reset", &k.Reset}, {"winners_first", &k.First}}
	if w.Val > 0 {
		entries = append(entries, Entry{"claim", &k.Claim}, Entry{"winners_last", &k.Last})
	}
	return entries
}

// Winners is the kernel of the structure's own that resolves the duplicates of a
// batch of a kind.
func (k *OrderKernels) Winners(kind op.Kind) device.Kernel {
	if kind == op.Put {
		return k.Last
	}
	return k.First
}

// Pair is the variant of an image for a pair of widths: "64_32".
func Pair(w batch.Widths) string { return fmt.Sprintf("%d_%d", w.Key*8, w.Val*8) }

// Slots is the variant of an image that serves all pairs of widths with slots of 16 bytes: "64_64".
func Slots(w batch.Widths) string {
	if w.Slot == 16 {
		w.Key, w.Val = 8, 8
	}
	return Pair(w)
}

// ResolveOps is the number of changes among which duplicates are resolved, at
// most.
const ResolveOps = 1 << 23

// Contend prepares the change of an ordered batch: contended is where it lists
// what duplicates could have decided, ok the batch's column, or memory in its
// place that resolving needs. Nothing contends in other batches.
func (q *Queue) Contend(s *device.Stream, b *batch.Batch, x *Scratch) (contended List, ok device.Ptr, err error) {
	ok = b.Columns[batch.OK].Ptr
	if !b.Ordered() {
		return List{}, ok, nil
	}
	if ok == 0 && b.Kind != op.Put {
		ok = x.flags()
	}
	return List{Items: x.listed(), Count: q.Word(WordContended)}, ok, q.Set(s, WordContended, 0)
}

// Contest is what resolves the duplicates of a batch, with twice as many places
// for winners as operations.
func (x *Scratch) Contest(b *batch.Batch, contended List) Contest {
	return Contest{
		Keys: b.Columns[batch.Keys].Ptr, Winners: x.winners(), Contended: contended,
		Mask: uint32(2*scratchOps(b.N) - 1), N: uint32(b.N), Kind: uint32(b.Kind), Narrow: narrow(b),
	}
}

// resolve gives the operations that a change listed the outcome of batch order.
// When it listed none, the kernels find that out and end. winners launches the
// structure's own.
func (x *Scratch) resolve(s *device.Stream, k *OrderKernels, contest *Contest, winners func() error) error {
	if !x.clean { // it is new, or a batch before was cut short
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
