package workload

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func mixOf(t *testing.T, name string) Mix {
	i := slices.IndexFunc(Mixes, func(m Mix) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no mix %s", name)
	}
	return Mixes[i]
}

func requests(t *testing.T, name string, records uint64, theta float64, n int) []Request {
	t.Helper()
	q, err := NewRequests(mixOf(t, name), records, theta, 3)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Request, n)
	q.Fill(all, 0)
	return all
}

// near fails the test unless a share of n draws is within five standard deviations of want.
func near(t *testing.T, what string, got, want float64, n int) {
	t.Helper()
	if d := math.Abs(got-want) / math.Sqrt(max(want*(1-want), 1e-9)/float64(n)); d > 5 {
		t.Errorf("%s: %.4f, want %.4f: %.1f standard deviations off", what, got, want, d)
	}
}

func TestMixesHaveTheirShares(t *testing.T) {
	const n = 200_000
	for name, want := range map[string][4]float64{ // read, update, modify, insert
		"A": {.5, .5, 0, 0}, "B": {.95, .05, 0, 0}, "C": {1, 0, 0, 0}, "D": {.95, 0, 0, .05}, "F": {.5, 0, .5, 0}, "LOAD": {0, 0, 0, 1},
	} {
		var got [4]float64
		for _, r := range requests(t, name, 10_000, .99, n) {
			got[r.Action] += 1. / n
		}
		for a, share := range want {
			near(t, name, got[a], share, n)
		}
	}
}

// The most requested record has the share of the distribution, and so has the top hundred. The
// numbers of these records are random.
func TestRequestsAreSkewed(t *testing.T) {
	const n, records = 200_000, 100_000
	for _, theta := range []float64{.5, .99} {
		z, err := NewZipf(records, theta)
		if err != nil {
			t.Fatal(err)
		}
		count := make([]int, records)
		for _, r := range requests(t, "C", records, theta, n) {
			count[r.Record]++
		}
		low := 0
		for _, c := range count[:records/2] {
			low += c
		}
		slices.SortFunc(count, func(a, b int) int { return b - a })
		near(t, "the most wanted record", float64(count[0])/n, z.Share(1), n)
		if theta == .99 {
			top := 0
			for _, c := range count[:100] {
				top += c
			}
			// The generator is approximate from the third rank on.
			if got := float64(top) / n; math.Abs(got-z.Share(100)) > .02 {
				t.Errorf("the most wanted hundred get %.3f, want %.3f", got, z.Share(100))
			}
		}
		if got := float64(low) / n; got < .35 || got > .65 {
			t.Errorf("theta %g: the older half of the records gets %.2f", theta, got)
		}
	}
	uniform := make([]int, 100)
	for _, r := range requests(t, "C", 100, 0, n) {
		uniform[r.Record]++
	}
	for _, c := range uniform {
		near(t, "uniform", float64(c)/n, .01, n)
	}
}

// D and LOAD insert each record once, in order. Reads request existing records, mostly recent ones.
func TestInsertsComeInOrder(t *testing.T) {
	for name, records := range map[string]uint64{"D": 1000, "LOAD": 0} {
		next, young, reads := records, 0, 0
		for i, r := range requests(t, name, records, .99, 50_000) {
			switch {
			case r.Action == Insert && r.Record != next:
				t.Fatalf("%s: request %d inserts record %d, want %d", name, i, r.Record, next)
			case r.Action == Insert:
				next++
			case r.Record >= next:
				t.Fatalf("%s: request %d reads record %d of %d", name, i, r.Record, next)
			default:
				reads++
				if r.Record >= next-100 {
					young++
				}
			}
		}
		if name == "D" && float64(young) < .6*float64(reads) {
			t.Errorf("%d of %d reads are of the newest hundred", young, reads)
		}
	}
}

func TestRequestsDependOnTheSeedAlone(t *testing.T) {
	a, b := requests(t, "A", 1000, .99, 70_000), requests(t, "A", 1000, .99, 70_000)
	if !slices.Equal(a, b) {
		t.Error("one seed, two sequences")
	}
	q, err := NewRequests(mixOf(t, "A"), 1000, .99, 4)
	if err != nil {
		t.Fatal(err)
	}
	q.Fill(b, 0)
	if slices.Equal(a, b) {
		t.Error("two seeds, one sequence")
	}
	part := make([]Request, 100)
	q.Fill(part, 500)
	if !slices.Equal(part, b[500:600]) {
		t.Error("a part differs from the whole")
	}
}

func TestRequestsRefuse(t *testing.T) {
	for _, c := range []struct {
		mix     Mix
		records uint64
		theta   float64
	}{{Mix{Read: 1}, 0, .99}, {Mix{Read: .5}, 10, .99}, {Mix{Read: 1}, 10, 1.5}, {Mix{Read: 1}, 10, -1}} {
		if _, err := NewRequests(c.mix, c.records, c.theta, 1); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
}

// A value of any length matches its record and stamp. A change of any byte is detected.
func TestRecordValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record, stamp := rapid.Uint64().Draw(t, "record"), rapid.Uint64().Draw(t, "stamp")
		v := make([]byte, rapid.IntRange(8, 40).Draw(t, "length"))
		RecordValue(v, record, stamp)
		if !IsRecordValue(v, record, stamp) || RecordStamp(v, record) != stamp {
			t.Fatalf("%x is not the value of %d, %d, but of stamp %d", v, record, stamp, RecordStamp(v, record))
		}
		if IsRecordValue(v, record, stamp+1) || IsRecordValue(v, record+1, stamp) {
			t.Fatal("another record's or another stamp's")
		}
		v[rapid.IntRange(0, len(v)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if IsRecordValue(v, record, stamp) {
			t.Fatal("a changed bit is not noticed")
		}
	})
}

func TestRecordKeysAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, size := range []int{8, 11, 32} {
		for i := range uint64(10_000) {
			k := make([]byte, size)
			RecordKey(k, 9, i)
			seen[string(k)] = true
		}
	}
	if len(seen) != 30_000 {
		t.Errorf("%d different keys of 30,000", len(seen))
	}
	a, b := make([]byte, 8), make([]byte, 8)
	RecordKey(a, 1, 5)
	RecordKey(b, 2, 5)
	if bytes.Equal(a, b) {
		t.Error("two seeds, one key")
	}
}
