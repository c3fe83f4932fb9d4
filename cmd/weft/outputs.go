package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"

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
	svgKind     = outfile.Kind{Name: "an SVG image", Is: begins(`(<[?!][^>]*>\s*)*<svg\b`)}
	htmlKind    = outfile.Kind{Name: "an HTML page", Is: begins(`<!doctype html\b`)}
)

// headSize is how much of a file tells its kind.
const headSize = 4096

// begins recognizes files that begin with a pattern, in any case and after white space.
func begins(pattern string) func(*os.File) bool {
	shape := regexp.MustCompile(`(?i)^\s*` + pattern)
	return func(f *os.File) bool {
		head, err := io.ReadAll(io.LimitReader(f, headSize))
		return err == nil && shape.Match(head)
	}
}

// nameValue is a flag whose value is the name of a file or folder. An empty one is mostly a variable of a shell that is
// not set, and would drop what was asked for.
type nameValue struct{ name *string }

func (v nameValue) String() string {
	if v.name == nil {
		return ""
	}
	return *v.name
}

func (v nameValue) Type() string { return "string" }

func (v nameValue) Set(text string) error {
	if text == "" {
		return errors.New("want a name")
	}
	*v.name = text
	return nil
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
