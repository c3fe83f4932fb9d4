package hostmem

import (
	"math"
	"os"
	"testing"
	"unsafe"
)

// Mappings are zeroed, aligned and writable to their ends. Contents survive a change of size.
func TestRemap(t *testing.T) {
	b, err := Map(1)
	if err != nil {
		t.Fatal(err)
	}
	b[0] = 1
	page := os.Getpagesize()
	for _, size := range []int{
		2, page, page + 1, HugePage - 1, HugePage, HugePage + 1, 5 * HugePage, 9*HugePage + 7,
	} {
		old := len(b)
		if b, err = Remap(b, size); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if len(b) != size || cap(b) != size && !Copies {
			t.Errorf("%d bytes: %d of %d", size, len(b), cap(b))
		}
		at := uintptr(unsafe.Pointer(&b[0]))
		if at%256 != 0 || size >= HugePage && at%HugePage != 0 && !Copies {
			t.Errorf("%d bytes at %#x", size, at)
		}
		for i, x := range b {
			want := byte(i % 251 * 7)
			switch {
			case i == 0:
				want = 1
			case i >= old:
				want = 0
			}
			if x != want {
				t.Fatalf("%d bytes: byte %d is %d", size, i, x)
			}
		}
		for i := max(old, 1); i < size; i++ {
			b[i] = byte(i % 251 * 7)
		}
	}
	if err := Unmap(b); err != nil {
		t.Error(err)
	}
}

// If the addresses after a mapping are in use, it moves.
func TestRemapMoves(t *testing.T) {
	var all [][]byte
	for i := range 40 {
		b, err := Map(1 + i%3*HugePage)
		if err != nil {
			t.Fatal(err)
		}
		b[0] = byte(i)
		all = append(all, b)
	}
	for i, b := range all {
		b, err := Remap(b, len(b)+HugePage+1)
		if err != nil || b[0] != byte(i) || b[len(b)-1] != 0 {
			t.Fatalf("mapping %d: %v", i, err)
		}
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	b, err := Map(100)
	if err != nil {
		t.Fatal(err)
	}
	b[99] = 1
	for _, size := range []int{math.MaxInt, math.MaxInt / 2} {
		if m, err := Map(size); err == nil {
			t.Errorf("mapped %d bytes", len(m))
		}
		if m, err := Remap(b, size); err == nil {
			t.Errorf("mapped %d bytes", len(m))
		}
	}
	if b[99] != 1 || Unmap(b) != nil {
		t.Error("the mapping has changed")
	}
}

// Pieces of a pool are zeroed and disjoint, and stay until Free.
func TestPool(t *testing.T) {
	p := new(Pool)
	for range 2 {
		var pieces [][]byte
		for i := range 3000 {
			n := i % 700
			if i%500 == 499 {
				n = maxChunk/8 - 7 + i%30
			}
			b := p.Make(n)
			for _, x := range b {
				if x != 0 {
					t.Fatalf("piece %d holds %d", i, x)
				}
			}
			for j := range b {
				b[j] = byte(i)
			}
			if n > 0 && uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
				t.Fatalf("piece %d begins at %p", i, b)
			}
			pieces = append(pieces, b)
		}
		for i, b := range pieces {
			for _, x := range b {
				if x != byte(i) {
					t.Fatalf("piece %d holds %d", i, x)
				}
			}
		}
		p.Free()
	}
	if words := Slice[uint64](p, 3); len(words) != 3 || words[2] != 0 {
		t.Error(words)
	}
	p.Free()
	p.Free()
	var heap *Pool
	if b := heap.Make(5); len(b) != 5 || len(Slice[uint32](heap, 7)) != 7 {
		t.Error("a nil pool has no memory")
	}
	heap.Free()
}
