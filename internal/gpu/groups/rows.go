package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

// Rows are the records of a table, in no order: their words as columns.
type Rows struct {
	layout *Layout
	Keys   []uint64 // integers extended by their sign or by zeros, floats as float64
	Counts []uint64
	words  [][]uint64
}

// Read waits for all batches and receives the records. It needs as much memory on the device as they take up, in
// words, for itself.
func (t *Table) Read(ctx context.Context) (r *Rows, err error) {
	s := t.stream
	if err := s.Wait(t.changed); err != nil {
		return nil, err
	}
	var used [1]uint32
	if err := t.head.CopyTo(ctx, s, used[:]); err != nil {
		return nil, err
	}
	words, room := t.layout.words(), int(used[0])+1
	columns, err := device.Make[uint64](t.dev, 1+words*room)
	if err != nil {
		return nil, fmt.Errorf("columns of %d groups: %w", used[0], err)
	}
	defer func() { err = errors.Join(err, s.Sync(context.WithoutCancel(ctx)), columns.Free()) }()
	p := exportParams{
		table: t.at, columns: columns.Ptr() + 8, count: columns.Ptr(), room: uint64(room), words: uint32(words),
	}
	if err := errors.Join(s.Fill(p.count, 0, 2), device.Launch(s, t.export, gpu.Wave(t.dev, t.Slots()+1), gpu.Block, &p)); err != nil {
		return nil, err
	}
	var n [1]uint64
	if err := columns.CopyTo(ctx, s, n[:]); err != nil {
		return nil, err
	}
	all := make([][]uint64, words)
	for i := range all {
		all[i] = make([]uint64, n[0])
		if err := columns.Sub(1+i*room, 1+(i+1)*room).CopyTo(ctx, s, all[i]); err != nil {
			return nil, err
		}
	}
	return &Rows{layout: &t.layout, Keys: all[0], Counts: all[1], words: all}, nil
}

// Sum is that of group i in a field of integers: 128 bits with a sign.
func (r *Rows) Sum(fieldNumber, i int) (high int64, low uint64) {
	at := r.layout.word(fieldNumber)
	small, rest := r.words[at][i], r.words[at+1][i]
	low, carry := bits.Add64(small, rest<<32, 0)
	up := int64(rest) >> 32
	if t := r.layout.Fields[fieldNumber].Type; t == Uint32 || t == Uint64 {
		up = int64(rest >> 32)
	}
	return up + int64(small)>>63 + int64(carry), low
}

// SumFloat is that of group i in a field of floats.
func (r *Rows) SumFloat(fieldNumber, i int) float64 {
	return math.Float64frombits(r.words[r.layout.word(fieldNumber)][i])
}

// Extreme is the least or the greatest value of group i, as a word like keys.
func (r *Rows) Extreme(fieldNumber, i int) uint64 {
	const sign = 1 << 63
	f := r.layout.Fields[fieldNumber]
	v := r.words[r.layout.word(fieldNumber)][i]
	if f.Type >= Float32 && v == math.MaxUint64 {
		return math.Float64bits(math.NaN())
	}
	if f.Op == Min {
		v = ^v
	}
	switch f.Type {
	case Uint32, Uint64:
		return v
	case Int32, Int64:
		return v ^ sign
	}
	if v&sign == 0 {
		return ^v
	}
	return v ^ sign
}
