package load

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/atomicfile"
)

// Create writes a graph to a file. If format is Auto, the file name determines the format. If the
// name has the suffix of a [Codec], the file is compressed. Create replaces an existing file, or
// the target of a symbolic link, after everything is written, and keeps its mode. After an error
// the existing file is unchanged.
func Create(ctx context.Context, dev device.Device, path string, f *File, format Format) (err error) {
	if format == Auto {
		if format = FormatOf(path); format == Auto {
			return fmt.Errorf("load: write %s: %w: the name does not show a known format", path,
				weft.ErrOptions)
		}
	}
	if err := writable(f, format); err != nil {
		return fmt.Errorf("load: write %s: %w", path, err)
	}
	_, c := splitSuffix(path)
	if c.Writer == nil {
		return fmt.Errorf("load: write %s: %w", path, c.unsupported())
	}
	out, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	z, err := c.Writer(out)
	if err == nil {
		err = cmp.Or(Write(ctx, dev, z, f, format), z.Close())
	}
	if err != nil {
		return err
	}
	return out.Commit()
}

// Write writes a graph in a format, uncompressed.
//
// Write returns weft.ErrOptions if the format cannot express the graph. METIS has only undirected
// graphs, with integer weights, and one weight for all equal edges. DIMACS has only integer
// weights. EL has no weights. AdjList cannot be written. Only EdgeList and CSV write the names of
// vertices. DIMACS writes an undirected edge as two arcs, and METIS drops self loops. DIMACS and
// WEL write weight 1 if the graph has no weights.
func Write(ctx context.Context, dev device.Device, w io.Writer, f *File, format Format) error {
	if err := writable(f, format); err != nil {
		return fmt.Errorf("load: write: %w", err)
	}
	out := &writer{ctx: ctx, Writer: bufio.NewWriterSize(w, 64<<10), f: f}
	switch format {
	case MatrixMarket:
		out.writeMatrix()
	case EdgeList:
		out.writeLine("# Nodes: ", f.Vertices, " Edges: ", len(f.From))
		out.writeEdges(out.names("\t", func(s string) string { return s }))
	case CSV:
		if f.Weights == nil {
			out.writeLine("source,target")
		} else {
			out.writeLine("source,target,weight")
		}
		out.writeEdges(out.names(",", quoted))
	case DIMACS:
		out.writeDIMACS()
	case METIS:
		if err := out.writeMETIS(dev); err != nil {
			return err
		}
	case EL, WEL:
		out.writeEdges(func(i int, line []byte) []byte {
			line = strconv.AppendUint(line, uint64(f.From[i]), 10)
			line = strconv.AppendUint(append(line, ' '), uint64(f.To[i]), 10)
			if format == WEL {
				line = out.appendWeight(append(line, ' '), i)
			}
			return line
		})
	}
	return cmp.Or(ctx.Err(), out.Flush())
}

// writable returns an error if a format cannot express a graph.
func writable(f *File, format Format) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", weft.ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case format == AdjList:
		return refuse("adjacency lists can be read but not written; use an edge list")
	case format < MatrixMarket || format > AdjList:
		return refuse("unknown format %d", format)
	case (format == DIMACS || format == METIS) && f.Weights != nil && !f.Integral:
		return refuse("weights of .%v are integers", format)
	case format == EL && f.Weights != nil:
		return refuse(".el files have no weights; write .wel, or use --unweighted to leave weights out")
	case format == METIS && f.Directed:
		return refuse("graphs of .%v are undirected", format)
	case format == EdgeList && f.Names != nil && f.Names.Strings():
		for v := range uint32(f.Vertices) {
			if name := f.Names.Name(v); name == "" || strings.ContainsAny(name, " \t\r\n\v\f") || isComment([]byte(name)) {
				return refuse("vertex %q is not a word; use CSV for such names", name)
			}
		}
	case format == CSV && f.Names != nil && f.Names.Strings():
		for v := range uint32(f.Vertices) {
			if name := f.Names.Name(v); strings.ContainsAny(name, "\r\n") {
				return refuse("vertex %q has an end of line in it", name)
			}
		}
	}
	return nil
}

// writer writes one graph. Its Flush returns the first error.
type writer struct {
	*bufio.Writer
	ctx  context.Context
	f    *File
	line []byte
}

func (w *writer) writeLine(words ...any) { fmt.Fprintln(w, fmt.Sprint(words...)) }

func (w *writer) writeEdges(edge func(i int, line []byte) []byte) {
	for i := range w.f.From {
		if i%linesPerCheck == 0 && w.ctx.Err() != nil {
			return
		}
		w.line = append(edge(i, w.line[:0]), '\n')
		w.Write(w.line)
	}
}

// appendWeight appends the weight of edge i, or 1 if edges have no weights.
func (w *writer) appendWeight(line []byte, i int) []byte {
	if w.f.Weights == nil {
		return append(line, '1')
	}
	return appendWeight(line, w.f.Weights[i], w.f.Integral)
}

func appendWeight(line []byte, x float64, integral bool) []byte {
	if integral {
		return strconv.AppendInt(line, int64(x), 10)
	}
	return strconv.AppendFloat(line, x, 'g', -1, 64)
}

// names returns a function that appends the names of the ends of edge i, and the weight of the
// edge, to a line. format quotes a name.
func (w *writer) names(separator string, format func(string) string) func(i int, line []byte) []byte {
	name := func(v uint32) string { return strconv.Itoa(int(v)) }
	if w.f.Names != nil {
		name = func(v uint32) string { return format(w.f.Names.Name(v)) }
	}
	return func(i int, line []byte) []byte {
		line = append(line, name(w.f.From[i])...)
		line = append(line, separator...)
		line = append(line, name(w.f.To[i])...)
		if w.f.Weights != nil {
			line = w.appendWeight(append(line, separator...), i)
		}
		return line
	}
}

// quoted returns a field of CSV, in quotes if necessary.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, "\",;|\t #%") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

func (w *writer) writeMatrix() {
	field, symmetry := "pattern", "general"
	if w.f.Weights != nil {
		if field = "real"; w.f.Integral {
			field = "integer"
		}
	}
	if !w.f.Directed {
		symmetry = "symmetric"
	}
	w.writeLine("%%MatrixMarket matrix coordinate ", field, " ", symmetry)
	w.writeLine(w.f.Vertices, " ", w.f.Vertices, " ", len(w.f.From))
	w.writeEdges(func(i int, line []byte) []byte {
		u, v := w.f.From[i], w.f.To[i]
		if !w.f.Directed { // only the lower triangle is written
			u, v = max(u, v), min(u, v)
		}
		line = strconv.AppendUint(line, uint64(u)+1, 10)
		line = strconv.AppendUint(append(line, ' '), uint64(v)+1, 10)
		if w.f.Weights != nil {
			line = w.appendWeight(append(line, ' '), i)
		}
		return line
	})
}

func (w *writer) writeDIMACS() {
	hasReverse := func(i int) bool { return !w.f.Directed && w.f.From[i] != w.f.To[i] }
	arcs := len(w.f.From)
	for i := range w.f.From {
		if hasReverse(i) {
			arcs++
		}
	}
	w.writeLine("p sp ", w.f.Vertices, " ", arcs)
	arc := func(line []byte, u, v uint32, i int) []byte {
		line = strconv.AppendUint(append(line, "a "...), uint64(u)+1, 10)
		line = strconv.AppendUint(append(line, ' '), uint64(v)+1, 10)
		return w.appendWeight(append(line, ' '), i)
	}
	w.writeEdges(func(i int, line []byte) []byte {
		line = arc(line, w.f.From[i], w.f.To[i], i)
		if hasReverse(i) {
			line = arc(append(line, '\n'), w.f.To[i], w.f.From[i], i)
		}
		return line
	})
}

func (w *writer) writeMETIS(dev device.Device) error {
	weights := w.f.Weights
	if weights == nil {
		weights = make([]float64, len(w.f.From))
	}
	g, err := graph.BuildWeighted(w.ctx, dev, w.f.Edges, weights, &graph.Options{MaxVertices: maxVertices})
	if err != nil {
		return err
	}
	for i, u := range w.f.From {
		at, ok := slices.BinarySearch(g.Neighbors(u), w.f.To[i])
		if ok && weights[i] != g.Weights(u)[at] {
			return fmt.Errorf("load: write: %w: the edge from %d to %d has weights %v and %v, but a .graph file stores one",
				weft.ErrOptions, u+1, w.f.To[i]+1, weights[i], g.Weights(u)[at])
		}
	}
	if w.f.Weights == nil {
		w.writeLine(g.Vertices(), " ", g.Edges())
	} else {
		w.writeLine(g.Vertices(), " ", g.Edges(), " 1")
	}
	for v := range uint32(g.Vertices()) {
		if v%linesPerCheck == 0 && w.ctx.Err() != nil {
			break
		}
		line := w.line[:0]
		for i, u := range g.Neighbors(v) {
			if i > 0 {
				line = append(line, ' ')
			}
			line = strconv.AppendUint(line, uint64(u)+1, 10)
			if w.f.Weights != nil {
				line = appendWeight(append(line, ' '), g.Weights(v)[i], true)
			}
		}
		w.line = append(line, '\n')
		w.Write(w.line)
	}
	return nil
}
