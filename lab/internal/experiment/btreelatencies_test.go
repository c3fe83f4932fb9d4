package experiment

import (
	"maps"
	"testing"
)

// The size of the last cache distinguishes the levels of memory.
func TestMemoryLevels(t *testing.T) {
	rows := []Row{
		{Op: "weak", TableBytes: 1 << 14, Seconds: 1}, {Op: "relaxed", TableBytes: 1 << 14, Seconds: 2},
		{Op: "relaxed", TableBytes: 1 << 20, Seconds: 3}, {Op: "relaxed", TableBytes: 1 << 22, Seconds: 4},
		{Op: "weak", TableBytes: 1 << 24, Seconds: 9}, {Op: "relaxed", TableBytes: 1 << 24, Seconds: 5},
		{Op: "relaxed", TableBytes: 1 << 25, Seconds: 6}, {Op: "relaxed", TableBytes: 1 << 26, Seconds: 7},
	}
	want := map[string]float64{"L1": 1, "L2": 3, "DRAM": 5, "TLB": 7}
	if got := memoryLevels(rows, "relaxed", 1<<22); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := memoryLevels(rows, "relaxed", 0); !maps.Equal(got, map[string]float64{"L1": 1}) {
		t.Errorf("%v without a known cache", got)
	}
}
