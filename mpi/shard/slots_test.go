package shard

import (
	"testing"

	"github.com/weftgo/weft/column"
)

// Saved files depend on slots, so the slots of keys must never change. These values were computed
// from the definition in package column, independently of this program.
func TestSlotGolden(t *testing.T) {
	for _, c := range []struct {
		key  uint64
		want int
	}{{0, 11275}, {1, 13057}, {2, 1712}, {1 << 63, 11841}, {1<<64 - 1, 14331}, {123456789, 3324}} {
		if got := Slot(c.key); got != c.want {
			t.Errorf("Slot(%d) = %d, want %d", c.key, got, c.want)
		}
	}
}

// A slot consists of the top bits of column.Hash, for each type of key.
func TestSlotIsColumnHash(t *testing.T) {
	keys := make([]int32, 1000)
	for i := range keys {
		keys[i] = int32(i*i*7919) - 1<<30
	}
	hashes := make([]uint64, len(keys))
	column.Hash(host, []column.Column{column.Of(keys)}, slotSeed, hashes)
	for i, k := range keys {
		want := int(hashes[i] >> 50)
		if a, b := Slot(k), Slot(int64(k)); a != want || b != want {
			t.Fatalf("key %d has slots %d and %d, want %d", k, a, b, want)
		}
	}
}

func TestRangesCoverSlots(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 64, 168, 1000, Slots} {
		at := 0
		for rank := range size {
			lo, hi := Range(rank, size)
			if lo != at || hi <= lo {
				t.Fatalf("rank %d of %d has slots %d to %d, want from %d", rank, size, lo, hi, at)
			}
			for slot := lo; slot < hi; slot++ {
				if got := rankOf(uint64(slot)<<50, size); got != rank {
					t.Fatalf("slot %d of %d ranks is rank %d's, want %d", slot, size, got, rank)
				}
			}
			at = hi
		}
		if at != Slots {
			t.Errorf("%d ranks have %d slots", size, at)
		}
	}
}
