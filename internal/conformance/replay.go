package conformance

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
)

// ReplayMap runs a batch described by bytes on a map and on a model, and
// compares the answers: the body of fuzz tests. The first byte chooses the
// operation, the second the length; each operation takes one byte for its key,
// so keys meet often.
func ReplayMap[K weft.Key, V weft.Value](t testing.TB, m AnyMap[K, V], model map[K]V, data []byte) (rest []byte) {
	t.Helper()
	if len(data) < 2 {
		return nil
	}
	kind, n := data[0]%6, min(int(data[1]), len(data)-2)
	rows, rest := data[2:2+n], data[2+n:]
	keys, vals, flags := make([]K, n), make([]V, n), make([]bool, n)
	for i, b := range rows {
		keys[i] = oddKey[K](b)
		vals[i] = fromBits[V](uint64(b)<<56 ^ uint64(i)*0x9e3779b97f4a7c15)
	}
	want, count := make([]bool, n), 0
	mark := func(i int) { want[i] = true; count++ }
	var got int
	var err error
	switch kind {
	case 0, 1:
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				count++
			}
			model[k] = vals[i]
		}
		got, err = m.Put(ctx(), keys, vals)
		flags = want
	case 2:
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				model[k] = vals[i]
				mark(i)
			}
		}
		got, err = m.PutNew(ctx(), keys, vals, flags)
	case 3:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				delete(model, k)
				mark(i)
			}
		}
		got, err = m.Delete(ctx(), keys, flags)
	case 4:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				mark(i)
			}
		}
		got, err = m.Get(ctx(), keys, vals, flags)
		for i, k := range keys {
			if toBits(vals[i]) != toBits(model[k]) {
				t.Fatalf("Get(%#x) = %#x, want %#x", k, toBits(vals[i]), toBits(model[k]))
			}
		}
	case 5:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				mark(i)
			}
		}
		got, err = m.Contains(ctx(), keys, flags)
	}
	must(t, err)
	if got != count || !slices.Equal(flags, want) {
		t.Fatalf("operation %d on %d keys: %d, want %d; flags equal: %v", kind, n, got, count, slices.Equal(flags, want))
	}
	if m.Len() != len(model) {
		t.Fatalf("Len = %d, want %d", m.Len(), len(model))
	}
	return rest
}

// oddKey spreads a byte over keys that meet: small ones, and those that look
// like marks.
func oddKey[K weft.Key](b byte) K {
	if b >= 0xf0 {
		return ^K(b & 15)
	}
	return K(b)
}
