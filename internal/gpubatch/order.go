package gpubatch

import (
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

//go:generate go run ../kernelgen -export -struct weft::List -struct weft::RankParams ../../kernels/include/weft/order.cuh

// OrderKernels settle the order of duplicates. Rank, Claim and Reset take
// RankParams; Last, for Put, and First, for PutNew and Delete, take a struct
// of the room's that has them within.
type OrderKernels struct{ Rank, Claim, Last, First, Reset device.Kernel }

// Entries are the names of the kernels. A set has no Put.
func (k *OrderKernels) Entries(w batch.Widths) []Entry {
	entries := []Entry{{"rank", &k.Rank}, {"reset", &k.Reset}, {"settle_first", &k.First}}
	if w.Val > 0 {
		entries = append(entries, Entry{"claim", &k.Claim}, Entry{"settle_last", &k.Last})
	}
	return entries
}

// Pair is the variant of an image for a pair of widths: "64_32".
func Pair(w batch.Widths) string { return fmt.Sprintf("%d_%d", w.Key*8, w.Val*8) }

// SettleOps is the number of changes between two looks for duplicates. The
// memory for them is 13 bytes an operation, 17 with a list of failures.
const SettleOps = 1 << 23

// Defer prepares the change of an ordered batch: deferred is where it lists
// what duplicates could have decided, ok the batch's column, or memory in its
// place that settling needs. Nothing is deferred in other batches.
func (q *Queue) Defer(s *device.Stream, b *batch.Batch) (deferred List, ok device.Ptr, err error) {
	ok = b.OK.Ptr
	if !b.Ordered() {
		return List{}, ok, nil
	}
	if ok == 0 && b.Kind != weft.OpPut {
		ok = q.flags.Ptr()
	}
	return List{Items: q.deferred.Ptr(), Count: q.Word(WordDeferred)}, ok, q.Set(s, WordDeferred, 0)
}

// Ranks are the parameters that settle a batch.
func (q *Queue) Ranks(b *batch.Batch, deferred List) RankParams {
	return RankParams{
		Keys: b.Keys.Ptr, Ranks: q.ranks.Ptr(), Deferred: deferred,
		Mask: uint32(q.ranks.Len() - 1), N: uint32(b.N), Kind: uint32(b.Kind),
	}
}

// Settle gives the operations that a change listed the outcome of batch order.
// When it listed none, the kernels find that out and end. P is the struct that
// Last and First take.
func Settle[P any](q *Queue, s *device.Stream, k *OrderKernels, rank *RankParams, settle *P) error {
	if q.ranked { // a batch before was cut short
		if err := s.Fill(q.ranks.Ptr(), 0, q.ranks.Len()); err != nil {
			return err
		}
	}
	q.ranked = true
	wave := Wave(s.Device(), int(rank.N))
	if err := device.Launch(s, k.Rank, wave, Block, rank); err != nil {
		return err
	}
	last := k.First
	if weft.OpKind(rank.Kind) == weft.OpPut {
		last = k.Last
		if err := device.Launch(s, k.Claim, wave, Block, rank); err != nil {
			return err
		}
	}
	if err := device.Launch(s, last, wave, Block, settle); err != nil {
		return err
	}
	err := device.Launch(s, k.Reset, wave, Block, rank)
	q.ranked = err != nil
	return err
}
