package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/progress"
)

// addValuesFlag adds --values, for verbs that compute a value per vertex.
func addValuesFlag(cmd *cobra.Command, values *bool, meaning string) {
	cmd.Flags().BoolVar(values, "values", false, "print each vertex instead, with "+meaning)
}

func newGraphBFSCommand(a *app, in *graphInput) *cobra.Command {
	var source string
	var values bool
	cmd := &cobra.Command{
		Use:   "bfs [flags] FILE",
		Short: "Search a graph breadth first from a vertex",
		Long: `Bfs prints how many vertices are how many edges away from a vertex, by a breadth-first search. The
vertex itself has depth 0. Vertices that no path reaches have no depth.

With --json the output is one object: file, format, header, directed, vertices, edges, device,
load_seconds, build_seconds, seconds, source, reached (vertices), depth (the largest), and levels,
the number of vertices by depth.`,
		Example: `  weft graph bfs --source 1 graph/load/testdata/karate.txt
  weft graph bfs --source Bern --values trips.csv | sort -k2n`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.bfs(source, values) })
		},
	}
	in.addDirectionFlags(cmd)
	cmd.Flags().StringVar(&source, "source", "", "id of the first vertex; default: the one with the most neighbors")
	addValuesFlag(cmd, &values, "its depth")
	return cmd
}

// graphBFS is the output of weft graph bfs.
type graphBFS struct {
	*graphSummary
	Source  string `json:"source"`
	Reached int    `json:"reached"`
	Depth   int    `json:"depth"`
	Levels  []int  `json:"levels"`
}

func (j *graphJob) bfs(name string, values bool) error {
	g, err := j.build(j.Directed)
	if err != nil {
		return err
	}
	source, err := j.source(name, g)
	if err != nil {
		return err
	}
	r := graphBFS{graphSummary: &j.graphSummary, Source: j.file.Names.Name(source)}
	depths := make([]uint32, g.Vertices())
	err = j.timeRun(func() (err error) {
		r.Levels, err = algo.BFS(j.ctx, j.computeDev, g, source, depths)
		return err
	})
	if err != nil {
		return err
	}
	if values {
		return j.printValues(func(v uint32) (any, bool) { return depths[v], depths[v] != algo.Unreached })
	}
	r.Depth = len(r.Levels) - 1
	facts := []fact{factf("source", "%s", progress.Printable(r.Source))}
	for _, n := range r.Levels {
		r.Reached += n
	}
	facts = append(facts, factf("reached", "%d vertices, up to depth %d", r.Reached, r.Depth))
	for depth, n := range r.Levels[:min(len(r.Levels), 20)] {
		facts = append(facts, factf(fmt.Sprintf("  depth %d", depth), "%d", n))
	}
	if more := len(r.Levels) - 20; more > 0 {
		facts = append(facts, factf("  ", "and %d depths more", more))
	}
	return j.print(r, facts)
}

func newGraphSSSPCommand(a *app, in *graphInput) *cobra.Command {
	var source string
	var values bool
	cmd := &cobra.Command{
		Use:   "sssp [flags] FILE",
		Short: "Find the shortest paths from a vertex, by the weights of edges",
		Long: `Sssp computes the length of the shortest path from a vertex to every other one, by the weights of
edges. Weights must not be negative. Without weights each edge counts 1. If an edge is listed several
times, its last weight counts. Sums of integers are exact.

With --json the output is one object: file, format, header, directed, vertices, edges, device,
load_seconds, build_seconds, seconds, source, reached (vertices), weighted, distance_max,
distance_mean, and farthest, the id of a vertex at the largest distance.`,
		Example: `  weft graph sssp --source 1 graph/load/testdata/karate.txt
  weft graph sssp --source Bern --values trips.csv | sort -k2n`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], false, func(j *graphJob) error { return j.sssp(source, values) })
		},
	}
	in.addDirectionFlags(cmd)
	cmd.Flags().StringVar(&source, "source", "", "id of the first vertex; default: the one with the most neighbors")
	addValuesFlag(cmd, &values, "its distance")
	return cmd
}

// graphSSSP is the output of weft graph sssp.
type graphSSSP struct {
	*graphSummary
	Source   string  `json:"source"`
	Reached  int     `json:"reached"`
	Weighted bool    `json:"weighted"`
	Max      float64 `json:"distance_max"`
	Mean     float64 `json:"distance_mean"`
	Farthest string  `json:"farthest"`
}

func (j *graphJob) sssp(name string, values bool) error {
	if i := slices.IndexFunc(j.file.Weights, func(w float64) bool { return w < 0 }); i >= 0 {
		names := j.file.Names
		return fmt.Errorf("the edge from %s to %s has weight %v; weights must not be negative", names.Name(j.file.From[i]), names.Name(j.file.To[i]), j.file.Weights[i])
	}
	if j.file.Weights == nil || j.file.Integral {
		return ssspOf(j, name, values, func(w float64) uint64 { return uint64(w) }, uint64(math.MaxUint64))
	}
	return ssspOf(j, name, values, func(w float64) float64 { return w }, math.Inf(1))
}

// ssspOf implements sssp for one type of weights and distances. unreachable is the distance of
// vertices without a path.
func ssspOf[D algo.Distance](j *graphJob, name string, values bool, weight func(float64) D, unreachable D) error {
	weights := make([]D, len(j.file.From))
	for i := range weights {
		weights[i] = 1
		if j.file.Weights != nil {
			weights[i] = weight(j.file.Weights[i])
		}
	}
	start := time.Now()
	g, err := graph.BuildWeighted(j.ctx, j.dev, j.file.Edges, weights, &graph.Options{Directed: j.Directed, MaxVertices: math.MaxUint32})
	if err != nil {
		return err
	}
	j.BuildSeconds = time.Since(start).Seconds()
	j.Edges = g.Edges()
	source, err := j.source(name, g.CSR)
	if err != nil {
		return err
	}
	r := graphSSSP{graphSummary: &j.graphSummary, Source: j.file.Names.Name(source), Weighted: j.file.Weights != nil}
	distances := make([]D, g.Vertices())
	err = j.timeRun(func() (err error) {
		r.Reached, err = algo.SSSP(j.ctx, j.computeDev, g, source, distances)
		return err
	})
	if err != nil {
		return err
	}
	if values {
		return j.printValues(func(v uint32) (any, bool) { return distances[v], distances[v] != unreachable })
	}
	farthest := source
	for v, d := range distances {
		if d != unreachable {
			r.Mean += float64(d) / float64(r.Reached)
			if d > distances[farthest] {
				farthest = uint32(v)
			}
		}
	}
	r.Max, r.Farthest = float64(distances[farthest]), j.file.Names.Name(farthest)
	return j.print(r, []fact{
		factf("source", "%s", progress.Printable(r.Source)),
		factf("reached", "%d vertices", r.Reached),
		factf("distances", "up to %v, of %s; mean %.6g", distances[farthest], progress.Printable(r.Farthest), r.Mean),
	})
}
