// Package report formats results of experiments as tables for a terminal, SVG plots, and a
// self-contained HTML page.
package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// rate formats a rate with three digits and an SI prefix: "36.4 G".
func rate(x float64) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, prefix = x/1e3, p
	}
	s := digits(x)
	if prefix != "" {
		s += " " + prefix
	}
	return s
}

// digits formats a number with three significant digits and no exponent.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	// Rounding may add a digit before the point, so count them afterwards.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 2, 64), 64)
	decimals := max(2-int(math.Floor(math.Log10(math.Abs(rounded)))), 0)
	return strconv.FormatFloat(rounded, 'f', min(decimals, 4), 64)
}

// maxPlausible is the maximum plausible share of a limit. A larger share means that the limit does
// not apply, or was measured while the device was busier.
const maxPlausible = 1.1

// share formats a share of a limit: "98 %", "1.3 %", or "120 %!" if it is implausible.
func share(x float64) string {
	if x > maxPlausible {
		return fmt.Sprintf("%.0f %%!", 100*x)
	}
	if x > 0 && x < .0995 {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

// seconds formats a time: "12.3 ms".
func seconds(s float64) string {
	switch {
	case s >= 1:
		return digits(s) + " s"
	case s >= 1e-3:
		return digits(s*1e3) + " ms"
	}
	return digits(s*1e6) + " µs"
}

// bytes formats a size: "4.29 GB".
func bytes(n float64) string {
	s := rate(n)
	if n < 999.5 {
		s += " "
	}
	return s + "B"
}

// load formats a load without trailing zeros: "0.8".
func load(x float64) string {
	if x == 0 {
		return "0"
	}
	return strconv.FormatFloat(math.Round(x*1e4)/1e4, 'f', -1, 64)
}

// count formats an integer in groups of three digits: "100 000 000".
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// width formats the widths of keys and values: "32/64", or "32" for a set.
func width(r experiment.Row) string {
	switch {
	case r.KeyBits == 0:
		return ""
	case r.ValueBits == 0:
		return strconv.Itoa(r.KeyBits)
	}
	return fmt.Sprintf("%d/%d", r.KeyBits, r.ValueBits)
}

// parts formats the parts of a latency: "transfer 41.2 µs, index 98 µs".
func parts(r experiment.Row) string {
	list := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		list[i] = p.What + " " + seconds(p.Seconds)
	}
	return strings.Join(list, ", ")
}

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return digits(*x)
}

// whole formats a count that a row may lack.
func whole(x *float64) string {
	if x == nil {
		return ""
	}
	return count(int(*x))
}

// distinct returns the distinct values of f over the rows, in order of first appearance.
func distinct[T comparable](rows []experiment.Row, f func(experiment.Row) T) []T {
	var all []T
	for _, r := range rows {
		if v := f(r); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
