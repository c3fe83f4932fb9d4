package gphash

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Bytes is a column of byte strings: row i is Data[Offsets[i]:Offsets[i+1]]. The zero Bytes has no
// rows.
type Bytes struct {
	Offsets []uint64 // ascending; one more than rows
	Data    []byte
}

// BytesOf returns a column with copies of the given rows.
func BytesOf[S ~[]byte | ~string](rows ...S) (b Bytes) {
	size := 0
	for _, row := range rows {
		size += len(row)
	}
	b.Offsets, b.Data = make([]uint64, 1, len(rows)+1), make([]byte, 0, size)
	for _, row := range rows {
		b.Data = append(b.Data, row...)
		b.Offsets = append(b.Offsets, uint64(len(b.Data)))
	}
	return b
}

// Len returns the number of rows.
func (b *Bytes) Len() int { return max(0, len(b.Offsets)-1) }

// Row returns row i without copying it.
func (b *Bytes) Row(i int) []byte { return b.Data[b.Offsets[i]:b.Offsets[i+1]:b.Offsets[i+1]] }

// Append appends a row.
func (b *Bytes) Append(row []byte) {
	if len(b.Offsets) == 0 {
		b.Offsets = append(b.Offsets, uint64(len(b.Data)))
	}
	b.Data = append(b.Data, row...)
	b.Offsets = append(b.Offsets, uint64(len(b.Data)))
}

// Reset drops all rows but keeps the allocated memory for new rows.
func (b *Bytes) Reset() { b.Offsets, b.Data = b.Offsets[:0], b.Data[:0] }

// column checks the lengths of the rows and returns them as a column of a batch. Rows for which
// used returns false become empty.
func (b *Bytes) column(name string, l lengths, used func(i int) bool) (c batch.Column, err error) {
	spans := make([]batch.Span, b.Len())
	for i := range spans {
		lo, hi := b.Offsets[i], b.Offsets[i+1]
		switch {
		case hi < lo || hi > uint64(len(b.Data)):
			return c, fmt.Errorf("%w: %s %d lies at %d to %d of %d bytes", device.ErrInvalid, name, i, lo, hi, len(b.Data))
		case !used(i):
		case hi-lo > maxValue || !l.contains(int(hi-lo)):
			return c, fmt.Errorf("%w: %s %d has %d bytes, not %v", device.ErrInvalid, name, i, hi-lo, l)
		default:
			spans[i] = batch.SpanOf(lo, hi-lo)
		}
	}
	return batch.Strings(b.Data, spans), nil
}
