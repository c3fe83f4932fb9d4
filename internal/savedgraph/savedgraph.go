// Package savedgraph reads and writes saved graphs: a stream of little-endian bytes. The format
// does not depend on the layout of a graph, so any structure can load what another one saved.
//
//	header    "WEFTGRF1", letter and bits of the type of weights, flags, 0, the
//	          exclusive limit of vertices with neighbors (uint32), CRC-32C
//	vertices  1, n (uint32 each), n vertices that exist, CRC-32C
//	edges     2, n, n sources, n targets, n weights, CRC-32C
//	…
//	end       0, 0, counts of all vertices and edges (uint64 each), CRC-32C
//
// An undirected graph stores each edge once. A structure in which all vertices exist saves no
// vertices. Each CRC covers its own part. A part has at most frameRows rows, so that a damaged
// stream cannot make Load allocate much memory.
package savedgraph

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

const (
	magic     = "WEFTGRF1"
	frameRows = 1 << 16

	tagEnd, tagVertices, tagEdges = 0, 1, 2

	// minEdges is the minimum number of edges in a call of Graph.Edges, except the last.
	minEdges = 1 << 20
)

// Flags describe a graph.
const (
	Directed = 1 << iota
	Loops
	Multi
)

// Kind describes a graph. Load compares the kind of the stream with the kind of the graph.
type Kind struct {
	Letter byte // letter of the type of weights; 0 without weights
	Weight int  // size of a weight in bytes: 0, 4 or 8
	Flags  byte
}

// ---- writing ------------------------------------------------------------------

// Writer writes a graph to a stream.
type Writer struct {
	out             seal.Writer
	weight          int
	vertices, edges uint64

	ids      []uint32
	from, to []uint32
	weights  []byte
}

// NewWriter writes the header of a graph to a stream. All vertices with neighbors must be less than
// limit.
func NewWriter(to io.Writer, k Kind, limit int) *Writer {
	w := &Writer{out: seal.NewWriter(to, 1<<16), weight: k.Weight}
	head := append([]byte(magic), k.Letter, byte(8*k.Weight), k.Flags, 0)
	w.out.Sealed(binary.LittleEndian.AppendUint32(head, uint32(limit)))
	return w
}

// Err returns the first error of the stream.
func (w *Writer) Err() error { return w.out.Err }

// frame writes a part with n rows in columns. tag is the kind of the part.
func (w *Writer) frame(tag uint32, n int, columns ...[]byte) {
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, tag), uint32(n))
	parts := [][]byte{head}
	for _, c := range columns {
		if len(c) > 0 {
			parts = append(parts, c)
		}
	}
	w.out.Sealed(parts...)
}

// Vertex writes a vertex. All vertices must be written before the edges.
func (w *Writer) Vertex(u uint32) {
	if w.ids = append(w.ids, u); len(w.ids) == frameRows {
		w.flush()
	}
}

// Edge writes an edge. It reads the first Kind.Weight bytes of weight.
func (w *Writer) Edge(u, v uint32, weight []byte) {
	w.from, w.to, w.weights = append(w.from, u), append(w.to, v), append(w.weights, weight[:w.weight]...)
	if len(w.from) == frameRows {
		w.flush()
	}
}

// flush writes the collected rows, vertices before edges.
func (w *Writer) flush() {
	if n := len(w.ids); n > 0 {
		w.frame(tagVertices, n, device.Bytes(w.ids))
		w.vertices += uint64(n)
	}
	if n := len(w.from); n > 0 {
		w.frame(tagEdges, n, device.Bytes(w.from), device.Bytes(w.to), w.weights)
		w.edges += uint64(n)
	}
	w.ids, w.from, w.to, w.weights = w.ids[:0], w.from[:0], w.to[:0], w.weights[:0]
}

// End writes the end mark. Load reports a stream without end mark as truncated.
func (w *Writer) End() error {
	w.flush()
	w.frame(tagEnd, 0, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, w.vertices), w.edges))
	return w.out.Flush()
}

// ---- reading ------------------------------------------------------------------

// Graph receives the vertices and edges of a loaded graph. It must not keep the slices after a
// call.
type Graph interface {
	Vertices(ctx context.Context, ids []uint32) error
	// Edges receives edges. weights is aligned for words of any width.
	Edges(ctx context.Context, from, to []uint32, weights []byte) error
}

type reader struct {
	Graph
	in              io.Reader
	kind            Kind
	vertices, edges uint64
	from, to        []uint32 // edges that have not been passed to Edges
	weights         []byte
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", op.ErrFormat, fmt.Sprintf(format, args...))
}

// Load reads a stream and passes it to a graph of kind k. If the stream is damaged, truncated or of
// another kind, Load returns op.ErrFormat; the graph may already have received parts before the
// damage. If the limit of vertices in the header exceeds maxVertices, Load returns op.ErrOptions.
func Load(ctx context.Context, in io.Reader, k Kind, maxVertices int, to Graph) error {
	r := &reader{Graph: to, in: in, kind: k}
	if err := r.readHeader(maxVertices); err != nil {
		return err
	}
	for {
		more, err := r.readFrame(ctx)
		if err == nil && (!more || len(r.from) >= minEdges) {
			err = r.flushEdges(ctx)
		} else if errors.Is(err, op.ErrFormat) { // the edges before the damage stay
			err = errors.Join(err, r.flushEdges(ctx))
		}
		if err != nil || !more {
			return err
		}
	}
}

// readChecked reads n bytes and a CRC, and returns the n bytes. The CRC must cover the bytes in
// before, followed by the n bytes.
func (r *reader) readChecked(before []byte, n int) ([]byte, error) {
	b := make([]byte, n+4)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, truncated(err)
	}
	crc := crc32.Update(crc32.Checksum(before, seal.Castagnoli), seal.Castagnoli, b[:n])
	if crc != binary.LittleEndian.Uint32(b[n:]) {
		return nil, damaged("the checksum of the part after %d vertices and %d edges does not match", r.vertices, r.edges)
	}
	return b[:n:n], nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends early")
	}
	return err
}

func (r *reader) readHeader(maxVertices int) error {
	const bytes = len(magic) + 8
	h, err := r.readChecked(nil, bytes)
	if err != nil {
		return err
	}
	if string(h[:len(magic)]) != magic {
		return damaged("it does not begin with %q", magic)
	}
	letter, bits, flags, limit := h[8], h[9], h[10], binary.LittleEndian.Uint32(h[12:])
	if letter != r.kind.Letter || int(bits) != 8*r.kind.Weight {
		return damaged("its weights are of type %q with %d bits, but those of this graph are %q with %d", letter, bits, r.kind.Letter, 8*r.kind.Weight)
	}
	if (flags^r.kind.Flags)&Directed != 0 {
		return damaged("one is directed, the other is not: the stream's flags are %d, those of this graph %d", flags, r.kind.Flags)
	}
	if uint64(limit) > uint64(maxVertices) {
		return fmt.Errorf("%w: %d vertices, MaxVertices is %d", op.ErrOptions, limit, maxVertices)
	}
	return nil
}

// readFrame reads one part. more is false if the part is the end mark.
func (r *reader) readFrame(ctx context.Context) (more bool, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return false, truncated(err)
	}
	tag, n := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint32(head[4:]))
	width := map[uint32]int{tagVertices: 4, tagEdges: 8 + r.kind.Weight}[tag]
	switch {
	case tag > tagEdges || n > frameRows || (n == 0) != (tag == tagEnd):
		return false, damaged("a part of kind %d with %d rows", tag, n)
	case tag == tagEnd:
		return false, r.checkEnd(head[:])
	}
	b, err := r.readChecked(head[:], n*width)
	if err != nil {
		return false, err
	}
	first := append([]uint32(nil), batch.View[uint32](b[:4*n])...)
	if tag == tagVertices {
		r.vertices += uint64(n)
		return true, r.Vertices(ctx, first)
	}
	r.edges += uint64(n)
	r.from, r.to = append(r.from, first...), append(r.to, batch.View[uint32](b[4*n:8*n])...)
	r.weights = append(r.weights, b[8*n:]...)
	return true, nil
}

func (r *reader) checkEnd(head []byte) error {
	b, err := r.readChecked(head, 16)
	if err != nil {
		return err
	}
	if v, e := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]); v != r.vertices || e != r.edges {
		return damaged("it says that it has %d vertices and %d edges, but it has %d and %d", v, e,
			r.vertices, r.edges)
	}
	return nil
}

// flushEdges passes the collected edges to the graph.
func (r *reader) flushEdges(ctx context.Context) error {
	err := r.Edges(ctx, r.from, r.to, batch.Aligned(r.weights))
	r.from, r.to, r.weights = r.from[:0], r.to[:0], r.weights[:0]
	return err
}
