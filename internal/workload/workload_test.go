package workload

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
)

// distinct reports whether no key occurs twice. It sorts a copy.
func distinct[K weft.Key](keys []K) bool {
	s := slices.Clone(keys)
	slices.Sort(s)
	return len(slices.Compact(s)) == len(keys)
}

func TestKeysAreDistinctAndMissesAbsent(t *testing.T) {
	t.Run("32", func(t *testing.T) { testDistinct[uint32](t) })
	t.Run("64", func(t *testing.T) { testDistinct[uint64](t) })
	t.Run("signed", func(t *testing.T) { testDistinct[int32](t) })
}

func testDistinct[K weft.Key](t *testing.T) {
	const n = 1 << 18
	keys := make([]K, 2*n)
	Unique(keys[:n], 7, 0)
	Unique(keys[n:], 7, Misses)
	if !distinct(keys) {
		t.Error("a key occurs twice, or a miss is present")
	}
	other := make([]K, n)
	Unique(other, 8, 0)
	if slices.Equal(other, keys[:n]) {
		t.Error("two seeds give the same keys")
	}
}

// mix32 is a bijection if its constants are odd and its shifts are reversible. The test inverts
// each step.
func TestMix32IsABijection(t *testing.T) {
	inverse := func(a uint32) uint32 { // inverse of an odd number modulo 2^32, by Newton
		x := a
		for range 5 {
			x *= 2 - a*x
		}
		return x
	}
	unshift := func(x uint32, s int) uint32 {
		y := x
		for range 32 / s {
			y = x ^ y>>s
		}
		return y
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint32().Draw(t, "x")
		y := unshift(mix32(x), 14)
		y = unshift(y*inverse(0x31848bab), 15)
		y = unshift(y*inverse(0xac4c1b51), 11)
		y = unshift(y*inverse(0xed5ad4bb), 17)
		if y != x {
			t.Fatalf("mix32(%#x) undone is %#x", x, y)
		}
	})
}

func TestKeysLookRandom(t *testing.T) {
	const n = 1 << 16
	keys := make([]uint64, n)
	Unique(keys, 3, 0)
	for bit := range 64 {
		ones := 0
		for _, k := range keys {
			ones += int(k >> bit & 1)
		}
		if d := math.Abs(float64(ones)-n/2) / (math.Sqrt(n) / 2); d > 5 {
			t.Errorf("bit %d is set in %d of %d keys: %.1f standard deviations off", bit, ones, n, d)
		}
	}
}

func TestPermutationVisitsEverythingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 5000).Draw(t, "n")
		p := NewPermutation(n, rapid.Uint64().Draw(t, "seed"))
		seen := make([]bool, n)
		for i := range n {
			j := p.At(i)
			if seen[j] {
				t.Fatalf("%d of %d is reached twice", j, n)
			}
			seen[j] = true
		}
	})
}

func TestPermutationIsNotTheIdentity(t *testing.T) {
	const n = 100000
	p, fixed, ascending := NewPermutation(n, 5), 0, 0
	for i := range uint64(n) {
		if p.At(i) == i {
			fixed++
		}
		if i > 0 && p.At(i) == p.At(i-1)+1 {
			ascending++
		}
	}
	if fixed > 20 || ascending > 20 { // each about 1 in a random permutation
		t.Errorf("%d fixed points, %d runs: hardly shuffled", fixed, ascending)
	}
}

func TestShuffledIsThePermutedRange(t *testing.T) {
	const n = 10001
	want, got := make([]uint32, n), make([]uint32, n)
	Unique(want, 1, 50)
	Shuffled(got, 1, 50, n, 9)
	if slices.Equal(want, got) {
		t.Error("not shuffled")
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Error("other keys than those of the range")
	}
}

func TestLookupsHitExactly(t *testing.T) {
	const count = 20000
	present := map[uint32]bool{}
	for i := range uint64(count) {
		present[Key[uint32](4, i)] = true
	}
	for _, tt := range []struct {
		n     int
		share float64
		hits  int
	}{{10000, 0, 0}, {10000, .5, 5000}, {10000, 1, 10000}, {1, 1, 1}, {0, 1, 0}, {count, 1, count}} {
		keys := make([]uint32, tt.n)
		if got := Lookups(keys, 4, count, tt.share, 2); got != tt.hits {
			t.Errorf("n %d share %g: promises %d hits, want %d", tt.n, tt.share, got, tt.hits)
		}
		hits := 0
		for _, k := range keys {
			if present[k] {
				hits++
			}
		}
		if hits != tt.hits || !distinct(keys) {
			t.Errorf("n %d share %g: %d hits, want %d; distinct %t", tt.n, tt.share, hits, tt.hits, distinct(keys))
		}
	}
}

func TestFillDoesNotDependOnCores(t *testing.T) {
	const n = 1<<17 + 3
	want, got := make([]uint64, n), make([]uint64, n)
	Uniform(want, 1, 1000, 2)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	Uniform(got, 1, 1000, 2)
	if !slices.Equal(want, got) {
		t.Error("one core fills a different column")
	}
}

func TestPatterns(t *testing.T) {
	keys := make([]uint32, 4)
	Sequential(keys, math.MaxUint32-1)
	if !slices.Equal(keys, []uint32{math.MaxUint32 - 1, math.MaxUint32, 0, 1}) {
		t.Errorf("sequential: %v", keys)
	}
	Equal(keys, 9)
	if !slices.Equal(keys, []uint32{9, 9, 9, 9}) {
		t.Errorf("equal: %v", keys)
	}
	Alternating(keys, 1, 2)
	if !slices.Equal(keys, []uint32{1, 2, 1, 2}) {
		t.Errorf("alternating: %v", keys)
	}
	vals := make([]float32, 4)
	Values(vals, keys)
	if vals[1] != Value[uint32, float32](2) {
		t.Errorf("values: %v", vals)
	}
}

func TestUniformCoversItsRange(t *testing.T) {
	keys := make([]uint64, 100000)
	Uniform(keys, 6, 100, 3)
	count := map[uint64]int{}
	for _, k := range keys {
		count[k]++
	}
	for i := range uint64(100) {
		if c := count[Key[uint64](6, i)]; c < 800 || c > 1200 { // 1000 +- 6 standard deviations
			t.Errorf("key %d drawn %d times of 1000 expected", i, c)
		}
	}
}

func TestZipfShares(t *testing.T) {
	for _, tt := range []struct {
		n     uint64
		theta float64
	}{{1, .99}, {2, .5}, {3, .99}, {1000, .5}, {1 << 20, .99}, {100_000_000, .99}} {
		z, err := NewZipf(tt.n, tt.theta)
		if err != nil {
			t.Fatal(err)
		}
		const draws = 400000
		cut := []uint64{1, 2, 10, 100, 10000}
		below := make([]int, len(cut))
		for i := range uint64(draws) {
			r := z.Rank(Random(11, i))
			if r >= tt.n {
				t.Fatalf("n %d: rank %d", tt.n, r)
			}
			for j, c := range cut {
				if r < c {
					below[j]++
				}
			}
		}
		for j, c := range cut {
			got, want := float64(below[j])/draws, z.Share(c)
			if math.Abs(got-want) > .02 { // the integral's error at low ranks
				t.Errorf("n %d theta %g: the %d lowest ranks get %.4f, want %.4f", tt.n, tt.theta, c, got, want)
			}
		}
	}
}

func TestZetaTailMatchesTheSum(t *testing.T) {
	const n = 1<<20 + 300000
	sum := 0.
	for i := n; i > 0; i-- {
		sum += math.Pow(float64(i), -.99)
	}
	if got := zeta(n, .99); math.Abs(got-sum) > 1e-9*sum {
		t.Errorf("zeta %v, sum %v", got, sum)
	}
}

func TestZipfRefusesWhatItCannotDraw(t *testing.T) {
	for _, tt := range []struct {
		n     uint64
		theta float64
	}{{0, .5}, {10, 0}, {10, 1}, {10, 1.5}, {10, math.NaN()}} {
		if z, err := NewZipf(tt.n, tt.theta); err == nil {
			t.Errorf("NewZipf(%d, %g) = %v, want an error", tt.n, tt.theta, z)
		}
	}
}

func TestZipfianKeysAreThoseOfTheRanks(t *testing.T) {
	z, err := NewZipf(1000, .99)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]uint64, 50000)
	Zipfian(keys, 5, z, 1)
	hot := 0
	for _, k := range keys {
		if k == Key[uint64](5, 0) {
			hot++
		}
	}
	if got, want := float64(hot)/50000, z.Share(1); math.Abs(got-want) > .01 {
		t.Errorf("the hottest key is %.3f of the draws, want %.3f", got, want)
	}
}
