package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/internal/atomicfile"
	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
)

// graphPlot is the flag --svg.
type graphPlot struct{ file string }

func (p *graphPlot) addFlag(cmd *cobra.Command, subject string) {
	cmd.Flags().Var(flags.Name(&p.file), "svg", "also draw "+subject+", to `FILE` (an existing file is replaced if it is SVG)")
}

// check returns an error if the file must not or cannot be written. It is called before any work.
func (p *graphPlot) check(a *app, input string) error {
	plan, err := a.plan(input)
	if err == nil && p.file != "" {
		err = plan.Writes("--svg", p.file, outfile.SVG, true)
	}
	return err
}

// draw writes the plot if the flag is set.
func (p *graphPlot) draw(line plot) error {
	if p.file == "" {
		return nil
	}
	if len(line.x) == 0 {
		return fmt.Errorf("--svg %s: the graph has no edges to draw", p.file)
	}
	if err := atomicfile.WriteFile(p.file, line.svg()); err != nil {
		return fmt.Errorf("--svg %s: %w", p.file, flags.Reason(err))
	}
	return nil
}

// plot returns a plot of the degrees of a graph. Both axes are logarithmic, because the degrees of
// many networks then form a line.
func (s *graphStats) plot() plot {
	line := plot{
		title: "Degrees of " + progress.Printable(filepath.Base(s.File)), xLabel: "degree, and up to twice of it", yLabel: "vertices",
		name: "vertices", log: true,
	}
	for _, d := range s.Degrees {
		if d.From > 0 {
			line.x, line.y = append(line.x, float64(d.From)), append(line.y, float64(d.Vertices))
		}
	}
	return line
}

// plot returns a plot of the samples.
func (r *graphReplay) plot() plot {
	line := plot{
		title: progress.Printable(filepath.Base(r.File)) + " in batches of " + fmt.Sprint(r.Batch), xLabel: "edges listed", yLabel: r.Result,
		name: r.Result,
	}
	if r.Result == "pagerank" {
		line.yLabel = "highest rank"
	}
	for _, s := range r.Samples {
		y := s.Value
		if r.Result == "edges" {
			y = float64(s.Edges)
		}
		line.x, line.y = append(line.x, float64(s.Listed)), append(line.y, y)
	}
	return line
}
