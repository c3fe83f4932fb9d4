package hash

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The finalizers must compute the same as the kernels. These values were computed from the
// definition, step by step, outside this program.
func TestKnownValues(t *testing.T) {
	if got := Uint32(0, 0); got != 0 {
		t.Errorf("Uint32(0, 0) = %#x, want 0", got)
	}
	if got := Uint64(0, 0); got != 0 {
		t.Errorf("Uint64(0, 0) = %#x, want 0", got)
	}
	if a, b := Uint32(5, 9), Uint32(5^9, 0); a != b {
		t.Errorf("the seed is not an exclusive or: %#x, %#x", a, b)
	}
	// 1 >> 16 = 0; 1 * 0x21f0aaad; ^ >> 15; * 0xd35a2d97; ^ >> 15
	x := uint32(0x21f0aaad)
	x ^= 0x21f0aaad >> 15
	x *= 0xd35a2d97
	x ^= x >> 15
	if got := Uint32(1, 0); got != x {
		t.Errorf("Uint32(1, 0) = %#x, want %#x", got, x)
	}
}

// RowStart is the first output of SplitMix64. The expected values come from its reference
// implementation.
func TestRowStart(t *testing.T) {
	for seed, want := range map[uint64]uint64{0: 0xe220a8397b1dcdaf, 1234567: 6457827717110365317} {
		if got := RowStart(seed); got != want {
			t.Errorf("RowStart(%d) = %#x, want %#x", seed, got, want)
		}
	}
}

// A flipped input bit flips each output bit with probability one half.
func TestAvalanche(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 4096
	for in := range 64 {
		flips := 0
		for range n {
			x, seed := rng.Uint64(), rng.Uint64()
			flips += bits.OnesCount64(Uint64(x, seed) ^ Uint64(x^1<<in, seed))
		}
		if mean := float64(flips) / n; mean < 31 || mean > 33 {
			t.Errorf("Uint64: input bit %d flips %.2f bits, want 32", in, mean)
		}
	}
	for in := range 32 {
		flips := 0
		for range n {
			x, seed := rng.Uint32(), rng.Uint64()
			flips += bits.OnesCount32(Uint32(x, seed) ^ Uint32(x^1<<in, seed))
		}
		if mean := float64(flips) / n; mean < 15 || mean > 17 {
			t.Errorf("Uint32: input bit %d flips %.2f bits, want 16", in, mean)
		}
	}
}

// Unmix32 and Unmix64 invert the hashes.
func TestUnmix(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		x, seed := rng.Uint64(), rng.Uint64()
		if got := Unmix32(Uint32(uint32(x), seed), seed); got != uint32(x) {
			t.Fatalf("%#x under seed %#x comes back as %#x", uint32(x), seed, got)
		}
		if got := Unmix64(Uint64(x, seed), seed); got != x {
			t.Fatalf("%#x under seed %#x comes back as %#x", x, seed, got)
		}
	}
}

func TestReduceCoversEvenly(t *testing.T) {
	for _, n := range []uint32{1, 2, 3, 7, 1000, 1<<31 + 1} {
		if got := Reduce32(1<<32-1, n); got != n-1 {
			t.Errorf("Reduce32(max, %d) = %d", n, got)
		}
		if got := Reduce64(1<<64-1, uint64(n)); got != uint64(n)-1 {
			t.Errorf("Reduce64(max, %d) = %d", n, got)
		}
	}
	var seen [7]int
	for h := range uint32(7000) {
		seen[Reduce32(h*613566, 7)]++
	}
	for i, c := range seen {
		if c < 900 || c > 1100 {
			t.Errorf("bucket %d of 7 got %d of 7000", i, c)
		}
	}
}
