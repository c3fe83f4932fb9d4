package core

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// Byte strings are saved with their lengths. So a table with keys and values of fixed length and a
// table with variable lengths can load each other's streams, if all lengths fit:
//
//	frame    number of pairs n > 0 (uint32), lengths of n keys and of n values (uint32 each),
//	         the keys, the values, CRC-32C
//
// The lengths in a frame add up to at most frameBytes, so that a wrong length in a damaged stream
// costs little memory. A single pair is always shorter.
const frameBytes = 1 << 24

// writeStringFrame writes one frame with rows [lo,end) and returns end. end is hi, or less if the
// rows up to hi exceed frameBytes.
func (w *writer) writeStringFrame(p *Page, lo, hi int) (end int) {
	size := 0
	for end = lo; end < hi; end++ {
		size += len(p.Keys.Row(end)) + len(p.Vals.Row(end))
		if size > frameBytes {
			break
		}
	}
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+8*(end-lo)), uint32(end-lo))
	var data []byte
	for _, c := range []*batch.Column{&p.Keys, &p.Vals} {
		for i := lo; i < end; i++ {
			head = binary.LittleEndian.AppendUint32(head, uint32(len(c.Row(i))))
			data = append(data, c.Row(i)...)
		}
	}
	w.Sealed(head, data)
	return end
}

// readStringLengths reads the lengths of n pairs. It returns the updated CRC and the total lengths
// of the keys and of the values.
func (r *reader) readStringLengths(n int, crc uint32) (sum uint32, keys, vals int, err error) {
	r.lengths = slices.Grow(r.lengths[:0], 8*n)[:8*n]
	if err := r.readFull(r.lengths); err != nil {
		return crc, 0, 0, err
	}
	for i := range n {
		keys, vals = keys+r.length(i), vals+r.length(n+i)
	}
	if keys+vals > frameBytes {
		err = fmt.Errorf("%w: damaged before byte %d: a frame of %d bytes", op.ErrFormat, r.at, keys+vals)
	}
	return crc32.Update(crc, seal.Castagnoli, r.lengths), keys, vals, err
}

func (r *reader) length(i int) int { return int(binary.LittleEndian.Uint32(r.lengths[4*i:])) }

// stringColumns checks the lengths of the n pairs of a frame and returns the pairs as columns.
func (t *Table) stringColumns(r *reader, n int) (keys, vals batch.Column, err error) {
	for i := range n {
		if err := t.ValidateLengths(r.length(i), r.length(n+i)); err != nil {
			return keys, vals, fmt.Errorf("%w: pair %d: %w", op.ErrFormat, r.pairs+uint64(i), err)
		}
	}
	if !t.Strings {
		return batch.Input(r.keys).WithWidth(t.Widths.Key), batch.Input(r.vals).WithWidth(t.Widths.Val), nil
	}
	column := func(data []byte, first int) batch.Column {
		spans, at := make([]batch.Span, n), uint64(0)
		for i := range spans {
			length := uint64(r.length(first + i))
			spans[i] = batch.SpanOf(at, length)
			at += length
		}
		return batch.Strings(data, spans)
	}
	return column(r.keys, 0), column(r.vals, n), nil
}
