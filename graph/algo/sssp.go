package algo

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Distance constrains the types of distances: uint64 for integer weights, float64 for all weights.
type Distance interface{ uint64 | float64 }

// SSSP computes shortest paths from a source. distances receives the smallest sum of weights on a
// path to each vertex. If no path exists, it receives the largest value of the type (infinity for
// float64). SSSP returns the number of vertices reached.
//
// If a weight is negative or NaN, SSSP returns device.ErrInvalid with the edge. It also returns
// device.ErrInvalid if sums of weights might overflow, and for floating-point weights with integer
// distances.
//
// Vertices nearer than a threshold are processed concurrently, until their distances no longer
// change. Then the threshold rises by the mean weight (a form of delta stepping: Meyer, Sanders,
// 2003). Floating-point weights are added in the order of the path, so distances do not depend on
// the number of cores.
func SSSP[W graph.Weight, D Distance](ctx context.Context, dev device.Device, g *graph.Weighted[W], source uint32, distances []D) (reached int, err error) {
	mustMatchVertices("SSSP", g.CSR, len(distances))
	if !isHost(dev) {
		err = runUploaded(ctx, dev, "SSSP", g.Upload, distances, func(s *device.Stream, d *graph.DeviceWeighted[W], column device.Slice[D]) error {
			reached, err = SSSPOn(ctx, s, d, source, column)
			return err
		})
		return reached, err
	}
	h, err := host(dev, "SSSP")
	if err != nil {
		return 0, err
	}
	if err := checkSource("SSSP", g.Vertices(), source); err != nil {
		return 0, err
	}
	mean, err := checkWeights[W, D](h, g)
	if err != nil {
		return 0, err
	}
	s := paths{Host: h, ctx: ctx, g: g.CSR, step: max(mean, math.SmallestNonzeroFloat64)}
	// Non-negative floats are ordered as their bits are.
	s.distances = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(distances))), len(distances))
	weights := g.AllWeights()
	if integral[D]() {
		s.unreached = math.MaxUint64
		s.add = func(d, arc uint64) uint64 { return d + uint64(weights[arc]) }
		s.value = func(d uint64) float64 { return float64(d) }
	} else {
		s.unreached = math.Float64bits(math.Inf(1))
		s.add = func(d, arc uint64) uint64 {
			return math.Float64bits(math.Float64frombits(d) + float64(weights[arc]))
		}
		s.value = math.Float64frombits
	}
	return s.run(source), ctx.Err()
}

// checkWeights returns the mean weight. It returns an error if a weight is negative or NaN, or if
// sums of weights may overflow.
func checkWeights[W graph.Weight, D Distance](h device.Host, g *graph.Weighted[W]) (mean float64, err error) {
	weights := g.AllWeights()
	if err := checkTypes[W, D](); err != nil {
		return 0, err
	}
	parts := make([]struct{ sum, largest float64 }, (len(weights)+grain-1)/grain)
	var bad atomic.Int64
	bad.Store(math.MaxInt64)
	h.Parallel(len(weights), grain, func(lo, hi int) {
		p := &parts[lo/grain]
		for i, w := range weights[lo:hi] {
			if !(w >= 0) {
				for old := bad.Load(); old > int64(lo+i) && !bad.CompareAndSwap(old, int64(lo+i)); old = bad.Load() {
				}
				return
			}
			p.sum += float64(w)
			p.largest = max(p.largest, float64(w))
		}
	})
	if at := bad.Load(); at < math.MaxInt64 {
		return 0, badWeight(g, int(at))
	}
	sum, largest := 0., 0.
	for _, p := range parts {
		sum, largest = sum+p.sum, max(largest, p.largest)
	}
	return sum / max(1, float64(len(weights))), checkLongest[D](largest, g.Vertices())
}

// integral reports whether T is an integer type.
func integral[T graph.Weight]() bool { return T(1)/2 == 0 }

// checkTypes returns an error for floating-point weights with integer distances.
func checkTypes[W graph.Weight, D Distance]() error {
	if !integral[W]() && integral[D]() {
		return invalid("SSSP", "the weights are floats, but the distances are integers")
	}
	return nil
}

// checkLongest returns an error if the longest possible path overflows distances.
func checkLongest[D Distance](largest float64, vertices int) error {
	if longest := largest * float64(vertices); integral[D]() && longest >= 1<<63 {
		return invalid("SSSP", "weights up to %v make paths up to %.3g, too long for 64 bits", largest, longest)
	}
	return nil
}

func badWeight[W graph.Weight](g *graph.Weighted[W], arc int) error {
	return invalid("SSSP", "the edge from %d to %d has the invalid weight %v", rowOf(g.CSR,
		uint64(arc)), g.Targets()[arc], g.AllWeights()[arc])
}

// rowOf returns the vertex that an arc leads from.
func rowOf(g *graph.CSR, arc uint64) uint32 {
	lo, hi := 0, g.Vertices()
	for lo+1 < hi {
		if mid := (lo + hi) / 2; g.Offsets()[mid] <= arc {
			lo = mid
		} else {
			hi = mid
		}
	}
	return uint32(lo)
}

// paths is a running search. Distances are stored as words with the order of the distances.
type paths struct {
	device.Host
	ctx       context.Context
	g         *graph.CSR
	distances []uint64
	unreached uint64 // the distance of unreached vertices
	add       func(d, arc uint64) uint64
	value     func(d uint64) float64
	step      float64
	// near and far list the vertices that must be processed because their distances have decreased.
	// near has distances below the threshold, far the others. A vertex may be listed several times.
	near, far []uint32
}

func (s *paths) run(source uint32) (reached int) {
	for v := range s.distances {
		s.distances[v] = s.unreached
	}
	s.distances[source] = 0
	s.near = []uint32{source}
	threshold := s.step
	for len(s.near) > 0 && s.ctx.Err() == nil {
		for len(s.near) > 0 && s.ctx.Err() == nil {
			s.relax(threshold)
		}
		threshold = s.raiseThreshold(threshold)
	}
	for _, d := range s.distances {
		if d != s.unreached {
			reached++
		}
	}
	return reached
}

// relax processes the vertices in near once.
func (s *paths) relax(threshold float64) {
	near := s.near
	s.near = nil
	var mu sync.Mutex
	s.Parallel(len(near), front, func(lo, hi int) {
		if s.ctx.Err() != nil {
			return
		}
		var nearPart, far []uint32
		for _, v := range near[lo:hi] {
			d := atomic.LoadUint64(&s.distances[v])
			first := s.g.Offsets()[v]
			for i, u := range s.g.Neighbors(v) {
				to := s.add(d, first+uint64(i))
				if !storeMin(&s.distances[u], to) {
					continue
				}
				if s.value(to) < threshold {
					nearPart = append(nearPart, u)
				} else {
					far = append(far, u)
				}
			}
		}
		mu.Lock()
		s.near, s.far = append(s.near, nearPart...), append(s.far, far...)
		mu.Unlock()
	})
}

// storeMin stores a distance if it is smaller, and reports whether it did.
func storeMin(at *uint64, d uint64) bool {
	for old := atomic.LoadUint64(at); d < old; old = atomic.LoadUint64(at) {
		if atomic.CompareAndSwapUint64(at, old, d) {
			return true
		}
	}
	return false
}

// raiseThreshold raises the threshold above the nearest vertex in far. It moves the vertices below
// the new threshold to near.
func (s *paths) raiseThreshold(threshold float64) (next float64) {
	nearest := math.Inf(1)
	unsettled := s.far[:0]
	for _, v := range s.far {
		// A smaller distance has already been processed.
		if d := s.value(s.distances[v]); d >= threshold {
			nearest = min(nearest, d)
			unsettled = append(unsettled, v)
		}
	}
	next = max(nearest+s.step, math.Nextafter(nearest, math.Inf(1)))
	s.far = unsettled[:0]
	for _, v := range unsettled {
		if s.value(s.distances[v]) < next {
			s.near = append(s.near, v)
		} else {
			s.far = append(s.far, v)
		}
	}
	return next
}
