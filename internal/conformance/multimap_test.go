package conformance

import (
	"context"
	"testing"

	"github.com/weftgo/weft"
)

// A map of slices behind the interface passes, with every pair of widths.
func TestMultiReferencePasses(t *testing.T) {
	t.Run("uint32,float32", func(t *testing.T) { multiPasses[uint32, float32](t) })
	t.Run("uint64,uint32", func(t *testing.T) { multiPasses[uint64, uint32](t) })
	t.Run("int32,int64", func(t *testing.T) { multiPasses[int32, int64](t) })
	t.Run("int64,float64", func(t *testing.T) { multiPasses[int64, float64](t) })
}

func multiPasses[K weft.Key, V weft.Value](t *testing.T) {
	MultiMap(t, Slow, func(testing.TB) weft.MultiMap[K, V] { return newMultiReference[K, V](none) })
}

// So does one in which the pairs of one batch have another order.
func TestMultiMapsMayOrderABatch(t *testing.T) {
	MultiMap(t, Slow, func(testing.TB) weft.MultiMap[uint32, float32] {
		return backwards{newMultiReference[uint32, float32](none)}
	})
}

type backwards struct {
	*multiReference[uint32, float32]
}

func (m backwards) Put(ctx context.Context, keys []uint32, vals []float32) (int, error) {
	m.match(len(keys), len(vals))
	n := len(keys)
	turnedKeys, turnedVals := make([]uint32, n), make([]float32, n)
	for i := range keys {
		turnedKeys[n-1-i], turnedVals[n-1-i] = keys[i], vals[i]
	}
	return m.multiReference.Put(ctx, turnedKeys, turnedVals)
}

// Each flaw is noticed by the cases named, at least.
func TestFlawsOfMultiMapsAreNoticed(t *testing.T) {
	for flaw, want := range map[flaw][]string{
		reservesOnes:      {"EveryKeyAndValue"},
		quietsNaN:         {"EveryKeyAndValue"},
		putReplaces:       {"PutAppends", "PutDuplicates", "ManyPairs", "Queue"},
		putMerges:         {"EqualPairs"},
		putPrepends:       {"PutAppends", "BatchSizes", "Concurrent"},
		putNewAdds:        {"PutNewOfAbsent"},
		putNewAddsTwice:   {"PutNewDuplicates"},
		putNewLies:        {"PutNewDuplicates"},
		getsLatest:        {"BatchSizes", "GetAll", "ManyPairs"},
		repeatsAreEmpty:   {"GetAll"},
		skipsAbsent:       {"GetAll", "Empty"},
		offByOne:          {"GetAll", "RoundTrip"},
		leavesOutputs:     {"RoundTrip", "Empty"},
		leavesCounts:      {"Count", "Empty"},
		countsKeys:        {"Count"},
		lenOfKeys:         {"BatchSizes", "DeleteFirst"},
		keepsDeleted:      {"DeleteFirst", "DeleteDuplicates", "Churn", "Queue"},
		deletesLatest:     {"DeleteFirst", "DeleteDuplicates", "Queue"},
		deletesEvery:      {"DeleteFirst", "DeleteDuplicates"},
		deletesOnce:       {"DeleteDuplicates", "Churn"},
		deleteReportsMore: {"DeleteDuplicates"},
		deleteAllTakesOne: {"DeleteAll", "ManyPairs"},
		deleteAllTwice:    {"DeleteAllDuplicates"},
		deleteAllIsLoud:   {"Apply"},
		applyAddsOne:      {"Apply", "ApplyAnswers"},
		applyLeaves:       {"Apply"},
		applyHidesValue:   {"Apply"},
		applyTakesAny:     {"Apply"},
		losesOrder:        {"ManyPairs"},
		forgetsBeyond:     {"ManyPairs"},
		skipsLengths:      {"Lengths"},
		ignoresContext:    {"Cancelled"},
		reopens:           {"Closed"},
		clearForgetsLen:   {"Clear"},
		iteratesBackwards: {"All", "AllWhileChanging", "EveryKeyAndValue"},
		iteratesTwice:     {"AllWhileChanging"},
		answersTooLittle:  {"BatchSizes", "RoundTrip", "All"},
	} {
		t.Run(string(flaw), func(t *testing.T) {
			t.Parallel()
			noticed := notices(t, MultiMapCases[uint32, float32](Slow), func(testing.TB) weft.MultiMap[uint32, float32] {
				return newMultiReference[uint32, float32](flaw)
			})
			for _, name := range want {
				if !noticed[name] {
					t.Errorf("%s did not notice", name)
				}
			}
		})
	}
}

// The bytes of a fuzz test make batches that meet all kinds of operations, and
// are read to their end.
func TestMultiReplayReadsEverything(t *testing.T) {
	m, model := newMultiReference[uint32, uint32](none), map[uint32][]uint32{}
	data := []byte{
		0, 4, 1, 0xff, 1, 5, // Put
		2, 2, 1, 9, // PutNew
		3, 2, 1, 9, // Delete
		5, 1, 5, // lookups
		4, 1, 0xff, // DeleteAll
		1, 200, 7, // Put, cut short
	}
	batches := 0
	for len(data) > 0 {
		data = ReplayMultiMap(t, m, model, data)
		batches++
	}
	if n := values[uint32, uint32](model).pairs(); batches != 6 || n != 3 {
		t.Errorf("%d batches left %d pairs, want 6 and 3", batches, n)
	}
}
