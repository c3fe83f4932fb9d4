package plan

import (
	"math"
	"testing"
)

// peers returns a job with the rates of other tables, for which figures were computed by hand.
func peers() *Job {
	return &Job{Keys: 1e12, Key: 8, Value: 8, Load: .85, Replicas: 1, NIC: Link{Latency: 8e-6, Rate: 45e9},
		On: Processor{Memory: 120e9, PerNode: 8, Stream: 4273e9, Lookups: 3e9, Inserts: 3e9, Inner: Link{Latency: 4e-6, Rate: 120e9}}}
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

// The number of GPUs for a table of 10^12 keys is as computed by hand.
func TestNeed(t *testing.T) {
	for _, tt := range []struct {
		key, value, load, replicas float64
		ranks, nodes               int
	}{
		{8, 0, .85, 1, 79, 10}, {8, 4, .85, 1, 118, 15}, {8, 8, .85, 1, 157, 20}, {8, 8, .5, 1, 267, 34},
		{8, 8, .69, 1, 194, 25}, {8, 8, .85, 2, 314, 40},
	} {
		j := peers()
		j.Key, j.Value, j.Load, j.Replicas = tt.key, tt.value, tt.load, tt.replicas
		if n := j.Cost(); n.Ranks != tt.ranks || n.Nodes != tt.nodes {
			t.Errorf("%+v: %d ranks, %d nodes", tt, n.Ranks, n.Nodes)
		}
	}
	j := peers()
	j.Ranks = 168
	n := j.Cost()
	if !near(n.Fill, 2.1, .02) || !near(n.Failure, 12.6, .02) {
		t.Errorf("%+v", n)
	}
	cpu, err := Find("cpu")
	if err != nil {
		t.Fatal(err)
	}
	if j.Ranks, j.On = 0, cpu; j.Cost().Ranks != 21 {
		t.Errorf("%d CPU nodes", j.Cost().Ranks)
	}
	if _, err := Find("tpu"); err == nil {
		t.Error("there is a TPU")
	}
}

// The times of batches in flat exchanges are as computed by hand.
func TestBatch(t *testing.T) {
	for _, tt := range []struct {
		keys  float64
		ranks int
		ms    float64
	}{
		{1e5, 4, .076}, {1e5, 8, .11}, {1e6, 4, .47}, {1e6, 8, .52}, {1e7, 4, 4.5}, {1e7, 8, 4.7},
		{1e7, 64, 8.0}, {1e7, 168, 9.7}, {1e8, 4, 44}, {1e8, 8, 46}, {1e8, 64, 70}, {1e8, 168, 72},
	} {
		j := peers()
		if b := j.Lookup(tt.ranks, tt.keys); !near(b.Seconds*1e3, tt.ms, .03) {
			t.Errorf("%g keys, %d ranks: %.3g ms, want %.3g", tt.keys, tt.ranks, b.Seconds*1e3, tt.ms)
		}
	}
	// Latency bounds a flat exchange of small messages, so two levels are faster.
	j := peers()
	j.On.PerNode = 1
	flat := j.Lookup(168, 1e6)
	if !near(flat.Seconds*1e3, 3.4, .02) || flat.Bound != "latency" || flat.TwoLevels {
		t.Errorf("flat: %+v", flat)
	}
	j.On.PerNode = 8
	if two := j.Lookup(168, 1e6); !two.TwoLevels || two.Seconds > flat.Seconds/2 {
		t.Errorf("two levels: %+v", two)
	}
	for keys, largest := range map[float64]float64{1e5: 1.13, 1e6: 1.04, 1e7: 1.01} {
		if b := peers().Lookup(168, keys); !near(b.Largest, largest, .005) || b.Skew >= b.Largest {
			t.Errorf("%g keys: %.3f, want %.3f", keys, b.Largest, largest)
		}
	}
}

// A single rank exchanges nothing, and a faster network takes less time.
func TestLimits(t *testing.T) {
	j := peers()
	if b := j.Lookup(1, 1e6); b.Seconds != 1e6/3e9 || b.Bound != "table" || b.Skew != 1 {
		t.Errorf("%+v", b)
	}
	before := math.Inf(1)
	for _, gbit := range []float64{100, 200, 400, 800} {
		j.NIC = NIC(gbit)
		b := j.Insert(64, 1e7)
		if b.Seconds >= before {
			t.Errorf("%g Gbit/s: %g s, %g with less", gbit, b.Seconds, before)
		}
		before = b.Seconds
	}
}
