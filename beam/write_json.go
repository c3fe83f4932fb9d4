package beam

import (
	"bytes"
	"io"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// WriteJSON writes blocks to a number of JSON files with an object on each line, which are called
// PREFIX-00000-of-00003.json, and so on. A column is a member, null is null. What JSON has no
// number for, such as NaN and dates, is a string, and bytes that are no UTF-8 are an object with a
// member base64. Types without text, such as lists, fail the pipeline. What holds of files, bundles
// and blocks is said at [WriteParquet].
func WriteJSON(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	return writeFiles(s.Scope("weft.WriteJSON"), "json", prefix, files, blocks)
}

// jsonLines makes lines of rows of the document that package table writes: {"rows":[ is its first
// line, each other line a row and a comma, and the last begins with ]. Values have no line breaks.
type jsonLines struct {
	to    io.Writer
	line  []byte // the beginning of a line, until its end comes
	begun bool   // after the first line
}

// Write implements io.Writer.
func (j *jsonLines) Write(b []byte) (int, error) {
	var out []byte
	n := len(b)
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			j.line = append(j.line, b...)
			break
		}
		j.line, b = append(j.line, b[:end]...), b[end+1:]
		if j.begun && j.line[0] == '{' {
			out = append(append(out, bytes.TrimSuffix(j.line, []byte{','})...), '\n')
		}
		j.begun, j.line = true, j.line[:0]
	}
	if _, err := j.to.Write(out); err != nil {
		return 0, err
	}
	return n, nil
}
