package conformance

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// The suites access structures through these interfaces, with keys and values as 64-bit numbers.
type (
	erasedPairs interface {
		pairsLike[uint64, uint64, words, words]
		types() *types
	}
	erasedMap interface {
		mapLike[uint64, uint64, words, words]
		types() *types
		copyTo(ctx context.Context, dev device.Device) (to erasedMap, ok bool, err error)
	}
	erasedMultiMap interface {
		multiMapLike[uint64, uint64, words, words]
		types() *types
		copyTo(ctx context.Context, dev device.Device) (to erasedMultiMap, ok bool, err error)
	}
	erasedSet interface {
		setLike[uint64, words]
		types() *types
		copyTo(ctx context.Context, dev device.Device) (to erasedSet, ok bool, err error)
	}
	erasedSeeker interface {
		seekerLike[uint64, uint64, words, words]
		saver() saver
	}
	erasedOrderedMap interface {
		orderedMapLike[uint64, uint64, words, words]
		types() *types
		copyTo(ctx context.Context, dev device.Device) (to erasedMap, ok bool, err error)
		saver() saver
		snapshot(ctx context.Context) (at erasedSeeker, ok bool, err error)
	}
)

// caller calls the methods of a structure. invoke converts arguments and results to the structure's
// own types.
type caller struct {
	typ       types
	structure any
	invoke    func(c *call) (int, error)
}

// call holds the name, the arguments and the results of a method call.
type call struct {
	method  string
	ctx     context.Context
	keys    [3][]uint64 // keys or lower bounds; upper bounds; keys found
	vals    []uint64
	flags   []bool
	counts  []uint32
	ranks   []uint64
	limit   int
	by      weft.Reduction
	ops     []weft.Op[uint64, uint64]
	results []weft.Result[uint64]
	rows    *weft.PairRows[uint64, uint64] // without keys for multimaps

	hostCopies [3]hostCopy
	valsCopy   hostCopy

	stream   *device.Stream
	onKinds  device.Slice[weft.OpKind]
	onKeys   [3]words
	onVals   words
	onFlags  device.Slice[bool]
	onCounts device.Slice[uint32]
	onRanks  device.Slice[uint64] // ranks, or offsets of rows
	n        []device.Slice[uint64]

	err   error
	all   iter.Seq2[uint64, uint64]
	pages iter.Seq2[weft.Page[uint64, uint64], error]
}

// callHost calls a method with a batch in host memory.
func (a *caller) callHost(c *call) (int, error) {
	for i, keys := range c.keys {
		c.hostCopies[i] = newHostCopy(keys, a.typ.keyMask, a.typ.signBit)
		defer c.hostCopies[i].copyBack()
	}
	c.valsCopy = newHostCopy(c.vals, a.typ.valMask, 0)
	defer c.valsCopy.copyBack()
	return a.invoke(c)
}

// callDevice calls a method with a batch in device memory.
func (a *caller) callDevice(c *call) error {
	_, err := a.invoke(c)
	return err
}

// CheckInvariants implements InvariantChecker.
func (a *caller) CheckInvariants() error {
	if c, ok := a.structure.(InvariantChecker); ok {
		return c.CheckInvariants()
	}
	return nil
}

func (a *caller) types() *types { return &a.typ }

// lookupsAdapter adapts the lookups of maps, multimaps and snapshots.
type lookupsAdapter struct{ caller }

func (a *lookupsAdapter) Get(ctx context.Context, keys, vals []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Get", ctx: ctx, keys: [3][]uint64{keys}, vals: vals, flags: found})
}

func (a *lookupsAdapter) GetOn(s *device.Stream, keys, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "GetOn", stream: s, onKeys: [3]words{keys}, onVals: vals, onFlags: found, n: n})
}

func (a *lookupsAdapter) Contains(ctx context.Context, keys []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Contains", ctx: ctx, keys: [3][]uint64{keys}, flags: found})
}

func (a *lookupsAdapter) ContainsOn(s *device.Stream, keys words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "ContainsOn", stream: s, onKeys: [3]words{keys}, onFlags: found, n: n})
}

func (a *lookupsAdapter) All() iter.Seq2[uint64, uint64] {
	c := call{method: "All"}
	_ = a.callDevice(&c)
	return c.all
}

func (a *lookupsAdapter) Pages(ctx context.Context) iter.Seq2[weft.Page[uint64, uint64], error] {
	c := call{method: "Pages", ctx: ctx}
	_ = a.callDevice(&c)
	return c.pages
}

// pairsAdapter adapts the methods that maps and multimaps share.
type pairsAdapter struct {
	Structure
	lookupsAdapter
}

func (a *pairsAdapter) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	return a.callHost(&call{method: "Put", ctx: ctx, keys: [3][]uint64{keys}, vals: vals})
}

func (a *pairsAdapter) PutOn(s *device.Stream, keys, vals words, n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "PutOn", stream: s, onKeys: [3]words{keys}, onVals: vals, n: n})
}

func (a *pairsAdapter) PutNew(ctx context.Context, keys, vals []uint64, ok []bool) (int, error) {
	return a.callHost(&call{method: "PutNew", ctx: ctx, keys: [3][]uint64{keys}, vals: vals, flags: ok})
}

func (a *pairsAdapter) PutNewOn(s *device.Stream, keys, vals words, ok device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "PutNewOn", stream: s, onKeys: [3]words{keys}, onVals: vals, onFlags: ok, n: n})
}

func (a *pairsAdapter) Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error) {
	return a.callHost(&call{method: "Delete", ctx: ctx, keys: [3][]uint64{keys}, flags: deleted})
}

func (a *pairsAdapter) DeleteOn(s *device.Stream, keys words, deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "DeleteOn", stream: s, onKeys: [3]words{keys}, onFlags: deleted, n: n})
}

func (a *pairsAdapter) Apply(ctx context.Context, ops []weft.Op[uint64, uint64], res []weft.Result[uint64]) error {
	_, err := a.callHost(&call{method: "Apply", ctx: ctx, ops: ops, results: res})
	return err
}

func (a *pairsAdapter) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, vals words, ok device.Slice[bool]) error {
	return a.callDevice(&call{method: "ApplyOn", stream: s, onKinds: kinds, onKeys: [3]words{keys}, onVals: vals, onFlags: ok})
}

type mapAdapter struct {
	pairsAdapter
	copyFunc func(ctx context.Context, dev device.Device) (to erasedMap, ok bool, err error)
}

func (a *mapAdapter) copyTo(ctx context.Context, dev device.Device) (erasedMap, bool, error) {
	return a.copyFunc(ctx, dev)
}

func (a *mapAdapter) GetOrPut(ctx context.Context, keys, vals []uint64, loaded []bool) (int, error) {
	return a.callHost(&call{method: "GetOrPut", ctx: ctx, keys: [3][]uint64{keys}, vals: vals, flags: loaded})
}

func (a *mapAdapter) GetOrPutOn(s *device.Stream, keys, vals words, loaded device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "GetOrPutOn", stream: s, onKeys: [3]words{keys}, onVals: vals, onFlags: loaded, n: n})
}

func (a *mapAdapter) Assign(ctx context.Context, keys, ids []uint64) (int, error) {
	return a.callHost(&call{method: "Assign", ctx: ctx, keys: [3][]uint64{keys}, vals: ids})
}

func (a *mapAdapter) Reduce(ctx context.Context, keys, vals []uint64, by weft.Reduction) (int, error) {
	return a.callHost(&call{method: "Reduce", ctx: ctx, keys: [3][]uint64{keys}, vals: vals, by: by})
}

func (a *mapAdapter) ReduceOn(s *device.Stream, keys, vals words, by weft.Reduction, n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "ReduceOn", stream: s, onKeys: [3]words{keys}, onVals: vals, by: by, n: n})
}

type multiMapAdapter struct {
	pairsAdapter
	copyFunc func(ctx context.Context, dev device.Device) (to erasedMultiMap, ok bool, err error)
}

func (a *multiMapAdapter) copyTo(ctx context.Context, dev device.Device) (erasedMultiMap, bool, error) {
	return a.copyFunc(ctx, dev)
}

func (a *multiMapAdapter) GetAll(ctx context.Context, keys []uint64, rows *weft.Rows[uint64]) error {
	pairs := weft.PairRows[uint64, uint64]{Offsets: rows.Offsets}
	_, err := a.callHost(&call{method: "GetAll", ctx: ctx, keys: [3][]uint64{keys}, vals: rows.Vals, rows: &pairs})
	rows.Offsets, rows.Vals = pairs.Offsets, pairs.Vals
	return err
}

func (a *multiMapAdapter) GetAllOn(s *device.Stream, keys words, counts device.Slice[uint32], offsets device.Slice[uint64], vals words) error {
	return a.callDevice(&call{method: "GetAllOn", stream: s, onKeys: [3]words{keys}, onCounts: counts, onRanks: offsets, onVals: vals})
}

func (a *multiMapAdapter) Count(ctx context.Context, keys []uint64, counts []uint32) (int, error) {
	return a.callHost(&call{method: "Count", ctx: ctx, keys: [3][]uint64{keys}, counts: counts})
}

func (a *multiMapAdapter) CountOn(s *device.Stream, keys words, counts device.Slice[uint32]) error {
	return a.callDevice(&call{method: "CountOn", stream: s, onKeys: [3]words{keys}, onCounts: counts})
}

func (a *multiMapAdapter) DeleteAll(ctx context.Context, keys []uint64, removed []uint32) (int, error) {
	return a.callHost(&call{method: "DeleteAll", ctx: ctx, keys: [3][]uint64{keys}, counts: removed})
}

func (a *multiMapAdapter) DeleteAllOn(s *device.Stream, keys words, removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "DeleteAllOn", stream: s, onKeys: [3]words{keys}, onCounts: removed, n: n})
}

type setAdapter struct {
	Structure
	caller
	copyFunc func(ctx context.Context, dev device.Device) (to erasedSet, ok bool, err error)
}

func (a *setAdapter) copyTo(ctx context.Context, dev device.Device) (erasedSet, bool, error) {
	return a.copyFunc(ctx, dev)
}

func (a *setAdapter) All() iter.Seq[uint64] {
	c := call{method: "All"}
	_ = a.callDevice(&c)
	return firsts(c.all)
}

func (a *setAdapter) Pages(ctx context.Context) iter.Seq2[[]uint64, error] {
	c := call{method: "Pages", ctx: ctx}
	_ = a.callDevice(&c)
	return func(yield func([]uint64, error) bool) {
		c.pages(func(p weft.Page[uint64, uint64], err error) bool { return yield(p.Keys, err) })
	}
}

func (a *setAdapter) Add(ctx context.Context, keys []uint64, added []bool) (int, error) {
	return a.callHost(&call{method: "Add", ctx: ctx, keys: [3][]uint64{keys}, flags: added})
}

func (a *setAdapter) AddOn(s *device.Stream, keys words, added device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "AddOn", stream: s, onKeys: [3]words{keys}, onFlags: added, n: n})
}

func (a *setAdapter) Contains(ctx context.Context, keys []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Contains", ctx: ctx, keys: [3][]uint64{keys}, flags: found})
}

func (a *setAdapter) ContainsOn(s *device.Stream, keys words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "ContainsOn", stream: s, onKeys: [3]words{keys}, onFlags: found, n: n})
}

func (a *setAdapter) Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error) {
	return a.callHost(&call{method: "Delete", ctx: ctx, keys: [3][]uint64{keys}, flags: deleted})
}

func (a *setAdapter) DeleteOn(s *device.Stream, keys words, deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "DeleteOn", stream: s, onKeys: [3]words{keys}, onFlags: deleted, n: n})
}

func (a *setAdapter) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys words, ok device.Slice[bool]) error {
	return a.callDevice(&call{method: "ApplyOn", stream: s, onKinds: kinds, onKeys: [3]words{keys}, onFlags: ok})
}

// seeksAdapter adapts the ordered lookups of ordered maps and snapshots.
type seeksAdapter struct{ caller }

func (a *seeksAdapter) Backward() iter.Seq2[uint64, uint64] {
	c := call{method: "Backward"}
	_ = a.callDevice(&c)
	return c.all
}

func (a *seeksAdapter) Between(ctx context.Context, lo, hi uint64) iter.Seq2[weft.Page[uint64, uint64], error] {
	c := call{method: "Between", ctx: ctx, keys: [3][]uint64{{lo}, {hi}}}
	_, _ = a.callHost(&c)
	return c.pages
}

func (a *seeksAdapter) Min(ctx context.Context) (k, v uint64, ok bool, err error) {
	return a.callEnd(ctx, "Min")
}

func (a *seeksAdapter) Max(ctx context.Context) (k, v uint64, ok bool, err error) {
	return a.callEnd(ctx, "Max")
}

func (a *seeksAdapter) callEnd(ctx context.Context, method string) (k, v uint64, ok bool, err error) {
	c := call{method: method, ctx: ctx, keys: [3][]uint64{{0}}, vals: []uint64{0}, flags: []bool{false}}
	_, err = a.callHost(&c)
	return c.keys[0][0], c.vals[0], c.flags[0], err
}

// saver returns the structure if it has a method Save, otherwise nil.
func (a *seeksAdapter) saver() saver {
	s, _ := a.structure.(saver)
	return s
}

type saver interface {
	Save(ctx context.Context, w io.Writer) (n int, err error)
}

func (a *seeksAdapter) Range(ctx context.Context, lo, hi []uint64, limit int, rows *weft.PairRows[uint64, uint64]) error {
	return a.callRows("Range", ctx, lo, hi, limit, rows)
}

func (a *seeksAdapter) RangeBackward(ctx context.Context, lo, hi []uint64, limit int, rows *weft.PairRows[uint64, uint64]) error {
	return a.callRows("RangeBackward", ctx, lo, hi, limit, rows)
}

func (a *seeksAdapter) callRows(method string, ctx context.Context, lo, hi []uint64, limit int, callRows *weft.PairRows[uint64, uint64]) error {
	_, err := a.callHost(&call{method: method, ctx: ctx, keys: [3][]uint64{lo, hi, callRows.Keys}, vals: callRows.Vals, limit: limit, rows: callRows})
	return err
}

func (a *seeksAdapter) RangeOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
	return a.callDevice(&call{method: "RangeOn", stream: s, onKeys: [3]words{lo, hi, keys}, limit: limit, onCounts: counts, onRanks: offsets, onVals: vals})
}

func (a *seeksAdapter) RangeBackwardOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
	return a.callDevice(&call{method: "RangeBackwardOn", stream: s, onKeys: [3]words{lo, hi, keys}, limit: limit, onCounts: counts, onRanks: offsets, onVals: vals})
}

func (a *seeksAdapter) RangeFirst(ctx context.Context, lo, hi []uint64, limit int, counts []uint32, keys, vals []uint64) (int, error) {
	return a.callHost(&call{method: "RangeFirst", ctx: ctx, keys: [3][]uint64{lo, hi, keys}, limit: limit, counts: counts, vals: vals})
}

func (a *seeksAdapter) RangeFirstOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], keys, vals words, n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "RangeFirstOn", stream: s, onKeys: [3]words{lo, hi, keys}, limit: limit, onCounts: counts, onVals: vals, n: n})
}

func (a *seeksAdapter) RangeLast(ctx context.Context, lo, hi []uint64, limit int, counts []uint32, keys, vals []uint64) (int, error) {
	return a.callHost(&call{method: "RangeLast", ctx: ctx, keys: [3][]uint64{lo, hi, keys}, limit: limit, counts: counts, vals: vals})
}

func (a *seeksAdapter) RangeLastOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], keys, vals words, n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "RangeLastOn", stream: s, onKeys: [3]words{lo, hi, keys}, limit: limit, onCounts: counts, onVals: vals, n: n})
}

func (a *seeksAdapter) Count(ctx context.Context, lo, hi []uint64, counts []uint32) (int, error) {
	return a.callHost(&call{method: "Count", ctx: ctx, keys: [3][]uint64{lo, hi}, counts: counts})
}

func (a *seeksAdapter) CountOn(s *device.Stream, lo, hi words, counts device.Slice[uint32]) error {
	return a.callDevice(&call{method: "CountOn", stream: s, onKeys: [3]words{lo, hi}, onCounts: counts})
}

func (a *seeksAdapter) Rank(ctx context.Context, keys, ranks []uint64) error {
	_, err := a.callHost(&call{method: "Rank", ctx: ctx, keys: [3][]uint64{keys}, ranks: ranks})
	return err
}

func (a *seeksAdapter) RankOn(s *device.Stream, keys words, ranks device.Slice[uint64]) error {
	return a.callDevice(&call{method: "RankOn", stream: s, onKeys: [3]words{keys}, onRanks: ranks})
}

func (a *seeksAdapter) Select(ctx context.Context, ranks, keys, vals []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Select", ctx: ctx, ranks: ranks, keys: [3][]uint64{2: keys}, vals: vals, flags: found})
}

func (a *seeksAdapter) SelectOn(s *device.Stream, ranks device.Slice[uint64], keys, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "SelectOn", stream: s, onRanks: ranks, onKeys: [3]words{2: keys}, onVals: vals, onFlags: found, n: n})
}

func (a *seeksAdapter) Successor(ctx context.Context, keys, next, vals []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Successor", ctx: ctx, keys: [3][]uint64{keys, nil, next}, vals: vals, flags: found})
}

func (a *seeksAdapter) SuccessorOn(s *device.Stream, keys, next, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "SuccessorOn", stream: s, onKeys: [3]words{keys, {}, next}, onVals: vals, onFlags: found, n: n})
}

func (a *seeksAdapter) Predecessor(ctx context.Context, keys, previous, vals []uint64, found []bool) (int, error) {
	return a.callHost(&call{method: "Predecessor", ctx: ctx, keys: [3][]uint64{keys, nil, previous}, vals: vals, flags: found})
}

func (a *seeksAdapter) PredecessorOn(s *device.Stream, keys, previous, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.callDevice(&call{method: "PredecessorOn", stream: s, onKeys: [3]words{keys, {}, previous}, onVals: vals, onFlags: found, n: n})
}

// snapshotAdapter adapts a snapshot of an ordered map.
type snapshotAdapter struct {
	lookupsAdapter
	seeksAdapter
	at interface {
		Len() int
		Close() error
	}
}

func (a *snapshotAdapter) Len() int     { return a.at.Len() }
func (a *snapshotAdapter) Close() error { return a.at.Close() }

type orderedMapAdapter struct {
	mapAdapter
	seeksAdapter
	snapshotFunc func(ctx context.Context) (at erasedSeeker, ok bool, err error)
}

func (a *orderedMapAdapter) types() *types          { return a.mapAdapter.types() }
func (a *orderedMapAdapter) CheckInvariants() error { return a.mapAdapter.CheckInvariants() }

func (a *orderedMapAdapter) snapshot(ctx context.Context) (erasedSeeker, bool, error) {
	return a.snapshotFunc(ctx)
}

func (a *orderedMapAdapter) Build(ctx context.Context, keys, vals []uint64) (int, error) {
	return a.mapAdapter.callHost(&call{method: "Build", ctx: ctx, keys: [3][]uint64{keys}, vals: vals})
}

func (a *orderedMapAdapter) BuildOn(s *device.Stream, keys, vals words, n ...device.Slice[uint64]) error {
	return a.mapAdapter.callDevice(&call{method: "BuildOn", stream: s, onKeys: [3]words{keys}, onVals: vals, n: n})
}

func (a *orderedMapAdapter) DeleteRange(ctx context.Context, lo, hi []uint64, removed []uint32) (int, error) {
	return a.mapAdapter.callHost(&call{method: "DeleteRange", ctx: ctx, keys: [3][]uint64{lo, hi}, counts: removed})
}

func (a *orderedMapAdapter) DeleteRangeOn(s *device.Stream, lo, hi words, removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return a.mapAdapter.callDevice(&call{method: "DeleteRangeOn", stream: s, onKeys: [3]words{lo, hi}, onCounts: removed, n: n})
}
