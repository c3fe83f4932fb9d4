package prim

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

type word interface{ uint32 | uint64 }

func width[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// A row of a sort, and its expected result.
type row[K word] struct {
	key K
	val uint64
}

// digits returns bits lo to hi-1 of a key, in the order of the sort.
func (c sortCase[K]) digits(k K) uint64 {
	if c.signed {
		k ^= 1 << (c.hi - 1)
	}
	return uint64(k) >> c.lo & (1<<(c.hi-c.lo) - 1)
}

type sortCase[K word] struct {
	keys   []K
	lo, hi int
	signed bool
}

func (c sortCase[K]) want() []row[K] {
	rows := make([]row[K], len(c.keys))
	for i, k := range c.keys {
		rows[i] = row[K]{k, uint64(i) * 0x100000001 & (1<<60 - 1)}
	}
	slices.SortStableFunc(rows, func(a, b row[K]) int { return cmp.Compare(c.digits(a.key), c.digits(b.key)) })
	return rows
}

// keysLike returns keys that are hard in different ways.
func keysLike[K word](r *rig, like string, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		switch like {
		case "random":
			keys[i] = K(r.rng.Uint64())
		case "equal":
			keys[i] = 0xcafef00d
		case "few":
			keys[i] = K(r.rng.IntN(3)) * 0x01010101
		case "sorted":
			keys[i] = K(i) * 1001
		case "reversed":
			keys[i] = ^(K(i) * 1001)
		case "skewed":
			keys[i] = K(r.rng.Uint64()) >> r.rng.IntN(8*width[K]())
		}
	}
	return keys
}

var likes = []string{"random", "equal", "few", "sorted", "reversed", "skewed"}

// runSort sorts and compares, with values of type V, or none if that is a byte.
func runSort[K word, V uint8 | uint32 | uint64](r *rig, c sortCase[K], inPlace bool) {
	r.Helper()
	want := c.want()
	n, vals := len(want), 0
	if width[V]() > 1 {
		vals = width[V]()
	}
	in := make([]V, n)
	for i := range in {
		in[i] = V(uint64(i) * 0x100000001 & (1<<60 - 1))
	}
	keysIn, valsIn := upload(r, c.keys), upload(r, in)
	keysOut, valsOut := keysIn, valsIn
	if !inPlace {
		keysOut, valsOut = results[K](r, n), results[V](r, n)
	}
	o := &Sort{
		Widths: Widths{width[K](), vals}, N: n, Lo: c.lo, Hi: c.hi, Signed: c.signed,
		From: Rows{keysIn.Ptr(), valsIn.Ptr()}, To: Rows{keysOut.Ptr(), valsOut.Ptr()},
	}
	scratch := r.scratch(o.ScratchBytes())
	offsets := results[uint32](r, bins+1)
	if c.hi-c.lo <= digitBits {
		r.must(r.prim.Partition(r.stream, o, offsets.Ptr(), scratch))
	} else {
		r.must(r.prim.Sort(r.stream, o, scratch))
	}
	keys, values := download(r, keysOut), download(r, valsOut)
	for i, w := range want {
		if keys[i] != w.key || vals > 0 && values[i] != V(w.val) {
			r.Fatalf("row %d of %d is %#x, %#x; want %#x, %#x", i, n, keys[i], values[i], w.key, V(w.val))
		}
	}
	checkOffsets(r, c, download(r, offsets))
	if !inPlace {
		if !slices.Equal(download(r, keysIn), c.keys) || !slices.Equal(download(r, valsIn), in) {
			r.Fatal("the input has changed")
		}
	}
	r.release(scratch)
}

func checkOffsets[K word](r *rig, c sortCase[K], offsets []uint32) {
	r.Helper()
	var want [bins + 1]uint32
	if c.hi-c.lo <= digitBits {
		for _, k := range c.keys {
			want[c.digits(k)+1]++
		}
		for d := range bins {
			want[d+1] += want[d]
		}
	}
	if !slices.Equal(offsets, want[:]) {
		r.Fatalf("offsets %d, want %d", offsets, want)
	}
}

// eachWidth runs a test for every pair of widths.
func eachWidth(t *testing.T, test func(t *testing.T, w Widths)) {
	for _, key := range []int{4, 8} {
		for _, val := range []int{0, 4, 8} {
			t.Run(fmt.Sprintf("%d,%d", 8*key, 8*val), func(t *testing.T) { test(t, Widths{key, val}) })
		}
	}
}

func sortLike(r *rig, w Widths, like string, n, lo, hi int, signed, inPlace bool) {
	r.Helper()
	if w.Key == 4 {
		sortWith(r, w, sortCase[uint32]{keysLike[uint32](r, like, n), lo, hi, signed}, inPlace)
	} else {
		sortWith(r, w, sortCase[uint64]{keysLike[uint64](r, like, n), lo, hi, signed}, inPlace)
	}
}

func sortWith[K word](r *rig, w Widths, c sortCase[K], inPlace bool) {
	r.Helper()
	switch w.Val {
	case 0:
		runSort[K, uint8](r, c, inPlace)
	case 4:
		runSort[K, uint32](r, c, inPlace)
	case 8:
		runSort[K, uint64](r, c, inPlace)
	}
}

func TestSortSizes(t *testing.T) {
	eachWidth(t, func(t *testing.T, w Widths) {
		r := onGPU(t)
		tile := shapes[w].tile()
		for _, n := range []int{0, 1, 31, 32, 33, tile - 1, tile, tile + 1, 3*tile + 5} {
			sortLike(r, w, "random", n, 0, 16, false, false)
		}
	})
}

func TestSortKeys(t *testing.T) {
	eachWidth(t, func(t *testing.T, w Widths) {
		r := onGPU(t)
		n := shapes[w].tile() + 77
		for i, like := range likes {
			hi := 8 * w.Key
			if i > 0 {
				hi = 20
			}
			sortLike(r, w, like, n, 0, hi, false, false)
		}
	})
}

// Sort is correct for any range of bits, for odd and even numbers of passes, in place and not,
// signed and not.
func TestSortBits(t *testing.T) {
	eachWidth(t, func(t *testing.T, w Widths) {
		r := onGPU(t)
		for i, bits := range [][2]int{{0, 1}, {3, 11}, {31, 32}, {0, 9}, {5, 24}, {7, 29}, {8*w.Key - 3, 8 * w.Key}, {0, 8 * w.Key}, {8*w.Key - 17, 8 * w.Key}} {
			signed := bits[1] == 8*w.Key && i < 8
			sortLike(r, w, "random", 1000+i, bits[0], bits[1], signed, i%2 == w.Val/4%2)
		}
	})
}

// Sort is correct if many tiles look back at others, in place and not.
func TestSortManyTiles(t *testing.T) {
	r := onGPU(t)
	for _, like := range []string{"random", "equal", "skewed"} {
		sortLike(r, Widths{8, 4}, like, 30*shapes[Widths{8, 4}].tile()+1, 20, 28, false, like == "random")
	}
}

// Without values, the values are the row numbers, in place or not, with an odd number of passes and
// an even one.
func TestSortNumbers(t *testing.T) {
	r := onGPU(t)
	for _, hi := range []int{8, 16} {
		for _, inPlace := range []bool{false, true} {
			c := sortCase[uint32]{keysLike[uint32](r, "random", 10000), 0, hi, false}
			keys, out, order := upload(r, c.keys), results[uint32](r, len(c.keys)), results[uint32](r, len(c.keys))
			o := &Sort{Widths: Widths{4, 4}, N: len(c.keys), Hi: hi, From: Rows{Keys: keys.Ptr()}, To: Rows{out.Ptr(), order.Ptr()}}
			if inPlace {
				o.To.Keys = keys.Ptr()
			}
			scratch := r.scratch(o.ScratchBytes())
			r.must(r.prim.Sort(r.stream, o, scratch))
			got := download(r, order)
			for i, w := range c.want() {
				if uint64(got[i]) != w.val&0xffffffff {
					t.Fatalf("row %d was row %d, want %d", i, got[i], uint32(w.val))
				}
			}
			r.must(keys.Free())
			r.must(out.Free())
			r.release(scratch)
		}
	}
}
