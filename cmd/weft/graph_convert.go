package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/compress"
	"github.com/weftgo/weft/internal/table/flags"
)

func newGraphConvertCommand(a *app, in *graphInput) *cobra.Command {
	var to string
	var unweighted bool
	cmd := &cobra.Command{
		Use:   "convert [flags] FILE OUT",
		Short: "Write a graph in another format",
		Long: `Convert writes the edges of FILE to OUT in another format: mtx, txt (an edge list), csv, gr, graph
(METIS), el or wel. The name of OUT or --to says which. OUT is compressed if it ends with .gz or
.zst. - is standard output, without compression, and needs --to. An existing OUT is replaced only if
it looks like a result of convert, and only after all is written.

Edges are written as they are listed. What a format cannot hold is an error, with these exceptions:
  ids        only txt and csv keep them; other formats number the vertices
  weights    gr and wel get weights of 1 if FILE has none
  direction  gr lists an undirected edge as two arcs
  repeats    graph has no self loops, and each edge once
  isolated   txt and csv have no vertices without edges, el and wel none after the last one with an
             edge; a message says how many are left out

With --json the output is one object: file, format, header, directed, vertices, edges, load_seconds,
build_seconds (0), seconds (of writing), out, out_format, left_out (vertices).`,
		Example: `  weft graph convert --to csv graph/load/testdata/karate.txt - | head
  weft graph convert roads.gr roads.mtx.zst
  weft graph convert --undirected web.mtx web.graph.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return flags.Usage("graph convert: %d files given; want FILE and OUT", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := outFormat(a, to, args[1])
			if err != nil {
				return flags.Usage("graph convert %w", err)
			}
			if args[1] != stdinName {
				plan, err := a.plan(args[0])
				if err == nil {
					err = plan.Writes("", args[1], graphKind(args[1], format), true)
				}
				if err != nil {
					return fmt.Errorf("graph convert %s: write %w", displayName(args[0]), err)
				}
			}
			return runGraph(cmd, a, in, args[0], unweighted, func(j *graphJob) error { return j.convert(args[1], format, unweighted) })
		},
	}
	in.addDirectionFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "auto", "format of OUT: auto, mtx, txt, csv, gr, graph, el or wel")
	cmd.Flags().BoolVar(&unweighted, "unweighted", false, "write no weights")
	return cmd
}

// outFormat returns the format of an output file, according to --to or the file name.
func outFormat(a *app, to, out string) (load.Format, error) {
	format, err := load.ParseFormat(to)
	if err != nil {
		return 0, fmt.Errorf("--to %.40q: want auto, mtx, txt, csv, gr, graph, el or wel", to)
	}
	if out == stdinName && a.json {
		return 0, fmt.Errorf("--json: standard output already receives the graph; name a file as OUT")
	}
	if format == load.Auto && out != stdinName {
		format = load.FormatOf(out)
	}
	if format == load.Auto {
		return 0, fmt.Errorf("%s: the name does not show a known format; set --to", out)
	}
	return format, nil
}

// graphKind returns the kind of files that convert writes in a format, compressed or not.
func graphKind(out string, format load.Format) outfile.Kind {
	prefixes := map[load.Format]string{
		load.MatrixMarket: `%%MatrixMarket matrix coordinate `, load.EdgeList: `# Nodes: \d+ Edges: \d+\n`, load.CSV: `source,target(,weight)?\n`,
		load.DIMACS: `p sp \d+ \d+\n`, load.METIS: `\d+ \d+( 1)?\n`, load.EL: `\d+ \d+\n`, load.WEL: `\d+ \d+ \S+\n`,
	}[format]
	shape := regexp.MustCompile("^" + prefixes)
	return outfile.Kind{
		Name: "a ." + format.String() + " file as convert writes it",
		Is: func(f *os.File) bool {
			plain, err := compress.Reader(f)
			if err != nil {
				return false
			}
			defer plain.Close()
			head, err := io.ReadAll(io.LimitReader(plain, outfile.HeadSize))
			return err == nil && (len(head) == 0 || shape.Match(head))
		},
	}
}

// graphConverted is the output of weft graph convert.
type graphConverted struct {
	*graphSummary
	Out       string `json:"out"`
	OutFormat string `json:"out_format"`
	LeftOut   int    `json:"left_out"`
}

// countLeftOut returns the number of vertices that a format cannot represent.
func countLeftOut(f *load.File, format load.Format) int {
	last, hasEdge := -1, make([]bool, f.Vertices)
	for _, ends := range [][]uint32{f.From, f.To} {
		for _, v := range ends {
			last, hasEdge[v] = max(last, int(v)), true
		}
	}
	switch format {
	case load.EL, load.WEL: // all numbers up to the last one are vertices
		return f.Vertices - 1 - last
	case load.EdgeList, load.CSV:
		n := 0
		for _, found := range hasEdge {
			if !found {
				n++
			}
		}
		return n
	}
	return 0
}

func (j *graphJob) convert(out string, format load.Format, unweighted bool) error {
	if j.file.VertexWeights && !unweighted {
		return errors.New("vertices have sizes or weights, which no format can store; use --unweighted to write none")
	}
	nLeftOut := countLeftOut(j.file, format)
	if out == stdinName {
		if err := load.Write(j.ctx, j.dev, j.stdout, j.file, format); err != nil || nLeftOut == 0 {
			return writeError(displayOutput, err)
		}
		_, err := fmt.Fprintf(j.stderr, "weft: left out, since they have no edge: %d vertices\n", nLeftOut)
		return err
	}
	err := j.timeRun(func() error { return load.Create(j.ctx, j.dev, out, j.file, format) })
	if err != nil {
		return writeError(out, err)
	}
	facts := []fact{factf("written", "%s (%s)", progress.Printable(out), format)}
	if nLeftOut > 0 {
		facts = append(facts, factf("left out", "%d vertices without edges", nLeftOut))
	}
	return j.print(graphConverted{&j.graphSummary, out, format.String(), nLeftOut}, facts)
}

const displayOutput = "standard output"

// writeFailure is the error if a graph could not be written.
type writeFailure struct {
	out string
	err error
}

func writeError(out string, err error) error {
	if err == nil {
		return nil
	}
	return &writeFailure{out, err}
}

func (e *writeFailure) Unwrap() error { return e.err }

// Error returns the text without the name of the package that failed.
func (e *writeFailure) Error() string {
	text := flags.Reason(e.err).Error()
	for _, prefix := range []string{"load: write: ", "load: write " + e.out + ": ", weft.ErrOptions.Error() + ": "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return fmt.Sprintf("write %s: %s", e.out, text)
}
