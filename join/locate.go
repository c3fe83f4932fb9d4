package join

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// pieceRows is the maximum number of rows to look up at a time. Each piece reads all of a large
// table, part by part, so pieces are large. Their memory is 40 MiB.
const pieceRows = 1 << 21

// Rows are distributed to parts if the table exceeds a core's cache, and if the rows are enough to
// read most of its cache lines.
const (
	dirBytes    = 1 << 18 // bytes of the buckets; rows and keys take four times as much
	rowsPerPart = 1 << 10
)

// finder looks up the rows of a source in a table.
type finder[K word] struct {
	*table[K]
	src   *source[K]
	parts parts // parts to distribute rows to; n is 0 if rows are looked up in order
	dist  partitioned[K]
	keys  device.Slice[K]
	rows  device.Slice[uint32]
}

// newFinder returns a finder, with memory for one piece.
func newFinder[K word](t *table[K], src *source[K]) (f *finder[K], err error) {
	f = &finder[K]{table: t, src: src}
	piece := min(src.n, pieceRows)
	// Parts are four times as large as in the build, because lookups write only spans.
	if parts := partsOf(t.buckets, t.parts.shift+2); 4*int(t.buckets) > dirBytes && piece >= rowsPerPart*parts.n {
		if f.keys, err = device.Make[K](t.host, piece); err != nil {
			return nil, err
		}
		if f.rows, err = device.Make[uint32](t.host, piece); err != nil {
			return nil, errors.Join(err, f.keys.Free())
		}
		f.parts, f.dist = parts, partitioned[K]{keys: f.keys.Host(), rows: f.rows.Host()}
	}
	return f, nil
}

func (f *finder[K]) free() error { return errors.Join(f.keys.Free(), f.rows.Free()) }

// locate finds the rows of the build side for rows lo to hi-1, at most pieceRows, and writes their
// spans to out.
func (f *finder[K]) locate(ctx context.Context, lo, hi int, out []span) error {
	if f.parts.n > 0 {
		return f.locateByPart(ctx, lo, hi, out)
	}
	f.host.Parallel(hi-lo, 4*blockRows, func(from, to int) {
		if ctx.Err() == nil {
			f.locateInOrder(lo+from, lo+to, out[from:to])
		}
	})
	return ctx.Err()
}

// locateInOrder looks up rows in their order.
func (f *finder[K]) locateInOrder(lo, hi int, out []span) {
	b := f.block()
	defer f.blocks.Put(b)
	for ; lo < hi; lo += blockRows {
		words, null := f.src.read(b, lo, min(lo+blockRows, hi))
		f.bucketsOf(words, b.buckets[:])
		f.findPrefetching(words, b.buckets[:len(words)], out)
		for i, isNull := range null {
			if isNull {
				out[i] = f.nulls
			}
		}
		out = out[len(words):]
	}
}

// findPrefetching looks up words, and prefetches buckets and keys of later words.
func (f *finder[K]) findPrefetching(words []K, buckets []uint32, out []span) {
	next := func(lo int) []uint32 {
		return buckets[min(lo, len(buckets)):min(lo+cpu.Group, len(buckets))]
	}
	f.prefetch(next(0))
	f.prefetch(next(cpu.Group))
	f.prefetchFirst(next(0))
	for lo := 0; lo < len(words); lo += cpu.Group {
		f.prefetch(next(lo + 2*cpu.Group))
		f.prefetchFirst(next(lo + cpu.Group))
		hi := min(lo+cpu.Group, len(words))
		f.find(words[lo:hi], buckets[lo:hi], out[lo:hi])
	}
}

// locateByPart distributes rows to parts of the table, and looks up one part after the other.
func (f *finder[K]) locateByPart(ctx context.Context, lo, hi int, out []span) error {
	if err := f.distribute(ctx, f.src, lo, hi, f.parts, &f.dist); err != nil {
		return err
	}
	for _, row := range f.dist.rows[f.dist.bounds[f.parts.n] : hi-lo] {
		out[row] = f.nulls
	}
	f.host.Parallel(f.parts.n, 1, func(part, _ int) {
		if ctx.Err() != nil {
			return
		}
		var buckets [blockRows]uint32
		var found [blockRows]span
		f.prefetchPart(f.parts, part)
		end := f.dist.bounds[part+1]
		for at := f.dist.bounds[part]; at < end; at += blockRows {
			words, rows := f.dist.keys[at:min(at+blockRows, end)], f.dist.rows[at:]
			f.bucketsOf(words, buckets[:])
			f.find(words, buckets[:], found[:len(words)])
			for i, s := range found[:len(words)] {
				out[rows[i]] = s
			}
		}
	})
	return ctx.Err()
}
