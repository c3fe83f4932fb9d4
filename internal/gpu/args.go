package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

//go:generate go run ../../cmd/weftgen -target 80,90+ptx85 -export -struct weft::Lookup -struct weft::Changes -struct weft::Winners -struct weft::Export ../../kernels/include/weft/batch.cuh

// MaxTiledKeys is the maximum size of batches in which each key gets its own tile, so that the
// batch takes one chain of reads and not two or four.
const MaxTiledKeys = 1 << 14

// LookupOf returns the lookup of a batch by tiles of the given number of lanes, and its grid. The
// kernel adds the number of keys found to hits unless that is 0.
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

// changesOf returns the changes of a part of a batch; first is the part's place in it. Operations
// that contend, or overflow, are listed.
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

// ExportOf returns the arguments that copy the pairs of lines number [lo,hi) to the columns of a
// batch. The kernel adds their number to count.
func ExportOf(out *batch.Batch, lines *core.Lines, lo, hi uint32, count device.Ptr) Export {
	return Export{
		Keys: out.Columns[batch.Keys].Ptr, Vals: out.Columns[batch.Vals].Ptr, Count: count, Rows: uint64(out.N),
		Lo: lo, Hi: hi, Step: lines.Order.Step(), Narrow: narrow(out),
	}
}

// narrow returns the mask of columns with 32 bits, for kernels for any widths (widths.cuh).
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
