package prim

import "testing"

// TestSmoke runs every kernel with few rows. Tools such as compute-sanitizer, which check each
// memory access, slow a device down a thousand times.
func TestSmoke(t *testing.T) {
	r := onGPU(t)
	for w, block := range shapes {
		sortLike(r, w, "skewed", 2*block.tile()+9, 4, 20, false, false)
	}
	for skip := range 2 {
		runScan[uint32](r, counts(r, scanTiles[4]+9), skip)
		runScan[uint64](r, counts(r, scanTiles[8]+9), skip)
	}
	runGroup(r, keysLike[uint32](r, "few", headTiles[4]+9), true)
	runGroup(r, keysLike[uint64](r, "skewed", headTiles[8]+9), true)
	offsets := segmentsLike(r, "mixed", 5*reduceTile, 3)
	for op := range Max + 1 {
		runReduce(r, Uint32, op, values[uint32](r, 5*reduceTile), offsets, false, false)
		runReduce(r, Uint64, op, values[uint64](r, 5*reduceTile), offsets, true, true)
		runReduce(r, Int32, op, values[int32](r, 5*reduceTile), offsets, false, false)
		runReduce(r, Int64, op, values[int64](r, 5*reduceTile), offsets, false, false)
		runReduce(r, Float32, op, values[float32](r, 5*reduceTile), offsets, false, false)
		runReduce(r, Float64, op, values[float64](r, 5*reduceTile), offsets, false, false)
	}
	n := 258 * reduceTile
	runReduce(r, Uint32, Sum, values[uint32](r, n), []uint32{7, uint32(n)}, false, false)
}
