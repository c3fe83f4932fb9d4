package gpu

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../kernelgen -export -struct weft::List -struct weft::RankParams ../../kernels/include/weft/order.cuh

// OrderKernels resolve duplicates. Rank, Claim and Reset take RankParams; Last,
// for Put, and First, for PutNew and Delete, take a struct of the structure's
// that has them within.
type OrderKernels struct{ Rank, Claim, Last, First, Reset device.Kernel }

// Entries are the names of the kernels. A set has no Put.
func (k *OrderKernels) Entries(w batch.Widths) []Entry {
	entries := []Entry{{"rank", &k.Rank}, {"reset", &k.Reset}, {"settle_first", &k.First}}
	if w.Val > 0 {
		entries = append(entries, Entry{"claim", &k.Claim}, Entry{"settle_last", &k.Last})
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

// ResolveOps is the number of changes among which duplicates are resolved, at
// most.
const ResolveOps = 1 << 23

// Defer prepares the change of an ordered batch: deferred is where it lists
// what duplicates could have decided, ok the batch's column, or memory in its
// place that resolving needs. Nothing is deferred in other batches.
func (q *Queue) Defer(s *device.Stream, b *batch.Batch, x *Scratch) (deferred List, ok device.Ptr, err error) {
	ok = b.Columns[batch.OK].Ptr
	if !b.Ordered() {
		return List{}, ok, nil
	}
	if ok == 0 && b.Kind != op.Put {
		ok = x.flags()
	}
	return List{Items: x.deferred(), Count: q.Word(WordDeferred)}, ok, q.Set(s, WordDeferred, 0)
}

// Ranks are the parameters that resolve the duplicates of a batch, with twice as
// many ranks as operations.
func (x *Scratch) Ranks(b *batch.Batch, deferred List) RankParams {
	return RankParams{
		Keys: b.Columns[batch.Keys].Ptr, Ranks: x.ranks(), Deferred: deferred,
		Mask: uint32(2*scratchOps(b.N) - 1), N: uint32(b.N), Kind: uint32(b.Kind),
	}
}

// resolve gives the operations that a change listed the outcome of batch order.
// When it listed none, the kernels find that out and end. winners launches the
// structure's own.
func (x *Scratch) resolve(s *device.Stream, k *OrderKernels, rank *RankParams, winners func() error) error {
	if !x.clean { // it is new, or a batch before was cut short
		if err := s.Fill(x.ranks(), 0, 2*x.Ops); err != nil {
			return err
		}
	}
	x.clean = false
	wave := Wave(s.Device(), int(rank.N))
	if err := device.Launch(s, k.Rank, wave, Block, rank); err != nil {
		return err
	}
	if op.Kind(rank.Kind) == op.Put {
		if err := device.Launch(s, k.Claim, wave, Block, rank); err != nil {
			return err
		}
	}
	if err := winners(); err != nil {
		return err
	}
	err := device.Launch(s, k.Reset, wave, Block, rank)
	x.clean = err == nil
	return err
}
