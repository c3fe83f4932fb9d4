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
	Auto         Format = iota // found by name and content
	MatrixMarket               // NIST's exchange format, coordinates only
	EdgeList                   // lines of two ids, and perhaps a weight, as SNAP has them
	CSV                        // the same with separators, and perhaps names of columns
	DIMACS                     // .gr of the 9th DIMACS challenge
	METIS                      // .graph of METIS and the 10th DIMACS challenge
	EL                         // .el of the GAP benchmark
	WEL                        // .wel of the GAP benchmark
	AdjList                    // lines of an id and those of its neighbors, as networkx and OpenNE have them; read only
)

// formats are their names, which are those of files, too, and other ends of names.
var formats = []struct {
	format Format
	name   string
	others []string
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

// String is the end of names of such files.
func (f Format) String() string {
	for _, x := range formats {
		if x.format == f {
			return x.name
		}
	}
	return "auto"
}

// MarshalText is String.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is [ParseFormat].
func (f *Format) UnmarshalText(text []byte) error {
	format, err := ParseFormat(string(text))
	if err == nil {
		*f = format
	}
	return err
}

// ParseFormat is the format of a name as String has it, or as files end.
func ParseFormat(name string) (Format, error) {
	if name == "auto" {
		return Auto, nil
	}
	var names []string
	for _, x := range formats {
		if name == x.name {
			return x.format, nil
		}
		for _, other := range x.others {
			if name == other {
				return x.format, nil
			}
		}
		names = append(names, x.name)
	}
	return Auto, fmt.Errorf("%w: format %.40q: want auto, %s", weft.ErrOptions, name, strings.Join(names, ", "))
}

// FormatOf is the format that the name of a file stands for, Auto if none. An end that says how it is compressed is left out.
func FormatOf(name string) Format {
	name, _ = compression(name)
	format, err := ParseFormat(strings.TrimPrefix(strings.ToLower(path.Ext(name)), "."))
	if err != nil {
		return Auto
	}
	return format
}

var matrixBanner = []byte("%%MatrixMarket")

// isMatrix reports whether a file begins as Matrix Market does, also after empty lines, which are wrong there.
func isMatrix(head []byte) bool {
	head = bytes.TrimSpace(head)
	return len(head) >= len(matrixBanner) && bytes.EqualFold(head[:len(matrixBanner)], matrixBanner)
}

// detect is the format of a file by its name, and by how it begins.
func detect(name string, head []byte) Format {
	if isMatrix(head) {
		return MatrixMarket
	}
	format := FormatOf(name)
	if format != Auto && format != EdgeList {
		return format
	}
	line := firstLine(head)
	ids, _, _ := bytes.Cut(unquoted(line), []byte("{")) // attributes of networkx have commas
	switch {
	case bytes.ContainsAny(ids, ",;|"):
		return CSV
	case format == Auto && (bytes.HasPrefix(line, []byte("c ")) || bytes.HasPrefix(line, []byte("p sp "))):
		return DIMACS
	}
	return EdgeList
}

// firstLine is the first line that is no comment and not empty.
func firstLine(head []byte) []byte {
	for line := range bytes.Lines(bytes.TrimPrefix(head, byteOrderMark)) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !isComment(line) {
			return line
		}
	}
	return nil
}

// isComment reports whether a line of an edge list is a comment, as SNAP or as KONECT write them.
func isComment(line []byte) bool { return line[0] == '#' || line[0] == '%' }
