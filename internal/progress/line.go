package progress

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable is a text on one line: what cannot be printed, such as a line feed in the
// name of a file, is written as Go would.
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
