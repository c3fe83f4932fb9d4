package main

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// plot is an image of one line.
type plot struct {
	title, xLabel, yLabel string
	name                  string // name of the line
	x, y                  []float64
	log                   bool // both axes are logarithmic, and all values positive
}

// Positions in the image, in pixels.
const (
	plotWidth, plotHeight         = 720, 440
	plotLeft, plotRight           = 78, 696
	plotTop, plotBottom           = 64, 380
	xTickRow, xLabelRow, titleRow = 400, 426, 24
)

// plotStyle has colors for light and dark pages.
const plotStyle = `svg { font: 13px system-ui, 'Liberation Sans', Arial, sans-serif }
.ground { fill: #ffffff } text { fill: #1f2328 } .soft { fill: #59636e } .title { font-size: 16px; font-weight: 600 }
.mid { text-anchor: middle } .end { text-anchor: end }
.grid { stroke: #d1d9e0 } .axis { stroke: #59636e } .line { stroke: #0969da; stroke-width: 2; fill: none } .dot { fill: #0969da }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117 } text { fill: #e6edf3 } .soft { fill: #9198a1 }
  .grid { stroke: #30363d } .axis { stroke: #9198a1 } .line { stroke: #4493f8 } .dot { fill: #4493f8 }
}`

// svg returns the image. The plot must have at least one point.
func (p *plot) svg() []byte {
	xs, ys := newAxis(p.x, p.log, 0), newAxis(p.y, p.log, 0)
	if p.log {
		ys = newAxis(p.y, true, 1)
	}
	at := func(i int) (x, y float64) {
		return plotLeft + xs.at(p.x[i])*(plotRight-plotLeft), plotBottom - ys.at(p.y[i])*(plotBottom-plotTop)
	}
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(class string, x, y float64, s string) {
		add(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
	}
	add(`<?xml version="1.0" encoding="UTF-8"?>`)
	add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`, plotWidth, plotHeight)
	add("<title>%s</title>\n<style>\n%s\n</style>", html.EscapeString(p.title), plotStyle)
	add(`<rect class="ground" width="%d" height="%d"/>`, plotWidth, plotHeight)
	text("title", plotLeft, titleRow, p.title)
	for _, t := range ys.ticks {
		y := plotBottom - ys.at(t)*(plotBottom-plotTop)
		add(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1[2]f"/>`, plotLeft, y, plotRight)
		text("soft end", plotLeft-8, y+4, ys.label(t))
	}
	for _, t := range xs.ticks {
		x := plotLeft + xs.at(t)*(plotRight-plotLeft)
		add(`<line class="axis" x1="%.1f" y1="%d" x2="%.1[1]f" y2="%d"/>`, x, plotBottom, plotBottom+5)
		text("soft mid", x, xTickRow, xs.label(t))
	}
	add(`<path class="axis" fill="none" d="M%d,%d V%d H%d"/>`, plotLeft, plotTop, plotBottom, plotRight)
	text("mid", (plotLeft+plotRight)/2, xLabelRow, p.xLabel)
	add(`<text class="mid" transform="translate(18 %d) rotate(-90)">%s</text>`, (plotTop+plotBottom)/2, html.EscapeString(p.yLabel))
	add(`<path class="line" d="M%d,44 h24"/>`, plotLeft)
	text("soft", plotLeft+32, 48, p.name)
	for i := range p.x {
		x, y := at(i)
		fmt.Fprintf(&b, "%s%.1f,%.1f", map[bool]string{true: `<path class="line" stroke-linejoin="round" d="M`, false: " "}[i == 0], x, y)
	}
	add(`"/>`)
	if len(p.x) <= maxDots {
		for i := range p.x {
			x, y := at(i)
			add(`<circle class="dot" cx="%.1f" cy="%.1f" r="3"><title>%s, %s</title></circle>`, x, y, threeDigits(p.x[i]), threeDigits(p.y[i]))
		}
	}
	add("</svg>")
	return []byte(b.String())
}

// maxDots bounds the points that are marked individually.
const maxDots = 200

// axis maps values to [0,1].
type axis struct {
	lo, hi float64
	log    bool
	ticks  []float64
	step   float64 // distance of ticks on a linear axis
}

// newAxis returns an axis that includes all values. A linear axis also includes base. A logarithmic
// axis includes it if it is positive.
func newAxis(values []float64, log bool, base float64) axis {
	a := axis{lo: math.Inf(1), hi: math.Inf(-1), log: log}
	for _, v := range values {
		a.lo, a.hi = min(a.lo, v), max(a.hi, v)
	}
	if !log || base > 0 {
		a.lo = min(a.lo, base)
	}
	if a.lo == a.hi {
		a.lo, a.hi = a.lo/2, max(2*a.hi, 1)
	}
	if log {
		a.logTicks()
	} else {
		a.roundTicks()
	}
	return a
}

func (a *axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

const maxTicks = 10

// roundTicks sets ticks at multiples of 1, 2 or 5 times a power of ten. It extends the axis to the
// last tick.
func (a *axis) roundTicks() {
	power := math.Pow(10, math.Floor(math.Log10((a.hi-a.lo)/maxTicks)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if a.step = power * factor; (a.hi-a.lo)/a.step < maxTicks {
			break
		}
	}
	a.hi = math.Ceil(a.hi/a.step*(1-1e-12)) * a.step
	for i := math.Ceil(a.lo / a.step); i*a.step <= a.hi*(1+1e-12); i++ {
		a.ticks = append(a.ticks, i*a.step)
	}
}

// logTicks sets ticks at powers of ten. On a short axis it adds ticks at twice and five times these
// powers.
func (a *axis) logTicks() {
	decades := math.Log10(a.hi / a.lo)
	factors := []float64{1}
	if decades < maxTicks/3 {
		factors = []float64{1, 2, 5}
	}
	every := max(1, math.Ceil(decades/maxTicks))
	for exp := math.Floor(math.Log10(a.lo)); exp <= math.Ceil(math.Log10(a.hi)); exp += every {
		for _, f := range factors {
			if t := f * math.Pow(10, exp); t >= a.lo*(1-1e-9) && t <= a.hi*(1+1e-9) {
				a.ticks = append(a.ticks, t)
			}
		}
	}
	if len(a.ticks) < 2 {
		a.ticks = []float64{a.lo, a.hi}
	}
}

// label formats a tick, such as "2.5 M". Small values get as many decimals as the distance of ticks
// requires.
func (a *axis) label(v float64) string {
	if a.log || math.Abs(v) >= 1e3 || v == 0 {
		return threeDigits(v)
	}
	return strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(a.step)-1e-9))), 64)
}

// threeDigits formats a value with three digits, such as "12.5 k" and "0.0004".
func threeDigits(v float64) string {
	prefix := ""
	for _, p := range []string{" k", " M", " G", " T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, prefix = v/1e3, p
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64) + prefix
}
