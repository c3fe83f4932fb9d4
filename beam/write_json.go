package beam

import (
	"bytes"
	"io"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// WriteJSON writes blocks to the given number of JSON files, which have names such as
// PREFIX-00000-of-00003.json. Each line is an object with a member for each column. Values that are
// not JSON numbers, such as NaN and dates, are strings. Bytes that are not UTF-8 are an object with
// a member base64. Types without text, such as lists, fail the pipeline. See [WriteParquet] for
// files and bundles.
func WriteJSON(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	return writeFiles(s.Scope("weft.WriteJSON"), "json", prefix, files, blocks)
}

// jsonLines converts the document that package table writes to one object per line. The first line
// of the document is {"rows":[ and the last begins with ]. Each other line is a row and a comma.
type jsonLines struct {
	to    io.Writer
	line  []byte // start of an incomplete line
	begun bool   // the first line has passed
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
