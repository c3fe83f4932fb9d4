package conformance

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// A Go map that implements the interface must pass, because the suites test only what the
// interfaces promise.
func TestReferencePasses(t *testing.T) {
	t.Run("map uint32,float32", func(t *testing.T) { passes[uint32, float32](t) })
	t.Run("map uint32,int32", func(t *testing.T) { passes[uint32, int32](t) })
	t.Run("map int64,float64", func(t *testing.T) { passes[int64, float64](t) })
	t.Run("set uint32", func(t *testing.T) {
		Set(t, openCPU(t), Slow, func(_ testing.TB, dev device.Device) AnySet[uint32] {
			return referenceSet[uint32]{newReference[uint32, uint32](none, dev)}
		})
	})
}

func passes[K weft.Key, V weft.Value](t *testing.T) {
	Map(t, openCPU(t), Slow, func(_ testing.TB, dev device.Device) AnyMap[K, V] { return newReference[K, V](none, dev) })
}

func openCPU(t testing.TB) device.Device { return devicetest.OpenCPU(t, 2) }

// flawsOfAll maps the flaws that structures of any kind may have to the cases that detect them.
var flawsOfAll = map[flaw][]string{
	skipsLengths:        {"Lengths"},
	ignoresContext:      {"Cancelled"},
	reopens:             {"Closed"},
	clearForgetsLen:     {"Clear"},
	failsEmpty:          {"EmptyBatches"},
	hidesPrefix:         {"Partial"},
	overstates:          {"Partial", "Cancelled"},
	pagesRepeat:         {"Pages", "SaveAndLoad"},
	pagesLose:           {"Pages"},
	pagesHideErrors:     {"PagesEnd"},
	pagesShareError:     {"TwoIterations"},
	stopsLocked:         {"AllStops"},
	loopsDeadlock:       {"InsideLoops"},
	savesTwice:          {"SaveAndLoad"},
	savesShort:          {"SaveAndLoad"},
	loadsDamaged:        {"LoadRefuses"},
	loadsReadAhead:      {"SaveAndLoad"},
	loadReplacesAll:     {"SaveAndLoad"},
	saveHidesErrors:     {"SaveFails"},
	compactLoses:        {"Compact"},
	onIgnoresCount:      {"OnForms", "OnFormsInOrder"},
	onSetsCount:         {"OnForms"},
	onSkipsFlags:        {"OnForms"},
	onLosesLast:         {"OnForms"},
	onTakesOtherDevices: {"OnFormsRefuse"},
	onChecksKeysOnly:    {"OnFormsRefuse"},
	onOverwrites:        {"OnSizes"},
	onTakesShort:        {"OnFormsRefuse"},
	onBackwards:         {"OnDuplicates"},
	onLosesStream:       {"OnTwoStreams", "OnFormsInOrder"},
}

// flawsAreNoticed requires each flaw to make at least the named cases fail. A suite that cannot
// fail proves nothing.
func flawsAreNoticed[S Structure](
	t *testing.T, flaws map[flaw][]string,
	cases func(dev device.Device, scale Scale, open Maker[S]) []Case[S], with func(f flaw, dev device.Device) S,
) {
	maps.Copy(flaws, flawsOfAll)
	for f, want := range flaws {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			dev, open := openCPU(t), func(_ testing.TB, dev device.Device) S { return with(f, dev) }
			noticed := failedCases(t, dev, cases(dev, Slow, open), open)
			for _, name := range want {
				if !noticed[name] {
					t.Errorf("%s did not notice", name)
				}
			}
		})
	}
}

func TestFlawsOfMapsAreNoticed(t *testing.T) {
	flawsAreNoticed(t, map[flaw][]string{
		reservesOnes:     {"EveryKeyAndValue", "TwoKeysAlternate"},
		reservesZero:     {"EveryKeyAndValue"},
		firstPutWins:     {"LastPutWins", "AllKeysEqual", "DuplicatesAcrossOldAndNew"},
		countsReplaced:   {"PutReplaces"},
		putNewReplaces:   {"PutNewKeeps", "FirstPutNewWins", "Apply"},
		reportsAll:       {"FirstDeleteReports"},
		keepsDeleted:     {"Delete", "DeleteThenInsertIsOneCopy", "Churn", "GrowsAndShrinks"},
		leavesOutputs:    {"RoundTrip", "Empty"},
		quietsNaN:        {"EveryKeyAndValue"},
		applyHidesValue:  {"Apply"},
		iteratesTwice:    {"AllWhileChanging"},
		truncatesBatches: {"BatchSizes", "RoundTrip", "All"},
		applyTakesAny:    {"ApplyAnswers"},
		leavesStale:      {"Partial", "Cancelled"},
		onSkipsValues:    {"OnForms"},
		loadsNoValues:    {"GetOrPut"},
		loadsOnce:        {"GetOrPut"},
		loadsLast:        {"GetOrPut"},
		loadsInverted:    {"GetOrPut", "Partial"},
		loadsForget:      {"Partial", "Cancelled"},
		loadsRace:        {"GetOrPutConcurrent"},
		assignsFloats:    {"Assign"},
		reduceReplaces:   {"Reduce", "ReduceOneKey", "Apply"},
		reduceOnce:       {"Reduce", "ReduceOneKey"},
		reduceBits:       {"Reduce", "Apply"},
		updatesInsert:    {"ApplyUpdates"},
	}, MapCases[uint32, float32], func(f flaw, dev device.Device) AnyMap[uint32, float32] {
		return newReference[uint32, float32](f, dev)
	})
}

func TestFlawsOfIDsAreNoticed(t *testing.T) {
	flawsAreNoticed(t, map[flaw][]string{
		assignsFromOne:      {"Assign", "AssignCutShort", "AssignConcurrent"},
		assignsRows:         {"Assign"},
		assignsLength:       {"AssignGoesOn"},
		assignsIgnoreValues: {"AssignGoesOn"},
		assignsForever:      {"Assign"},
		assignsSkipIDs:      {"AssignCutShort"},
		assignsWrap:         {"AssignToTheLast"},
		assignsAnew:         {"AssignGoesOn"},
		assignsTwice:        {"AssignConcurrent"},
		assignsDraft:        {"AssignConcurrent"},
	}, MapCases[uint32, int32], func(f flaw, dev device.Device) AnyMap[uint32, int32] {
		return newReference[uint32, int32](f, dev)
	})
}

func TestFlawsOfSetsAreNoticed(t *testing.T) {
	flawsAreNoticed(t, map[flaw][]string{
		reservesOnes:     {"EveryKey"},
		reportsAll:       {"FirstAddWins"},
		keepsDeleted:     {"RoundTrip", "Churn"},
		truncatesBatches: {"RoundTrip", "All"},
	}, SetCases[uint32], func(f flaw, dev device.Device) AnySet[uint32] {
		return referenceSet[uint32]{newReference[uint32, uint32](f, dev)}
	})
}

func failedCases[S Structure](t *testing.T, dev device.Device, cases []Case[S], open Maker[S]) map[string]bool {
	noticed := map[string]bool{}
	for _, c := range cases {
		if failed, log := c.Report(t, dev, open); failed {
			noticed[c.Name] = true
			if strings.TrimSpace(log) == "" {
				t.Errorf("%s failed and says nothing", c.Name)
			}
		}
	}
	return noticed
}

// The suites must call CheckInvariants after each case.
func TestInvariantsAreAskedFor(t *testing.T) {
	dev, broken := openCPU(t), func(_ testing.TB, dev device.Device) AnyMap[uint32, float32] {
		return brokenInvariants{newReference[uint32, float32](none, dev)}
	}
	for _, c := range MapCases(dev, Slow, broken) {
		failed, log := c.Report(t, dev, broken)
		if !failed || !strings.Contains(log, "invariants: broken within") {
			t.Errorf("%s: failed is %v, log %q", c.Name, failed, log)
		}
	}
}

type brokenInvariants struct{ *reference[uint32, float32] }

func (brokenInvariants) CheckInvariants() error { return errors.New("broken within") }

// The bytes of a fuzz test must form batches of all kinds, and must be read to their end.
func TestReplayReadsEverything(t *testing.T) {
	m, model := eraseMap(newReference[uint32, uint32](none, nil)), map[uint64]uint64{}
	data := []byte{
		0, 3, 1, 0xff, 1, // Put
		2, 2, 1, 9, // PutNew
		3, 1, 0xff, // Delete
		4, 2, 9, 0xff, // Get
		5, 1, 1, // Contains
		1, 200, 7, // Put, cut short
	}
	batches := 0
	for len(data) > 0 {
		data = replayMap(t, m, model, data)
		batches++
	}
	if batches != 6 || len(model) != 3 {
		t.Errorf("%d batches left %d keys, want 6 and 3", batches, len(model))
	}
}

func TestRecorder(t *testing.T) {
	dev, open := openCPU(t), func(_ testing.TB, dev device.Device) AnyMap[uint32, uint32] {
		return newReference[uint32, uint32](none, dev)
	}
	for name, fail := range map[string]func(testing.TB){
		"Error":   func(t testing.TB) { t.Error("mark") },
		"Errorf":  func(t testing.TB) { t.Errorf("%s", "mark") },
		"Fatal":   func(t testing.TB) { t.Fatal("mark"); panic("reached") },
		"Fatalf":  func(t testing.TB) { t.Fatalf("%s", "mark"); panic("reached") },
		"FailNow": func(t testing.TB) { t.Log("mark"); t.FailNow(); panic("reached") },
		"panic":   func(testing.TB) { panic("mark") },
	} {
		c := Case[AnyMap[uint32, uint32]]{name, func(t testing.TB, _ AnyMap[uint32, uint32]) { fail(t) }}
		failed, log := c.Report(t, dev, open)
		if !failed || !strings.Contains(log, "mark") || strings.Contains(log, "reached") {
			t.Errorf("%s: failed is %v, log %q", name, failed, log)
		}
	}
	fine := Case[AnyMap[uint32, uint32]]{"fine", func(t testing.TB, _ AnyMap[uint32, uint32]) { t.Logf("only a remark") }}
	if failed, log := fine.Report(t, dev, open); failed {
		t.Errorf("a case that only logs has failed: %q", log)
	}
}
