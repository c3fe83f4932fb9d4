package slab

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
)

// TestConstantsAreTwins checks that the constants of the kernels equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"../kernels/include/weft/slab_table.cuh": {"kSlabBytes": slabBytes, "kLanes": tileLanes},
		"tuning.cuh":                             {"kBlock": gpu.BlockThreads},
		"../kernels/include/weft/slot.cuh": {
			"kEmpty": cpu.Empty, "kDead": cpu.Dead, "kPending": cpu.Pending, "kNone": lastSentinel,
		},
		"../kernels/include/weft/order.cuh": {
			"kReuse": int(batch.Reuse), "kContend": int(batch.Order), "kGet": int(weft.OpGet), "kPut": int(weft.OpPut),
			"kPutNew": int(weft.OpPutNew), "kDelete": int(weft.OpDelete), "kDeleteAll": int(weft.OpDeleteAll),
			"kSum": int(weft.OpSum), "kMin": int(weft.OpMin), "kMax": int(weft.OpMax), "kAnd": int(weft.OpAnd), "kOr": int(weft.OpOr),
			"kMulti": int(batch.Multi), "kSigned": int(batch.Signed), "kFloat": int(batch.Float),
		},
	})
}

// TestSlotsOfASlab checks the number of slots: as in the paper 15 pairs or 30 keys of 32 bits, and
// fewer with 64 bits. The link follows the slots.
func TestSlotsOfASlab(t *testing.T) {
	for slot, want := range map[int]int{4: 30, 8: 15, 16: 7} {
		if got := slotsIn(slot); got != want || got*slot > linkAt {
			t.Errorf("%d slots of %d bytes, want %d", got, slot, want)
		}
	}
	if got := (&cpuTable[uint32, struct{}]{}).perSlab(); got != 30 {
		t.Errorf("the engine sees %d keys of 32 bits", got)
	}
	if got := (&cpuTable[uint64, uint64]{}).perSlab(); got != 7 {
		t.Errorf("the engine sees %d pairs of 64 bits", got)
	}
	if linkAt+int(unsafe.Sizeof(link{})) != slabBytes {
		t.Errorf("the link lies at %d", linkAt)
	}
}

// TestBucketByLongArithmetic compares the hash and the bucket with a computation in integers of
// arbitrary size.
func TestBucketByLongArithmetic(t *testing.T) {
	for _, g := range []geometry{{0, 1}, {1, 3}, {0xfedcba9876543210, 1000}, {1 << 63, maxBuckets}} {
		for i := range uint64(200) {
			key := hash.Uint64(i, 17)
			wide, narrow := conformance.Homes(key, g.seed, uint64(g.buckets))
			if got := uint64(bucketOf(g, key)); got != wide {
				t.Fatalf("%+v: bucket of 64-bit key %#x is %d, want %d", g, key, got, wide)
			}
			if got := uint64(bucketOf(g, uint32(key))); got != narrow {
				t.Fatalf("%+v: bucket of 32-bit key %#x is %d, want %d", g, uint32(key), got, narrow)
			}
		}
	}
}

// TestMarksAreKeysToo checks that keys that equal sentinels have a separate bucket and separate
// stored keys.
func TestMarksAreKeysToo(t *testing.T) {
	g := geometry{seed: 5, buckets: 10}
	for i := range uint32(7) {
		key := ^i
		if got, want := bucketOf(g, key) == g.buckets, i <= lastSentinel; got != want {
			t.Errorf("key %#x is in the extra bucket: %v", key, got)
		}
		want := key
		if i <= lastSentinel {
			want = i
		}
		if cpu.Stored(key, lastSentinel) != want || bucketOf(g, uint64(key)) == g.buckets {
			t.Errorf("key %#x is stored as %#x, want %#x; with 64 bits in bucket %d", key, cpu.Stored(key, lastSentinel), want, bucketOf(g, uint64(key)))
		}
	}
}

// TestMatch checks that match finds the first slot of a key among any other content, and never
// mistakes a link for a slot.
func TestMatch(t *testing.T) {
	t.Run("8 bytes", func(t *testing.T) { testMatch[uint32, uint32](t) })
	t.Run("16 bytes", func(t *testing.T) { testMatch[uint64, uint64](t) })
	t.Run("4 bytes, key", func(t *testing.T) { testMatch[uint32, struct{}](t) })
	t.Run("8 bytes, key", func(t *testing.T) { testMatch[uint64, struct{}](t) })
}

func testMatch[K cpu.Key, V cpu.Val](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	memory := make([]uint64, 2*slabBytes/8) // no pointer leads out of it
	slab := unsafe.Pointer(&memory[0])
	var table cpuTable[K, V]
	slots := table.slots(slab)
	for range 2000 {
		copy(unsafe.Slice((*byte)(slab), slabBytes), bytes.Repeat([]byte{byte(rng.Uint32())}, slabBytes))
		want := len(slots)
		for i := len(slots) - 1; i >= 0; i-- {
			if slots[i].Key = K(rng.Uint32N(60)); slots[i].Key == 3 {
				want = i
			}
		}
		*linkOf(slab) = link{tail: 3, next: 3 * uint32(rng.IntN(2))}
		if got := match[K, V](slab, 3); got != want && (want < len(slots) || got < len(slots)) {
			t.Fatalf("%v: slot %d, want %d", slots, got, want)
		}
	}
}
