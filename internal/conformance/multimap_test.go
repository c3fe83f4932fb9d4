package conformance

import (
	"context"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// A map of slices that implements the interface must pass, with every pair of widths.
func TestMultiReferencePasses(t *testing.T) {
	t.Run("uint32,float32", func(t *testing.T) { multiPasses[uint32, float32](t) })
	t.Run("uint64,uint32", func(t *testing.T) { multiPasses[uint64, uint32](t) })
	t.Run("int32,int64", func(t *testing.T) { multiPasses[int32, int64](t) })
	t.Run("int64,float64", func(t *testing.T) { multiPasses[int64, float64](t) })
}

func multiPasses[K weft.Key, V weft.Value](t *testing.T) {
	MultiMap(t, openCPU(t), Slow, func(_ testing.TB, dev device.Device) AnyMultiMap[K, V] {
		return newMultiReference[K, V](none, dev)
	})
}

// A multimap that reorders the pairs of a batch must pass, too.
func TestMultiMapsMayOrderABatch(t *testing.T) {
	MultiMap(t, openCPU(t), Slow, func(_ testing.TB, dev device.Device) AnyMultiMap[uint32, float32] {
		return backwards{newMultiReference[uint32, float32](none, dev)}
	})
}

type backwards struct {
	*multiReference[uint32, float32]
}

func (m backwards) Put(ctx context.Context, keys []uint32, vals []float32) (int, error) {
	m.match(len(keys), len(vals))
	turnedKeys, turnedVals := slices.Clone(keys), slices.Clone(vals)
	for lo := 0; lo < len(keys); lo += chunk {
		hi := min(lo+chunk, len(keys))
		slices.Reverse(turnedKeys[lo:hi])
		slices.Reverse(turnedVals[lo:hi])
	}
	return m.multiReference.Put(ctx, turnedKeys, turnedVals)
}

func TestFlawsOfMultiMapsAreNoticed(t *testing.T) {
	flawsAreNoticed(t, map[flaw][]string{
		reservesOnes:           {"EveryKeyAndValue"},
		quietsNaN:              {"EveryKeyAndValue"},
		putReplaces:            {"PutAppends", "PutDuplicates", "ManyPairs", "Queue"},
		putMerges:              {"EqualPairs"},
		putPrepends:            {"PutAppends", "BatchSizes", "Concurrent"},
		putNewAdds:             {"PutNewOfAbsent"},
		putNewAddsTwice:        {"PutNewDuplicates"},
		putNewMisreports:       {"PutNewDuplicates"},
		getsLatest:             {"BatchSizes", "GetAll", "ManyPairs"},
		repeatsAreEmpty:        {"GetAll"},
		skipsAbsent:            {"GetAll", "Empty"},
		offByOne:               {"GetAll", "RoundTrip"},
		leavesOutputs:          {"RoundTrip", "Empty"},
		leavesCounts:           {"Count", "Empty"},
		countsKeys:             {"Count"},
		lenOfKeys:              {"BatchSizes", "DeleteFirst"},
		keepsDeleted:           {"DeleteFirst", "DeleteDuplicates", "Churn", "Queue"},
		deletesLatest:          {"DeleteFirst", "DeleteDuplicates", "Queue"},
		deletesAllPairs:        {"DeleteFirst", "DeleteDuplicates"},
		deletesOnce:            {"DeleteDuplicates", "Churn"},
		deleteReportsMore:      {"DeleteDuplicates"},
		deleteAllTakesOne:      {"DeleteAll", "ManyPairs"},
		deleteAllTwice:         {"DeleteAllDuplicates"},
		deleteAllReportsAbsent: {"Apply"},
		applyAddsOne:           {"Apply", "ApplyAnswers"},
		applyLeaves:            {"Apply"},
		applyHidesValue:        {"Apply"},
		applyTakesAny:          {"Apply"},
		losesOrder:             {"ManyPairs"},
		capsPairs:              {"ManyPairs"},
		leavesStale:            {"Partial", "Cancelled"},
		onSkipsValues:          {"OnForms"},
		onSkipsCounts:          {"OnForms"},
		onWritesAllOrNone:      {"GetAllInto"},
		onReadsStale:           {"GetAllInto"},
		cancelledChangesRows:   {"GetAllInto"},
		iteratesBackwards:      {"All", "AllWhileChanging", "EveryKeyAndValue"},
		iteratesTwice:          {"AllWhileChanging"},
		truncatesBatches:       {"BatchSizes", "RoundTrip", "All"},
	}, MultiMapCases[uint32, float32], func(f flaw, dev device.Device) AnyMultiMap[uint32, float32] {
		return newMultiReference[uint32, float32](f, dev)
	})
}

// The bytes of a fuzz test must form batches of all kinds, and must be read to their end.
func TestMultiReplayReadsEverything(t *testing.T) {
	m, model := eraseMultiMap(newMultiReference[uint32, uint32](none, nil)), values{}
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
		data = replayMultiMap(t, m, model, data)
		batches++
	}
	if n := model.pairs(); batches != 6 || n != 3 {
		t.Errorf("%d batches left %d pairs, want 6 and 3", batches, n)
	}
}
