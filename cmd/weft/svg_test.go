package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Images are well-formed, all points are within the axes, and labels of ticks do not overlap.
func TestPlotSVG(t *testing.T) {
	point := regexp.MustCompile(`<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"`)
	for _, p := range []plot{
		{title: `a <b> & "c"`, xLabel: "x", yLabel: "y", name: "line", x: []float64{1, 2, 3}, y: []float64{5, 0, 2.5}},
		{name: "one point", x: []float64{7}, y: []float64{7}},
		{name: "zeros", x: []float64{0, 0}, y: []float64{0, 0}},
		{name: "small", x: []float64{0, 1e6}, y: []float64{1e-7, 3.3e-4}},
		{name: "powers", log: true, x: []float64{1, 2, 4, 8, 1 << 40}, y: []float64{1e9, 3, 1, 1, 1}},
		{name: "close", log: true, x: []float64{3, 3}, y: []float64{1, 1}},
		{name: "decade", log: true, x: []float64{1, 30}, y: []float64{12, 450}},
	} {
		svg := string(p.svg())
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", p.name, err, svg)
			}
		}
		points := point.FindAllStringSubmatch(svg, -1)
		if len(points) != len(p.x) {
			t.Errorf("%s: %d points, want %d", p.name, len(points), len(p.x))
		}
		for _, m := range points {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			if x < plotLeft || x > plotRight || y < plotTop || y > plotBottom {
				t.Errorf("%s: a point at %v, %v is outside of the axes", p.name, x, y)
			}
		}
		for _, values := range [][]float64{p.x, p.y} {
			a := newAxis(values, p.log, 0)
			var labels []string
			for _, tick := range a.ticks {
				labels = append(labels, a.label(tick))
			}
			if apart := slices.Compact(slices.Clone(labels)); len(labels) < 2 || len(labels) > maxTicks+1 || len(apart) != len(labels) {
				t.Errorf("%s: ticks %q of %v", p.name, labels, values)
			}
		}
	}
}

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 999: "999", 999.6: "1 k", 12345: "12.3 k", 2.5e6: "2.5 M", .00041: "0.00041", math.Pi: "3.14", 1e15: "1000 T"} {
		if got := threeDigits(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
