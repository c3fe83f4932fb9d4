package horton_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// Operations on one key have the outcome of batch order, however full the table is. If an operation
// is deferred for a full bucket and a delete then frees a slot, a later operation on the key does
// not overtake it. Batches are large enough to be divided among the cores.
func TestLateOperationsKeepTheirOrder(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, slots := range []int{1, 2, 4, 8, 16} {
		for _, reclaim := range []horton.Reclaim{horton.Lazy, horton.Eager} {
			t.Run(fmt.Sprintf("%d slots, %d", slots, reclaim), func(t *testing.T) {
				keepsOrder(t, conformance.Open(t, horton.New[uint32, uint32], dev, &horton.Options{
					Slots: slots, Capacity: 4000, Fixed: true, Seed: 5, Reclaim: reclaim,
				}))
			})
		}
	}
}

func keepsOrder(t *testing.T, m *horton.Map[uint32, uint32]) {
	const keys, batch = 5000, 1 << 13
	random, model := rand.New(rand.NewPCG(1, 2)), map[uint32]uint32{}
	for round := range 20 {
		ops, results := make([]weft.Op[uint32, uint32], batch), make([]weft.Result[uint32], batch)
		for i := range ops {
			kind := []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpGet, weft.OpPut, weft.OpPutNew}[random.IntN(5)]
			ops[i] = weft.Op[uint32, uint32]{Kind: kind, Key: random.Uint32N(keys), Value: uint32(round<<16 | i)}
		}
		if err := m.Apply(t.Context(), ops, results); err != nil && !errors.Is(err, weft.ErrFull) {
			t.Fatal(err)
		} else if err != nil {
			t.Fatalf("round %d: %d keys are too many: %v", round, len(model), err)
		}
		for i, o := range ops {
			old, there := model[o.Key]
			switch o.Kind {
			case weft.OpDelete:
				delete(model, o.Key)
			case weft.OpPut:
				model[o.Key] = o.Value
			case weft.OpPutNew:
				if !there {
					model[o.Key] = o.Value
				}
			case weft.OpGet:
				if results[i].OK != there || there && results[i].Value != old {
					t.Fatalf("round %d: Get of %d: %+v, want %d, %v", round, o.Key, results[i], old, there)
				}
			}
		}
		got := map[uint32]uint32{}
		for k, v := range m.All() {
			got[k] = v
		}
		for k, v := range model {
			if got[k] != v {
				t.Fatalf("round %d: %d has %#x, want %#x", round, k, got[k], v)
			}
		}
		if len(got) != len(model) || m.Len() != len(model) {
			t.Fatalf("round %d: %d keys, Len %d, want %d", round, len(got), m.Len(), len(model))
		}
	}
}
