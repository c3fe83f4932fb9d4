package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/cmd/weft/internal/report"
	"github.com/weftgo/weft/internal/atomicfile"
	"github.com/weftgo/weft/internal/experiment"
)

// graphPlot is the flag of verbs that draw what they print.
type graphPlot struct{ file string }

func (p *graphPlot) flag(cmd *cobra.Command, what string) {
	cmd.Flags().Var(nameValue{&p.file}, "svg", "also draw "+what+", to `FILE`; of the files that exist, only an SVG image is replaced")
}

// check refuses a file that must not or cannot be written, before there is work to lose.
func (p *graphPlot) check(a *app, input string) error {
	plan, err := a.plan(input)
	if err == nil && p.file != "" {
		err = plan.Writes("--svg", p.file, svgKind, true)
	}
	return err
}

// draw draws one line, if that has been asked for.
func (p *graphPlot) draw(plot experiment.Plot) error {
	if p.file == "" {
		return nil
	}
	if len(plot.Series[0].X) == 0 {
		return fmt.Errorf("--svg %s: there is no edge, and so nothing to draw", p.file)
	}
	svg, err := report.SVG(plot)
	if err == nil {
		err = atomicfile.WriteFile(p.file, svg)
	}
	if err != nil {
		return fmt.Errorf("--svg %s: %w", p.file, reason(err))
	}
	return nil
}

// plot is the degrees of a graph: both axes have logarithms, on which the degrees of many networks lie on a line.
func (s *graphStats) plot() experiment.Plot {
	line := experiment.Series{Name: "vertices"}
	for _, d := range s.Degrees {
		if d.From > 0 {
			line.X, line.Y = append(line.X, float64(d.From)), append(line.Y, float64(d.Vertices))
		}
	}
	return experiment.Plot{
		Title: "Degrees of " + printable(filepath.Base(s.File)), XLabel: "degree, and up to twice of it", YLabel: "vertices",
		LogX: true, LogY: true, YMin: 1, Series: []experiment.Series{line},
	}
}

// plot is what has been kept of a graph while its edges came.
func (r *graphReplay) plot() experiment.Plot {
	line := experiment.Series{Name: r.Result}
	for _, s := range r.Samples {
		y := s.Value
		if r.Result == "edges" {
			y = float64(s.Edges)
		}
		line.X, line.Y = append(line.X, float64(s.Listed)), append(line.Y, y)
	}
	label := r.Result
	if r.Result == "pagerank" {
		label = "highest rank"
	}
	return experiment.Plot{
		Title: printable(filepath.Base(r.File)) + " in batches of " + fmt.Sprint(r.Batch), XLabel: "edges listed", YLabel: label,
		Series: []experiment.Series{line},
	}
}
