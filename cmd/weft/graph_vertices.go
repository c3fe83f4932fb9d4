package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
)

func newGraphComponentsCommand(a *app, in *graphInput) *cobra.Command {
	var values bool
	cmd := &cobra.Command{
		Use:   "components [flags] FILE",
		Short: "Find the connected components of a graph",
		Long: `Components finds the connected components: sets of vertices with paths between them, in any direction
of the edges.

With --json the output is one object: file, format, header, directed (false), vertices, edges,
device, load_seconds, build_seconds, seconds, components, largest (vertices of the largest), and
sizes, a list of objects with vertices and components, largest first.`,
		Example: `  weft graph components graph/load/testdata/karate.txt
  weft graph components --values friends.csv    # the component of each vertex`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.components(values) })
		},
	}
	addValuesFlag(cmd, &values, "that of the first vertex of its component")
	return cmd
}

// graphSizes counts the components with the same number of vertices.
type graphSizes struct {
	Vertices   int `json:"vertices"`
	Components int `json:"components"`
}

// graphComponents is the output of weft graph components.
type graphComponents struct {
	*graphSummary
	Components int          `json:"components"`
	Largest    int          `json:"largest"`
	Sizes      []graphSizes `json:"sizes"`
}

func (j *graphJob) components(values bool) error {
	g, err := j.build(false)
	if err != nil {
		return err
	}
	r := graphComponents{graphSummary: &j.graphSummary, Sizes: []graphSizes{}}
	labels := make([]uint32, g.Vertices())
	err = j.timeRun(func() (err error) {
		r.Components, err = algo.Components(j.ctx, j.computeDev, g, labels)
		return err
	})
	if err != nil {
		return err
	}
	if values {
		return j.printValues(func(v uint32) (any, bool) { return j.file.Names.Name(labels[v]), true })
	}
	members, sizes := make([]int, len(labels)), map[int]int{}
	for _, label := range labels {
		members[label]++
	}
	for _, n := range members {
		if n > 0 {
			sizes[n]++
		}
	}
	for n, count := range sizes {
		r.Sizes = append(r.Sizes, graphSizes{n, count})
	}
	slices.SortFunc(r.Sizes, func(a, b graphSizes) int { return cmp.Compare(b.Vertices, a.Vertices) })
	if len(r.Sizes) > 0 {
		r.Largest = r.Sizes[0].Vertices
	}
	facts := []fact{factf("components", "%d", r.Components)}
	for _, s := range r.Sizes[:min(len(r.Sizes), 10)] {
		facts = append(facts, factf(fmt.Sprintf("  of %d vertices", s.Vertices), "%d", s.Components))
	}
	if more := len(r.Sizes) - 10; more > 0 {
		facts = append(facts, factf("  ", "and %d smaller sizes", more))
	}
	return j.print(r, facts)
}

func newGraphPageRankCommand(a *app, in *graphInput) *cobra.Command {
	var o algo.PageRankOptions
	var top int
	var values bool
	cmd := &cobra.Command{
		Use:   "pagerank [flags] FILE",
		Short: "Rank the vertices of a graph by PageRank",
		Long: `Pagerank ranks vertices by the share of time that a random walk spends at each. The walk follows an
edge with the probability --damping, and otherwise jumps to any vertex. Ranks add up to 1. They are
computed in fixed point, so every machine prints the same digits.

With --json the output is one object: file, format, header, directed, vertices, edges, device,
load_seconds, build_seconds, seconds, iterations, change (of all ranks in the last iteration), and
top, a list of objects with vertex and rank.`,
		Example: `  weft graph pagerank --top 5 graph/load/testdata/karate.txt
  weft graph pagerank --values wiki-Vote.txt | sort -k2gr | head`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !(o.Damping > 0 && o.Damping < 1):
				return flags.Usage("graph pagerank --damping %v: want between 0 and 1", o.Damping)
			case o.Iterations < 1:
				return flags.Usage("graph pagerank --iterations %d: want at least 1", o.Iterations)
			case !(o.Tolerance > 0):
				return flags.Usage("graph pagerank --tolerance %v: want more than 0", o.Tolerance)
			case top < 0:
				return flags.Usage("graph pagerank --top %d: must not be negative", top)
			}
			return oneGraph(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.pageRank(&o, top, values) })
		},
	}
	in.addDirectionFlags(cmd)
	cmd.Flags().Float64Var(&o.Damping, "damping", 0.85, "probability of following an edge")
	cmd.Flags().IntVar(&o.Iterations, "iterations", 100, "most iterations")
	cmd.Flags().Float64Var(&o.Tolerance, "tolerance", 1e-6, "end if all ranks together change by at most this")
	cmd.Flags().IntVar(&top, "top", 10, "print the N vertices with the highest ranks")
	addValuesFlag(cmd, &values, "its rank")
	return cmd
}

type graphRank struct {
	Vertex string  `json:"vertex"`
	Rank   float64 `json:"rank"`
}

// graphPageRank is the output of weft graph pagerank.
type graphPageRank struct {
	*graphSummary
	Iterations int         `json:"iterations"`
	Change     float64     `json:"change"`
	Top        []graphRank `json:"top"`
}

func (j *graphJob) pageRank(o *algo.PageRankOptions, top int, values bool) error {
	g, err := j.build(j.Directed)
	if err != nil {
		return err
	}
	r := graphPageRank{graphSummary: &j.graphSummary, Top: []graphRank{}}
	ranks := make([]uint64, g.Vertices())
	err = j.timeRun(func() error {
		result, err := algo.PageRank(j.ctx, j.computeDev, g, ranks, o)
		r.Iterations, r.Change = result.Iterations, result.Change
		return err
	})
	if err != nil {
		return err
	}
	share := func(v uint32) float64 { return float64(ranks[v]) / algo.RankOne }
	if values {
		return j.printValues(func(v uint32) (any, bool) { return share(v), true })
	}
	order := make([]uint32, len(ranks))
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(cmp.Compare(ranks[b], ranks[a]), cmp.Compare(a, b)) })
	facts := []fact{factf("iterations", "%d; the last one changed all ranks by %.3g", r.Iterations, r.Change)}
	for _, v := range order[:min(top, len(order))] {
		x := graphRank{j.file.Names.Name(v), share(v)}
		r.Top = append(r.Top, x)
		facts = append(facts, factf("  "+progress.Printable(x.Vertex), "%.6g", x.Rank))
	}
	return j.print(r, facts)
}

func newGraphKCoreCommand(a *app, in *graphInput) *cobra.Command {
	var values bool
	cmd := &cobra.Command{
		Use:   "kcore [flags] FILE",
		Short: "Find the cores of a graph",
		Long: `Kcore computes the core number of each vertex: the largest k for which the vertex is in a set whose
vertices all have k neighbors within the set. Edges have no direction.

With --json the output is one object: file, format, header, directed (false), vertices, edges,
device, load_seconds, build_seconds, seconds, largest (core number), and cores, a list of objects
with core and vertices, the number of vertices with that core number.`,
		Example: `  weft graph kcore graph/load/testdata/karate.txt
  weft graph kcore --values friends.csv | sort -k2nr | head`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.kCore(values) })
		},
	}
	addValuesFlag(cmd, &values, "its core number")
	return cmd
}

// graphCore counts the vertices with the same core number.
type graphCore struct {
	Core     int `json:"core"`
	Vertices int `json:"vertices"`
}

// graphKCore is the output of weft graph kcore.
type graphKCore struct {
	*graphSummary
	Largest uint32      `json:"largest"`
	Cores   []graphCore `json:"cores"`
}

func (j *graphJob) kCore(values bool) error {
	g, err := j.build(false)
	if err != nil {
		return err
	}
	r := graphKCore{graphSummary: &j.graphSummary, Cores: []graphCore{}}
	cores := make([]uint32, g.Vertices())
	err = j.timeRun(func() (err error) {
		r.Largest, err = algo.KCore(j.ctx, j.computeDev, g, cores)
		return err
	})
	if err != nil {
		return err
	}
	if values {
		return j.printValues(func(v uint32) (any, bool) { return cores[v], true })
	}
	counts := make([]int, r.Largest+1)
	for _, c := range cores {
		counts[c]++
	}
	facts := []fact{factf("largest core", "%d, of %d vertices", r.Largest, counts[r.Largest])}
	for c, n := range counts {
		if n > 0 {
			r.Cores = append(r.Cores, graphCore{c, n})
		}
	}
	return j.print(r, facts)
}
