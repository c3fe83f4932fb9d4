package graph

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// A saved graph is a stream of little-endian bytes that says nothing of the layout:
//
//	header    "WEFTGRF1", letter and bits of the type of weights, flags, 0, number
//	          of records (uint32), CRC-32C
//	vertices  1, n (uint32 each), n vertices that are there, CRC-32C
//	edges     2, n, n sources, n targets, n weights, CRC-32C
//	…
//	end       0, 0, numbers of all vertices and edges (uint64 each), CRC-32C
//
// Of an undirected graph an edge is there once. Each CRC covers its own part. A part has at most frameRows rows, so what
// a damaged stream claims costs little memory.
const (
	magic     = "WEFTGRF1"
	frameRows = 1 << 16

	tagEnd, tagVertices, tagEdges = 0, 1, 2

	savedDirected, savedLoops, savedMulti = 1, 2, 4
)

func (g *store) savedFlags() (flags byte) {
	if g.opts.Directed {
		flags |= savedDirected
	}
	if g.opts.SelfLoops {
		flags |= savedLoops
	}
	if g.opts.Multi {
		flags |= savedMulti
	}
	return flags
}

type saver struct {
	seal.Writer
	vertices, edges uint64
}

// frame writes n rows.
func (w *saver) frame(tag uint32, n int, columns ...[]byte) {
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, tag), uint32(n))
	parts := [][]byte{head}
	for _, c := range columns {
		if len(c) > 0 {
			parts = append(parts, c)
		}
	}
	w.Sealed(parts...)
}

// save writes what a view has, rows of some vertices at a time.
func (g *store) save(ctx context.Context, v *view, to io.Writer) error {
	w := &saver{Writer: seal.NewWriter(to, 1<<20)}
	head := append([]byte(magic), g.letter(), byte(8*g.weight), g.savedFlags(), 0)
	w.Sealed(binary.LittleEndian.AppendUint32(head, uint32(v.vertices)))
	alive, err := g.engine.alive(ctx, v)
	if err != nil {
		return err
	}
	w.vertexFrames(alive, v.vertices)
	e := edgeFrames{saver: w, weight: v.weight}
	for lo := 0; lo < v.vertices && w.Err == nil; lo += frameRows {
		some := make([]uint32, min(frameRows, v.vertices-lo))
		for i := range some {
			some[i] = uint32(lo + i)
		}
		r, err := g.rowsOf(ctx, v, some, len(some))
		if err != nil {
			return err
		}
		for i, u := range some {
			for at := r.offsets[i]; at < r.offsets[i+1]; at++ {
				if g.opts.Directed || u <= r.ids[at] {
					e.add(u, r.ids[at], r.weights[int(at)*v.weight:(int(at)+1)*v.weight])
				}
			}
		}
	}
	e.flush()
	w.frame(tagEnd, 0, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, w.vertices), w.edges))
	return w.Flush()
}

// letter is that of the type of weights, as files know it; 0 for none.
func (g *store) letter() byte { return g.weights.Letter }

func (w *saver) vertexFrames(alive []uint32, vertices int) {
	ids := make([]uint32, 0, frameRows)
	flush := func() {
		if len(ids) > 0 {
			w.frame(tagVertices, len(ids), device.Bytes(ids))
			w.vertices += uint64(len(ids))
			ids = ids[:0]
		}
	}
	for u := range uint32(vertices) {
		if alive[u/32]>>(u%32)&1 != 0 {
			if ids = append(ids, u); len(ids) == frameRows {
				flush()
			}
		}
	}
	flush()
}

// edgeFrames collects edges.
type edgeFrames struct {
	*saver
	weight   int
	from, to []uint32
	weights  []byte
}

func (e *edgeFrames) add(u, v uint32, weight []byte) {
	e.from, e.to, e.weights = append(e.from, u), append(e.to, v), append(e.weights, weight...)
	if len(e.from) == frameRows {
		e.flush()
	}
}

func (e *edgeFrames) flush() {
	if n := len(e.from); n > 0 {
		e.frame(tagEdges, n, device.Bytes(e.from), device.Bytes(e.to), e.weights)
		e.edges += uint64(n)
	}
	e.from, e.to, e.weights = e.from[:0], e.to[:0], e.weights[:0]
}

// loader reads a stream.
type loader struct {
	*store
	in              io.Reader
	vertices, edges uint64
	from, to        []uint32 // that have been read and not been inserted
	weights         []byte
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", weft.ErrFormat, fmt.Sprintf(format, args...))
}

// sealed reads so many bytes behind those that have been read, and checks all against the CRC behind.
func (l *loader) sealed(before []byte, n int) ([]byte, error) {
	b := make([]byte, n+4)
	if _, err := io.ReadFull(l.in, b); err != nil {
		return nil, cut(err)
	}
	crc := crc32.Update(crc32.Checksum(before, seal.Castagnoli), seal.Castagnoli, b[:n])
	if crc != binary.LittleEndian.Uint32(b[n:]) {
		return nil, damaged("a part behind %d vertices and %d edges has another checksum", l.vertices, l.edges)
	}
	return b[:n:n], nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends early")
	}
	return err
}

func (g *store) load(ctx context.Context, in io.Reader) error {
	l := &loader{store: g, in: in}
	if err := l.header(); err != nil {
		return err
	}
	for {
		more, err := l.frame(ctx)
		if err == nil && (!more || len(l.from) >= leastPiece) {
			err = l.insert(ctx)
		}
		if err != nil || !more {
			return err
		}
	}
}

func (l *loader) header() error {
	const bytes = len(magic) + 8
	h, err := l.sealed(nil, bytes)
	if err != nil {
		return err
	}
	if string(h[:len(magic)]) != magic {
		return damaged("it does not begin with %q", magic)
	}
	letter, bits, flags, records := h[8], h[9], h[10], binary.LittleEndian.Uint32(h[12:])
	if letter != l.letter() || int(bits) != 8*l.weight {
		return damaged("its weights are of type %q with %d bits, those of this graph %q with %d", letter, bits, l.letter(), 8*l.weight)
	}
	if (flags^l.savedFlags())&savedDirected != 0 {
		return damaged("one is directed, the other is not: the stream's flags are %d, those of this graph %d", flags, l.savedFlags())
	}
	if uint64(records) > uint64(l.opts.MaxVertices) {
		return fmt.Errorf("%w: %d vertices, MaxVertices is %d", weft.ErrOptions, records, l.opts.MaxVertices)
	}
	return nil
}

// frame reads one part.
func (l *loader) frame(ctx context.Context) (more bool, err error) {
	var head [8]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return false, cut(err)
	}
	tag, n := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint32(head[4:]))
	width := map[uint32]int{tagVertices: 4, tagEdges: 8 + l.weight}[tag]
	switch {
	case tag > tagEdges || n > frameRows || (n == 0) != (tag == tagEnd):
		return false, damaged("a part of kind %d with %d rows", tag, n)
	case tag == tagEnd:
		return false, l.end(head[:])
	}
	b, err := l.sealed(head[:], n*width)
	if err != nil {
		return false, err
	}
	first := append([]uint32(nil), batch.View[uint32](b[:4*n])...)
	if tag == tagVertices {
		l.vertices += uint64(n)
		_, err = l.changeVertices(ctx, "vertices", first, l.engine.insertVertices)
		return true, err
	}
	l.edges += uint64(n)
	l.from, l.to = append(l.from, first...), append(l.to, batch.View[uint32](b[4*n:8*n])...)
	l.weights = append(l.weights, b[8*n:]...)
	return true, nil
}

func (l *loader) end(head []byte) error {
	b, err := l.sealed(head, 16)
	if err != nil {
		return err
	}
	if v, e := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]); v != l.vertices || e != l.edges {
		return damaged("it says that it has %d vertices and %d edges, and has %d and %d", v, e, l.vertices, l.edges)
	}
	return nil
}

// insert inserts what has been read.
func (l *loader) insert(ctx context.Context) error {
	var vals batch.Column
	if l.weight > 0 {
		vals = batch.In(aligned(l.weights)).Of(l.weight)
	}
	_, err := l.change(ctx, nil, "edges", edgeBatch(op.Put, l.from, l.to, vals, nil))
	l.from, l.to, l.weights = l.from[:0], l.to[:0], l.weights[:0]
	return err
}

// aligned is a copy of bytes at an address for words of any width.
func aligned(b []byte) []byte {
	c := device.Bytes(make([]uint64, (len(b)+7)/8))[:len(b)]
	copy(c, b)
	return c
}
