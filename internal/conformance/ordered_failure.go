package conformance

import (
	"fmt"
	"testing"
)

// BuildUnsorted builds maps of many pairs with keys that ascend except at one index. There, a key
// equals the previous key or is smaller. Build may process ascending pairs directly, and may detect
// the exception only after most pairs. The indexes are the given places and some others.
func BuildUnsorted(t *testing.T, open func() AnyOrderedMap[int32, uint32], places ...int) {
	const n = 30_000
	for _, at := range append(places, 1, 2, 300, n/2, n-1) {
		for _, back := range []int32{1, 5} {
			t.Run(fmt.Sprintf("at %d by %d", at, back), func(t *testing.T) {
				keys, vals := make([]int32, n), Sequence[uint32](0, n)
				for i := range keys {
					keys[i] = int32(i)*2 - n // negative and positive
				}
				keys[at] = keys[at-1] + 1 - back
				m, o := open(), &orderedModel[int32, uint32]{pairs: map[int32]uint32{}}
				o.put(keys, vals)
				got, err := m.Build(t.Context(), keys, vals)
				WantCount(t, "Build", got, len(o.keys), err)
				out, ok := make([]uint32, n), make([]bool, n)
				got, err = m.Get(t.Context(), o.keys, out[:len(o.keys)], ok[:len(o.keys)])
				WantCount(t, "Get", got, len(o.keys), err)
				for i, k := range o.keys {
					if out[i] != o.pairs[k] {
						t.Fatalf("key %d has %d, want %d", k, out[i], o.pairs[k])
					}
				}
				must(t, m.Check(t.Context()))
			})
		}
	}
}
