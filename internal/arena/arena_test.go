package arena

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestItemsOfAllLengths(t *testing.T) {
	var a Arena
	w, other := NewWriter(&a), NewWriter(&a)
	rng := rand.New(rand.NewPCG(1, 2))
	var items [][]byte
	for n := range 300 {
		items = append(items, make([]byte, n))
	}
	for _, n := range []int{1 << 14, maxChunk/bigShare - 3, maxChunk/bigShare - 2, maxChunk, 2 * maxChunk, 9} {
		items = append(items, make([]byte, n))
	}
	var words []uint64
	stored := int64(0)
	for i, item := range items {
		for j := range item {
			item[j] = byte(rng.Uint32())
		}
		switch {
		case len(item) <= MaxShort:
			words = append(words, Pack(item))
		case i%2 == 0:
			words = append(words, w.Put(item))
			stored += int64(len(item))
		default:
			words = append(words, other.Put(item))
			stored += int64(len(item))
		}
	}
	for i, word := range words {
		var got []byte
		if word&Long != 0 {
			got = a.At(word)
		} else {
			got = Unpack(nil, word)
		}
		if !bytes.Equal(got, items[i]) {
			t.Fatalf("item %d of %d bytes is another one of %d", i, len(items[i]), len(got))
		}
	}
	if a.Bytes() < stored || a.Bytes() > stored+3*maxChunk {
		t.Errorf("%d bytes for %d", a.Bytes(), stored)
	}
}

func TestKeys(t *testing.T) {
	h := NewHasher()
	seen := make(map[uint64]string)
	for _, item := range []string{"", "\x00", "\x00\x00", "a", "a\x00", "\x00a", "ab", "abc", "acb", "abcd", "1234567", "123456",
		"123456\x00", "\xff\xff\xff\xff\xff\xff\xff", "12345678", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		key := h.Key([]byte(item))
		if other, ok := seen[key]; ok {
			t.Errorf("%q has the key of %q", item, other)
		}
		seen[key] = item
	}
	// Whatever Hash returns, no other item has the key of a short item.
	h.Hash = func([]byte) uint64 { return Pack([]byte("a")) ^ h.Seed }
	if h.Key([]byte("a")) == h.Key([]byte("a long one")) {
		t.Error("a short and a long item have one key")
	}
}

// Items fit in their reserved parts, and an arena grows by at most MaxGrowth.
func TestReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Arena
		w := NewWriter(&a)
		var words []uint64
		var want [][]byte
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			var parts [][]int
			total := 0
			for range rapid.IntRange(0, 20).Draw(t, "parts") {
				scale := rapid.SampledFrom([]int{1, 100, 10_000, 600_000}).Draw(t, "scale")
				part := rapid.SliceOfN(rapid.IntRange(0, scale), 0, 3).Draw(t, "lengths")
				for _, n := range part {
					total += Size(make([]byte, n))
				}
				parts = append(parts, part)
			}
			before, limit := a.Bytes(), w.MaxGrowth(total)
			for _, part := range parts {
				size := 0
				for _, n := range part {
					size += Size(make([]byte, n))
				}
				to := w.Reserve(size)
				for _, n := range part {
					item := bytes.Repeat([]byte{byte(len(want))}, n)
					words, want = append(words, to.Put(item)), append(want, item)
				}
			}
			if grown := a.Bytes() - before; grown > limit {
				t.Fatalf("%d bytes in %d parts: it grew by %d, and may by %d", total, len(parts), grown, limit)
			}
		}
		for i, word := range words {
			if !bytes.Equal(a.At(word), want[i]) {
				t.Fatalf("item %d of %d bytes is another one", i, len(want[i]))
			}
		}
	})
}

// Words have 32 bits for an offset, so larger parts consist of several chunks.
func TestReserveMoreThanAWordCanSay(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("no part is as large")
	}
	var a Arena
	w := NewWriter(&a)
	w.Put([]byte("one in chunk 0"))
	size := int64(5) << 30
	part := w.Reserve(int(size))
	if a.Bytes() > maxChunk {
		t.Fatalf("%d bytes are one chunk", a.Bytes())
	}
	if got := a.At(part.Put([]byte("one of the part"))); string(got) != "one of the part" {
		t.Errorf("it reads %q", got)
	}
	for _, at := range [][2]int64{{0, 1 << 32}, {1 << 31, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("offset %d of chunk %d has a word", at[1], at[0])
				}
			}()
			wordOf(int(at[0]), int(at[1]))
		}()
	}
}

// Writers that Split returns share the memory of the reservation, and no more.
func TestCut(t *testing.T) {
	for _, sizes := range [][]int{{0}, {10, 0, 20}, {1 << 20, 5, 1 << 20}} {
		var a Arena
		w, total := NewWriter(&a), 0
		for _, n := range sizes {
			total += n
		}
		slab := w.Reserve(total)
		chunks := len(a.chunks)
		var words []uint64
		var items [][]byte
		for i, n := range sizes {
			part := slab.Split(n)
			if n == 0 {
				continue
			}
			item := bytes.Repeat([]byte{byte(i + 1)}, n)
			for Size(item) > n {
				item = item[1:]
			}
			words, items = append(words, part.Put(item)), append(items, item)
		}
		if len(a.chunks) != chunks {
			t.Errorf("%d: %d chunks, want %d", sizes, len(a.chunks), chunks)
		}
		if more := slab.Split(1 << 22); len(more.chunk) > 0 {
			t.Errorf("%d: %d bytes are left", sizes, len(more.chunk))
		}
		for i, word := range words {
			if !bytes.Equal(a.At(word), items[i]) {
				t.Errorf("%d: item %d is another one", sizes, i)
			}
		}
	}
}
