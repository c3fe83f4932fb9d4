package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

//go:generate go run ../../cmd/weftgen -target 80,90+ptx85 -export -struct weft::Lookup -struct weft::Changes -struct weft::Winners -struct weft::Export ../../kernels/include/weft/batch.cuh

// MaxTiledKeys is the maximum number of keys in a batch that gives each key its own tile. A tile
// then makes the dependent reads of one key, not those of two or four keys in turn.
const MaxTiledKeys = 1 << 14

// LookupOf returns the arguments and the grid of a kernel that looks up each key of a batch by a
// tile of the given number of lanes. The kernel adds the number of keys found to hits unless hits
// is 0.
func LookupOf(b *batch.Batch, hits device.Ptr, lanes int) (Lookup, device.Dim) {
	l := Lookup{
		Keys: b.Columns[batch.Keys].Ptr, Vals: b.Columns[batch.Vals].Ptr, Found: b.Columns[batch.OK].Ptr,
		Hits: hits, N: uint64(b.N), Narrow: narrow(b),
	}
	if b.N > MaxTiledKeys {
		return l, Grid(b.N)
	}
	l.Spread = 1
	return l, Grid(b.N * lanes)
}

// changesOf returns the kernel arguments for b, a part of a batch. first is the index in the batch
// of the part's first row. The kernel lists the operations with outcomes that duplicates may have
// decided in contended, and those that overflow in failed.
func changesOf(b *batch.Batch, first int, ok device.Ptr, contended, failed List) Changes {
	c := Changes{
		Keys: b.Columns[batch.Keys].Ptr, Vals: b.Columns[batch.Vals].Ptr, Kinds: b.Columns[batch.Kinds].Ptr,
		Out: b.Columns[batch.Out].Ptr, Ok: ok, Removed: b.Columns[batch.Counts].Ptr,
		Contended: contended, Failed: failed,
		N: uint32(b.N), First: uint32(first), Kind: uint32(b.Kind), Flags: uint32(b.Flags &^ batch.Report), Narrow: narrow(b),
	}
	if !b.Ordered() {
		c.Flags &^= uint32(batch.Order)
	}
	return c
}

// ExportOf returns the kernel arguments that copy the pairs of lines [lo,hi) to the columns of out.
// The lines are numbered in reading order (lines.Order). The kernel adds the number of pairs to
// count.
func ExportOf(out *batch.Batch, lines *core.Lines, lo, hi uint32, count device.Ptr) Export {
	return Export{
		Keys: out.Columns[batch.Keys].Ptr, Vals: out.Columns[batch.Vals].Ptr, Count: count, Rows: uint64(out.N),
		Lo: lo, Hi: hi, Step: lines.Order.Step(), Narrow: narrow(out),
	}
}

// narrow returns a mask of the columns that have elements of 32 bits. Kernels that accept any
// widths read the mask (widths.cuh).
func narrow(b *batch.Batch) (bits uint32) {
	const keys, vals = 1, 2
	if b.Columns[batch.Keys].Width == 4 {
		bits |= keys
	}
	if b.Columns[batch.Vals].Width == 4 || b.Columns[batch.Out].Width == 4 {
		bits |= vals
	}
	return bits
}
