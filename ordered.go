package weft

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// OrderedMap is a [Map] that keeps its keys in ascending order, as signed or unsigned integers
// according to their type. It also finds pairs by key range, by neighboring key and by rank. The
// package comment states the rules that all methods share.
//
// A range includes both of its bounds, so that it may begin with the smallest key and end with the
// largest. If hi is smaller than lo, the range is empty.
type OrderedMap[K Key, V Value] struct {
	mapping[K, V]
	seeker[K, V]
}

// NewOrderedMap returns the OrderedMap of a table. Only packages that implement structures call it.
func NewOrderedMap[K Key, V Value](t *core.Table) *OrderedMap[K, V] {
	return &OrderedMap[K, V]{mapping[K, V]{pairs[K, V]{table[K]{t}}}, seeker[K, V]{tab: t}}
}

// Build puts pairs that are likely to be most of the map's content, sorted or not. A structure may
// process them as a single batch, and rebuilds itself if that is faster than inserting them. See
// [OrderedMap.Put] for the results.
func (m *OrderedMap[K, V]) Build(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	b := m.batch(op.Put, len(keys), batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)})
	return m.core.Change(ctx, "Build", b)
}

// BuildOn builds the map from pairs that lie in device memory. See [OrderedMap.Build].
func (m *OrderedMap[K, V]) BuildOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], inserted ...device.Slice[uint64]) error {
	b := m.batch(op.Put, keys.Len(), batch.Columns{batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals)})
	return m.core.ChangeOn(s, "BuildOn", b, inserted...)
}

// DeleteRange removes all pairs inside the ranges from lo[i] to hi[i] and counts them. removed, if
// not nil, receives the number of pairs removed for each range. A pair inside several ranges counts
// for the first of them.
func (m *OrderedMap[K, V]) DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (n int, err error) {
	delta, err := m.core.Change(ctx, "DeleteRange", m.batch(op.DeleteRange, len(lo), batch.Columns{
		batch.Keys: batch.Input(lo), batch.Keys2: batch.Input(hi), batch.Counts: batch.Optional(removed),
	}))
	return -delta, err
}

// DeleteRangeOn removes all pairs inside ranges that lie in device memory. removed may be empty.
// See [OrderedMap.DeleteRange].
func (m *OrderedMap[K, V]) DeleteRangeOn(s *device.Stream, lo, hi device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "DeleteRangeOn", m.batch(op.DeleteRange, lo.Len(), batch.Columns{
		batch.Keys: batch.InputOn(lo), batch.Keys2: batch.InputOn(hi), batch.Counts: batch.OptionalOn(removed),
	}), n...)
}

// CopyTo makes a map on dev with the same options and pairs. dev must stay open longer than the
// copy.
func (m *OrderedMap[K, V]) CopyTo(ctx context.Context, dev device.Device) (*OrderedMap[K, V], error) {
	return m.copyTo(ctx, dev)
}

// All iterates over the pairs in ascending order of their keys. It sees the map as it is when the
// iteration begins. An iteration ends early after an error; [OrderedMap.Pages] reports the error.
func (m *OrderedMap[K, V]) All() iter.Seq2[K, V] { return m.all() }

// Pages iterates like All, in pages of a few hundred thousand pairs. If an error occurs or ctx
// ends, the last page is empty and comes with the error.
func (m *OrderedMap[K, V]) Pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return m.pages(ctx)
}

// Snapshot returns a snapshot of the map. The snapshot sees the changes of every call that has
// returned and every batch that has been submitted, and no later change. It stays valid through any
// number of changes. Until it is closed, it holds memory of the map, but no call has to wait for
// it. If snapshots leave too little memory for a change, the change returns device.ErrMemory and
// the map stays unchanged.
func (m *OrderedMap[K, V]) Snapshot(ctx context.Context) (*Snapshot[K, V], error) {
	at, err := m.core.Snapshot(ctx, "Snapshot")
	if err != nil {
		return nil, err
	}
	return &Snapshot[K, V]{seeker[K, V]{m.core, at}}, nil
}

// Snapshot is an [OrderedMap] as it was at one moment. Many goroutines may call its methods, also
// while the map changes. After the snapshot or the map is closed, the methods return [ErrClosed].
type Snapshot[K Key, V Value] struct{ seeker[K, V] }

// Core returns the table's snapshot. Only packages that implement structures call it.
func (s *Snapshot[K, V]) Core() *core.Snapshot { return s.snapshot }

// Len returns the number of pairs, also after Close.
func (s *Snapshot[K, V]) Len() int { return s.snapshot.Len() }

// Close releases the memory that the snapshot holds, as soon as running calls on the snapshot have
// ended. Close does not wait for them. A second Close does nothing.
func (s *Snapshot[K, V]) Close() error { return s.snapshot.Close() }

// Get looks keys up in the snapshot. See [OrderedMap.Get].
func (s *Snapshot[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	return s.tab.Get(ctx, "Get", s.snapshot, &batch.Batch{N: len(keys), Columns: batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(vals), batch.OK: batch.Optional(found),
	}})
}

// GetOn looks up in the snapshot keys that lie in device memory. found may be empty.
func (s *Snapshot[K, V]) GetOn(stream *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return s.tab.GetOn(stream, "GetOn", s.snapshot, &batch.Batch{N: keys.Len(), Columns: batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.OutputOn(vals), batch.OK: batch.OptionalOn(found),
	}}, hits...)
}

// Contains counts the keys that are present in the snapshot. See [OrderedMap.Contains].
func (s *Snapshot[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	return s.tab.Get(ctx, "Contains", s.snapshot, &batch.Batch{N: len(keys), Columns: batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(found),
	}})
}

// ContainsOn looks in the snapshot for keys that lie in device memory. found may be empty.
func (s *Snapshot[K, V]) ContainsOn(stream *device.Stream, keys device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return s.tab.GetOn(stream, "ContainsOn", s.snapshot, &batch.Batch{N: keys.Len(), Columns: batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(found),
	}}, hits...)
}

// Save writes the pairs of the snapshot to w. See [OrderedMap.Save].
func (s *Snapshot[K, V]) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return s.tab.Save(ctx, s.snapshot, w)
}

// CopyTo makes a map on dev with the pairs of the snapshot and the options of the snapshot's map.
// dev must stay open longer than the copy.
func (s *Snapshot[K, V]) CopyTo(ctx context.Context, dev device.Device) (*OrderedMap[K, V], error) {
	return s.copyTo(ctx, dev)
}

// All iterates over the pairs in ascending order of their keys.
func (s *Snapshot[K, V]) All() iter.Seq2[K, V] { return s.all() }

// Pages iterates like All, in pages of a few hundred thousand pairs. If an error occurs or ctx
// ends, the last page is empty and comes with the error.
func (s *Snapshot[K, V]) Pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return s.pages(ctx)
}

// PairRows holds the pairs that a lookup found inside ranges, range by range. The pairs of range i
// are Keys[Offsets[i]:Offsets[i+1]] and Vals[Offsets[i]:Offsets[i+1]]. The zero PairRows is empty.
type PairRows[K Key, V Value] struct {
	Offsets []uint64 // one more than the number of ranges
	Keys    []K
	Vals    []V
}

// Len returns the number of ranges.
func (r *PairRows[K, V]) Len() int { return max(0, len(r.Offsets)-1) }

// Row returns the pairs of range i.
func (r *PairRows[K, V]) Row(i int) ([]K, []V) {
	lo, hi := r.Offsets[i], r.Offsets[i+1]
	return r.Keys[lo:hi], r.Vals[lo:hi]
}

// Reset drops all rows and keeps the allocated memory.
func (r *PairRows[K, V]) Reset() { r.Offsets, r.Keys, r.Vals = r.Offsets[:0], r.Keys[:0], r.Vals[:0] }

// Next returns the key at which to continue range i after a call of Range with the same limit. hi
// is the end of the range. more is false if Range has returned all pairs inside the range.
func (r *PairRows[K, V]) Next(i, limit int, hi K) (lo K, more bool) {
	keys, _ := r.Row(i)
	if limit <= 0 || len(keys) < limit || keys[len(keys)-1] == hi {
		return hi, false
	}
	return keys[len(keys)-1] + 1, true
}

// NextBackward returns the key at which to continue range i after a call of RangeBackward with the
// same limit. lo is the start of the range. more is false if RangeBackward has returned all pairs
// inside the range.
func (r *PairRows[K, V]) NextBackward(i, limit int, lo K) (hi K, more bool) {
	keys, _ := r.Row(i)
	if limit <= 0 || len(keys) < limit || keys[len(keys)-1] == lo {
		return lo, false
	}
	return keys[len(keys)-1] - 1, true
}

// seeker holds the lookups by key order, which an ordered map and its snapshots share.
type seeker[K Key, V Value] struct {
	tab      *core.Table
	snapshot *core.Snapshot // nil for the current map
}

func (m *seeker[K, V]) rangeBatch(lo, hi batch.Column, n, limit int, backward bool) *batch.Batch {
	return &batch.Batch{N: n, Ranges: batch.Ranges{Limit: limit, Backward: backward}, Columns: batch.Columns{
		batch.Keys: lo, batch.Keys2: hi,
	}}
}

// Range finds the pairs inside each range from lo[i] to hi[i], in ascending order of their keys. It
// appends them to rows, one row per range, with at most limit pairs per range, or all if limit is
// 0. [PairRows.Next] returns where to continue. Range first counts and then copies the pairs. If
// they would take more memory than Options.ResultLimit, it returns device.ErrMemory. After an
// error, rows is unchanged.
func (m *seeker[K, V]) Range(ctx context.Context, lo, hi []K, limit int, rows *PairRows[K, V]) error {
	return m.expand(ctx, "Range", m.rangeBatch(batch.Input(lo), batch.Input(hi), len(lo), limit, false), rows)
}

// RangeBackward finds the pairs inside each range in descending order of their keys. With a limit
// it finds the last pairs of each range. See [OrderedMap.Range].
func (m *seeker[K, V]) RangeBackward(ctx context.Context, lo, hi []K, limit int, rows *PairRows[K, V]) error {
	return m.expand(ctx, "RangeBackward", m.rangeBatch(batch.Input(lo), batch.Input(hi), len(lo), limit, true), rows)
}

func (m *seeker[K, V]) expand(ctx context.Context, method string, b *batch.Batch, rows *PairRows[K, V]) error {
	if err := m.checkLimit(method, b); err != nil {
		return err
	}
	at, first, n := max(0, len(rows.Offsets)-1), len(rows.Vals), b.N
	offsets := slices.Grow(rows.Offsets[:at], n+1)[:at+n+1]
	offsets[at] = uint64(first)
	keys, vals := rows.Keys, rows.Vals
	err := m.tab.Expand(ctx, method, m.snapshot, b, offsets[at:], func(n int) batch.Columns {
		keys, vals = slices.Grow(keys, n)[:first+n], slices.Grow(vals, n)[:first+n]
		return batch.Columns{batch.OutKeys: batch.Output(keys[first:]), batch.Vals: batch.Output(vals[first:])}
	})
	if err == nil {
		end := offsets[len(offsets)-1]
		rows.Offsets, rows.Keys, rows.Vals = offsets, keys[:end], vals[:end]
	}
	return err
}

// RangeOn finds the pairs inside ranges that lie in device memory. counts receives the number of
// pairs in each range, at most limit. offsets is one longer than lo. It receives the index in keys
// and vals at which the pairs of each range begin, and in its last element the total number of
// pairs. keys and vals have the same length and receive as many pairs as fit.
func (m *seeker[K, V]) RangeOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	return m.expandOn(s, "RangeOn", m.rangeBatch(batch.InputOn(lo), batch.InputOn(hi), lo.Len(), limit, false), counts, offsets, keys, vals)
}

// RangeBackwardOn finds the pairs inside ranges in descending order of their keys. See
// [OrderedMap.RangeOn].
func (m *seeker[K, V]) RangeBackwardOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	return m.expandOn(s, "RangeBackwardOn", m.rangeBatch(batch.InputOn(lo), batch.InputOn(hi), lo.Len(), limit, true), counts, offsets, keys, vals)
}

func (m *seeker[K, V]) expandOn(s *device.Stream, method string, b *batch.Batch, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	if keys.Len() != vals.Len() {
		panic(fmt.Sprintf("%s: %s: room for %d keys, but %d values", m.tab.Name, method, keys.Len(), vals.Len()))
	}
	if err := m.checkLimit(method, b); err != nil {
		return err
	}
	b.Columns[batch.Counts], b.Columns[batch.Offsets] = batch.OutputOn(counts), batch.OffsetsOn(offsets)
	b.Columns[batch.OutKeys], b.Columns[batch.Vals] = batch.RowsOn(keys), batch.RowsOn(vals)
	return m.tab.ExpandOn(s, method, m.snapshot, b)
}

// checkLimit validates b.Limit, the maximum number of pairs per range, and caps it at
// math.MaxUint32, the largest count of a range. So engines can add the limit to the rank of a pair
// without overflow.
func (m *seeker[K, V]) checkLimit(method string, b *batch.Batch) error {
	if b.Limit < 0 {
		return fmt.Errorf("%s: %s: %w: limit %d", m.tab.Name, method, device.ErrInvalid, b.Limit)
	}
	b.Limit = min(b.Limit, math.MaxUint32)
	return nil
}

// RangeFirst finds the first pairs of each range, at most limit, and counts the nonempty ranges.
// keys and vals are limit times as long as lo. The pairs of range i begin at index i*limit, and
// counts[i] receives their number. The elements after them, up to index (i+1)*limit, are undefined.
// RangeFirst takes one search per range; [OrderedMap.Range] takes two.
func (m *seeker[K, V]) RangeFirst(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (hits int, err error) {
	return m.rangeLimited(ctx, "RangeFirst", false, lo, hi, limit, counts, keys, vals)
}

// RangeLast finds the last pairs of each range, at most limit, in descending order of their keys.
// See [OrderedMap.RangeFirst].
func (m *seeker[K, V]) RangeLast(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (hits int, err error) {
	return m.rangeLimited(ctx, "RangeLast", true, lo, hi, limit, counts, keys, vals)
}

func (m *seeker[K, V]) rangeLimited(ctx context.Context, method string, backward bool, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (hits int, err error) {
	b := m.rangeBatch(batch.Input(lo), batch.Input(hi), len(lo), limit, backward)
	b.Columns[batch.Counts] = batch.Output(counts)
	if err := m.addFixedColumns(method, b, batch.Output(keys), batch.Output(vals)); err != nil {
		return 0, err
	}
	return m.tab.Get(ctx, method, m.snapshot, b)
}

// RangeFirstOn finds the first pairs of ranges that lie in device memory. See
// [OrderedMap.RangeFirst].
func (m *seeker[K, V]) RangeFirstOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits ...device.Slice[uint64]) error {
	return m.rangeLimitedOn(s, "RangeFirstOn", false, lo, hi, limit, counts, keys, vals, hits)
}

// RangeLastOn finds the last pairs of ranges that lie in device memory. See [OrderedMap.RangeLast].
func (m *seeker[K, V]) RangeLastOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits ...device.Slice[uint64]) error {
	return m.rangeLimitedOn(s, "RangeLastOn", true, lo, hi, limit, counts, keys, vals, hits)
}

func (m *seeker[K, V]) rangeLimitedOn(s *device.Stream, method string, backward bool, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits []device.Slice[uint64]) error {
	b := m.rangeBatch(batch.InputOn(lo), batch.InputOn(hi), lo.Len(), limit, backward)
	b.Columns[batch.Counts] = batch.OutputOn(counts)
	if err := m.addFixedColumns(method, b, batch.OutputOn(keys), batch.OutputOn(vals)); err != nil {
		return err
	}
	return m.tab.GetOn(s, method, m.snapshot, b, hits...)
}

func (m *seeker[K, V]) addFixedColumns(method string, b *batch.Batch, keys, vals batch.Column) error {
	if b.Limit < 1 {
		return fmt.Errorf("%s: %s: %w: limit %d", m.tab.Name, method, device.ErrInvalid, b.Limit)
	}
	if b.N == 0 {
		b.Limit = 1 // the check below then passes only for empty columns
	}
	for _, c := range []batch.Column{keys, vals} {
		// division, because the product may overflow an int
		if c.Rows()/b.Limit != b.N || c.Rows()%b.Limit != 0 {
			panic(fmt.Sprintf("%s: %s: %d ranges of %d pairs, but room for %d", m.tab.Name, method, b.N, b.Limit, c.Rows()))
		}
	}
	b.Columns[batch.OutKeys], b.Columns[batch.Vals] = keys.WithWidth(keys.Width*b.Limit), vals.WithWidth(vals.Width*b.Limit)
	return nil
}

// Count counts the pairs inside each range from lo[i] to hi[i] and returns the total. counts may be
// nil.
func (m *seeker[K, V]) Count(ctx context.Context, lo, hi []K, counts []uint32) (total int, err error) {
	b := m.rangeBatch(batch.Input(lo), batch.Input(hi), len(lo), 0, false)
	b.Columns[batch.Counts] = batch.Optional(counts)
	return m.tab.Count(ctx, "Count", m.snapshot, b)
}

// CountOn counts the pairs inside ranges that lie in device memory.
func (m *seeker[K, V]) CountOn(s *device.Stream, lo, hi device.Slice[K], counts device.Slice[uint32]) error {
	b := m.rangeBatch(batch.InputOn(lo), batch.InputOn(hi), lo.Len(), 0, false)
	b.Columns[batch.Counts] = batch.OutputOn(counts)
	return m.tab.GetOn(s, "CountOn", m.snapshot, b)
}

// Rank sets ranks[i] to the number of keys in the map that are smaller than keys[i].
func (m *seeker[K, V]) Rank(ctx context.Context, keys []K, ranks []uint64) error {
	_, err := m.tab.Get(ctx, "Rank", m.snapshot, &batch.Batch{N: len(keys), Kind: op.Rank, Columns: batch.Columns{
		batch.Keys: batch.Input(keys), batch.Ranks: batch.Output(ranks),
	}})
	return err
}

// RankOn computes the ranks of keys that lie in device memory. See [OrderedMap.Rank].
func (m *seeker[K, V]) RankOn(s *device.Stream, keys device.Slice[K], ranks device.Slice[uint64]) error {
	return m.tab.GetOn(s, "RankOn", m.snapshot, &batch.Batch{N: keys.Len(), Kind: op.Rank, Columns: batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Ranks: batch.OutputOn(ranks),
	}})
}

// Select finds the pair with each rank and counts the pairs found. A pair's rank is the number of
// smaller keys. keys[i] and vals[i] are zero if no pair has rank ranks[i]. vals and found may be
// nil.
func (m *seeker[K, V]) Select(ctx context.Context, ranks []uint64, keys []K, vals []V, found []bool) (hits int, err error) {
	b := m.outputBatch(op.Select, len(ranks), batch.Output(keys), batch.Optional(vals), batch.Optional(found))
	b.Columns[batch.Ranks] = batch.Input(ranks)
	return m.tab.Get(ctx, "Select", m.snapshot, b)
}

// SelectOn finds the pairs with ranks that lie in device memory. vals and found may be empty. See
// [OrderedMap.Select].
func (m *seeker[K, V]) SelectOn(s *device.Stream, ranks device.Slice[uint64], keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	b := m.outputBatch(op.Select, ranks.Len(), batch.OutputOn(keys), batch.OptionalOn(vals), batch.OptionalOn(found))
	b.Columns[batch.Ranks] = batch.InputOn(ranks)
	return m.tab.GetOn(s, "SelectOn", m.snapshot, b, hits...)
}

// Successor finds the pair with the smallest key larger than keys[i], for each i, and counts the
// pairs found. next[i] and vals[i] are zero if no larger key exists. vals and found may be nil.
func (m *seeker[K, V]) Successor(ctx context.Context, keys, next []K, vals []V, found []bool) (hits int, err error) {
	return m.neighbors(ctx, "Successor", op.Successor, keys, next, vals, found)
}

// SuccessorOn finds the successors of keys that lie in device memory. vals and found may be empty.
// See [OrderedMap.Successor].
func (m *seeker[K, V]) SuccessorOn(s *device.Stream, keys, next device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return m.neighborsOn(s, "SuccessorOn", op.Successor, keys, next, vals, found, hits)
}

// Predecessor finds the pair with the largest key smaller than keys[i], for each i, and counts the
// pairs found. previous[i] and vals[i] are zero if no smaller key exists. vals and found may be
// nil.
func (m *seeker[K, V]) Predecessor(ctx context.Context, keys, previous []K, vals []V, found []bool) (hits int, err error) {
	return m.neighbors(ctx, "Predecessor", op.Predecessor, keys, previous, vals, found)
}

// PredecessorOn finds the predecessors of keys that lie in device memory. vals and found may be
// empty. See [OrderedMap.Predecessor].
func (m *seeker[K, V]) PredecessorOn(s *device.Stream, keys, previous device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return m.neighborsOn(s, "PredecessorOn", op.Predecessor, keys, previous, vals, found, hits)
}

func (m *seeker[K, V]) neighbors(ctx context.Context, method string, kind op.Kind, keys, next []K, vals []V, found []bool) (hits int, err error) {
	b := m.outputBatch(kind, len(keys), batch.Output(next), batch.Optional(vals), batch.Optional(found))
	b.Columns[batch.Keys] = batch.Input(keys)
	return m.tab.Get(ctx, method, m.snapshot, b)
}

func (m *seeker[K, V]) neighborsOn(s *device.Stream, method string, kind op.Kind, keys, next device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits []device.Slice[uint64]) error {
	b := m.outputBatch(kind, keys.Len(), batch.OutputOn(next), batch.OptionalOn(vals), batch.OptionalOn(found))
	b.Columns[batch.Keys] = batch.InputOn(keys)
	return m.tab.GetOn(s, method, m.snapshot, b, hits...)
}

func (m *seeker[K, V]) outputBatch(kind op.Kind, n int, keys, vals, found batch.Column) *batch.Batch {
	return &batch.Batch{N: n, Kind: kind, Columns: batch.Columns{batch.OutKeys: keys, batch.Vals: vals, batch.OK: found}}
}

// Min finds the pair with the smallest key. ok is false if the map is empty. To find it on the
// device, call [OrderedMap.RangeFirstOn] with the range of all keys and limit 1.
func (m *seeker[K, V]) Min(ctx context.Context) (key K, val V, ok bool, err error) {
	return m.endPair(ctx, "Min", false)
}

// Max finds the pair with the largest key. ok is false if the map is empty. To find it on the
// device, call [OrderedMap.RangeLastOn] with the range of all keys and limit 1.
func (m *seeker[K, V]) Max(ctx context.Context) (key K, val V, ok bool, err error) {
	return m.endPair(ctx, "Max", true)
}

func (m *seeker[K, V]) endPair(ctx context.Context, method string, backward bool) (key K, val V, ok bool, err error) {
	var counts [1]uint32
	var keys [1]K
	var vals [1]V
	lo, hi := bounds[K]()
	hits, err := m.rangeLimited(ctx, method, backward, []K{lo}, []K{hi}, 1, counts[:], keys[:], vals[:])
	if hits == 0 || err != nil {
		return key, val, false, err
	}
	return keys[0], vals[0], true, nil
}

func bounds[K Key]() (lo, hi K) {
	if lo = ^lo; lo > 0 {
		return 0, lo
	}
	for hi = 1; 2*hi+1 > hi; hi = 2*hi + 1 {
		continue
	}
	return ^hi, hi
}

// rangePage is the maximum number of pairs that Between finds in one lookup.
const rangePage = 1 << 16

// Between iterates over the pairs inside the range from lo to hi in ascending order, in pages of a
// few ten thousand pairs. It sees the map as it is when the iteration begins. If an error occurs or
// ctx ends, the last page is empty and comes with the error.
func (m *seeker[K, V]) Between(ctx context.Context, lo, hi K) iter.Seq2[Page[K, V], error] {
	return func(yield func(Page[K, V], error) bool) {
		ended := false
		err := m.between(ctx, lo, hi, func(p Page[K, V]) bool {
			ended = !yield(p, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(Page[K, V]{}, err)
		}
	}
}

func (m *seeker[K, V]) between(ctx context.Context, lo, hi K, yield func(Page[K, V]) bool) (err error) {
	at := m.snapshot
	if at == nil {
		if at, err = m.tab.Snapshot(ctx, "Between"); err != nil {
			return err
		}
		defer func() {
			if e := at.Close(); err == nil {
				err = e
			}
		}()
	}
	s := seeker[K, V]{m.tab, at}
	var rows PairRows[K, V]
	page := rangePage // reduced to the pairs that ResultLimit allows
	if m.tab.ResultLimit > 0 {
		page = min(page, max(1, m.tab.ResultLimit/(m.tab.Widths.Key+m.tab.Widths.Val)))
	}
	for more := lo <= hi; more; {
		rows.Reset()
		if err := s.expand(ctx, "Between", s.rangeBatch(batch.Input([]K{lo}), batch.Input([]K{hi}), 1, page, false), &rows); err != nil {
			return err
		}
		lo, more = rows.Next(0, page, hi) // before yield, because the loop body may sort the page
		if len(rows.Keys) > 0 && !yield(Page[K, V]{rows.Keys, rows.Vals}) {
			return nil
		}
	}
	return nil
}

// Backward iterates over the pairs in descending order of their keys. It sees the map as it is when
// the iteration begins. An iteration ends early after an error.
func (m *seeker[K, V]) Backward() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		_ = m.tab.PagesBackward(context.Background(), "Backward", m.snapshot, func(p *core.Page) bool {
			keys, vals := batch.View[K](p.Keys.Host), batch.View[V](p.Vals.Host)
			for i := len(keys) - 1; i >= 0; i-- {
				if !yield(keys[i], vals[i]) {
					return false
				}
			}
			return true
		})
	}
}

func (m *seeker[K, V]) pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return pages[K, V](ctx, m.tab, m.snapshot)
}

func (m *seeker[K, V]) all() iter.Seq2[K, V] {
	return each(m.pages(context.Background()))
}

func (m *seeker[K, V]) copyTo(ctx context.Context, dev device.Device) (*OrderedMap[K, V], error) {
	t, err := m.tab.CopyTo(ctx, m.snapshot, dev)
	if err != nil {
		return nil, err
	}
	return NewOrderedMap[K, V](t), nil
}
