package experiment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashPageRankExperiment = Experiment{
	Name:  "gphash-fig10-pagerank",
	Was:   "gphash-pagerank",
	Title: "PageRank over the persistent index",
	Doc: `A real workload, after figure 10 of the GPHash paper: three iterations of PageRank on a graph that lies in an index, of
2^16 vertices (2^17 on a GPU) and 16 times as many edges, whose ends are drawn by Zipf distributions of exponent .7. A record of 128 bytes has the
rank of a vertex and its degrees; others have the vertices that point to it, 16 each. An iteration goes through the vertices, 256 at
a time: it gets their records, then the lists, then the records of all that point to them, and puts the new ranks, in calls of 2^16 operations at most. n counts the
operations of these calls, and latency is that of a call. The parameters have the edges per second, and how many the same sum over Go
slices takes on one core, which is what an index that survives the process costs. The graph is drawn: the paper's, of Twitter, is
not part of weft.` + peersDoc + hostMemory,
	run: runGPHashPageRank,
}

const (
	iterations  = 3
	edgesPer    = 16 // edges per vertex, on average
	listed      = valueSize / 8
	damping     = .85
	degreeTheta = .7
	blockSize   = 256 // number of vertices at a time
)

func runGPHashPageRank(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<16, 1<<17, edgesPer*8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, 3*n); err != nil {
		return err
	}
	r.step("gphash-fig10-pagerank: drawing the graph")
	g, err := drawGraph(r.Seed, n, edgesPer*n)
	if err != nil {
		return err
	}
	start := time.Now()
	want := g.ranks()
	inMemory := time.Since(start)
	v, err := r.newRivals(8, loadBatch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	for i, rival := range r.rivalsOn() {
		err := v.measure(rival, 8, g.records(), loadBatch, func(s *session, _ *gphash.Index) error {
			p := &pageRank{session: s, graph: g}
			if err := p.run(ctx, rival.label(), want); err != nil {
				return err
			}
			row := timed(rival.label(), "pagerank", 8, p.ops, 0, p.times, r.poolRead())
			r.add(row)
			if i == 0 {
				r.result.Parameters["edges_per_s"] = math.Round(float64(iterations*len(g.sources)) / row.Seconds)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.result.Parameters["edges"] = len(g.sources)
	r.result.Parameters["edges_per_s_in_slices"] = math.Round(float64(iterations*len(g.sources)) / inMemory.Seconds())
	return nil
}

// run loads the graph into the index, runs the iterations and checks the ranks.
func (p *pageRank) run(ctx context.Context, structure string, want []float64) error {
	p.step("gphash-fig10-pagerank: %s: loading", structure)
	if err := p.load(ctx); err != nil {
		return err
	}
	for i := range iterations {
		p.step("gphash-fig10-pagerank: %s: iteration %d", structure, i+1)
		if err := p.iterate(ctx, i); err != nil {
			return fmt.Errorf("iteration %d: %w", i+1, err)
		}
	}
	return p.check(ctx, want)
}

// zipfGraph holds the edges of a graph, grouped by target.
type zipfGraph struct {
	first   []int    // index of each vertex's first source, and then the number of edges
	sources []uint32 // sources of the edges
	out     []uint32 // out-degrees
}

// drawGraph draws a graph of n vertices. Both ends of an edge follow Zipf distributions that are
// independent.
func drawGraph(seed uint64, n, edges int) (*zipfGraph, error) {
	zipf, err := workload.NewZipf(uint64(n), degreeTheta)
	if err != nil {
		return nil, err
	}
	from, to := workload.NewPermutation(uint64(n), seed+1), workload.NewPermutation(uint64(n), seed+2)
	g := &zipfGraph{make([]int, n+1), make([]uint32, edges), make([]uint32, n)}
	ends := make([][2]uint32, edges)
	for i := range ends {
		ends[i][0] = uint32(from.At(zipf.Rank(workload.Key[uint64](seed+3, uint64(2*i)))))
		ends[i][1] = uint32(to.At(zipf.Rank(workload.Key[uint64](seed+3, uint64(2*i+1)))))
		g.out[ends[i][0]]++
		g.first[ends[i][1]+1]++
	}
	for v := range n {
		g.first[v+1] += g.first[v]
	}
	next := slices.Clone(g.first)
	for _, e := range ends {
		g.sources[next[e[1]]] = e[0]
		next[e[1]]++
	}
	return g, nil
}

func (g *zipfGraph) vertices() int { return len(g.out) }

// lists returns the number of records that hold the sources of a vertex.
func (g *zipfGraph) lists(v int) int { return (g.first[v+1] - g.first[v] + listed - 1) / listed }

func (g *zipfGraph) records() int {
	n := g.vertices()
	for v := range g.vertices() {
		n += g.lists(v)
	}
	return n
}

func (g *zipfGraph) ranks() []float64 {
	now, next := make([]float64, g.vertices()), make([]float64, g.vertices())
	for v := range now {
		now[v] = 1 / float64(len(now))
	}
	for range iterations {
		for v := range next {
			sum := 0.
			for _, s := range g.sources[g.first[v]:g.first[v+1]] {
				sum += now[s] / float64(g.out[s])
			}
			next[v] = rankOf(sum, len(next))
		}
		now, next = next, now
	}
	return now
}

func rankOf(sum float64, vertices int) float64 { return (1-damping)/float64(vertices) + damping*sum }

// pageRank is a graph in an index. The upper half of a key is a vertex. The lower half is 0 for the
// record of its rank, or the number of a list of sources, from 1 on.
type pageRank struct {
	*session
	graph *zipfGraph

	ops   int
	times []time.Duration

	numbers []uint64
}

// Words in the record of a vertex: two ranks, which iterations use alternately, and the degrees.
const (
	rankWord = 0
	outWord  = 2
	inWord   = 3
)

func (p *pageRank) begin() { p.numbers = p.numbers[:0] }

func (p *pageRank) addKey(vertex, list uint64) { p.numbers = append(p.numbers, vertex<<32|list) }

func (p *pageRank) columns() {
	n := len(p.numbers)
	p.keys, p.vals = slices.Grow(p.keys[:0], 8*n)[:8*n], slices.Grow(p.vals[:0], valueSize*n)[:valueSize*n]
	for i, k := range p.numbers {
		binary.LittleEndian.PutUint64(p.keys[8*i:], k)
	}
}

func (p *pageRank) word(i, word int) uint64 {
	return binary.LittleEndian.Uint64(p.vals[i*valueSize+8*word:])
}

func (p *pageRank) set(i, word int, v uint64) {
	binary.LittleEndian.PutUint64(p.vals[i*valueSize+8*word:], v)
}

func (p *pageRank) rank(i, iteration int) float64 {
	return math.Float64frombits(p.word(i, rankWord+iteration%2))
}

func (p *pageRank) load(ctx context.Context) error {
	g := p.graph
	for v := range g.vertices() {
		p.addKey(uint64(v), 0)
		for l := range g.lists(v) {
			p.addKey(uint64(v), uint64(l+1))
		}
	}
	p.columns()
	clear(p.vals)
	for i, k := range p.numbers {
		v, list := int(k>>32), int(uint32(k))
		sources := g.sources[g.first[v]:g.first[v+1]]
		if list == 0 {
			p.set(i, rankWord, math.Float64bits(1/float64(g.vertices())))
			p.set(i, outWord, uint64(g.out[v]))
			p.set(i, inWord, uint64(len(sources)))
			continue
		}
		for j, s := range sources[(list-1)*listed : min(list*listed, len(sources))] {
			p.set(i, j, uint64(s))
		}
	}
	inserted, err := p.put(ctx)
	p.times, p.ops = p.times[:0], 0
	if err == nil && inserted != len(p.numbers) {
		err = fmt.Errorf("%w: %d of %d records were inserted", errWrong, inserted, len(p.numbers))
	}
	return err
}

// get looks up the keys of the batch. All must be present.
func (p *pageRank) get(ctx context.Context) error {
	p.columns()
	p.ok = slices.Grow(p.ok[:0], len(p.numbers))[:len(p.numbers)]
	hits, err := p.inPieces(func(lo, hi int) (int, error) {
		return p.table.Get(ctx, p.keys[8*lo:8*hi], p.vals[valueSize*lo:valueSize*hi], p.ok[lo:hi])
	})
	if err == nil && hits != len(p.numbers) {
		err = fmt.Errorf("%w: %d of %d records were found", errWrong, hits, len(p.numbers))
	}
	return err
}

func (p *pageRank) put(ctx context.Context) (inserted int, err error) {
	return p.inPieces(func(lo, hi int) (int, error) {
		return p.table.Put(ctx, p.keys[8*lo:8*hi], p.vals[valueSize*lo:valueSize*hi])
	})
}

// inPieces makes calls for at most loadBatch rows of the batch at a time. It measures each call and
// adds up the results.
func (p *pageRank) inPieces(call func(lo, hi int) (int, error)) (sum int, err error) {
	for lo := 0; lo < len(p.numbers); lo += loadBatch {
		hi := min(lo+loadBatch, len(p.numbers))
		start := time.Now()
		n, err := call(lo, hi)
		if err != nil {
			return 0, err
		}
		p.times, p.ops, sum = append(p.times, p.callTime(start)), p.ops+hi-lo, sum+n
	}
	return sum, nil
}

func (p *pageRank) iterate(ctx context.Context, iteration int) error {
	for lo := 0; lo < p.graph.vertices(); lo += blockSize {
		if err := p.block(ctx, iteration, lo, min(lo+blockSize, p.graph.vertices())); err != nil {
			return err
		}
	}
	return nil
}

func (p *pageRank) block(ctx context.Context, iteration, lo, hi int) error {
	p.begin()
	for v := lo; v < hi; v++ {
		p.addKey(uint64(v), 0)
	}
	if err := p.get(ctx); err != nil {
		return err
	}
	records, degrees := slices.Clone(p.vals), make([]int, hi-lo)
	for i := range degrees {
		degrees[i] = int(p.word(i, inWord))
	}
	sums, err := p.sums(ctx, iteration, lo, degrees)
	if err != nil {
		return err
	}
	p.begin()
	for v := lo; v < hi; v++ {
		p.addKey(uint64(v), 0)
	}
	p.columns()
	copy(p.vals, records)
	for i, sum := range sums {
		p.set(i, rankWord+(iteration+1)%2, math.Float64bits(rankOf(sum, p.graph.vertices())))
	}
	inserted, err := p.put(ctx)
	if err == nil && inserted != 0 {
		err = fmt.Errorf("%w: %d ranks were of no vertex", errWrong, inserted)
	}
	return err
}

// sums returns, for consecutive vertices, the sum that the sources of a vertex contribute to its
// rank. first is the first vertex, and degrees are the numbers of sources.
func (p *pageRank) sums(ctx context.Context, iteration, first int, degrees []int) ([]float64, error) {
	sums := make([]float64, len(degrees))
	p.begin()
	for i, d := range degrees {
		for l := range (d + listed - 1) / listed {
			p.addKey(uint64(first+i), uint64(l+1))
		}
	}
	if len(p.numbers) == 0 {
		return sums, nil
	}
	if err := p.get(ctx); err != nil {
		return nil, err
	}
	var sources []uint64
	list := 0
	for _, d := range degrees {
		for j := range d {
			sources = append(sources, p.word(list+j/listed, j%listed))
		}
		list += (d + listed - 1) / listed
	}
	p.begin()
	for _, s := range sources {
		p.addKey(s, 0)
	}
	if err := p.get(ctx); err != nil {
		return nil, err
	}
	at := 0
	for i, d := range degrees {
		for range d {
			sums[i] += p.rank(at, iteration) / float64(p.word(at, outWord))
			at++
		}
	}
	return sums, nil
}

func (p *pageRank) check(ctx context.Context, want []float64) error {
	p.begin()
	for v := range want {
		p.addKey(uint64(v), 0)
	}
	times, ops := p.times, p.ops
	if err := p.get(ctx); err != nil {
		return err
	}
	p.times, p.ops = times, ops
	for v, rank := range want {
		if got := p.rank(v, iterations); got != rank {
			return fmt.Errorf("%w: vertex %d has rank %g, want %g", errWrong, v, got, rank)
		}
	}
	return nil
}
