package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/weftgo/weft/cmd/weft/internal/outfile"
	"github.com/weftgo/weft/cmd/weft/internal/table"
	"github.com/weftgo/weft/internal/atomicfile"
)

// plan plans the files of a run that reads inputs. Every verb that reads files has a plan, before it reads them:
// its standard output may be one of them.
func (a *app) plan(inputs ...string) (*outfile.Plan, error) {
	w := a.stdout
	if checked, ok := w.(*output); ok {
		w = checked.w
	}
	return outfile.New(inputs, a.stdin, w)
}

// The kinds of files that verbs write.
var (
	parquetKind = outfile.Kind{Name: "a Parquet file that weft has written", Is: table.WrittenByWeft}
	svgKind     = outfile.Kind{Name: "an SVG image", Is: contains("<svg")}
	htmlKind    = outfile.Kind{Name: "an HTML page", Is: contains("<!doctype html")}
)

// headSize is how much of a file tells its kind.
const headSize = 4096

// contains recognizes files that begin with < and soon have a tag, in any case.
func contains(tag string) func(*os.File) bool {
	return func(f *os.File) bool {
		head, err := io.ReadAll(io.LimitReader(f, headSize))
		head = bytes.ToLower(bytes.TrimSpace(head))
		return err == nil && bytes.HasPrefix(head, []byte("<")) && bytes.Contains(head, []byte(tag))
	}
}

// takesFiles fails if no file can be made in a folder.
func takesFiles(dir string) error {
	f, err := atomicfile.Create(filepath.Join(dir, ".weft"))
	if err != nil {
		return err
	}
	f.Abort()
	return nil
}

// refusedUsage reports whether an error is one of a command line.
func refusedUsage(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*outfile.Refused))
}
