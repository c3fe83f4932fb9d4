package experiment

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/workload"
)

// goodMap is a correct byteMap. spoil breaks a result or a write.
type goodMap struct {
	of    map[string]string
	spoil func(m *goodMap, kind weft.OpKind, key string, value []byte, ok *bool)
}

func (m *goodMap) Put(_ context.Context, keys, values []byte) (inserted int, err error) {
	before := len(m.of)
	for i := range len(keys) / 8 {
		ok := true
		m.one(weft.OpPut, string(keys[8*i:8*i+8]), values[i*valueSize:(i+1)*valueSize], &ok)
	}
	return len(m.of) - before, nil
}

func (m *goodMap) Get(_ context.Context, keys, values []byte, found []bool) (hits int, err error) {
	for i := range found {
		m.one(weft.OpGet, string(keys[8*i:8*i+8]), values[i*valueSize:(i+1)*valueSize], &found[i])
	}
	return hits, nil
}

func (m *goodMap) Delete(context.Context, []byte, []bool) (int, error) { return 0, nil }

func (m *goodMap) Apply(_ context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error {
	for i, kind := range kinds {
		m.one(kind, string(keys[8*i:8*i+8]), values[i*valueSize:(i+1)*valueSize], &ok[i])
	}
	return nil
}

func (m *goodMap) Close() error { return nil }

func (m *goodMap) one(kind weft.OpKind, key string, value []byte, ok *bool) {
	if kind == weft.OpPut {
		if m.spoil != nil {
			m.spoil(m, kind, key, value, ok)
		}
		m.of[key] = string(value)
		return
	}
	v, found := m.of[key]
	copy(value, v)
	*ok = found
	if m.spoil != nil {
		m.spoil(m, kind, key, value, ok)
	}
}

// A wrong result of an index ends an experiment, whether or not the index keeps the order of a
// batch.
func TestSessionsNoticeWrongAnswers(t *testing.T) {
	puts := 0
	for name, c := range map[string]struct {
		spoil     func(m *goodMap, kind weft.OpKind, key string, value []byte, ok *bool)
		unordered bool // also detected if the order is free
	}{
		"a key is not found": {func(_ *goodMap, kind weft.OpKind, _ string, _ []byte, ok *bool) { *ok = *ok && kind != weft.OpGet }, true},
		"a value is torn": {func(_ *goodMap, kind weft.OpKind, _ string, value []byte, _ *bool) {
			if kind == weft.OpGet {
				value[100] ^= 1
			}
		}, true},
		"a write is lost": {func(m *goodMap, kind weft.OpKind, key string, value []byte, _ *bool) {
			if old, there := m.of[key]; there && kind == weft.OpPut {
				copy(value, old)
			}
		}, true},
		"another record's value": {func(_ *goodMap, kind weft.OpKind, _ string, value []byte, _ *bool) {
			if kind == weft.OpGet {
				workload.RecordValue(value, 1<<40, 0)
			}
		}, true},
		"one write of a batch is lost": {func(m *goodMap, kind weft.OpKind, key string, value []byte, _ *bool) {
			if old, there := m.of[key]; there && kind == weft.OpPut {
				// 256 are loaded; an error in the first batch shows only in a later request
				if puts++; puts == 300 {
					copy(value, old)
				}
			}
		}, false},
	} {
		for _, ordered := range []bool{true, false} {
			puts = 0
			s := newSession(testRunner(t), &goodMap{map[string]string{}, c.spoil}, 8, ordered)
			err := s.load(t.Context(), 256)
			if err == nil {
				var q *workload.Requests
				if q, err = workload.NewRequests(workload.Mixes[0], 256, zipfTheta, 1); err != nil {
					t.Fatal(err)
				}
				_, err = s.run(t.Context(), q, 4096, 512)
			}
			if (ordered || c.unordered) && !errors.Is(err, errWrong) {
				t.Errorf("%s, ordered %v: %v", name, ordered, err)
			}
		}
	}
	for _, ordered := range []bool{true, false} {
		s := newSession(testRunner(t), &goodMap{map[string]string{}, nil}, 8, ordered)
		q, err := workload.NewRequests(workload.Mixes[4], 256, zipfTheta, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.load(t.Context(), 256); err != nil {
			t.Fatal(err)
		}
		if times, err := s.run(t.Context(), q, 4096, 512); err != nil || len(times) != 8 {
			t.Errorf("right answers, ordered %v: %d batches, %v", ordered, len(times), err)
		}
	}
}

// The first of several wrong rows is reported, whichever core finds it.
func TestFirstWrongRow(t *testing.T) {
	s := newSession(testRunner(t), nil, 8, true)
	s.begin(1 << 14)
	for _, first := range []int{0, 511, 5000, 1<<14 - 1} {
		if i := s.firstWrong(func(i int) bool { return i >= first && i%7 == first%7 }); i != first {
			t.Errorf("row %d is the first wrong one, want %d", i, first)
		}
	}
	if i := s.firstWrong(func(int) bool { return false }); i != -1 {
		t.Errorf("row %d is wrong of none", i)
	}
}

// Rounds that exceed the time limit are skipped, unless the user has chosen their number.
func TestTurnsEnd(t *testing.T) {
	for _, chosen := range []bool{false, true} {
		for parts, want := range map[int]int{1: 4, int(inTurnsFor): 1} {
			r := testRunner(t)
			r.result.Parameters = map[string]any{}
			r.Runs, r.chosen, r.parts = 4, chosen, parts
			if chosen {
				want = r.Runs
			}
			turns := 0
			err := r.inTurns(2, func(int) ([]Row, error) {
				turns++
				return []Row{{Op: "get", Latency: &Latency{P50: 1}}}, nil
			})
			if err != nil || turns != 2*want || r.result.Parameters["rounds"] != want {
				t.Errorf("chosen %v, %d parts: %d turns, %v rounds, want %d; %v", chosen, parts, turns, r.result.Parameters["rounds"], want, err)
			}
		}
	}
}

// The peers run the same work on a GPU as gphash.
func TestPeersOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, ownTests)
	namesOf := func(experiment string) (names []string) {
		if experiment == gphashBaselinesExperiment.Name || experiment == gphashBreakdownExperiment.Name {
			for _, p := range persistentPeers {
				names = append(names, p.name)
			}
			return names
		}
		return []string{"clevel", "slab, undo log", "gphash, host", "clevel, host"}
	}
	for _, e := range []Experiment{gphashMicroExperiment, gphashYCSBExperiment, gphashKeySizeExperiment, gphashBaselinesExperiment, gphashBreakdownExperiment,
		gphashPageRankExperiment, gphashEmbeddingExperiment} {
		t.Run(e.Name, func(t *testing.T) {
			cfg := tiny(devicetest.OpenSim(t, nil))
			cfg.N, cfg.Scale = 256, Quick
			switch e.Name {
			case gphashPageRankExperiment.Name:
				cfg.N = 32 // number of vertices
			case gphashEmbeddingExperiment.Name:
				cfg.N = 32 * features
			}
			res, err := e.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, res)
			ops := map[string][]string{}
			for _, row := range res.Rows {
				ops[row.Structure] = append(ops[row.Structure], row.Op)
			}
			for _, name := range namesOf(e.Name) {
				if len(ops[name]) == 0 || !slices.Equal(ops[name], ops[gphashName]) {
					t.Errorf("%s has run %v, gphash %v", name, ops[name], ops[gphashName])
				}
			}
		})
	}
}
