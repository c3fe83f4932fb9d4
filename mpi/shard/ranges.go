package shard

import (
	"context"

	"github.com/weftgo/weft"
)

// Range finds the pairs with keys from lo[i] to hi[i], for each i, in ascending order of keys. It
// appends a row of pairs per range to rows. A positive limit bounds the pairs of a row.
// [weft.PairRows.Next] returns where to continue. On an error rows is unchanged.
func (m *OrderedMap[K, V]) Range(
	ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V],
) error {
	if m.r.size == 1 {
		return m.shard.Range(ctx, lo, hi, limit, rows)
	}
	return m.find(ctx, methodRange, lo, hi, limit, rows, m.shard.Range)
}

// RangeBackward finds pairs like Range, but starts from the end of each range, so that its last
// pair comes first.
func (m *OrderedMap[K, V]) RangeBackward(
	ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V],
) error {
	if m.r.size == 1 {
		return m.shard.RangeBackward(ctx, lo, hi, limit, rows)
	}
	return m.find(ctx, methodRangeBackward, lo, hi, limit, rows, m.shard.RangeBackward)
}

// Count counts the pairs with keys from lo[i] to hi[i], and writes the number to counts[i], unless
// counts is nil. total is the sum over the ranges of all ranks.
func (m *OrderedMap[K, V]) Count(
	ctx context.Context, lo, hi []K, counts []uint32,
) (total int, err error) {
	if m.r.size == 1 {
		return m.shard.Count(ctx, lo, hi, counts)
	}
	return m.count(ctx, methodCount, lo, hi, counts, m.shard.Count)
}

// DeleteRange removes the pairs with keys from lo[i] to hi[i], for each i, and returns their number
// on all ranks. If removed is not nil, removed[i] receives the number for range i. A pair in
// several ranges counts for the first of them, on the lowest rank.
func (m *OrderedMap[K, V]) DeleteRange(
	ctx context.Context, lo, hi []K, removed []uint32,
) (n int, err error) {
	if m.r.size == 1 {
		return m.shard.DeleteRange(ctx, lo, hi, removed)
	}
	return m.count(ctx, methodDeleteRange, lo, hi, removed, m.shard.DeleteRange)
}

// rangeSends holds ranges, and the ranks to which they are sent. A range is sent to all ranks that
// own keys of it.
type rangeSends[K weft.Key] struct {
	x      *exchange
	first  []int // first rank of each range
	last   []int // last rank of each range; first-1 or less if the range is empty
	place  []int // index in send order of the first range for each rank
	next   []int
	lo, hi []K // received ranges
}

// sendRanges sends each range to the ranks that own keys of it.
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

// visitSends calls visit for each range i and each rank it is sent to, with its index in send
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

// found holds the pairs for all sent ranges. The pairs for index i in send order begin at
// starts[i].
type found[K weft.Key, V weft.Value] struct {
	of     *rangeSends[K]
	starts []uint64
	keys   []K
	vals   []V
}

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
