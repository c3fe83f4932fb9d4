package prim

import (
	"math"
	"slices"
	"testing"
)

type number interface {
	uint32 | uint64 | int32 | int64 | float32 | float64
}

// reduced returns the expected result of a segment.
func reduced[V number](op ReduceOp, none V, values []V) V {
	for _, v := range values {
		switch op {
		case Sum:
			none += v
		case Min:
			none = min(none, v)
		case Max:
			none = max(none, v)
		}
	}
	return none
}

// identity returns the result of an operation without values.
func identity[V number](op ReduceOp) (v V) {
	inf := math.Inf(1)
	limits := map[any][2]any{
		uint32(0): {uint32(math.MaxUint32), uint32(0)}, uint64(0): {uint64(math.MaxUint64), uint64(0)},
		int32(0): {int32(math.MaxInt32), int32(math.MinInt32)}, int64(0): {int64(math.MaxInt64), int64(math.MinInt64)},
		float32(0): {float32(inf), float32(-inf)}, float64(0): {inf, -inf},
	}[v]
	if op != Sum {
		v = limits[op-Min].(V)
	}
	return v
}

// values returns small whole numbers, which have exact floating-point sums.
func values[V number](r *rig, n int) []V {
	v := make([]V, n)
	for i := range v {
		v[i] = V(int32(r.rng.IntN(1<<12))) - V(int32(1<<11))
	}
	return v
}

// segmentsLike returns the offsets of segments of n values. The first segment begins at value skip.
func segmentsLike(r *rig, like string, n, skip int) []uint32 {
	offsets := []uint32{uint32(skip)}
	for at := skip; at < n; {
		switch like {
		case "one":
			at = n
		case "each":
			at++
		case "short":
			at += r.rng.IntN(5)
		case "long":
			at += r.rng.IntN(3 * reduceTile)
		case "mixed":
			at += r.rng.IntN(1 << r.rng.IntN(13))
		case "rows":
			at += 32 * r.rng.IntN(4)
		case "tiles": // a segment and its end fill a tile, and the next begins there
			at += reduceTile - 1
		case "empty":
			if at += r.rng.IntN(2) * r.rng.IntN(900); at > skip+2000 {
				at = n
			}
			for range r.rng.IntN(700) {
				offsets = append(offsets, uint32(min(at, n)))
			}
		}
		offsets = append(offsets, uint32(min(at, n)))
	}
	return offsets
}

func runReduce[V number](r *rig, typ Number, op ReduceOp, in []V, offsets []uint32, wide, counted bool) {
	r.Helper()
	m := len(offsets) - 1
	want := make([]V, m)
	for i := range want {
		want[i] = reduced(op, identity[V](op), in[offsets[i]:offsets[i+1]])
	}
	vals, out := upload(r, in), results[V](r, m)
	o := &Reduce{Op: op, Type: typ, N: len(in), Segments: m, Width: 4, Values: vals.Ptr(), Out: out.Ptr()}
	narrow, count := upload(r, offsets), upload(r, []uint32{uint32(m)})
	long := make([]uint64, len(offsets))
	for i, v := range offsets {
		long[i] = uint64(v)
	}
	wider := upload(r, long)
	if o.Offsets = narrow.Ptr(); wide {
		o.Offsets, o.Width = wider.Ptr(), 8
	}
	if counted {
		o.Segments, o.Count = m+1000, count.Ptr()
	}
	scratch := r.scratch(o.ScratchBytes())
	r.must(r.prim.Reduce(r.stream, o, scratch))
	got := download(r, out)
	for i, v := range want {
		if got[i] != v {
			r.Fatalf("operation %d of type %d, %d values in %d segments: segment %d, %d to %d, gives %v, want %v", op, typ, len(in), m, i, offsets[i], offsets[i+1], got[i], v)
		}
	}
	r.must(vals.Free())
	r.must(narrow.Free())
	r.must(wider.Free())
	r.must(count.Free())
	r.release(scratch)
}

var segmentLikes = []string{"one", "each", "short", "long", "mixed", "rows", "tiles", "empty"}

func testReduce[V number](t *testing.T, typ Number) {
	r := onGPU(t)
	for i, n := range []int{0, 1, 31, 32, 33, reduceTile - 1, reduceTile, 2*reduceTile + 1, 9 * reduceTile} {
		for j, like := range segmentLikes {
			skip := min(n, j*5)
			offsets := segmentsLike(r, like, n, skip)
			runReduce(r, typ, ReduceOp((i+j)%3), values[V](r, n), offsets, i%2 == 0, j%2 == 0)
		}
	}
}

func TestReduce(t *testing.T) {
	t.Run("uint32", func(t *testing.T) { testReduce[uint32](t, Uint32) })
	t.Run("uint64", func(t *testing.T) { testReduce[uint64](t, Uint64) })
	t.Run("int32", func(t *testing.T) { testReduce[int32](t, Int32) })
	t.Run("int64", func(t *testing.T) { testReduce[int64](t, Int64) })
	t.Run("float32", func(t *testing.T) { testReduce[float32](t, Float32) })
	t.Run("float64", func(t *testing.T) { testReduce[float64](t, Float64) })
}

// A segment may have more tiles than the last kernel reads at once.
func TestReduceLongSegment(t *testing.T) {
	r := onGPU(t)
	n := 330*reduceTile + 5
	in := make([]uint32, n)
	for i := range in {
		in[i] = uint32(i) * 2654435761
	}
	for _, op := range []ReduceOp{Sum, Max} {
		runReduce(r, Uint32, op, in, []uint32{0, 3, uint32(n - 1), uint32(n)}, false, false)
	}
}

// Minima and maxima ignore NaNs, and sums do not.
func TestReduceNaN(t *testing.T) {
	r := onGPU(t)
	nan := math.NaN()
	in := upload(r, []float64{nan, nan, 1, 2, nan, nan, -5, nan, nan})
	offsets := upload(r, []uint32{0, 1, 5, 8, 9})
	for op, want := range map[ReduceOp][]float64{
		Min: {math.Inf(1), 1, -5, math.Inf(1)}, Max: {math.Inf(-1), 2, -5, math.Inf(-1)}, Sum: {nan, nan, nan, nan},
	} {
		out := results[float64](r, 4)
		o := &Reduce{Op: op, Type: Float64, N: 9, Segments: 4, Width: 4, Values: in.Ptr(), Offsets: offsets.Ptr(), Out: out.Ptr()}
		scratch := r.scratch(o.ScratchBytes())
		r.must(r.prim.Reduce(r.stream, o, scratch))
		got := download(r, out)
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("operation %d gives %v, want %v", op, got, want)
		}
		r.release(scratch)
	}
	r.must(in.Free())
	r.must(offsets.Free())
}
