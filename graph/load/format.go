package load

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/weftgo/weft"
)

// Format is the format of a file.
type Format int

// The formats.
const (
	Auto         Format = iota // detected by name and content
	MatrixMarket               // NIST's exchange format, sparse matrices only
	EdgeList                   // lines of two ids and an optional weight, as SNAP writes
	CSV                        // lines with separators and optional column names
	DIMACS                     // .gr files of the 9th DIMACS challenge
	METIS                      // .graph files of METIS and the 10th DIMACS challenge
	EL                         // .el files of the GAP benchmark
	WEL                        // .wel files of the GAP benchmark
	// AdjList has lines of an id and the ids of its neighbors. networkx and OpenNE write it. This
	// package only reads it.
	AdjList
)

// formats lists each format with its name, which is also a file suffix, and its other suffixes.
var formats = []struct {
	format   Format
	name     string
	suffixes []string
}{
	{MatrixMarket, "mtx", []string{"mm"}},
	{EdgeList, "txt", []string{"edgelist", "edges", "snap"}},
	{CSV, "csv", []string{"tsv"}},
	{DIMACS, "gr", nil},
	{METIS, "graph", []string{"metis"}},
	{EL, "el", nil},
	{WEL, "wel", nil},
	{AdjList, "adjlist", nil},
}

// String returns the file suffix of the format, without a dot, or "auto".
func (f Format) String() string {
	for _, x := range formats {
		if x.format == f {
			return x.name
		}
	}
	return "auto"
}

// MarshalText returns the name that String returns.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText sets the format by its name. See [ParseFormat].
func (f *Format) UnmarshalText(text []byte) error {
	format, err := ParseFormat(string(text))
	if err == nil {
		*f = format
	}
	return err
}

// ParseFormat returns the format with the given name or file suffix.
func ParseFormat(name string) (Format, error) {
	if name == "auto" {
		return Auto, nil
	}
	var names []string
	for _, x := range formats {
		if name == x.name {
			return x.format, nil
		}
		for _, suffix := range x.suffixes {
			if name == suffix {
				return x.format, nil
			}
		}
		names = append(names, x.name)
	}
	return Auto, fmt.Errorf("%w: format %.40q: want auto, %s", weft.ErrOptions, name, strings.Join(names, ", "))
}

// FormatOf returns the format of a file name, or Auto if its suffix is unknown. It ignores the
// suffix of a codec.
func FormatOf(name string) Format {
	name, _ = splitSuffix(name)
	format, err := ParseFormat(strings.TrimPrefix(strings.ToLower(path.Ext(name)), "."))
	if err != nil {
		return Auto
	}
	return format
}

var matrixBanner = []byte("%%MatrixMarket")

// isMatrix reports whether a file begins with the banner of Matrix Market. Empty lines before the
// banner are invalid, but do not change the result.
func isMatrix(head []byte) bool {
	head = bytes.TrimSpace(head)
	return len(head) >= len(matrixBanner) && bytes.EqualFold(head[:len(matrixBanner)], matrixBanner)
}

// detect returns the format of a file by its name and its first bytes.
func detect(name string, head []byte) Format {
	if isMatrix(head) {
		return MatrixMarket
	}
	format := FormatOf(name)
	if format != Auto && format != EdgeList {
		return format
	}
	line := firstLine(head)
	// without attributes of networkx, which have commas
	ids, _, _ := bytes.Cut(unquoted(line), []byte("{"))
	switch {
	case bytes.ContainsAny(ids, ",;|"):
		return CSV
	case format == Auto && (bytes.HasPrefix(line, []byte("c ")) || bytes.HasPrefix(line, []byte("p sp "))):
		return DIMACS
	}
	return EdgeList
}

// firstLine returns the first line that is neither empty nor a comment.
func firstLine(head []byte) []byte {
	for line := range bytes.Lines(bytes.TrimPrefix(head, byteOrderMark)) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !isComment(line) {
			return line
		}
	}
	return nil
}

// isComment reports whether a line of an edge list is a comment, as SNAP (#) or KONECT (%) writes
// it.
func isComment(line []byte) bool { return line[0] == '#' || line[0] == '%' }
