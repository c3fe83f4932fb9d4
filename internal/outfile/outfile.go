// Package outfile decides which files a run of the command may write.
//
// A run writes no file that it reads, and no file twice, under whatever names: hard links, symbolic
// links and other spellings are the same file. It replaces an existing file only by one of the same
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

// Refused is the error of a command line with outputs that would destroy something. Nothing has
// been written.
type Refused struct{ text string }

func (r *Refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return &Refused{fmt.Sprintf(format, args...)} }

// Kind is what an output holds.
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

// HeadSize is the number of bytes by which files are told apart.
const HeadSize = 4096

// begins recognizes files that begin with a pattern, in any case and after white space.
func begins(pattern string) func(*os.File) bool {
	shape := regexp.MustCompile(`(?i)^\s*` + pattern)
	return func(f *os.File) bool {
		head, err := io.ReadAll(io.LimitReader(f, HeadSize))
		return err == nil && shape.Match(head)
	}
}

// fileID is a file of the run.
type fileID struct {
	name string      // as messages have it
	path string      // after links
	info fs.FileInfo // nil for a file that does not exist yet
}

// sameFile reports whether two names lead to one file that keeps its content. Terminals, /dev/null,
// pipes and sockets may be both ends of a run.
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
	stdout        *os.File // nil if the verb prints nothing, or not to a file
}

// New plans a run that reads files, in which Stdin is standard input. It compares only streams that
// are an *os.File. It refuses a standard output that is an input: a shell has opened it by >>.
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
		if err == nil && in.info != nil { // who opens it reports what is missing
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

// add adds an output, unless it is another file of the run.
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

// Writes adds the file of a flag, or of an argument if flag is empty. It refuses an existing file
// of another kind, and returns an error if the file cannot be written. prints says that the verb
// prints to standard output as well.
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
		return refuse("%s: /dev/stdout is standard output, and ./%s a file that is called so", role, name)
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
		return nil // opening a pipe waits for its reader
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

// descriptor adds an output that a shell has opened: whatever it holds was meant to be there.
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
