package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// limit is a limit of a result, as text.
type limit struct {
	Name, What, Rate string
}

// limits lists the limits of a result, sorted by name and region. Limits that were computed from
// others come last.
func limits(res *experiment.Result) []limit {
	names := make([]string, 0, len(res.Limits))
	for name := range res.Limits {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if da, db := derived(a), derived(b); da != db {
			if da {
				return 1
			}
			return -1
		}
		nameA, regionA := roofline.Split(a)
		nameB, regionB := roofline.Split(b)
		return cmp.Or(strings.Compare(nameA, nameB), cmp.Compare(regionA, regionB))
	})
	list := make([]limit, len(names))
	for i, name := range names {
		list[i] = limit{name, describe(name), rateWithUnit(experiment.Row{OpsPerS: res.Limits[name], Unit: unit(name)})}
	}
	return list
}

func unit(name string) string {
	if u := roofline.Unit(name); u != "op/s" {
		return u
	}
	return ""
}

// derived reports whether a limit was computed from others.
func derived(name string) bool { return roofline.Describe(name) == name }

func describe(name string) string {
	switch {
	case strings.HasPrefix(name, "mixed_"):
		return "half reads, half compare-and-swaps: harmonic mean of the two limits"
	case strings.HasPrefix(name, "mixed"):
		percent, _, _ := strings.Cut(strings.TrimPrefix(name, "mixed"), "_")
		return percent + " % compare-and-swaps, the rest reads: harmonic mean of the two limits"
	case strings.HasPrefix(name, "cached"):
		percent, rest, _ := strings.Cut(strings.TrimPrefix(name, "cached"), "_")
		return describe(rest) + ", " + percent + " % of them in the memory of the device"
	case strings.HasPrefix(name, "distinct"):
		percent, rest, _ := strings.Cut(strings.TrimPrefix(name, "distinct"), "_")
		return roofline.Describe(rest) + ", one for " + percent + " % of the operations of a batch"
	case name == roofline.DeviceToHost+"_160":
		return "copy of 160 bytes an operation to page-locked host memory"
	case strings.HasPrefix(name, "arcs_"):
		return "copy of as many bytes an arc of a graph, read plus written: " + strings.TrimPrefix(name, "arcs_")
	case strings.HasPrefix(name, "vertices_"):
		return "copy of as many bytes a vertex of a graph, read plus written: " + strings.TrimPrefix(name, "vertices_")
	case strings.HasPrefix(name, "pairs_"):
		return "copy of as many bytes a pair, read plus written: " + strings.TrimPrefix(name, "pairs_")
	case strings.HasPrefix(name, "range"):
		length, _, _ := strings.Cut(strings.TrimPrefix(name, "range"), "_")
		return "a random read of 64 bytes and copying " + length + " pairs"
	case strings.HasPrefix(name, "host_"):
		return "keys and values over page-locked copies"
	}
	return roofline.Describe(name)
}

// limitsLine returns lines of text with all limits of a result, or "" if the rows of the result are
// the limits themselves. A limit that was measured in several regions has its own line.
func limitsLine(res *experiment.Result) string {
	if res.Experiment == "roofline" {
		return ""
	}
	var parts, lines []string
	last := ""
	for _, l := range limits(res) {
		name, region := roofline.Split(l.Name)
		switch {
		case region == 0:
			parts = append(parts, l.Name+" "+l.Rate)
		case name == last:
			lines[len(lines)-1] += ", " + l.Name[len(name)+1:] + " " + l.Rate
		default:
			lines = append(lines, "limit "+name+" in "+l.Name[len(name)+1:]+" "+l.Rate)
			last = name
		}
	}
	if len(parts) > 0 {
		lines = append([]string{"limits: " + strings.Join(parts, ", ")}, lines...)
	}
	return strings.Join(lines, "\n")
}

func parameters(res *experiment.Result) string {
	names := make([]string, 0, len(res.Parameters))
	for name := range res.Parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	var parts []string
	if res.Incomplete {
		parts = append(parts, "interrupted, incomplete")
	}
	parts = append(parts, res.Scale+" scale")
	for _, name := range names {
		value := fmt.Sprint(res.Parameters[name])
		if n, ok := res.Parameters[name].(int); ok {
			value = count(n)
			if strings.HasSuffix(name, "_bytes") {
				value = bytes(float64(n))
			}
		}
		name = strings.TrimSuffix(name, "_bytes")
		parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+value)
	}
	return strings.Join(parts, ", ")
}
