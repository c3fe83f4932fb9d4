package traversal

import (
	"context"
	"math"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// The size of a level, and the offset of one field, in bytes.
const (
	levelBytes = int(unsafe.Sizeof(level{}))
	aboveAt    = unsafe.Offsetof(level{}.above)
)

// levelLoop holds the launches of an algorithm that finishes vertices level by level. round runs
// one round of the current level. When a level has no vertices left, level finds the next one.
type levelLoop struct {
	round func(now, next frontier, empty device.Ptr, round int)
	level func(now frontier)
	lists frontierPair
	words device.Ptr // address of a level
}

const (
	// cycleRounds is the number of rounds in a cycle, which ends with a call of level.
	cycleRounds = 3
	// cycles is the number of cycles that are submitted at a time.
	cycles = 4
)

func (c *call) runLevels(y *levelLoop) {
	for round := 0; c.err == nil; {
		for range cycles {
			for range cycleRounds {
				size := func(i int) device.Ptr { return y.words + device.Ptr(8*((round+i)%3)) }
				y.round(y.lists.sized(round, size(0)), y.lists.sized(round+1, size(1)), size(2), round)
				round++
			}
			y.level(y.lists.sized(round, y.words+device.Ptr(8*(round%3))))
		}
		if c.read(y.words, 3)[round%3] == 0 {
			return
		}
	}
}

// WeightType is a type of weights. Kernels use the same values.
type WeightType uint32

// The types of weights.
const (
	Uint32 WeightType = iota
	Uint64
	Int32
	Int64
	Float32
	Float64
)

// Weights locates the weights of all arcs in device memory.
type Weights struct {
	Ptr  device.Ptr
	Type WeightType
}

// meanUnit is the integer that stands for the largest weight when weights are added up.
const meanUnit = 1 << 20

// CheckWeights returns the first arc that has a negative or NaN weight. If no arc has one, bad is
// -1, and CheckWeights returns the largest and the mean weight.
func (k *Kernels) CheckWeights(ctx context.Context, s *device.Stream, g Graph, w Weights) (bad int, largest, mean float64, err error) {
	c := k.begin(ctx, s, g)
	p := pathParams{rows: g.rows(), weights: w.Ptr, weight: uint32(w.Type), result: c.alloc(16)[0]}
	c.write(p.result, math.MaxUint64, math.MaxUint64)
	launch(c, k.pathCheck, g.Arcs, &p)
	words := c.read(p.result, 2)
	if bad = -1; words[0] != math.MaxUint64 {
		return int(words[0]), 0, 0, c.end()
	}
	if largest = math.Float64frombits(^words[1]); largest > 0 {
		unit := min(largest, math.MaxFloat64) / meanUnit
		p.scale = 1 / unit
		c.write(p.result, 0)
		launch(c, k.pathMean, g.Arcs, &p)
		mean = float64(c.read(p.result, 1)[0]) / float64(g.Arcs) * unit
	}
	return bad, largest, mean, c.end()
}

// SSSP writes the distance of each vertex from source, as float64 if floats is set and as uint64
// otherwise. Vertices without a path from source get the largest value. SSSP returns the number of
// vertices with a path. The caller must have called CheckWeights, without a bad weight; mean is the
// mean that it returned.
func (k *Kernels) SSSP(ctx context.Context, s *device.Stream, g Graph, w Weights, mean float64, source uint32, floats bool, distances device.Ptr) (reached int, err error) {
	c := k.begin(ctx, s, g)
	parts := c.alloc(4*g.Vertices, levelBytes, 8)
	y := &levelLoop{words: parts[1], lists: c.lists(g.Vertices)}
	// The step gives each lane of a warp work even if vertices have few neighbors (Davidson et al.:
	// "Work-Efficient Parallel GPU Methods for Single-Source Shortest Paths", 2014).
	step := mean * max(1, 32*float64(g.Vertices)/float64(max(1, g.Arcs)))
	p := pathParams{
		rows: g.rows(), weights: w.Ptr, weight: uint32(w.Type), at: distances, queued: parts[0], level: y.words, result: parts[2],
		far: math.MaxUint64, step: max(step, math.SmallestNonzeroFloat64), source: source, now: y.lists.sized(0, y.words),
	}
	if floats {
		p.floats, p.far = 1, math.Float64bits(math.Inf(1))
	}
	y.round = func(now, next frontier, empty device.Ptr, round int) {
		q := p
		q.now, q.next, q.empty, q.round = now, next, empty, uint32(round+1)
		launch(c, k.pathRelax, c.roundThreads(p.rows, 1), &q)
	}
	y.level = func(now frontier) {
		q := p
		q.now = now
		launch(c, k.pathLeast, g.Vertices, &q)
		launch(c, k.pathGather, g.Vertices, &q)
	}
	c.write(p.result, 0)
	launch(c, k.pathStart, g.Vertices, &p)
	c.runLevels(y)
	launch(c, k.pathCount, g.Vertices, &p)
	reached = int(c.read(p.result, 1)[0])
	return reached, c.end()
}

// KCore writes the core number of each vertex (uint32), and returns the largest. The graph must be
// undirected and not empty. loops states that some edges are self loops, which KCore ignores.
func (k *Kernels) KCore(ctx context.Context, s *device.Stream, g Graph, loops bool, cores device.Ptr) (largest uint32, err error) {
	c := k.begin(ctx, s, g)
	y := &levelLoop{words: c.alloc(levelBytes)[0], lists: c.lists(g.Vertices)}
	p := coreParams{rows: g.rows(), degrees: cores, level: y.words, now: y.lists.sized(0, y.words)}
	y.round = func(now, next frontier, empty device.Ptr, _ int) {
		q := p
		q.now, q.next, q.empty = now, next, empty
		launch(c, k.corePeel, c.roundThreads(p.rows, 1), &q)
	}
	y.level = func(now frontier) {
		q := p
		q.now = now
		launch(c, k.coreLeast, g.Vertices, &q)
		launch(c, k.coreGather, g.Vertices, &q)
	}
	c.fill(y.words, 0, levelBytes/4)
	if loops {
		p.all = 1
	}
	launch(c, k.coreStart, g.Vertices, &p)
	if loops {
		launch(c, k.coreLoops, g.Arcs, &p)
		c.fill(y.words, 0, levelBytes/4)
	}
	c.runLevels(y)
	above := c.read(y.words+device.Ptr(aboveAt), 1)[0]
	if err := c.end(); err != nil {
		return 0, err
	}
	return uint32(above) - 1, nil
}
