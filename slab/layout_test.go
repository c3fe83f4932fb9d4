package slab

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
)

// constantsOf reads the constants of a C++ header whose values are plain
// numbers, or marks counted from the top.
func constantsOf(t *testing.T, file string) map[string]int {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`\b(k\w+) = (\d+)\s*[,;}]`).FindAllSubmatch(src, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		found[string(m[1])] = n
	}
	for _, m := range regexp.MustCompile(`static constexpr K (k\w+) = ~K\(0\)(?: - (\d))?;`).FindAllSubmatch(src, -1) {
		n, _ := strconv.Atoi(string(m[2])) // none is 0
		found[string(m[1])] = n
	}
	for _, m := range regexp.MustCompile(`enum Kind : uint32_t \{ ([\w, ]+) \};`).FindAllSubmatch(src, -1) {
		for i, name := range strings.Split(string(m[1]), ", ") {
			found[name] = i
		}
	}
	return found
}

// The constants of the kernels are those of Go.
func TestConstantsAreTwins(t *testing.T) {
	for file, want := range map[string]map[string]int{
		"layout.cuh": {"kSlabBytes": slabBytes},
		"tuning.cuh": {"kLanes": tileLanes, "kBlock": gpubatch.BlockThreads},
		"../kernels/include/weft/slot.cuh": {
			"kEmpty": markEmpty, "kDead": markDead, "kPending": markPending, "kNone": markNone,
		},
		"../kernels/include/weft/order.cuh": {
			"kReuse": int(batch.Reuse), "kContend": int(batch.Order), "kGet": int(weft.OpGet), "kPut": int(weft.OpPut),
			"kPutNew": int(weft.OpPutNew), "kDelete": int(weft.OpDelete), "kDeleteAll": int(weft.OpDeleteAll),
		},
	} {
		got := constantsOf(t, file)
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s: %s is %d (%v), in Go it is %d", file, name, v, ok, n)
			}
		}
	}
}

// The paper's slabs: 15 pairs or 30 keys of 32 bits, and as many as fit of 64
// bits; the link lies behind them.
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

// The hash and the bucket, worked out with integers of any size.
func TestBucketByLongArithmetic(t *testing.T) {
	shiftXor := func(x *big.Int, s uint) { x.Xor(x, new(big.Int).Rsh(x, s)) }
	times := func(x *big.Int, c string, width uint) {
		f, ok := new(big.Int).SetString(c, 16)
		if !ok {
			t.Fatal(c)
		}
		x.Mod(x.Mul(x, f), new(big.Int).Lsh(big.NewInt(1), width))
	}
	reduce := func(x *big.Int, n uint64, width uint) uint64 {
		return x.Rsh(x.Mul(x, new(big.Int).SetUint64(n)), width).Uint64()
	}
	for _, g := range []geometry{{0, 1}, {1, 3}, {0xfedcba9876543210, 1000}, {1 << 63, maxBuckets}} {
		for i := range uint64(200) {
			key := hash.Uint64(i, 17)
			x := new(big.Int).SetUint64(key ^ g.seed)
			shiftXor(x, 32)
			times(x, "e9846af9b1a615d", 64)
			shiftXor(x, 32)
			times(x, "e9846af9b1a615d", 64)
			shiftXor(x, 28)
			if want := reduce(x, uint64(g.buckets), 64); uint64(bucketOf(g, key)) != want {
				t.Fatalf("%+v: bucket of 64-bit key %#x is %d, want %d", g, key, bucketOf(g, key), want)
			}
			small := uint32(key)
			x = new(big.Int).SetUint64(uint64(small ^ uint32(g.seed)))
			shiftXor(x, 16)
			times(x, "21f0aaad", 32)
			shiftXor(x, 15)
			times(x, "d35a2d97", 32)
			shiftXor(x, 15)
			if want := reduce(x, uint64(g.buckets), 32); uint64(bucketOf(g, small)) != want {
				t.Fatalf("%+v: bucket of 32-bit key %#x is %d, want %d", g, small, bucketOf(g, small), want)
			}
		}
	}
}

// Keys that look like marks have a bucket and names apart from all others.
func TestMarksAreKeysToo(t *testing.T) {
	g := geometry{seed: 5, buckets: 10}
	for i := range uint32(7) {
		key := ^i
		if got, want := bucketOf(g, key) == g.buckets, i < marks; got != want {
			t.Errorf("key %#x is in the extra bucket: %v", key, got)
		}
		want := key
		if i < marks {
			want = i
		}
		if stored(key) != want || bucketOf(g, uint64(key)) == g.buckets {
			t.Errorf("key %#x is stored as %#x, want %#x; with 64 bits in bucket %d", key, stored(key), want, bucketOf(g, uint64(key)))
		}
	}
}

// match finds the first slot of a key, whatever lies around, and takes no link
// for a slot.
func TestMatch(t *testing.T) {
	t.Run("8 bytes", func(t *testing.T) { testMatch[uint32, uint32](t) })
	t.Run("16 bytes", func(t *testing.T) { testMatch[uint64, uint64](t) })
	t.Run("4 bytes, key", func(t *testing.T) { testMatch[uint32, struct{}](t) })
	t.Run("8 bytes, key", func(t *testing.T) { testMatch[uint64, struct{}](t) })
}

func testMatch[K storedKey, V storedVal](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	memory := make([]uint64, 2*slabBytes/8) // no pointer leaves it
	slab := unsafe.Pointer(&memory[0])
	var table cpuTable[K, V]
	slots := table.slots(slab)
	for range 2000 {
		copy(unsafe.Slice((*byte)(slab), slabBytes), bytes.Repeat([]byte{byte(rng.Uint32())}, slabBytes))
		want := len(slots)
		for i := len(slots) - 1; i >= 0; i-- {
			if slots[i].key = K(rng.Uint32N(60)); slots[i].key == 3 {
				want = i
			}
		}
		*linkOf(slab) = link{tail: 3, next: 3 * uint32(rng.IntN(2))}
		if got := match[K, V](slab, 3); got != want && (want < len(slots) || got < len(slots)) {
			t.Fatalf("%v: slot %d, want %d", slots, got, want)
		}
	}
}
