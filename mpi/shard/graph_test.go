package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// edgeStep is a batch of edges for each rank, and the expected results.
type edgeStep struct {
	remove   bool
	from, to [][]uint32 // edges of each rank
	want     [][]bool
	count    int
}

// edgeSteps makes random batches, and applies them to a graph in one process, in the order of
// ranks.
func edgeSteps(t *testing.T, whole *graph.Graph, rng *rand.Rand, ranks int) (steps []*edgeStep) {
	for i := range 8 {
		s := &edgeStep{remove: i%3 == 2}
		var from, to []uint32
		for range ranks {
			f, v := make([]uint32, rng.IntN(300)), []uint32(nil)
			for j := range f {
				f[j] = uint32(rng.IntN(100))
				v = append(v, uint32(rng.IntN(100)))
			}
			s.from, s.to = append(s.from, f), append(s.to, v)
			from, to = append(from, f...), append(to, v...)
		}
		done, err := make([]bool, len(from)), error(nil)
		if s.remove {
			s.count, err = whole.Delete(t.Context(), from, to, done)
		} else {
			s.count, err = whole.Insert(t.Context(), from, to, done)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range s.from {
			s.want, done = append(s.want, done[:len(f)]), done[len(f):]
		}
		steps = append(steps, s)
	}
	return steps
}

func (s *edgeStep) run(ctx context.Context, r *Ranks, g *Graph) error {
	from, to := s.from[r.rank], s.to[r.rank]
	done, call := make([]bool, len(from)), g.Insert
	if s.remove {
		call = g.Delete
	}
	n, err := call(ctx, from, to, done)
	if err != nil || n != s.count || !slices.Equal(done, s.want[r.rank]) {
		return fmt.Errorf("rank %d: %d edges, want %d, row %d differs: %v", r.rank, n, s.count,
			differ(done, s.want[r.rank]), err)
	}
	return nil
}

// A graph on several ranks equals the graph in one process, and so does its PageRank.
func TestGraphIsGraph(t *testing.T) {
	for _, ranks := range []int{1, 2, 7} {
		for _, o := range []*graph.Options{nil, {Directed: true}, {SelfLoops: true}} {
			rng := rand.New(rand.NewPCG(uint64(ranks), 4))
			whole, err := graph.New(host, o)
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			steps := edgeSteps(t, whole, rng, ranks)
			rows, err := whole.CSR(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := make([]uint64, rows.Vertices())
			if _, err := algo.PageRank(t.Context(), host, rows, want, nil); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
				g, err := NewGraph(r, o)
				if err != nil {
					return err
				}
				defer g.Close()
				for _, s := range steps {
					if err := s.run(ctx, r, g); err != nil {
						return err
					}
				}
				if err := sameGraph(ctx, g, rows, want); err != nil {
					return err
				}
				_, err = g.Save(ctx, dir)
				return err
			})
			onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
				g, err := NewGraph(r, o)
				if err != nil {
					return err
				}
				defer g.Close()
				n, err := g.Load(ctx, dir)
				if err = errors.Join(err, sameInt("arcs", n, rows.Arcs())); err != nil {
					return err
				}
				return sameGraph(ctx, g, rows, want)
			})
		}
	}
}

// sameGraph compares the rows, edges and PageRank of a graph with those in one process.
func sameGraph(ctx context.Context, g *Graph, rows *graph.CSR, want []uint64) error {
	arcs, err := g.Arcs(ctx)
	n, err2 := g.Vertices(ctx)
	if err := errors.Join(err, err2, sameInt("Arcs", arcs, rows.Arcs()),
		sameInt("Vertices", n, rows.Vertices()), g.Check(ctx)); err != nil {
		return err
	}
	var vertices, from, to []uint32
	for v := range uint32(n) {
		if rng := int(v) * 7 % 5; rng <= g.r.rank { // ranks look up different vertices
			vertices = append(vertices, uint32(n)-1-v)
		}
		from, to = append(from, v), append(to, (v*31+uint32(g.r.rank))%uint32(n))
	}
	degrees, found := make([]uint32, len(vertices)), make([]bool, len(from))
	offsets, neighbors, err := g.Rows(ctx, vertices)
	err2 = g.Degree(ctx, vertices, degrees)
	_, err3 := g.Has(ctx, from, to, found)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	for i, v := range vertices {
		row := rows.Neighbors(v)
		if !slices.Equal(neighbors[offsets[i]:offsets[i+1]], row) || int(degrees[i]) != len(row) {
			return fmt.Errorf("vertex %d has degree %d and neighbors %v, want %v", v, degrees[i],
				neighbors[offsets[i]:offsets[i+1]], row)
		}
	}
	for i := range from {
		if found[i] != rows.Has(from[i], to[i]) {
			return fmt.Errorf("Has says %v of the edge %d to %d", found[i], from[i], to[i])
		}
	}
	ranks := make([]uint64, n)
	if _, err := PageRank(ctx, g, ranks, nil); err != nil || !slices.Equal(ranks, want) {
		return fmt.Errorf("rank of vertex %d differs: %w", differ(ranks, want), err)
	}
	return nil
}

func TestGraphErrors(t *testing.T) {
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		if _, err := NewGraph(r, &graph.Options{Multi: true}); !errors.Is(err, weft.ErrOptions) {
			return fmt.Errorf("NewGraph of a multigraph returns %v", err)
		}
		g, err := NewGraph(r, &graph.Options{MaxVertices: 10})
		if err != nil {
			return err
		}
		defer g.Close()
		// The vertex is invalid on one rank only, but no rank inserts anything.
		_, err = g.Insert(ctx, []uint32{1, 2}, []uint32{3, uint32(9 + r.rank)}, nil)
		arcs, err2 := g.Arcs(ctx)
		if !errors.Is(err, weft.ErrOptions) || arcs != 0 || err2 != nil {
			return fmt.Errorf("rank %d: Insert returns %v, and there are %d arcs", r.rank, err,
				arcs)
		}
		if _, err := g.Insert(ctx, []uint32{1, 2}, []uint32{3, 9}, nil); err != nil {
			return err
		}
		if _, err := PageRank(ctx, g, make([]uint64, 10),
			&algo.PageRankOptions{Damping: 2}); !errors.Is(err, device.ErrInvalid) {
			return fmt.Errorf("PageRank with a damping of 2 returns %v", err)
		}
		if _, err := PageRank(ctx, g, make([]uint64, 10),
			&algo.PageRankOptions{Iterations: 1 + r.rank}); !errors.Is(err, ErrMismatch) {
			return fmt.Errorf("PageRank with different options returns %v", err)
		}
		if _, err := PageRank(ctx, g, make([]uint64, 9-2*r.rank), nil); !errors.Is(err,
			device.ErrInvalid) {
			return fmt.Errorf("PageRank of too few elements returns %v", err)
		}
		_, err = g.Load(ctx, "nowhere")
		if !errors.Is(err, weft.ErrOptions) {
			return fmt.Errorf("Load into a graph with edges returns %v", err)
		}
		return nil
	})
}
