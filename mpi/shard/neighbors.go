package shard

import (
	"context"

	"github.com/weftgo/weft"
)

// Rank writes to ranks[i] the number of keys, on all ranks, that are smaller than keys[i].
func (m *OrderedMap[K, V]) Rank(ctx context.Context, keys []K, ranks []uint64) error {
	if m.r.size == 1 {
		return m.shard.Rank(ctx, keys, ranks)
	}
	x := m.open(methodRank)
	defer x.close()
	x.mustMatch(len(keys), len(ranks))
	m.r.head[headArg] = uint64(m.shard.Len())
	begin(ctx, x, keys, combineNone, false)
	k, answers := sendColumn(x, keysOut, keys), buffer[uint64](x, answersOut, x.receivedSum)
	x.apply(ctx, func(ctx context.Context) (int, error) {
		err := m.shard.Rank(ctx, k, answers)
		smaller := m.before()[m.r.rank]
		for i := range answers {
			answers[i] += smaller
		}
		return 0, err
	})
	returnAnswers(x, answersIn, answers, ranks, false, 0)
	_, err := x.end()
	return err
}

// before returns for each rank the number of pairs on all lower ranks, according to the exchanged
// heads.
func (m *OrderedMap[K, V]) before() []uint64 {
	sums := make([]uint64, m.r.size)
	for rank := 1; rank < m.r.size; rank++ {
		sums[rank] = sums[rank-1] + m.r.word(rank-1, headArg)
	}
	return sums
}

// Select finds the pair at each position, counted from 0 in the order of all keys. Position
// ranks[i] has the pair keys[i] and vals[i], which are zero if the position does not exist. vals
// and found may be nil. It returns the number of pairs found on all ranks.
func (m *OrderedMap[K, V]) Select(
	ctx context.Context, ranks []uint64, keys []K, vals []V, found []bool,
) (hits int, err error) {
	if m.r.size == 1 {
		return m.shard.Select(ctx, ranks, keys, vals, found)
	}
	x := m.open(methodSelect)
	defer x.close()
	x.mustMatch(len(ranks), len(keys), optional(found, len(keys)))
	if vals != nil {
		x.mustMatch(len(ranks), len(vals))
	}
	clear(x.sent)
	m.r.head[headArg] = uint64(m.shard.Len())
	if x.agree(ctx, nil, false); x.err != nil {
		return x.end()
	}
	first := m.before()
	x = m.r.open(m.sign(methodSelect, 1), &owners{first: first})
	begin(context.WithoutCancel(ctx), x, ranks, combineNone, true)
	at := sendColumn(x, keysOut, ranks)
	for i := range at {
		at[i] -= first[m.r.rank]
	}
	a := newAnswers[K, V](x)
	x.apply(ctx, func(ctx context.Context) (int, error) {
		return m.shard.Select(ctx, at, a.keys, a.vals, a.found)
	})
	return a.returnRows(keys, vals, found)
}

// Successor finds, for each key, the pair with the smallest larger key. It stores the pair in
// next[i] and vals[i], which are zero if no such pair exists. vals and found may be nil. It returns
// the number of pairs found on all ranks.
func (m *OrderedMap[K, V]) Successor(
	ctx context.Context, keys, next []K, vals []V, found []bool,
) (hits int, err error) {
	if m.r.size == 1 {
		return m.shard.Successor(ctx, keys, next, vals, found)
	}
	return m.findNeighbors(ctx, methodSuccessor, keys, next, vals, found)
}

// Predecessor finds, for each key, the pair with the largest smaller key. See Successor for the
// results.
func (m *OrderedMap[K, V]) Predecessor(
	ctx context.Context, keys, previous []K, vals []V, found []bool,
) (hits int, err error) {
	if m.r.size == 1 {
		return m.shard.Predecessor(ctx, keys, previous, vals, found)
	}
	return m.findNeighbors(ctx, methodPredecessor, keys, previous, vals, found)
}

// findNeighbors asks the rank of each key. If that rank has no neighbor for the key, the neighbor
// is the first pair of the next rank with pairs, or the last pair of the previous one.
func (m *OrderedMap[K, V]) findNeighbors(
	ctx context.Context, call method, keys, next []K, vals []V, found []bool,
) (hits int, err error) {
	x := m.open(call)
	defer x.close()
	x.mustMatch(len(keys), len(next), optional(found, len(keys)))
	if vals != nil {
		x.mustMatch(len(keys), len(vals))
	}
	begin(ctx, x, keys, combineNone, true)
	k, ask, end, step := sendColumn(x, keysOut, keys), m.shard.Successor, m.shard.Min, 1
	if call == methodPredecessor {
		ask, end, step = m.shard.Predecessor, m.shard.Max, -1
	}
	a := newAnswers[K, V](x)
	x.apply(ctx, func(ctx context.Context) (int, error) {
		return ask(ctx, k, a.keys, a.vals, a.found)
	})
	ends := m.ends(ctx, x, end)
	if x.err != nil {
		return x.end()
	}
	other := m.r.rank + step
	for other >= 0 && other < m.r.size && !ends[other].ok {
		other += step
	}
	if other >= 0 && other < m.r.size {
		for i, is := range a.found {
			if !is {
				a.keys[i], a.vals[i], a.found[i] = ends[other].key, ends[other].val, true
			}
		}
	}
	return a.returnRows(next, vals, found)
}

// answers holds the pairs that answer the received rows.
type answers[K weft.Key, V weft.Value] struct {
	x     *exchange
	keys  []K
	vals  []V
	found []bool
}

func newAnswers[K weft.Key, V weft.Value](x *exchange) *answers[K, V] {
	return &answers[K, V]{x, buffer[K](x, answersOut, x.receivedSum), buffer[V](x, valsOut, x.receivedSum),
		x.flagsBuffer()}
}

func (a *answers[K, V]) returnRows(keys []K, vals []V, found []bool) (int, error) {
	x := a.x
	if x.failure != nil {
		clear(a.keys)
		clear(a.vals)
	}
	returnAnswers(x, answersIn, a.keys, keys, false, 0)
	returnAnswers(x, valsIn, a.vals, vals, false, 0)
	x.found(a.found, found)
	return x.end()
}

// end is the first or last pair of a rank, if it has any.
type end[K weft.Key, V weft.Value] struct {
	key K
	val V
	ok  bool
}

// ends calls read for the end of this rank, and gathers the ends of all ranks.
func (m *OrderedMap[K, V]) ends(
	ctx context.Context, x *exchange, read func(context.Context) (K, V, bool, error),
) []end[K, V] {
	var own end[K, V]
	x.apply(ctx, func(ctx context.Context) (_ int, err error) {
		own.key, own.val, own.ok, err = read(ctx)
		return 0, err
	})
	if x.err != nil {
		return nil
	}
	const words = 3 // a pair of 64-bit values, and a flag
	mine, all := make([]uint64, words), make([]uint64, words*m.r.size)
	copy(raw(mine), raw([]end[K, V]{own}))
	if err := m.r.comm.AllGather(context.Background(), mine, all); err != nil {
		x.err = m.r.commError(err)
		return nil
	}
	ends := make([]end[K, V], m.r.size)
	for rank := range ends {
		copy(raw(ends[rank:rank+1]), raw(all[words*rank:][:words]))
	}
	return ends
}

// Min returns the pair with the smallest key on all ranks. ok reports whether any rank has a pair.
func (m *OrderedMap[K, V]) Min(ctx context.Context) (key K, val V, ok bool, err error) {
	if m.r.size == 1 {
		return m.shard.Min(ctx)
	}
	return m.extreme(ctx, methodMin)
}

// Max returns the pair with the largest key on all ranks. ok reports whether any rank has a pair.
func (m *OrderedMap[K, V]) Max(ctx context.Context) (key K, val V, ok bool, err error) {
	if m.r.size == 1 {
		return m.shard.Max(ctx)
	}
	return m.extreme(ctx, methodMax)
}

func (m *OrderedMap[K, V]) extreme(
	ctx context.Context, call method,
) (key K, val V, ok bool, err error) {
	x := m.open(call)
	defer x.close()
	clear(x.sent)
	x.agree(ctx, nil, false)
	read := m.shard.Min
	if call == methodMax {
		read = m.shard.Max
	}
	var best end[K, V]
	for _, e := range m.ends(ctx, x, read) {
		if e.ok && (call == methodMax || !best.ok) {
			best = e
		}
	}
	if _, err := x.endEmpty(); err != nil {
		return key, val, false, err
	}
	return best.key, best.val, best.ok, nil
}
