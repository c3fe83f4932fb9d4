package gphash

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/pm"
)

// Batches on records have keys and values as byte strings in their columns. The results of a lookup
// have varying lengths. So a lookup first stores the places of the records and the lengths of their
// values, and then Expand copies the values. No change runs alongside lookups, so the records stay
// in place in between.

// readRecord completes the lookup of a key. The found record has the key's hash, and readRecord
// checks that it also has the key.
func (l *lookups) readRecord(f *lookup) {
	if !l.values.hasKey(f.control.block(), f.key) { // another key with the same hash was found
		_, c, ok := l.table.find(&f.item)
		if f.control = c; !ok {
			l.hits--
			l.setResult(f.row, false)
			return
		}
	}
	if lengths := l.Columns[batch.Counts].Host; lengths != nil {
		h, _ := l.values.record(f.control.block())
		batch.View[uint32](lengths)[f.row] = uint32(h.valueLen())
		batch.View[uint64](l.Columns[batch.Out].Host)[f.row] = f.control.block()
	}
}

// Expand implements [core.Expander]. It copies the values of the records that a lookup found.
func (e *engine) Expand(ctx context.Context, s *device.Stream, _ *core.Lease, b *batch.Batch) error {
	if err := cpu.SyncStream(s); err != nil {
		return err
	}
	blocks, to := batch.View[uint64](b.Columns[batch.Out].Host), &b.Columns[batch.Vals]
	prefetch := func(ops []uint32, items *[cpu.Group]uint64) {
		var lines [cpu.Group]unsafe.Pointer
		n := 0
		for j, i := range ops {
			if items[j] = blocks[i]; blocks[i] != 0 && e.mem.At(blocks[i]) != nil {
				lines[n], n = e.mem.At(blocks[i]), n+1
			}
		}
		cpu.PrefetchPairs(lines[:n])
	}
	_, _, err := e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, _ int) {
		return cpu.RunPrefetched(w, rowRange(lo, hi), cpu.Group, prefetch, func(i uint32, block uint64) {
			if block != 0 {
				at := to.Offsets[i] - to.Offsets[0]
				e.values.appendValue(block, to.Host[at:at:at+to.Offsets[i+1]-to.Offsets[i]])
			}
		}), 0
	})
	return err
}

// PairBytes implements [core.Measurer].
func (e *engine) PairBytes(*core.Lease) int {
	return e.values.recordBytes(int(e.Parts().(*parts).counters.Live))
}

// recordBytes returns the memory of all records divided by n.
func (v *values) recordBytes(n int) int {
	words := uint64(0)
	for i := range v.space.owner {
		if x := v.space.owner[i].extent.Load(); x != nil && x.unit == uint64(i) {
			words += (x.layout.perUnit - x.nFree) * x.layout.words
		}
	}
	return int(words) * pm.Word / max(n, 1)
}

// exportRecord copies the key and the value of a record to row n. If no record lies at block, the
// row stays empty.
func (r *rows) exportRecord(n int, block uint64) {
	h, ok := r.values.record(block)
	if !ok {
		h, block = 0, r.values.first
	}
	r.mem.Read(block+1, r.Columns[batch.Keys].Extend(n, h.keyLen()))
	r.mem.Read(block+h.valueOffset(), r.Columns[batch.Vals].Extend(n, h.valueLen()))
}

type foundValues struct {
	data []byte
	rows []uint32
}

// add appends a value for row i of a column to f.
func (f *foundValues) add(to *batch.Column, i uint32, value []byte) {
	column := *to
	column.Data = &f.data
	copy(column.Extend(int(i), len(value)), value)
	f.rows = append(f.rows, i)
}

// appendTo appends the values in f to the data of a column.
func (f *foundValues) appendTo(to *batch.Column) {
	if len(f.rows) == 0 {
		return
	}
	spans, base := batch.View[batch.Span](to.Host), len(*to.Data)
	*to.Data = append(*to.Data, f.data...)
	for _, i := range f.rows {
		spans[i] = spans[i].Shift(base)
	}
}
