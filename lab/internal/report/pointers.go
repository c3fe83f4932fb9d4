package report

import (
	gobytes "bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftgo/weft/lab/internal/experiment"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// captions returns the title and the description of a plot, for screen readers.
func captions(p experiment.Plot) []byte {
	names := make([]string, len(p.Series))
	for i, s := range p.Series {
		names[i] = inWords(s)
	}
	return fmt.Appendf(nil, "<title>%s</title><desc>%s over %s: %s</desc>", escape(p.Title), escape(p.YLabel), escape(p.XLabel), escape(strings.Join(names, "; ")))
}

// pointers returns tooltips for browsers. They show the values of each point, and the limits of the
// hardware.
func pointers(p experiment.Plot, axes *plot.Plot, on draw.Canvas) []byte {
	var out gobytes.Buffer
	out.WriteString(`<g fill="none" pointer-events="all">`)
	data := axes.DataCanvas(on)
	x, y := axes.Transforms(&data)
	for _, s := range p.Series {
		for i := range s.X {
			text := fmt.Sprintf("%s: %s at %s", inWords(s), tickLabel(s.Y[i]), tickLabel(s.X[i]))
			if s.Limit {
				text = fmt.Sprintf("%s: %s", inWords(s), tickLabel(s.Y[i]))
			}
			fmt.Fprintf(&out, `<circle cx="%.1f" cy="%.1f" r="6"><title>%s</title></circle>`, x(s.X[i]).Points(), (plotHeight - y(s.Y[i])).Points(), escape(text))
		}
	}
	out.WriteString("</g>")
	return out.Bytes()
}

// inWords returns the name of a series, or the description of a limit.
func inWords(s experiment.Series) string {
	if name, found := strings.CutPrefix(s.Name, "limit: "); found {
		base, region := roofline.Split(name)
		words := describe(base)
		if region > 0 {
			words += " in " + name[len(base)+1:]
		}
		return "limit: " + words
	}
	return s.Name
}

// legendColumns is the approximate number of letters per line of a legend.
const legendColumns = 30

// inLegend returns the name of a series, split into lines.
func inLegend(s experiment.Series) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(inWords(s)) {
		if line != "" && len(line)+1+len(word) > legendColumns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

func escape(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s)) // a builder never fails
	return out.String()
}
