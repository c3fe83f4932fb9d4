package join

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sort"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// NoRow stands for the row of the build side in the pair of a left row without a match.
const NoRow = math.MaxUint32

// Pairs holds pairs of rows with equal keys: row Left[i] of the probed side matches row Right[i] of
// the build side.
type Pairs struct{ Left, Right []uint32 }

// Len returns the number of pairs.
func (p Pairs) Len() int { return len(p.Left) }

// Inner yields all pairs of rows with equal keys. keys are the keys of the left side. Pairs come in
// the order of the left rows, and pairs of the same left row come in the order of the right rows.
// Each piece has at most Options.Piece pairs, even if more rows have the same key. The next piece
// reuses the memory of the piece before.
//
// An error comes last, with an empty piece. If the types of columns differ from the index, it is
// [weft.ErrOptions]. Other errors are [weft.ErrClosed], [device.ErrMemory] and the error of the
// context. Inner panics if columns differ in length. Besides the pieces, Inner takes at most 20
// bytes per left row, and at most 40 MiB.
func (ix *Index) Inner(ctx context.Context, keys []column.Column) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Inner", keys, false)
}

// Left yields the pairs of [Index.Inner], and one with [NoRow] for each left row without a match.
func (ix *Index) Left(ctx context.Context, keys []column.Column) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Left", keys, true)
}

func (ix *Index) pairs(ctx context.Context, method string, keys []column.Column, outer bool) iter.Seq2[Pairs, error] {
	return func(yield func(Pairs, error) bool) {
		stopped := false
		err := ix.yieldPairs(ctx, keys, outer, func(p Pairs) bool {
			stopped = !yield(p, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Pairs{}, fmt.Errorf("join: %s: %w", method, err))
		}
	}
}

func (ix *Index) yieldPairs(ctx context.Context, keys []column.Column, outer bool, yield func(Pairs) bool) (err error) {
	var memory []uint32 // a piece of pairs: all Left, then all Right
	free := func() error { return nil }
	defer func() { err = errors.Join(err, free()) }()
	var ended error
	err = ix.visitPieces(ctx, keys, func(p piece) bool {
		x := expansion{piece: p}
		total := x.count(ix.host, outer)
		if size := int(min(total, uint64(ix.opts.Piece))); len(memory) < 2*size {
			if ended = free(); ended != nil {
				return false
			}
			if memory, free, ended = allocTemp[uint32](ix.host, 2*size); ended != nil {
				return false
			}
		}
		left, right := memory[:len(memory)/2], memory[len(memory)/2:]
		for lo := uint64(0); lo < total; lo += uint64(len(left)) {
			if ended = ctx.Err(); ended != nil {
				return false
			}
			n := int(min(total-lo, uint64(len(left))))
			x.write(ix.host, lo, left[:n], right[:n])
			if !yield(Pairs{left[:n], right[:n]}) {
				return false
			}
		}
		return true
	})
	return errors.Join(err, ended)
}

// expansion writes the pairs of a piece.
type expansion struct {
	piece
	prefix []uint64 // the number of pairs before each spanBlock spans, and the total
}

// spanBlock is the number of spans per element of prefix. A writer that starts at any pair visits
// at most that many spans to find its row.
const spanBlock = 1 << 10

// count returns the number of pairs. If outer is set, each row without a match first gets a pair
// with NoRow.
func (x *expansion) count(host device.Host, outer bool) (total uint64) {
	blocks := (len(x.spans) + spanBlock - 1) / spanBlock
	x.prefix = make([]uint64, blocks+1)
	host.Parallel(blocks, 16, func(lo, hi int) {
		for block := lo; block < hi; block++ {
			n := uint64(0)
			spans := x.spans[block*spanBlock : min((block+1)*spanBlock, len(x.spans))]
			for i, s := range spans {
				if outer && s.n == 0 {
					s = span{NoRow, 1}
					spans[i] = s
				}
				n += uint64(s.n)
			}
			x.prefix[block] = n
		}
	})
	for i, n := range x.prefix {
		x.prefix[i] = total
		total += n
	}
	return total
}

// write writes pairs to left and right, from pair number lo on.
func (x *expansion) write(host device.Host, lo uint64, left, right []uint32) {
	host.Parallel(len(left), 1<<14, func(from, to int) {
		x.writeRange(lo+uint64(from), left[from:to], right[from:to])
	})
}

func (x *expansion) writeRange(lo uint64, left, right []uint32) {
	block := sort.Search(len(x.prefix), func(i int) bool { return x.prefix[i] > lo }) - 1
	row, skip := block*spanBlock, uint32(0)
	for toSkip := lo - x.prefix[block]; ; row++ {
		if n := uint64(x.spans[row].n); toSkip < n {
			skip = uint32(toSkip)
			break
		} else {
			toSkip -= n
		}
	}
	for at := 0; at < len(left); {
		end := min(row+prefetchRows, len(x.spans))
		x.prefetch(end, min(end+prefetchRows, len(x.spans)))
		for ; row < end && at < len(left); row++ {
			s := x.spans[row]
			if s.n <= 1 {
				left[at], right[at] = uint32(x.first+row), s.at
				at += int(s.n)
				continue
			}
			matches := x.rows[s.at+skip : s.at+s.n]
			skip = 0
			for _, r := range matches[:min(len(matches), len(left)-at)] {
				left[at], right[at] = uint32(x.first+row), r
				at++
			}
		}
	}
}

// prefetchRows is the number of rows by which prefetching is ahead of writing.
const prefetchRows = 32

// prefetch prefetches the matches of those rows from lo to hi-1 that have several.
func (x *expansion) prefetch(lo, hi int) {
	var places [prefetchRows]uint32
	n := 0
	for _, s := range x.spans[lo:hi] {
		places[n] = s.at
		if s.n > 1 {
			n++
		}
	}
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(x.rows)), places[:n], 2)
}
