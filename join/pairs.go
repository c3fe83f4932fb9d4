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

// NoRow stands for the row of the build side in the pair of a row that matches none.
const NoRow = math.MaxUint32

// Pairs are rows with equal keys: row Left[i] of the side that is looked up matches row Right[i] of
// the build side.
type Pairs struct{ Left, Right []uint32 }

// Len is the number of pairs.
func (p Pairs) Len() int { return len(p.Left) }

// Inner yields all pairs of rows whose keys are equal, of which keys are those of the left side: in the
// order of the left rows, and for one in that of the right rows. Pairs come in pieces of Options.Piece at
// most, however many rows one key has; the memory of a piece is used again for the next. An error comes
// with the last, empty piece: that of the context, [weft.ErrOptions] for columns of other types than those
// of the index, [weft.ErrClosed], [device.ErrMemory]. Columns of different length panic.
//
// Memory beside the pieces is 20 bytes a row of the left side at most, and not more than 40 MiB.
func (ix *Index) Inner(ctx context.Context, keys []column.Column) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Inner", keys, false)
}

// Left yields the pairs of [Index.Inner], and one with [NoRow] for each left row that matches none.
func (ix *Index) Left(ctx context.Context, keys []column.Column) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Left", keys, true)
}

func (ix *Index) pairs(ctx context.Context, method string, keys []column.Column, all bool) iter.Seq2[Pairs, error] {
	return func(yield func(Pairs, error) bool) {
		over := false
		err := ix.yieldPairs(ctx, keys, all, func(p Pairs) bool {
			over = !yield(p, nil)
			return !over
		})
		if err != nil && !over {
			yield(Pairs{}, fmt.Errorf("join: %s: %w", method, err))
		}
	}
}

func (ix *Index) yieldPairs(ctx context.Context, keys []column.Column, all bool, yield func(Pairs) bool) (err error) {
	var memory []uint32 // of a piece of pairs: all Left, then all Right
	free := func() error { return nil }
	defer func() { err = errors.Join(err, free()) }()
	var ended error
	err = ix.each(ctx, keys, func(p piece) bool {
		x := expansion{piece: p}
		total := x.count(ix.host, all)
		if most := int(min(total, uint64(ix.opts.Piece))); len(memory) < 2*most {
			if ended = free(); ended != nil {
				return false
			}
			if memory, free, ended = borrow[uint32](ix.host, 2*most); ended != nil {
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
	before []uint64 // how many pairs come before each spanBlock spans, and altogether
}

// spanBlock is how many spans are counted together: who writes from some pair on goes through so many at
// most to find its row.
const spanBlock = 1 << 10

// count counts the pairs. If all rows are to have one, those that match none get NoRow.
func (x *expansion) count(host device.Host, all bool) (total uint64) {
	blocks := (len(x.spans) + spanBlock - 1) / spanBlock
	x.before = make([]uint64, blocks+1)
	host.Parallel(blocks, 16, func(lo, hi int) {
		for block := lo; block < hi; block++ {
			n := uint64(0)
			spans := x.spans[block*spanBlock : min((block+1)*spanBlock, len(x.spans))]
			for i, s := range spans {
				if all && s.n == 0 {
					s = span{NoRow, 1}
					spans[i] = s
				}
				n += uint64(s.n)
			}
			x.before[block] = n
		}
	})
	for i, n := range x.before {
		x.before[i] = total
		total += n
	}
	return total
}

// write writes pairs from number lo on.
func (x *expansion) write(host device.Host, lo uint64, left, right []uint32) {
	host.Parallel(len(left), 1<<14, func(from, to int) {
		x.writeSome(lo+uint64(from), left[from:to], right[from:to])
	})
}

func (x *expansion) writeSome(lo uint64, left, right []uint32) {
	block := sort.Search(len(x.before), func(i int) bool { return x.before[i] > lo }) - 1
	row, skip := block*spanBlock, uint32(0)
	for gone := lo - x.before[block]; ; row++ {
		if n := uint64(x.spans[row].n); gone < n {
			skip = uint32(gone)
			break
		} else {
			gone -= n
		}
	}
	for at := 0; at < len(left); {
		end := min(row+rowsAhead, len(x.spans))
		x.prefetch(end, min(end+rowsAhead, len(x.spans)))
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

// rowsAhead is how many rows are written while the matches of as many more are on their way.
const rowsAhead = 32

// prefetch asks for the matches of rows lo to hi-1 that have several.
func (x *expansion) prefetch(lo, hi int) {
	var places [rowsAhead]uint32
	n := 0
	for _, s := range x.spans[lo:hi] {
		places[n] = s.at
		if s.n > 1 {
			n++
		}
	}
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(x.rows)), places[:n], 2)
}
