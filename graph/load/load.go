package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/enum"
)

// File is the content of a graph file.
type File struct {
	graph.Edges
	// Weights holds the weight of each edge, or is nil if the edges have no weights. A weight that
	// is written as an integer is exact. Integers beyond 2^53 are an error.
	Weights []float64
	// Integral reports whether all weights are integers.
	Integral bool
	// Directed reports whether the format specifies directed edges.
	Directed bool
	// Names holds the names of the vertices in the file.
	Names *Names
	// Format is the format of the file.
	Format Format
	// Header reports whether the first line was read as counts or column names.
	Header bool
	// VertexWeights reports whether METIS vertices have sizes or weights, which Read drops.
	VertexWeights bool
}

// Header specifies how to read the first line of an edge list or a CSV file.
type Header int

const (
	// HeaderAuto detects a header, as the package documentation describes.
	HeaderAuto Header = iota
	// HeaderNo reads the first line as an edge.
	HeaderNo
	// HeaderYes reads the first line as counts or column names.
	HeaderYes
)

var headers = enum.Names[Header]{Type: "load.Header", Names: []string{"auto", "no", "yes"}, Err: weft.ErrOptions}

// String returns the name of the value.
func (h Header) String() string { return headers.String(h) }

// MarshalText returns String, or weft.ErrOptions for an invalid value.
func (h Header) MarshalText() ([]byte, error) { return headers.Text(h) }

// UnmarshalText sets the value by its name, in upper or lower case, so that flag.TextVar accepts
// it.
func (h *Header) UnmarshalText(text []byte) error { return headers.Read(h, text) }

// IDs specifies the kind of vertex ids in an edge list or a CSV file.
type IDs int

const (
	// IDsAuto detects the kind of ids. If an id of the first edge looks like a number, all ids must
	// be numbers without leading zeros. Otherwise ids are strings. For EL and WEL it means
	// IDsDense.
	IDsAuto IDs = iota
	// IDsSparse reads ids as numbers of up to 64 bits. Only numbers that occur are vertices.
	IDsSparse
	// IDsDense reads ids as the numbers of vertices, from 0. Numbers that do not occur are
	// vertices, too.
	IDsDense
	// IDsStrings reads ids as strings of any bytes.
	IDsStrings
)

var idKinds = enum.Names[IDs]{Type: "load.IDs", Names: []string{"auto", "sparse", "dense", "strings"}, Err: weft.ErrOptions}

// String returns the name of the value.
func (i IDs) String() string { return idKinds.String(i) }

// MarshalText returns String, or weft.ErrOptions for an invalid value.
func (i IDs) MarshalText() ([]byte, error) { return idKinds.Text(i) }

// UnmarshalText sets the value by its name, in upper or lower case, so that flag.TextVar accepts
// it.
func (i *IDs) UnmarshalText(text []byte) error { return idKinds.Read(i, text) }

// Options configures reading. The zero value and nil detect everything from the file.
type Options struct {
	Format Format
	Header Header
	IDs    IDs
	// Separator separates the columns of CSV. The default 0 means the first of comma, semicolon,
	// tab and bar that the first line contains, tried in this order, or white space if it contains
	// none.
	Separator byte
	// From, To and Weight select columns of CSV and of edge lists, by name or by number from 1. By
	// default a line has two ids, an optional weight, and nothing else. If one of the three is set,
	// other columns are ignored. Weight may also name an attribute of networkx, which is "weight"
	// by default.
	From, To, Weight string
	// Unweighted drops weights.
	Unweighted bool
	// MaxVertices bounds the number of vertices. The default is 2^28, the maximum 2^32-1.
	MaxVertices int
	// Progress, if not nil, is called with the number of bytes of the file that have been read
	// since its last call.
	Progress func(bytes int)
}

const (
	defaultVertices = 1 << 28
	maxVertices     = 1<<32 - 1
)

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxVertices < 0 || c.MaxVertices > maxVertices {
		return c, fmt.Errorf("load: %w: MaxVertices %d, want 1 to %d, or 0 for %d", weft.ErrOptions, c.MaxVertices, maxVertices, defaultVertices)
	}
	c.MaxVertices = cmp.Or(c.MaxVertices, defaultVertices)
	return c, nil
}

// Error reports that a file cannot be read as a graph.
type Error struct {
	File string
	Line int // from 1, or 0 if no line is known
	Err  error
}

// Error returns the position, in the form that compilers use, followed by the error.
func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

// Unwrap returns the error without its position.
func (e *Error) Unwrap() error { return e.Err }

// formatError is the error of a file that violates its format. errors.Is matches it with
// weft.ErrFormat, but its text does not contain the text of weft.ErrFormat.
type formatError struct{ text string }

func (b *formatError) Error() string        { return b.text }
func (b *formatError) Is(target error) bool { return target == weft.ErrFormat }

func malformed(format string, args ...any) error { return &formatError{fmt.Sprintf(format, args...)} }

// Open reads a graph file. It maps ids on dev.
func Open(ctx context.Context, dev device.Device, path string, opts *Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(ctx, dev, f, path, opts)
}

// Read reads a graph from a stream. The name helps to detect the format, and errors contain it.
func Read(ctx context.Context, dev device.Device, r io.Reader, name string, opts *Options) (*File, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	plain, done, err := decompress(&countingReader{ctx, r, o.Progress})
	if err != nil {
		return nil, &Error{name, 0, err}
	}
	defer done()
	s := newScanner(ctx, plain)
	f, err := read(ctx, dev, s, name, o)
	if err != nil {
		at := (*lineError)(nil)
		if errors.As(err, &at) {
			return nil, &Error{name, at.line, at.err}
		}
		return nil, &Error{name, s.line, err}
	}
	return f, nil
}

// lineError is an error in another line than the last line read.
type lineError struct {
	line int
	err  error
}

func (l *lineError) Error() string { return l.err.Error() }
func (l *lineError) Unwrap() error { return l.err }

func read(ctx context.Context, dev device.Device, s *scanner, name string, o Options) (*File, error) {
	if o.Format == Auto {
		o.Format = detect(filepath.Base(name), s.peek())
	}
	if mark := s.peek()[:min(2, len(s.peek()))]; string(mark) == "\xff\xfe" || string(mark) == "\xfe\xff" {
		return nil, malformed("text of UTF-16; \"iconv -f UTF-16 -t UTF-8 FILE\" writes it as UTF-8, which is read")
	}
	if bytes.IndexByte(s.peek(), 0) >= 0 {
		return nil, malformed("binary data, not text")
	}
	// Other formats would read the banner as a comment, and the sizes as an edge.
	if isMatrix(s.peek()) && o.Format != MatrixMarket {
		return nil, malformed("the file begins as Matrix Market does; --format mtx reads it")
	}
	f := &File{Format: o.Format}
	e := &edges{ctx: ctx, dev: dev, file: f, max: o.MaxVertices, unweighted: o.Unweighted}
	defer e.close()
	var err error
	switch o.Format {
	case MatrixMarket:
		err = readMatrix(s, e)
	case EdgeList:
		err = readList(s, e, o)
	case CSV:
		err = readCSV(s, e, o)
	case DIMACS:
		err = readDIMACS(s, e)
	case METIS:
		err = readMETIS(s, e)
	case AdjList:
		err = readNeighbors(s, e, o)
	case EL, WEL:
		if o.IDs == IDsAuto {
			o.IDs = IDsDense
		}
		if o.Header == HeaderAuto {
			o.Header = HeaderNo
		}
		err = readList(s, e, o)
	default:
		err = fmt.Errorf("%w: format %d", weft.ErrOptions, o.Format)
	}
	if err == nil {
		err = s.err
	}
	if err != nil {
		return nil, err
	}
	f.Integral = f.Weights != nil && e.integral()
	return f, ctx.Err()
}

// countingReader reports the number of bytes read, and returns an error once its context ends.
type countingReader struct {
	ctx    context.Context
	r      io.Reader
	report func(int)
}

func (c *countingReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	if c.report != nil && n > 0 {
		c.report(n)
	}
	return n, err
}
