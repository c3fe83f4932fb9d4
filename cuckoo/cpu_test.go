package cuckoo_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Operations on one key from several cores keep their order, even if the buckets of the key are
// full and other keys could leave them. If an operation waits for such moves, later operations on
// the key wait, too.
func TestOrderBesideFullBuckets(t *testing.T) {
	m := conformance.Open(t, cuckoo.New[uint32, uint32], devicetest.OpenCPU(t, 2), &cuckoo.Options{Capacity: 500, Seed: 1})
	there, others := slices.Concat(m.KeysOf(0, 2, 1, 8), m.KeysOf(1, 3, 1, 8)), m.KeysOf(0, 1, 1, 4)
	if n, err := m.Put(t.Context(), there, there); n != len(there) || err != nil {
		t.Fatal(n, err)
	}
	ops := make([]weft.Op[uint32, uint32], 0, 8192)
	for i, k := range others {
		ops = append(ops, weft.Op[uint32, uint32]{Kind: weft.OpPutNew, Key: k, Value: 1})
		if i%2 == 1 { // now a slot is free
			ops = append(ops, weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: there[i]})
		}
		ops = append(ops, weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: k}, weft.Op[uint32, uint32]{Kind: weft.OpPutNew, Key: k, Value: 2})
	}
	first := len(ops)
	for k := uint32(1 << 20); len(ops) < cap(ops); k++ {
		ops = append(ops, weft.Op[uint32, uint32]{Kind: weft.OpGet, Key: k})
	}
	res := make([]weft.Result[uint32], len(ops))
	if err := m.Apply(t.Context(), ops, res); err != nil {
		t.Fatal(err)
	}
	for i, op := range ops[:first] {
		if !res[i].OK {
			t.Errorf("operation %d: %v of key %d found otherwise", i, op.Kind, op.Key)
		}
	}
	vals := make([]uint32, len(others))
	if n, err := m.Get(t.Context(), others, vals, nil); n != len(others) || err != nil {
		t.Fatal(n, err)
	}
	for i, v := range vals {
		if v != 2 {
			t.Errorf("key %d has value %d", others[i], v)
		}
	}
}
