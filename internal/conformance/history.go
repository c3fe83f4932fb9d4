package conformance

import (
	"iter"
	"slices"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// HistoryMap is the interface of the maps and multimaps that [RandomHistory] tests.
type HistoryMap interface {
	hostPairs[uint32, uint64]
	All() iter.Seq2[uint32, uint64]
	Len() int
	CheckInvariants() error
}

// RandomHistory runs a random history of batches. Each batch has distinct keys and operations of
// one kind or of several. After each batch it calls upkeep and checks the invariants of the layout.
// At the end the structure must equal a model.
func RandomHistory(rt *rapid.T, m HistoryMap, multi bool, upkeep func() error) {
	model := values{}
	for range rapid.IntRange(1, 30).Draw(rt, "steps") {
		ops := drawOps(rt)
		err := runOps(m, ops, rapid.Bool().Draw(rt, "as Apply"))
		for _, op := range ops {
			model.apply(op, multi)
		}
		if err == nil {
			err = upkeep()
		}
		if err == nil {
			err = m.CheckInvariants()
		}
		if err != nil {
			rt.Fatal(err)
		}
	}
	got := values{}
	for k, v := range m.All() {
		got[uint64(k)] = append(got[uint64(k)], v)
	}
	if n := model.pairs(); got.pairs() != n || m.Len() != n {
		rt.Fatalf("%d pairs, Len %d, want %d", got.pairs(), m.Len(), n)
	}
	for k, vals := range model {
		if !slices.Equal(got[k], vals) {
			rt.Fatalf("%d: %d, want %d", k, got[k], vals)
		}
	}
}

// HistoryOf opens a map, runs RandomHistory on it, and closes it.
func HistoryOf[M interface {
	HistoryMap
	Close() error
}, O any](rt *rapid.T, open func(device.Device, O) (M, error), dev device.Device, opts O) {
	m, err := open(dev, opts)
	if err != nil {
		rt.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			rt.Error(err)
		}
	}()
	RandomHistory(rt, m, false, func() error { return nil })
}

func drawOps(rt *rapid.T) []weft.Op[uint32, uint64] {
	n := rapid.IntRange(1, 60).Draw(rt, "n")
	first := rapid.Uint32Range(0, 400).Draw(rt, "first") - 4
	kind := weft.OpKind(rapid.IntRange(0, 4).Draw(rt, "kind"))
	ops := make([]weft.Op[uint32, uint64], n)
	for i := range ops {
		ops[i] = weft.Op[uint32, uint64]{Kind: kind, Key: first + uint32(i), Value: uint64(i + n)}
		if kind > weft.OpDelete {
			ops[i].Kind = weft.OpKind(i % 4)
		}
	}
	return ops
}

// runOps runs operations with the method for their kind if all have the same kind and mixed is not
// set. Otherwise it runs them as a mixed batch.
func runOps(m HistoryMap, ops []weft.Op[uint32, uint64], mixed bool) (err error) {
	keys, vals := make([]uint32, len(ops)), make([]uint64, len(ops))
	for i, op := range ops {
		keys[i], vals[i] = op.Key, op.Value
		mixed = mixed || op.Kind != ops[0].Kind
	}
	switch {
	case mixed:
		err = m.Apply(ctx(), ops, nil)
	case ops[0].Kind == weft.OpPut:
		_, err = m.Put(ctx(), keys, vals)
	case ops[0].Kind == weft.OpPutNew:
		_, err = m.PutNew(ctx(), keys, vals, nil)
	case ops[0].Kind == weft.OpDelete:
		_, err = m.Delete(ctx(), keys, nil)
	default:
		_, err = m.Get(ctx(), keys, vals, nil)
	}
	return err
}

// apply applies an operation to the model of a map, or of a multimap if multi is set.
func (want values) apply(op weft.Op[uint32, uint64], multi bool) {
	key := uint64(op.Key)
	present := len(want[key]) > 0
	switch {
	case op.Kind == weft.OpPut && multi, op.Kind == weft.OpPutNew && !present:
		want[key] = append(slices.Clip(want[key]), op.Value)
	case op.Kind == weft.OpPut:
		want[key] = []uint64{op.Value}
	case op.Kind == weft.OpDelete:
		want.removeFirst(key)
	}
}
