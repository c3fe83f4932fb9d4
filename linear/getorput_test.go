package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/linear"
)

// If a batch is looked up in several chunks, keys inserted with one chunk must be present in the
// next.
func TestGetOrPutAndAssignInChunks(t *testing.T) {
	conformance.SkipRaced(t, "chunks follow each other")
	const n, different = 2*core.ChunkOps + 1000, core.ChunkOps * 3 / 2
	m := conformance.Open(t, linear.New[uint32, uint32], devicetest.OpenCPU(t, 2), nil)
	keys, vals, loaded := make([]uint32, n), make([]uint32, n), make([]bool, n)
	for i := range keys {
		keys[i], vals[i] = uint32(i%different)*0x9e3779b1, uint32(i)
	}
	fresh, err := m.GetOrPut(t.Context(), keys, vals, loaded)
	conformance.WantCount(t, "GetOrPut", fresh, different, err)
	for i := range keys {
		if vals[i] != uint32(i%different) || loaded[i] != (i >= different) {
			t.Fatalf("row %d has value %d, loaded is %v", i, vals[i], loaded[i])
		}
	}
	if err := m.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	clear(vals)
	fresh, err = m.Assign(t.Context(), keys, vals)
	conformance.WantCount(t, "Assign", fresh, different, err)
	for i := range keys {
		if vals[i] != uint32(i%different) {
			t.Fatalf("row %d has id %d", i, vals[i])
		}
	}
}
