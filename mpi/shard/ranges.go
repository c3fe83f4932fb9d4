package shard

import (
	"context"

	"github.com/weftgo/weft"
)

// Range finds the pairs of each range from lo[i] to hi[i], in ascending order of their keys, and
// appends them to rows, a row for each range; no more than limit of a range, unless that is 0.
// [weft.PairRows.Next] says where to go on. On an error rows stays as it was.
func (m *OrderedMap[K, V]) Range(
	ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V],
) error {
	if m.r.size == 1 {
		return m.shard.Range(ctx, lo, hi, limit, rows)
	}
	return m.find(ctx, methodRange, lo, hi, limit, rows, m.shard.Range)
}

// RangeBackward is Range from the end of each range: its last pair comes first.
func (m *OrderedMap[K, V]) RangeBackward(
	ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V],
) error {
	if m.r.size == 1 {
		return m.shard.RangeBackward(ctx, lo, hi, limit, rows)
	}
	return m.find(ctx, methodRangeBackward, lo, hi, limit, rows, m.shard.RangeBackward)
}

// Count counts the pairs of each range from lo[i] to hi[i] of this rank, and those of all ranks
// altogether. counts may be nil.
func (m *OrderedMap[K, V]) Count(
	ctx context.Context, lo, hi []K, counts []uint32,
) (total int, err error) {
	if m.r.size == 1 {
		return m.shard.Count(ctx, lo, hi, counts)
	}
	return m.count(ctx, methodCount, lo, hi, counts, m.shard.Count)
}

// DeleteRange removes all pairs of the ranges from lo[i] to hi[i] and counts them. removed, if not
// nil, receives the number of pairs removed per range: a pair of several ranges counts for the
// first of them, of the lowest rank.
func (m *OrderedMap[K, V]) DeleteRange(
	ctx context.Context, lo, hi []K, removed []uint32,
) (n int, err error) {
	if m.r.size == 1 {
		return m.shard.DeleteRange(ctx, lo, hi, removed)
	}
	return m.count(ctx, methodDeleteRange, lo, hi, removed, m.shard.DeleteRange)
}

// rangeSends holds the ranges to send to the ranks that have keys of them: each is sent to several.
type rangeSends[K weft.Key] struct {
	x      *exchange
	first  []int // by range: the first rank
	last   []int // by range: the last rank; less than the first one if it is empty
	place  []int // by rank: where its ranges begin in send order
	next   []int
	lo, hi []K // received
}

// sendRanges sends ranges to the ranks that have keys of them.
func (m *OrderedMap[K, V]) sendRanges(ctx context.Context, x *exchange, lo, hi []K) *rangeSends[K] {
	x.mustMatch(len(lo), len(hi))
	s := &rangeSends[K]{x: x, first: make([]int, len(lo)), last: make([]int, len(lo))}
	size := m.r.size
	clear(x.sent)
	for i := range lo {
		s.first[i], s.last[i] = 0, -1
		if lo[i] <= hi[i] {
			s.first[i] = m.owners.rank(position(&m.owners, lo[i]), size)
			s.last[i] = m.owners.rank(position(&m.owners, hi[i]), size)
		}
		for rank := s.first[i]; rank <= s.last[i]; rank++ {
			x.sent[rank]++
			x.sentSum++
		}
	}
	if x.agree(ctx, nil, false); x.err != nil {
		return s
	}
	s.place = make([]int, size)
	for rank := 1; rank < size; rank++ {
		s.place[rank] = s.place[rank-1] + int(x.sent[rank-1])
	}
	send := func(out int, col []K) []K {
		to := buffer[K](x, out, x.sentSum)
		s.visitSends(func(i, _, place int) { to[place] = col[i] })
		return exchangeColumn(x, to, x.sent, buffer[K](x, out+1, x.receivedSum), x.received)
	}
	if s.lo = send(keysOut, lo); x.err == nil {
		s.hi = send(answersOut, hi)
	}
	return s
}

// visitSends visits all ranges and the ranks that they are sent to, with their places in send
// order.
func (s *rangeSends[K]) visitSends(visit func(i, rank, place int)) {
	s.next = append(s.next[:0], s.place...)
	for i := range s.first {
		for rank := s.first[i]; rank <= s.last[i]; rank++ {
			visit(i, rank, s.next[rank])
			s.next[rank]++
		}
	}
}

// count sends ranges, and adds up the answers of ranks.
func (m *OrderedMap[K, V]) count(
	ctx context.Context, call method, lo, hi []K, counts []uint32,
	run func(context.Context, []K, []K, []uint32) (int, error),
) (int, error) {
	x := m.open(call)
	defer x.close()
	if counts != nil {
		x.mustMatch(len(lo), len(counts))
	}
	s := m.sendRanges(ctx, x, lo, hi)
	got := make([]uint32, x.receivedSum)
	x.apply(ctx, func(ctx context.Context) (int, error) { return run(ctx, s.lo, s.hi, got) })
	if x.err == nil {
		answers := exchangeColumn(x, got, x.received, make([]uint32, x.sentSum), x.sent)
		if clear(counts); x.err == nil && counts != nil {
			s.visitSends(func(i, _, place int) { counts[i] += answers[place] })
		}
	}
	return x.endEmpty()
}

// find sends ranges, and joins the pairs of ranks to those of ranges.
func (m *OrderedMap[K, V]) find(
	ctx context.Context, call method, lo, hi []K, limit int, rows *weft.PairRows[K, V],
	run func(context.Context, []K, []K, int, *weft.PairRows[K, V]) error,
) error {
	x := m.open(call)
	defer x.close()
	s := m.sendRanges(ctx, x, lo, hi)
	var got weft.PairRows[K, V]
	x.apply(ctx, func(ctx context.Context) (int, error) {
		return 0, run(ctx, s.lo, s.hi, limit, &got)
	})
	if x.failure != nil || len(got.Offsets) == 0 {
		got.Offsets = make([]uint64, x.receivedSum+1)
	}
	counts := make([]uint64, x.receivedSum)
	for i := range counts {
		counts[i] = got.Offsets[i+1] - got.Offsets[i]
	}
	if x.err != nil {
		_, err := x.endEmpty()
		return err
	}
	answers := exchangeColumn(x, counts, x.received, make([]uint64, x.sentSum), x.sent)
	if x.err != nil {
		_, err := x.endEmpty()
		return err
	}
	pairs := m.pairs(x, s, &got, answers)
	_, err := x.endEmpty()
	if err != nil {
		return err
	}
	pairs.appendTo(rows, limit, call == methodRangeBackward)
	return nil
}

// found is the pairs of all ranks for ranges: those of a place in send order begin at a number.
type found[K weft.Key, V weft.Value] struct {
	of     *rangeSends[K]
	starts []uint64
	keys   []K
	vals   []V
}

// pairs exchanges the pairs of ranges.
func (m *OrderedMap[K, V]) pairs(
	x *exchange, s *rangeSends[K], got *weft.PairRows[K, V], counts []uint64,
) *found[K, V] {
	f := &found[K, V]{of: s, starts: startsOf(counts)}
	out, in := sums(x.received, got.Offsets), sums(x.sent, f.starts)
	total := f.starts[len(counts)]
	if f.keys = exchangeColumn(x, got.Keys, out, make([]K, total), in); x.err == nil {
		f.vals = exchangeColumn(x, got.Vals, out, make([]V, total), in)
	}
	return f
}

// appendTo appends the pairs of each range to rows.
func (f *found[K, V]) appendTo(rows *weft.PairRows[K, V], limit int, backward bool) {
	if len(rows.Offsets) == 0 {
		rows.Offsets = append(rows.Offsets, uint64(len(rows.Keys)))
	}
	s := f.of
	places := append([]int{}, s.place...)
	for i := range s.first {
		room := limit
		n := s.last[i] - s.first[i] + 1
		for j := range n {
			rank := s.first[i] + j
			if backward {
				rank = s.last[i] - j
			}
			lo, hi := f.starts[places[rank]], f.starts[places[rank]+1]
			places[rank]++
			if limit > 0 {
				hi = min(hi, lo+uint64(room))
				room -= int(hi - lo)
			}
			rows.Keys = append(rows.Keys, f.keys[lo:hi]...)
			rows.Vals = append(rows.Vals, f.vals[lo:hi]...)
		}
		rows.Offsets = append(rows.Offsets, uint64(len(rows.Keys)))
	}
}
