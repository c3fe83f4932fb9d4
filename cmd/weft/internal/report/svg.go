package report

import (
	gobytes "bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/weftgo/weft/internal/experiment"
)

// palette is Okabe and Ito's, which color-blind people can tell apart, in an
// order that keeps neighbours different in lightness too; without its yellow
// and black, which vanish on one of the two backgrounds.
var palette = []color.RGBA{
	{0x1f, 0x83, 0xc4, 255}, // blue, a little lighter for dark pages
	{0xe6, 0x9f, 0x00, 255}, // orange
	{0x00, 0x9e, 0x73, 255}, // green
	{0xcc, 0x79, 0xa7, 255}, // purple
	{0xd5, 0x5e, 0x00, 255}, // vermilion
	{0x56, 0xb4, 0xe9, 255}, // sky
	{0x9a, 0x8c, 0x2b, 255}, // olive
}

var grey = color.RGBA{0x88, 0x88, 0x88, 255}

// The size of a plot. The legend stands beside the data, where it can't cover
// any.
const (
	plotWidth   vg.Length = 760 // points
	plotHeight  vg.Length = 360
	legendWidth vg.Length = 200
	margin      vg.Length = 6
)

// SVG draws a plot as a file of its own, on white.
func SVG(p experiment.Plot) ([]byte, error) {
	body, err := drawing(p)
	if err != nil {
		return nil, err
	}
	return gobytes.Replace(body, []byte("<g "), []byte(`<rect width="100%" height="100%" fill="white"/><g `), 1), nil
}

var (
	black      = regexp.MustCompile(`#000000\b`)
	fixedSize  = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*"`)
	fontFamily = regexp.MustCompile(`font-family:[^;]*;font-variant:[^;]*;font-weight:[^;]*;font-style:[^;]*`)
)

// inlineSVG draws a plot as an element of a page, in the page's own text
// color on its background, as wide as there is room.
func inlineSVG(p experiment.Plot) (string, error) {
	body, err := drawing(p)
	if err != nil {
		return "", err
	}
	svg := string(body)
	svg = svg[strings.Index(svg, "<svg"):] // no XML declaration inside HTML
	svg = black.ReplaceAllString(svg, "currentColor")
	svg = fixedSize.ReplaceAllString(svg, `<svg role="img"`)
	return svg, nil
}

// drawing is a plot as SVG with a transparent background.
func drawing(p experiment.Plot) ([]byte, error) {
	axes, legend, err := compose(p)
	if err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", p.Name, err)
	}
	canvas := vgsvg.New(plotWidth, plotHeight)
	whole := draw.New(canvas)
	axes.Draw(draw.Crop(whole, margin, -legendWidth, margin, -margin))
	legend.Draw(draw.Crop(whole, plotWidth-legendWidth+2*margin, 0, 0, -5*margin))
	var out gobytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", p.Name, err)
	}
	return fonts(out.Bytes()), nil
}

// fonts names fonts that every system has, with the widths the text was
// measured in.
func fonts(svg []byte) []byte {
	return fontFamily.ReplaceAll(svg, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

// compose makes the axes and lines of a plot, and its legend.
func compose(p experiment.Plot) (*plot.Plot, *plot.Legend, error) {
	axes := plot.New()
	axes.BackgroundColor = nil // the page's
	axes.Title.Text, axes.X.Label.Text, axes.Y.Label.Text = p.Title, p.XLabel, p.YLabel
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(5)
	legend.ThumbnailWidth = vg.Points(24)

	axes.Add(grid())
	colored := 0
	for _, s := range p.Series {
		line, points, err := plotter.NewLinePoints(points(s))
		if err != nil {
			return nil, nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
		line.Width = vg.Points(1.6)
		points.Shape, points.Radius = draw.CircleGlyph{}, vg.Points(2.4)
		switch {
		case s.Limit:
			line.Color, line.Dashes = grey, []vg.Length{vg.Points(float64(2 + 3*(colored%2))), vg.Points(3)}
			axes.Add(line)
			legend.Add(s.Name, line)
			colored++
			continue
		case s.Model: // of the series before
			line.Color, line.Dashes = palette[max(colored-1, 0)%len(palette)], []vg.Length{vg.Points(2), vg.Points(2)}
			axes.Add(line)
			legend.Add(s.Name, line)
			continue
		case s.Published:
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			points.Shape = draw.RingGlyph{}
		}
		line.Color = palette[colored%len(palette)]
		points.Color = line.Color
		colored++
		axes.Add(line, points)
		legend.Add(s.Name, line, points)
	}
	scaleX(axes, p.LogX)
	scaleY(axes, p.LogY, p.YMin)
	for _, style := range []*draw.TextStyle{&axes.X.Label.TextStyle, &axes.Y.Label.TextStyle, &axes.X.Tick.Label, &axes.Y.Tick.Label, &legend.TextStyle} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(11)}
	}
	axes.Title.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(13)}
	axes.Title.Padding = vg.Points(10)
	return axes, &legend, nil
}

func points(s experiment.Series) plotter.XYs {
	xys := make(plotter.XYs, len(s.X))
	for i := range xys {
		xys[i] = plotter.XY{X: s.X[i], Y: s.Y[i]}
	}
	return xys
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color = color.RGBA{0x88, 0x88, 0x88, 255}
	g.Horizontal.Width = vg.Points(.3)
	g.Vertical.Width = 0
	return g
}

// scaleX sets the range and the ticks of the axis of x: a load or a number.
func scaleX(axes *plot.Plot, log bool) {
	if log {
		axes.X.Scale = plot.LogScale{}
		axes.X.Tick.Marker = siTicks{plot.LogTicks{Prec: -1}}
		return
	}
	axes.X.Min = min(axes.X.Min, 0)
	axes.X.Tick.Marker = plot.TickerFunc(roundTicks)
	if axes.X.Max <= 1 { // a load
		axes.X.Max = 1
		axes.X.Tick.Marker = plot.ConstantTicks(loadTicks())
	}
}

// scaleY does the same for the axis of y: a rate, a time or a ratio.
func scaleY(axes *plot.Plot, log bool, least float64) {
	if log {
		axes.Y.Scale = plot.LogScale{}
		axes.Y.Min = math.Pow(10, math.Floor(math.Log10(axes.Y.Min)))
		axes.Y.Max = math.Pow(10, math.Ceil(math.Log10(axes.Y.Max)))
		axes.Y.Tick.Marker = siTicks{plot.LogTicks{Prec: -1}}
		return
	}
	axes.Y.Min = least // 0: a rate must not look larger than it is
	axes.Y.Max += .05 * (axes.Y.Max - least)
	axes.Y.Tick.Marker = plot.TickerFunc(roundTicks)
}

func loadTicks() []plot.Tick {
	var ticks []plot.Tick
	for tenth := range 11 {
		t := plot.Tick{Value: float64(tenth) / 10}
		if tenth%2 == 0 {
			t.Label = load(t.Value)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// siTicks labels the ticks of another with SI prefixes.
type siTicks struct{ plot.Ticker }

func (t siTicks) Ticks(lo, hi float64) []plot.Tick {
	ticks := t.Ticker.Ticks(lo, hi)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = tickLabel(ticks[i].Value)
		}
	}
	return ticks
}

// roundTicks marks multiples of 1, 2 or 5 times a power of ten, four to ten of
// them.
func roundTicks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, factor := range []float64{5, 2} {
		if (hi-lo)/(step*factor) >= 4 {
			step *= factor
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i * step)})
	}
	return ticks
}

// tickLabel is a rate without trailing zeros: "20 G".
func tickLabel(x float64) string {
	s := rate(x)
	number, prefix, found := strings.Cut(s, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	if found {
		return number + " " + prefix
	}
	return number
}
