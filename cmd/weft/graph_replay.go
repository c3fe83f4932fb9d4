package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
)

// replayOptions holds the flags of weft graph replay.
type replayOptions struct {
	batch, window, every int
	result               string
	plot                 graphPlot
}

// replayResults lists the results that replay can keep up to date.
var replayResults = []string{"components", "triangles", "pagerank", "edges"}

// samplesShown is the approximate number of results, if --every does not set their interval.
const samplesShown = 20

func newGraphReplayCommand(a *app, in *graphInput) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay [flags] FILE",
		Short: "Insert the edges of a file batch by batch, and keep a result up to date",
		Long: `Replay shows how fast a graph can change: it inserts the edges of a file in batches of --batch, keeps
a result up to date, and prints both rates. With --window, an edge is deleted unless one of the last
--window lines lists it.

Results of --result:
  components   number of connected components, computed on the CPU
  triangles    number of triangles, computed on --device
  pagerank     vertex with the highest rank, computed on --device
  edges        number of edges
Components and triangles ignore the direction of edges. Updates run on --device.

With --json the output is one object: file, format, header, directed, vertices, edges (at the end),
load_seconds, build_seconds (0), seconds (updates and results), device, batch, window, result, listed
(edges in the file), updates (insertions and deletions), update_seconds, updates_per_second,
result_seconds, and samples, a list of objects with listed, edges, value (the result; of pagerank
the highest rank), vertex (with that rank, or empty), updates_per_second (since the last sample) and
result_seconds.`,
		Example: `  weft graph replay --batch 10 graph/load/testdata/karate.txt
  weft graph replay --batch 1000 --window 100000 --result triangles --json trips.csv
  weft graph replay --svg components.svg soc-Epinions1.txt.gz`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return flags.Usage("graph replay %w", err)
			}
			return oneGraph(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.plot.check(a, args[0]); err != nil {
				return fmt.Errorf("graph replay %w", err)
			}
			return runGraphOn(cmd, a, in, args[0], true, func(j *graphJob) error { return j.replay(&o) })
		},
	}
	in.addDirectionFlags(cmd)
	cmd.Flags().IntVar(&o.batch, "batch", 1<<16, "edges per batch")
	cmd.Flags().IntVar(&o.window, "window", 0, "delete edges that the last N lines do not list; 0: never")
	cmd.Flags().IntVar(&o.every, "every", 0, "batches between results; 0: about 20 results")
	cmd.Flags().StringVar(&o.result, "result", replayResults[0], "result to keep: "+strings.Join(replayResults, ", "))
	o.plot.addFlag(cmd, "the result over the edges listed")
	return cmd
}

func (o *replayOptions) check() error {
	known := false
	for _, name := range replayResults {
		known = known || o.result == name
	}
	switch {
	case !known:
		return fmt.Errorf("--result %.40q: want %s", o.result, strings.Join(replayResults, ", "))
	case o.batch < 1:
		return fmt.Errorf("--batch %d: want at least 1", o.batch)
	case o.window != 0 && o.window < o.batch:
		return fmt.Errorf("--window %d: want at least --batch, %d, or 0 for none", o.window, o.batch)
	case o.every < 0:
		return fmt.Errorf("--every %d: must not be negative", o.every)
	}
	return nil
}

type graphSample struct {
	Listed           int     `json:"listed"`
	Edges            int     `json:"edges"`
	Value            float64 `json:"value"`
	Vertex           string  `json:"vertex"`
	UpdatesPerSecond float64 `json:"updates_per_second"`
	ResultSeconds    float64 `json:"result_seconds"`
}

// graphReplay is the output of weft graph replay.
type graphReplay struct {
	*graphSummary
	Batch            int           `json:"batch"`
	Window           int           `json:"window"`
	Result           string        `json:"result"`
	Listed           int           `json:"listed"`
	Updates          int           `json:"updates"`
	UpdateSeconds    float64       `json:"update_seconds"`
	UpdatesPerSecond float64       `json:"updates_per_second"`
	ResultSeconds    float64       `json:"result_seconds"`
	Samples          []graphSample `json:"samples"`
}

func (j *graphJob) replay(o *replayOptions) (err error) {
	j.Directed = j.Directed && (o.result == "pagerank" || o.result == "edges")
	g, err := graph.New(j.computeDev, &graph.Options{Directed: j.Directed, MaxVertices: max(1, j.file.Vertices)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	r := &replayer{
		graphJob: j, o: o, g: g, window: newWindow(j.file.Edges, o.window, j.Directed),
		out: graphReplay{
			graphSummary: &j.graphSummary, Batch: o.batch, Window: o.window, Result: o.result,
			Listed: len(j.file.From), Samples: []graphSample{},
		},
	}
	if err := j.timeRun(r.run); err != nil {
		return err
	}
	j.Edges = g.Edges()
	return errors.Join(j.print(r.out, r.facts()), o.plot.draw(r.out.plot()))
}

// replayer replays a file into a graph.
type replayer struct {
	*graphJob
	out     graphReplay
	o       *replayOptions
	g       *graph.Graph
	window  *window
	tracker tracker

	// since the last sample: updates, their seconds, and seconds for results
	updates, seconds, results float64
}

func (r *replayer) run() (err error) {
	if r.tracker, err = r.newTracker(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.tracker.close()) }()
	all, every := len(r.file.From), r.o.every
	if every == 0 {
		batches := (all + r.o.batch - 1) / r.o.batch
		every = (batches + samplesShown - 1) / samplesShown
	}
	bar := progress.Count(r.stderr, r.isTerminal, "replaying", int64(all))
	defer bar.Close()
	for lo, batches := 0, 1; lo < all; batches++ {
		hi := min(lo+r.o.batch, all)
		if err := r.batch(lo, hi); err != nil {
			return err
		}
		if batches%every == 0 || hi == all {
			if err := r.sample(hi); err != nil {
				return err
			}
		}
		bar.Add(hi - lo)
		lo = hi
	}
	if r.out.UpdateSeconds > 0 {
		r.out.UpdatesPerSecond = float64(r.out.Updates) / r.out.UpdateSeconds
	}
	return nil
}

// batch inserts the edges of lines lo to hi-1, and deletes the edges that leave the window.
func (r *replayer) batch(lo, hi int) error {
	in := graph.Edges{From: r.file.From[lo:hi], To: r.file.To[lo:hi]}
	if err := r.update(in, r.g.Insert, r.tracker.afterInsert); err != nil {
		return err
	}
	out := r.window.expired(lo, hi)
	if len(out.From) == 0 {
		return nil
	}
	if err := r.timeResult(out, r.tracker.beforeDelete); err != nil {
		return err
	}
	return r.update(out, r.g.Delete, r.tracker.afterDelete)
}

// update inserts or deletes edges, and passes the edges that changed the graph to track.
func (r *replayer) update(e graph.Edges, change func(context.Context, []uint32, []uint32, []bool) (int, error), track func(graph.Edges) error) error {
	start := time.Now()
	done := make([]bool, len(e.From))
	_, err := change(r.ctx, e.From, e.To, done)
	elapsed := time.Since(start).Seconds()
	if err != nil {
		return err
	}
	r.out.Updates += len(done)
	r.out.UpdateSeconds += elapsed
	r.updates, r.seconds = r.updates+float64(len(done)), r.seconds+elapsed
	return r.timeResult(e.Filter(done), track)
}

// timeResult passes edges to track and measures its time.
func (r *replayer) timeResult(e graph.Edges, track func(graph.Edges) error) error {
	start := time.Now()
	err := track(e)
	elapsed := time.Since(start).Seconds()
	r.out.ResultSeconds, r.results = r.out.ResultSeconds+elapsed, r.results+elapsed
	return err
}

func (r *replayer) sample(listed int) error {
	start := time.Now()
	value, vertex, err := r.tracker.value()
	elapsed := time.Since(start).Seconds()
	if err != nil {
		return err
	}
	r.out.ResultSeconds += elapsed
	s := graphSample{Listed: listed, Edges: r.g.Edges(), Value: value, Vertex: vertex, ResultSeconds: r.results + elapsed}
	if r.seconds > 0 {
		s.UpdatesPerSecond = r.updates / r.seconds
	}
	r.out.Samples = append(r.out.Samples, s)
	r.updates, r.seconds, r.results = 0, 0, 0
	return nil
}

func (r *replayer) facts() []fact {
	facts := []fact{
		factf("listed", "%s, in batches of %d, on %s", progress.Counted(int64(r.out.Listed), "edge"), r.out.Batch, r.out.Device),
		factf("updates", "%d, %.3g/s; %.3g s for them, %.3g s for results", r.out.Updates, r.out.UpdatesPerSecond, r.out.UpdateSeconds, r.out.ResultSeconds),
	}
	for _, s := range r.out.Samples {
		value := ", " + progress.Counted(int64(s.Value), strings.TrimSuffix(r.out.Result, "s"))
		switch r.out.Result {
		case "edges":
			value = ""
		case "pagerank":
			value = fmt.Sprintf(", highest rank %.4g of %s", s.Value, progress.Printable(s.Vertex))
		}
		facts = append(facts, factf(fmt.Sprintf("  at %d", s.Listed), "%s%s; %.3g/s", progress.Counted(int64(s.Edges), "edge"), value, s.UpdatesPerSecond))
	}
	return facts
}

// window holds the last size lines of the file, and finds the edges that they no longer list.
type window struct {
	graph.Edges
	size     int
	directed bool
	last     map[[2]uint32]int // last line of each edge in the window
}

func newWindow(e graph.Edges, size int, directed bool) *window {
	return &window{e, size, directed, map[[2]uint32]int{}}
}

func (w *window) key(line int) [2]uint32 {
	u, v := w.From[line], w.To[line]
	if !w.directed && u > v {
		u, v = v, u
	}
	return [2]uint32{u, v}
}

// expired returns the edges that leave the window when lines lo to hi-1 enter it.
func (w *window) expired(lo, hi int) (out graph.Edges) {
	if w.size == 0 {
		return out
	}
	for line := lo; line < hi; line++ {
		w.last[w.key(line)] = line
	}
	for line := max(0, lo-w.size); line < hi-w.size; line++ {
		if k := w.key(line); w.last[k] == line { // no later line lists the edge
			delete(w.last, k)
			out.From, out.To = append(out.From, k[0]), append(out.To, k[1])
		}
	}
	return out
}
