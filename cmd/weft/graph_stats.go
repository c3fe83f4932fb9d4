package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/graph/algo"
)

func newGraphStatsCommand(a *app, in *graphInput) *cobra.Command {
	var plot graphPlot
	cmd := &cobra.Command{
		Use:   "stats [flags] FILE",
		Short: "Describe a graph: its size, and the degrees of its vertices",
		Long: `Stats prints the size of a graph, the degrees of its vertices, the kind of its ids and weights, and
how many edges of the file were dropped: self loops and repeated edges. The degree of a vertex of a
directed graph is the number of vertices that its edges lead to.

With --json the output is one object: file, format, header, directed, vertices, edges, load_seconds,
build_seconds, seconds, listed (edges in the file), self_loops, repeated, ids (integer or string),
weighted, weights (none, integer or real), vertex_weights (of METIS; not used), isolated (vertices
without an edge to another one), degree_min, degree_max, degree_mean, degree_sigma, and degrees, a
list of objects with from, to and vertices.`,
		Example: `  weft graph stats graph/load/testdata/karate.txt
  weft graph stats --svg degrees.svg graph/load/testdata/karate.txt
  weft graph stats --columns source,target --ids strings --json trips.csv`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := plot.check(a, args[0]); err != nil {
				return fmt.Errorf("graph stats %w", err)
			}
			return runGraph(cmd, a, in, args[0], false, func(j *graphJob) error { return j.stats(&plot) })
		},
	}
	in.addDirectionFlags(cmd)
	plot.addFlag(cmd, "how many vertices have which degree")
	return cmd
}

// graphDegrees is the number of vertices with degrees from From to To, inclusive.
type graphDegrees struct {
	From     int `json:"from"`
	To       int `json:"to"`
	Vertices int `json:"vertices"`
}

// graphStats is the output of weft graph stats.
type graphStats struct {
	*graphSummary
	Listed        int            `json:"listed"`
	SelfLoops     int            `json:"self_loops"`
	Repeated      int            `json:"repeated"`
	IDs           string         `json:"ids"`
	Weighted      bool           `json:"weighted"`
	Weights       string         `json:"weights"`
	VertexWeights bool           `json:"vertex_weights"`
	Isolated      int            `json:"isolated"`
	Min           int            `json:"degree_min"`
	Max           int            `json:"degree_max"`
	Mean          float64        `json:"degree_mean"`
	Sigma         float64        `json:"degree_sigma"`
	Degrees       []graphDegrees `json:"degrees"`
}

func (j *graphJob) stats(plot *graphPlot) error {
	g, err := j.build(j.Directed)
	if err != nil {
		return err
	}
	s := graphStats{graphSummary: &j.graphSummary, Listed: len(j.file.From), Degrees: []graphDegrees{}}
	s.IDs, s.Weighted, s.Weights, s.VertexWeights = "integer", j.file.Weights != nil, "none", j.file.VertexWeights
	if j.file.Names.Strings() {
		s.IDs = "string"
	}
	switch {
	case j.file.Integral:
		s.Weights = "integer"
	case s.Weighted:
		s.Weights = "real"
	}
	err = j.timeRun(func() error {
		d, err := g.Degrees(j.ctx, j.dev)
		s.Isolated, s.Min, s.Max, s.Mean, s.Sigma = d.Isolated, d.Min, d.Max, d.Mean, d.Sigma
		for b, n := range d.Histogram {
			if n > 0 {
				s.Degrees = append(s.Degrees, graphDegrees{1 << b >> 1, 1<<b - 1, n})
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, u := range j.file.From {
		if u == j.file.To[i] {
			s.SelfLoops++
		}
	}
	s.Repeated = s.Listed - s.SelfLoops - s.Edges
	facts := []fact{
		factf("listed", "%d edges: %d self loops and %d that come again are dropped", s.Listed, s.SelfLoops, s.Repeated),
		factf("ids", "%s", s.IDs),
		factf("weights", "%s%s", s.Weights, map[bool]string{true: "; vertices have some, too, which are not used"}[s.VertexWeights]),
		factf("isolated", "%d vertices", s.Isolated),
		factf("degrees", "%d to %d, mean %.4g, sigma %.4g", s.Min, s.Max, s.Mean, s.Sigma),
	}
	for _, d := range s.Degrees {
		name := fmt.Sprintf("  %d to %d", d.From, d.To)
		if d.From == d.To {
			name = fmt.Sprintf("  %d", d.From)
		}
		facts = append(facts, factf(name, "%d", d.Vertices))
	}
	return errors.Join(j.print(s, facts), plot.draw(s.plot()))
}

func newGraphTrianglesCommand(a *app, in *graphInput) *cobra.Command {
	return &cobra.Command{
		Use:   "triangles [flags] FILE",
		Short: "Count the triangles of a graph",
		Long: `Triangles counts the sets of three vertices that are all neighbors, and the transitivity: the share
of pairs of neighbors of a vertex that are neighbors of each other. The graph is taken as simple and
undirected: self loops are dropped, and repeated and reversed edges are one.

With --json the output is one object: file, format, header, directed (false), vertices, edges,
device, load_seconds, build_seconds, seconds, triangles, wedges (pairs of neighbors), transitivity.`,
		Example: `  weft graph triangles graph/load/testdata/karate.txt
  weft graph triangles --json graph/load/testdata/karate.txt`,
		Args: oneGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.triangles() })
		},
	}
}

// graphTriangles is the output of weft graph triangles.
type graphTriangles struct {
	*graphSummary
	Triangles    uint64  `json:"triangles"`
	Wedges       float64 `json:"wedges"`
	Transitivity float64 `json:"transitivity"`
}

func (j *graphJob) triangles() error {
	g, err := j.build(false)
	if err != nil {
		return err
	}
	r := graphTriangles{graphSummary: &j.graphSummary}
	err = j.timeRun(func() (err error) {
		r.Triangles, err = algo.Triangles(j.ctx, j.computeDev, g)
		return err
	})
	if err != nil {
		return err
	}
	for v := range uint32(g.Vertices()) {
		d := float64(g.Degree(v))
		r.Wedges += d * (d - 1) / 2
	}
	r.Transitivity = 3 * float64(r.Triangles) / math.Max(1, r.Wedges)
	return j.print(r, []fact{factf("triangles", "%d", r.Triangles), factf("transitivity", "%.4g", r.Transitivity)})
}
