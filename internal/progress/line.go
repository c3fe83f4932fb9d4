package progress

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a text as one line. It escapes unprintable characters, such as a line feed in a
// file name, as Go string literals do.
func Printable(line string) string {
	var text strings.Builder
	for rest := line; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			text.WriteString(rest[:size])
		} else {
			text.WriteString(strings.Trim(strconv.Quote(rest[:size]), `"`))
		}
		rest = rest[size:]
	}
	return text.String()
}

// SI prints x with three digits and a decimal prefix: "29.6 M".
func SI(x float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for x >= 999.5 && i < len(prefixes)-1 {
		x /= 1000
		i++
	}
	return strings.TrimRight(fmt.Sprintf("%.3g %s%s", x, prefixes[i], unit), " ")
}

// Counted returns a number and the thing counted, in the plural unless n is 1.
func Counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
