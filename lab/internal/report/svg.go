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

	"github.com/weftgo/weft/lab/internal/experiment"
)

// palette is Okabe and Ito's, which color-blind people can distinguish. Adjacent entries also
// differ in lightness. It omits yellow and black, which are invisible on one of the two
// backgrounds.
var palette = []color.RGBA{
	{0x1f, 0x83, 0xc4, 255}, // blue, slightly lighter for dark pages
	{0xe6, 0x9f, 0x00, 255}, // orange
	{0x00, 0x9e, 0x73, 255}, // green
	{0xcc, 0x79, 0xa7, 255}, // purple
	{0xd5, 0x5e, 0x00, 255}, // vermilion
	{0x56, 0xb4, 0xe9, 255}, // sky
	{0x9a, 0x8c, 0x2b, 255}, // olive
}

var grey = color.RGBA{0x88, 0x88, 0x88, 255}

// wellKnown holds the colors of frequent series, as indices into palette. These are the same in all
// plots.
var wellKnown = map[string]int{
	"insert": 0, "put": 0, "LOAD": 0, "build": 0, "load": 0,
	"get_hit": 1, "get": 1, "hit": 1, "C": 1, "search": 1,
	"get_miss": 2, "miss": 2, "search_miss": 2,
	"delete": 3, "erase": 3,
	"mixed": 4, "A": 4, "update": 4,
	"get_half": 5, "B": 5, "range": 5,
	"mixed_20": 6, "F": 6,
	"linear": 0, "slab": 1, "cuckoo": 2, "horton": 3, "gphash": 0,
	"ordered": 0, "btree": 1, "sorted": 2, "lsm": 3,
	"builtin map": 4,
}

// colorsOf assigns a color to each series. A well-known series gets its own color, any other the
// least used color, and a model the color of the previous series. Limits get none.
func colorsOf(series []experiment.Series) []color.RGBA {
	colors, used := make([]color.RGBA, len(series)), map[int]int{}
	assign := func(i, n int) {
		colors[i] = palette[n]
		used[n]++
	}
	for i, s := range series {
		if n, known := wellKnown[s.Name]; known && used[n] == 0 && !s.Limit && !s.Model {
			assign(i, n)
		}
	}
	for i, s := range series {
		switch {
		case s.Model && i > 0:
			colors[i] = colors[i-1]
		case s.Limit || colors[i].A > 0:
		default:
			fewest := 0
			for n := range palette {
				if used[n] < used[fewest] {
					fewest = n
				}
			}
			assign(i, fewest)
		}
	}
	return colors
}

// The size of a plot. The legend is next to the data, so that it covers none.
const (
	plotWidth   vg.Length = 760 // in points
	plotHeight  vg.Length = 360
	legendWidth vg.Length = 200
	margin      vg.Length = 6
)

// SVG draws a plot as a separate file on white.
func SVG(p experiment.Plot) ([]byte, error) {
	body, err := drawing(p)
	if err != nil {
		return nil, err
	}
	return gobytes.Replace(body, []byte("<title>"), []byte(`<rect width="100%" height="100%" fill="white"/><title>`), 1), nil
}

var (
	black      = regexp.MustCompile(`#000000\b`)
	fixedSize  = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*"`)
	fontFamily = regexp.MustCompile(`font-family:[^;]*;font-variant:[^;]*;font-weight:[^;]*;font-style:[^;]*`)
)

// inlineSVG draws a plot as an element of a page. It has the page's text color and background, and
// takes the available width.
func inlineSVG(p experiment.Plot) (string, error) {
	body, err := drawing(p)
	if err != nil {
		return "", err
	}
	svg := string(body)
	svg = svg[strings.Index(svg, "<svg"):] // no XML declaration inside HTML
	svg = black.ReplaceAllString(svg, "currentColor")
	return fixedSize.ReplaceAllString(svg, `<svg role="img"`), nil
}

// drawing returns a plot as SVG with a transparent background.
func drawing(p experiment.Plot) ([]byte, error) {
	axes, legend, err := compose(p)
	if err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", p.Name, err)
	}
	height := max(plotHeight, legend.height()+6*margin)
	canvas := vgsvg.New(plotWidth, height)
	whole := draw.New(canvas)
	data := draw.Crop(whole, margin, -legendWidth, margin, -margin)
	axes.Draw(data)
	legend.draw(draw.Crop(whole, plotWidth-legendWidth+2*margin, 0, 0, -5*margin))
	var out gobytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", p.Name, err)
	}
	svg := gobytes.Replace(fonts(out.Bytes()), []byte("<g "), append(captions(p), "<g "...), 1)
	return gobytes.Replace(svg, []byte("</svg>"), append(pointers(p, axes, data), "</svg>"...), 1), nil
}

// small is the font of all text except titles.
var small = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(11)}

// legend is a list of legends with one entry each. An entry is as high as its text; in a legend of
// gonum, all entries are as high as the highest.
type legend []plot.Legend

func (l *legend) add(name string, thumbnails ...plot.Thumbnailer) {
	one := plot.NewLegend()
	one.Top, one.Left = true, true
	one.ThumbnailWidth = vg.Points(24)
	one.TextStyle.Font = small
	one.Add(name, thumbnails...)
	*l = append(*l, one)
}

// betweenNames is the space between two entries of a legend.
const betweenNames vg.Length = 6

func heightOf(one *plot.Legend) vg.Length {
	r := one.Rectangle(draw.New(vgsvg.New(plotWidth, plotHeight)))
	return r.Max.Y - r.Min.Y + betweenNames
}

func (l legend) height() (sum vg.Length) {
	for i := range l {
		sum += heightOf(&l[i])
	}
	return sum
}

func (l legend) draw(c draw.Canvas) {
	for i := range l {
		l[i].Draw(c)
		c = draw.Crop(c, 0, 0, 0, -heightOf(&l[i]))
	}
}

// fonts replaces font names by fonts that every system has. The text was measured in the widths of
// these fonts.
func fonts(svg []byte) []byte {
	return fontFamily.ReplaceAll(svg, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

// compose makes the axes and lines of a plot, and its legend.
func compose(p experiment.Plot) (*plot.Plot, legend, error) {
	axes := plot.New()
	axes.BackgroundColor = nil // the page's background
	axes.Title.Text, axes.X.Label.Text, axes.Y.Label.Text = p.Title, p.XLabel, p.YLabel
	var names legend

	axes.Add(grid())
	colors := colorsOf(p.Series)
	dashed := 0
	for i, s := range p.Series {
		line, points, err := plotter.NewLinePoints(points(s))
		if err != nil {
			return nil, nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
		line.Width = vg.Points(1.6)
		points.Shape, points.Radius = draw.CircleGlyph{}, vg.Points(2.4)
		switch {
		case s.Limit:
			line.Color, line.Dashes = grey, []vg.Length{vg.Points(float64(2 + 3*(dashed%2))), vg.Points(3)}
			axes.Add(line)
			names.add(inLegend(s), line)
			dashed++
			continue
		case s.Model: // model of the previous series
			line.Color, line.Dashes = colors[i], []vg.Length{vg.Points(2), vg.Points(2)}
			axes.Add(line)
			names.add(inLegend(s), line)
			continue
		case s.Published:
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			points.Shape = draw.RingGlyph{}
		}
		line.Color, points.Color = colors[i], colors[i]
		axes.Add(line, points)
		names.add(inLegend(s), line, points)
	}
	scaleX(axes, p.LogX)
	scaleY(axes, p.LogY, p.YMin)
	for _, style := range []*draw.TextStyle{&axes.X.Label.TextStyle, &axes.Y.Label.TextStyle, &axes.X.Tick.Label, &axes.Y.Tick.Label} {
		style.Font = small
	}
	axes.Title.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(13)}
	axes.Title.Padding = vg.Points(10)
	return axes, names, nil
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

// scaleX sets the range and the ticks of the x axis, which shows a load or a number.
func scaleX(axes *plot.Plot, log bool) {
	if log {
		axes.X.Scale = plot.LogScale{}
		axes.X.Tick.Marker = plot.TickerFunc(logTicks)
		return
	}
	axes.X.Min = min(axes.X.Min, 0)
	axes.X.Tick.Marker = plot.TickerFunc(roundTicks)
	if axes.X.Max <= 1 { // a load
		axes.X.Max = 1
		axes.X.Tick.Marker = plot.ConstantTicks(loadTicks())
	}
}

// scaleY sets the range and the ticks of the y axis, which shows a rate, a time or a ratio.
func scaleY(axes *plot.Plot, log bool, fewest float64) {
	if log {
		axes.Y.Scale = plot.LogScale{} // from the minimum to the maximum of the data
		axes.Y.Tick.Marker = plot.TickerFunc(logTicks)
		return
	}
	axes.Y.Min = fewest // usually 0, so that a rate does not look larger than it is
	axes.Y.Max += .05 * (axes.Y.Max - fewest)
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

// logTicks marks 1 to 9 times each power of ten between two values. It labels powers of ten and, in
// a narrow range, 2 and 5 times these. If this gives fewer than two labels, it labels all ticks. If
// lo and hi are so close that there are fewer than two ticks, it returns the ticks of a linear
// axis.
func logTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	narrow, labels := hi/lo < 1e3, 0
	for exp := math.Floor(math.Log10(lo)); exp <= math.Ceil(math.Log10(hi)); exp++ {
		for factor := 1.; factor < 10; factor++ {
			t := plot.Tick{Value: factor * math.Pow(10, exp)}
			if t.Value < lo*(1-1e-9) || t.Value > hi*(1+1e-9) {
				continue
			}
			if factor == 1 || narrow && (factor == 2 || factor == 5) {
				t.Label = tickLabel(t.Value)
				labels++
			}
			ticks = append(ticks, t)
		}
	}
	if labels < 2 {
		if len(ticks) < 2 {
			return roundTicks(lo, hi)
		}
		for i, t := range ticks {
			ticks[i].Label = tickLabel(t.Value)
		}
	}
	return ticks
}

// roundTicks marks four to ten multiples of 1, 2 or 5 times a power of ten.
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

// tickLabel formats a rate without trailing zeros: "20 G".
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
