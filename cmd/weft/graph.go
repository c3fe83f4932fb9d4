package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/internal/progress"
	_ "github.com/weftgo/weft/internal/table/compress" // registers gzip and zstd with graph/load
	"github.com/weftgo/weft/internal/table/flags"
)

func newGraphCommand(a *app) *cobra.Command {
	var in graphInput
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Read, describe and convert graphs, and compute on them",
		Long: `Graph reads a file of a graph and describes it, converts it, or computes triangles, components,
paths, ranks and cores. Reading uses all cores of the CPU. Computing runs on --device, which is a
GPU if the machine has one.

Formats are Matrix Market (.mtx), edge lists as of SNAP (.txt), CSV (.csv, .tsv), DIMACS (.gr),
METIS (.graph), .el, .wel and adjacency lists (.adjlist), compressed by gzip or zstd or not. Name
and content show which. - is standard input.

A line of an edge list has two ids, and a weight or not, or the attributes of networkx:
{'weight': 3.0}. Anything else is an error with file and line, such as a weight NaN or a fourth
column; --columns says which columns to read. Ids are numbers, or strings if no id looks like a
number. The first line is a header of counts if its second number is the number of lines after it,
and a header of names if it is text before numbers. A line that may be either a header or an edge
is an error until --header decides. Counts that disagree with the file are errors, too.

Exit status: 0 done; 1 the file cannot be read, is malformed, or lacks the vertex; 2 wrong usage;
130 interrupted.`,
		Example: `  weft graph stats graph/load/testdata/karate.txt
  weft graph triangles --json graph/load/testdata/karate.txt
  weft graph convert --to csv graph/load/testdata/karate.txt -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := unknownCommand(cmd, args); err != nil {
				return flags.Usage("graph %w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// As in the root command.
		SuggestionsMinimumDistance: 2,
	}
	all := cmd.PersistentFlags()
	all.StringVar(&in.format, "format", "auto", "format of FILE: auto, mtx, txt, csv, gr, graph, el, wel or adjlist")
	all.StringVar(&in.header, "header", "auto", "first line is counts or column names: auto, yes or no")
	all.StringVar(&in.ids, "ids", "auto", "ids of vertices: auto, sparse (numbers), dense (numbers from 0) or strings")
	all.StringVar(&in.separator, "separator", "", "separator of CSV, one character; default: detected")
	all.StringVar(&in.columns, "columns", "", "columns to read: FROM,TO or FROM,TO,WEIGHT, names or numbers; WEIGHT may be an attribute")
	all.IntVar(&in.maxVertices, "max-vertices", 1<<28, "most vertices that a file may have")
	cmd.AddCommand(
		newGraphStatsCommand(a, &in),
		newGraphTrianglesCommand(a, &in),
		newGraphComponentsCommand(a, &in),
		newGraphBFSCommand(a, &in),
		newGraphPageRankCommand(a, &in),
		newGraphSSSPCommand(a, &in),
		newGraphKCoreCommand(a, &in),
		newGraphConvertCommand(a, &in),
		newGraphReplayCommand(a, &in),
	)
	return cmd
}

// graphInput holds the flags that affect how a file is read.
type graphInput struct {
	format, header, ids, separator, columns string
	maxVertices                             int
	directed, undirected                    bool
}

// addDirectionFlags adds the flags of verbs that depend on the direction of edges.
func (in *graphInput) addDirectionFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&in.directed, "directed", false, "edges have a direction; default: as the format says, or no")
	cmd.Flags().BoolVar(&in.undirected, "undirected", false, "edges have no direction")
}

// options converts the flags to options of package load.
func (in *graphInput) options() (o load.Options, err error) {
	if in.directed && in.undirected {
		return o, errors.New("--directed --undirected: want one of them")
	}
	if o.Format, err = load.ParseFormat(in.format); err != nil {
		return o, fmt.Errorf("--format %.40q: want auto, mtx, txt, csv, gr, graph, el, wel or adjlist", in.format)
	}
	if o.Header.UnmarshalText([]byte(in.header)) != nil {
		return o, fmt.Errorf("--header %.40q: want auto, yes or no", in.header)
	}
	if o.IDs.UnmarshalText([]byte(in.ids)) != nil {
		return o, fmt.Errorf("--ids %.40q: want auto, sparse, dense or strings", in.ids)
	}
	switch {
	case in.separator == `\t`:
		o.Separator = '\t'
	case len(in.separator) > 1:
		return o, fmt.Errorf("--separator %.40q: want one character", in.separator)
	case in.separator != "":
		o.Separator = in.separator[0]
	}
	if in.columns != "" {
		names := strings.Split(in.columns, ",")
		if len(names) < 2 || len(names) > 3 {
			return o, fmt.Errorf("--columns %.40q: want FROM,TO or FROM,TO,WEIGHT", in.columns)
		}
		o.From, o.To = names[0], names[1]
		if len(names) > 2 {
			o.Weight = names[2]
		}
	}
	if in.maxVertices < 1 || in.maxVertices > 1<<32-1 {
		return o, fmt.Errorf("--max-vertices %d: want 1 to %d", in.maxVertices, uint32(1<<32-1))
	}
	o.MaxVertices = in.maxVertices
	return o, nil
}

// oneGraph requires exactly one file name.
func oneGraph(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return flags.Usage("graph %s: no file given; - is standard input", cmd.Name())
	case len(args) > 1:
		return flags.Usage("graph %s %s: one file at a time", cmd.Name(), strings.Join(args, " "))
	}
	return nil
}

// graphSummary is the part of the output that all verbs share.
type graphSummary struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Header   bool   `json:"header"` // the first line of the file is a header
	Directed bool   `json:"directed"`
	Vertices int    `json:"vertices"`
	Edges    int    `json:"edges"`
	// Device is set by verbs that may compute on a GPU.
	Device string `json:"device,omitempty"`
	// Seconds for reading the file, for building the graph, and for the verb itself.
	LoadSeconds  float64 `json:"load_seconds"`
	BuildSeconds float64 `json:"build_seconds"`
	Seconds      float64 `json:"seconds"`
}

// graphJob is one run of a verb.
type graphJob struct {
	*app
	graphSummary
	ctx        context.Context
	dev        device.Device // CPU
	computeDev device.Device // device of the computation
	file       *load.File
}

// runGraph reads a file and calls do. It returns an error if --device is not the CPU.
func runGraph(cmd *cobra.Command, a *app, in *graphInput, name string, unweighted bool, do func(*graphJob) error) (err error) {
	verb := "graph " + cmd.Name()
	o, err := in.options()
	if err != nil {
		return flags.Usage("%s %w", verb, err)
	}
	o.Unweighted = unweighted
	if _, err := a.plan(name); err != nil {
		return fmt.Errorf("%s %w", verb, err)
	}
	if a.device == "auto" {
		a.device = "cpu"
	}
	if a.device != "cpu" {
		return flags.Usage("%s --device %s: it works on the CPU only", verb, a.device)
	}
	dev, err := a.openDevice(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, dev.Close()) }()
	j := &graphJob{app: a, ctx: cmd.Context(), dev: dev}
	if err := j.read(name, o); err != nil {
		return fmt.Errorf("%s %w", verb, err)
	}
	if in.directed || in.undirected {
		j.file.Directed = in.directed
	}
	j.Directed = j.file.Directed
	if err := do(j); err != nil {
		return fmt.Errorf("%s %s: %w", verb, j.File, err)
	}
	return nil
}

// runGraphOn reads a file on the CPU and calls do. The computation runs on --device.
func runGraphOn(cmd *cobra.Command, a *app, in *graphInput, name string, unweighted bool, do func(*graphJob) error) error {
	deviceFlag := a.device
	a.device = "cpu"
	return runGraph(cmd, a, in, name, unweighted, func(j *graphJob) (err error) {
		if j.computeDev = j.dev; deviceFlag != "cpu" {
			j.device = deviceFlag
			if j.computeDev, err = j.openDevice(j.ctx); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, j.computeDev.Close()) }()
		}
		j.Device = deviceID(j.computeDev.Properties())
		return do(j)
	})
}

func (j *graphJob) read(name string, o load.Options) error {
	j.File = displayName(name)
	source, size := j.stdin, int64(-1)
	if name != stdinName {
		// os.Open waits for the writer of a named pipe.
		f, err := progress.Interruptible(j.ctx, func() (*os.File, error) { return os.Open(name) })
		if err == nil {
			defer f.Close()
			source = f
			size, err = sizeOf(f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, flags.Reason(err))
		}
	}
	bar := progress.Bytes(j.stderr, j.isTerminal, "reading", size)
	defer bar.Close()
	start := time.Now()
	read := func() (*load.File, error) { return load.Read(j.ctx, j.dev, source, j.File, &o) }
	var err error
	if size >= 0 {
		o.Progress = bar.Add
		j.file, err = read()
	} else {
		// An interrupt ends the wait for a pipe, but not the goroutine that reads it, so the
		// goroutine must not use the bar.
		j.file, err = progress.Interruptible(j.ctx, read)
	}
	if err != nil {
		return err
	}
	j.LoadSeconds = time.Since(start).Seconds()
	j.Format, j.Header, j.Vertices, j.Edges = j.file.Format.String(), j.file.Header, j.file.Vertices, len(j.file.From)
	return nil
}

// sizeOf returns the size of a regular file, or -1 for other files.
func sizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, syscall.EISDIR
	case !info.Mode().IsRegular():
		return -1, nil
	}
	return info.Size(), nil
}

// build builds the graph of the file. directed is false for verbs that ignore the direction of
// edges.
func (j *graphJob) build(directed bool) (*graph.CSR, error) {
	start := time.Now()
	g, err := graph.Build(j.ctx, j.dev, j.file.Edges, &graph.Options{Directed: directed, MaxVertices: math.MaxUint32})
	if err != nil {
		return nil, err
	}
	j.BuildSeconds = time.Since(start).Seconds()
	j.Directed, j.Edges = directed, g.Edges()
	return g, nil
}

// timeRun runs a computation and stores its time.
func (j *graphJob) timeRun(run func() error) error {
	start := time.Now()
	err := run()
	j.Seconds = time.Since(start).Seconds()
	return err
}

// source returns the vertex with the given name. Without a name it returns the vertex with the most
// neighbors, or the smallest such vertex.
func (j *graphJob) source(name string, g *graph.CSR) (uint32, error) {
	if g.Vertices() == 0 {
		return 0, errors.New("the graph has no vertices")
	}
	if name != "" {
		v, ok := j.file.Names.Vertex(name)
		if !ok {
			return 0, fmt.Errorf("the graph has no vertex %.40q", name)
		}
		return v, nil
	}
	best := uint32(0)
	for v := range uint32(g.Vertices()) {
		if g.Degree(v) > g.Degree(best) {
			best = v
		}
	}
	return best, nil
}

// fact is a line of output.
type fact struct{ name, value string }

func factf(name, format string, args ...any) fact { return fact{name, fmt.Sprintf(format, args...)} }

// print prints result as JSON, or the facts as text. The facts about the file precede the given
// ones.
func (j *graphJob) print(result any, facts []fact) error {
	if j.json {
		encoder := json.NewEncoder(j.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	kind := "undirected"
	if j.Directed {
		kind = "directed"
	}
	header := ""
	if j.Header {
		header = ", line 1 is a header"
	}
	facts = append([]fact{
		factf("file", "%s (%s%s)", progress.Printable(j.File), j.Format, header),
		factf("graph", "%s, %d vertices, %d edges", kind, j.Vertices, j.Edges),
	}, facts...)
	facts = append(facts, factf("seconds", "%.3g to read, %.3g to build, %.3g to do", j.LoadSeconds, j.BuildSeconds, j.Seconds))
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, f := range facts {
		fmt.Fprintf(t, "%s\t%s\n", f.name, f.value)
	}
	t.Flush() // writes to memory and cannot fail
	_, err := io.WriteString(j.stdout, text.String())
	return err
}

// graphValue is the value of a vertex.
type graphValue struct {
	Vertex string `json:"vertex"`
	Value  any    `json:"value"`
}

// printValues prints a line for each vertex that has a value: its id and the value, or an object
// with both.
func (j *graphJob) printValues(value func(v uint32) (x any, ok bool)) error {
	out := bufio.NewWriterSize(j.stdout, outputBuffer)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for v := range uint32(j.Vertices) {
		if v%outputCheck == 0 && j.ctx.Err() != nil {
			return j.ctx.Err()
		}
		x, ok := value(v)
		if !ok {
			continue
		}
		line, err := graphValue{j.file.Names.Name(v), x}, error(nil)
		if j.json {
			err = encoder.Encode(line)
		} else {
			_, err = fmt.Fprintf(out, "%s %s\n", progress.Printable(line.Vertex), progress.Printable(fmt.Sprint(line.Value)))
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
