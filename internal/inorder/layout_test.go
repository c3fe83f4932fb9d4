package inorder

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// Arrays of keys, values and index do not overlap in memory of any size. Check detects a change of
// any key and of any number in the index.
func TestLayout(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, room := range []int{1, 15, 16, 300, 5000} {
		l := Layout{Key: 8, Val: 4}
		end := l.IndexAt(room, MostLevels)
		mem := make([]uint64, end/8) // aligned
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), end)
		for _, n := range []int{0, room / 2, room} {
			keys, vals := Pairs[uint64, uint32](l, bytes, room, n)
			for i := range vals {
				keys.Keys[i], vals[i] = uint64(2*i+1), ^uint32(0)
			}
			keys.Fill(dev)
			if err := Check[uint64](l, bytes, room, n); err != nil {
				t.Fatalf("%d pairs in memory for %d: %v", n, room, err)
			}
			for _, level := range append(keys.Index, keys.Keys) {
				for i := range level {
					level[i] ^= 1 << 40
					// a larger last key is legal, and no index has it
					fits := i+1 == n && n%Fan != 0
					if err := Check[uint64](l, bytes, room, n); !fits && !errors.Is(err, op.ErrCorrupt) {
						t.Fatalf("%d pairs in memory for %d: number %d of %d is another: %v", n, room, i, len(level), err)
					}
					level[i] ^= 1 << 40
				}
			}
		}
	}
}
