// Package outfile decides which files a run of the command may write.
//
// A run must not write a file that it reads, nor a file twice. Hard links, symbolic links and other
// spellings of a name are the same file. A run replaces an existing file only by one of the same
// kind: in "--parquet in1.csv in2.csv" the user forgot the file of --parquet, and in1.csv is kept.
// Package atomicfile then writes the permitted files.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/weftgo/weft/internal/atomicfile"
)

// Stdin is the name of standard input.
const Stdin = "-"

// Refused is the error for an output that would overwrite a file of the run or a file of another
// kind. Nothing has been written.
type Refused struct{ text string }

func (r *Refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return &Refused{fmt.Sprintf(format, args...)} }

// Kind is a kind of output file.
type Kind struct {
	Name string // with its article: "an SVG image"
	// Is reports whether a file is of this kind.
	Is func(f *os.File) bool
}

// The kinds of files that several commands write.
var (
	SVG  = Kind{"an SVG image", begins(`(<[?!][^>]*>\s*)*<svg\b`)}
	HTML = Kind{"an HTML page", begins(`<!doctype html\b`)}
)

// HeadSize is the number of leading bytes that determine the kind of a file.
const HeadSize = 4096

// begins returns a function that reports whether a file begins with a pattern, after white space.
// It ignores upper and lower case.
func begins(pattern string) func(*os.File) bool {
	shape := regexp.MustCompile(`(?i)^\s*` + pattern)
	return func(f *os.File) bool {
		head, err := io.ReadAll(io.LimitReader(f, HeadSize))
		return err == nil && shape.Match(head)
	}
}

// fileID identifies a file of the run.
type fileID struct {
	name string      // name in messages
	path string      // path after links are resolved
	info fs.FileInfo // nil if the file does not exist yet
}

// sameFile reports whether p and o are the same file. It returns false for a terminal, /dev/null, a
// pipe or a socket. These do not keep their content, so they may be both input and output.
func (p *fileID) sameFile(o *fileID) bool {
	switch {
	case p.info != nil && o.info != nil:
		return os.SameFile(p.info, o.info) && p.info.Mode()&(fs.ModeCharDevice|fs.ModeNamedPipe|fs.ModeSocket) == 0
	case p.info != nil || o.info != nil || p.path == "" || o.path == "":
		return false
	}
	a, errA := os.Stat(filepath.Dir(p.path))
	b, errB := os.Stat(filepath.Dir(o.path))
	return errA == nil && errB == nil && os.SameFile(a, b) && filepath.Base(p.path) == filepath.Base(o.path)
}

// Plan holds the files of one run.
type Plan struct {
	read, written []fileID
	stdout        *os.File // nil if standard output is not an *os.File
}

// New plans a run that reads the given files. The name Stdin is standard input. It compares streams
// only if they are an *os.File. It refuses a standard output that is also an input, as with >> in a
// shell.
func New(inputs []string, stdin io.Reader, stdout io.Writer) (*Plan, error) {
	p := &Plan{}
	for _, name := range inputs {
		in, err := fileID{name: name}, error(nil)
		if name != Stdin {
			in.info, err = os.Stat(name)
		} else if f, ok := stdin.(*os.File); ok {
			in.name = "standard input"
			in.info, err = f.Stat()
		}
		if err == nil && in.info != nil { // opening the file later reports why it is missing
			p.read = append(p.read, in)
		}
	}
	if f, ok := stdout.(*os.File); ok {
		out := fileID{name: "standard output"}
		var err error
		if out.info, err = f.Stat(); err == nil {
			p.stdout = f
			return p, p.add(out, "standard output")
		}
	}
	return p, nil
}

// add adds an output. It refuses one that is another file of the run.
func (p *Plan) add(out fileID, role string) error {
	for i := range p.read {
		if in := &p.read[i]; in.sameFile(&out) {
			return refuse("%s: it is the input %s, which would be overwritten", role, in.name)
		}
	}
	for i := range p.written {
		if other := &p.written[i]; other.sameFile(&out) {
			return refuse("%s: %s is the same file", role, other.name)
		}
	}
	p.written = append(p.written, out)
	return nil
}

// Writes adds the output file of a flag, or of an argument if flag is empty. It refuses an existing
// file of another kind, and returns an error if the file cannot be written. prints must be set if
// the run also prints to standard output.
func (p *Plan) Writes(flag, name string, kind Kind, prints bool) error {
	role := name
	if flag != "" {
		role = flag + " " + name
	}
	fail := func(err error) error {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return fmt.Errorf("%s: %w", role, err)
	}
	if name == Stdin {
		return refuse("%s: write /dev/stdout for standard output, or ./%s for a file of that name",
			role, name)
	}
	path, err := atomicfile.Resolve(name)
	if err != nil {
		return fail(err)
	}
	out := fileID{name: role, path: path}
	out.info, err = os.Stat(path)
	switch {
	case err == nil && out.info.IsDir():
		return fail(syscall.EISDIR)
	case err == nil && atomicfile.IsDescriptor(path):
		return p.descriptor(out, role, prints)
	case err == nil && out.info.Mode().IsRegular():
	case errors.Is(err, fs.ErrNotExist):
		out.info = nil
	case err != nil:
		return fail(err)
	}
	if err := p.add(out, role); err != nil {
		return err
	}
	if out.info != nil && !out.info.Mode().IsRegular() {
		return nil // opening a pipe would wait for its reader
	}
	if out.info != nil && out.info.Size() > 0 {
		f, err := os.Open(path)
		if err != nil {
			return fail(err)
		}
		defer f.Close()
		if !kind.Is(f) {
			return refuse("%s: the file exists and is not %s; remove it first to replace it", role, kind.Name)
		}
	}
	trial, err := atomicfile.Create(name)
	if err != nil {
		return fail(err)
	}
	trial.Abort()
	return nil
}

// descriptor adds an output that a shell has opened. Its content is intended and not checked.
func (p *Plan) descriptor(out fileID, role string, prints bool) error {
	if p.stdout != nil {
		if info, err := p.stdout.Stat(); err == nil && os.SameFile(info, out.info) {
			if prints {
				return refuse("%s: it is standard output, where other results go", role)
			}
			return nil // New has compared it with the inputs
		}
	}
	return p.add(out, role)
}
