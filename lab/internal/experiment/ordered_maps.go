package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lsm"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/sorted"
)

// The experiments on ordered maps follow chapters 2 to 4 of Awad's thesis ("Fully Concurrent GPU
// Data Structures", 2022). The thesis measured 32-bit keys and values on a TITAN V and a V100.

// allOrdered is a note on the measured maps, for the texts of experiments.
const allOrdered = ` All ordered maps of weft that run on the device are measured; one that does not has a row that says why. The tree of lsm has
been filled in batches of its base (2^20, or 2^14 on a CPU, and an eighth of the keys at most), so it has several levels; the others were loaded at once.`

// orderedMap is an ordered map under test. It implements [subject] and accepts mixed batches.
type orderedMap[K weft.Key, V weft.Value] struct {
	mapOf *weft.OrderedMap[K, V]
	name  string
	// pieces is the number of pairs per batch when the map is filled. 0 means that all pairs are
	// loaded at once.
	pieces int
	// bytes returns the size of the map's memory, and of the part that only snapshots hold, or
	// unknown.
	bytes func(ctx context.Context) (used, held int, err error)
}

// unknown stands for the size of memory that a structure does not report.
const unknown = -1

func (m *orderedMap[K, V]) put(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	return m.mapOf.PutOn(s, keys, vals)
}

func (m *orderedMap[K, V]) get(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error {
	return m.mapOf.GetOn(s, keys, vals, found)
}

func (m *orderedMap[K, V]) remove(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	return m.mapOf.DeleteOn(s, keys, deleted)
}

// ApplyOn implements [mixer].
func (m *orderedMap[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return m.mapOf.ApplyOn(s, kinds, keys, vals, ok)
}

func (m *orderedMap[K, V]) Clear(ctx context.Context) error { return m.mapOf.Clear(ctx) }
func (m *orderedMap[K, V]) Len() int                        { return m.mapOf.Len() }
func (m *orderedMap[K, V]) Sync(ctx context.Context) error  { return m.mapOf.Sync(ctx) }
func (m *orderedMap[K, V]) Close() error                    { return m.mapOf.Close() }

func (m *orderedMap[K, V]) describe(ctx context.Context, row *Row) error {
	used, _, err := m.bytes(ctx)
	if n := m.Len(); n > 0 {
		row.BytesPerEntry = figure(float64(used) / float64(n))
	}
	return err
}

func (m *orderedMap[K, V]) load(ctx context.Context, s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	if err := m.Clear(ctx); err != nil {
		return err
	}
	n := keys.Len()
	if m.pieces == 0 {
		return m.mapOf.BuildOn(s, keys, vals)
	}
	for lo := 0; lo < n; lo += m.pieces {
		hi := min(lo+m.pieces, n)
		if err := m.put(s, keys.Sub(lo, hi), vals.Sub(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// minPieces is the minimum number of batches that fill an lsm.
const minPieces = 8

// openOrdered opens each ordered map of weft for n keys. If a map does not run on the device,
// openOrdered adds a row with the reason. The caller must pass the maps to closeOrdered.
func openOrdered[K weft.Key, V weft.Value](r *runner, n int) (maps []*orderedMap[K, V], err error) {
	base := r.size(1<<14, 1<<20)
	for base > 16 && minPieces*base > n {
		base /= 2
	}
	for _, kind := range []struct {
		name string
		open func() (*orderedMap[K, V], error)
	}{
		{"sorted", func() (*orderedMap[K, V], error) {
			m, err := sorted.New[K, V](r.Device, nil)
			if err != nil {
				return nil, err
			}
			return &orderedMap[K, V]{mapOf: m.OrderedMap, bytes: func(ctx context.Context) (int, int, error) {
				s, err := m.Stats(ctx)
				return s.Bytes, s.Held, err
			}}, nil
		}},
		{"lsm", func() (*orderedMap[K, V], error) {
			m, err := lsm.New[K, V](r.Device, &lsm.Options{Base: base})
			if err != nil {
				return nil, err
			}
			return &orderedMap[K, V]{mapOf: m.OrderedMap, pieces: base, bytes: func(ctx context.Context) (int, int, error) {
				s, err := m.Stats(ctx)
				return s.Bytes, s.Held, err
			}}, nil
		}},
		{"btree", func() (*orderedMap[K, V], error) {
			m, err := btree.New[K, V](r.Device, nil)
			if err != nil {
				return nil, err
			}
			return &orderedMap[K, V]{mapOf: m.OrderedMap, bytes: func(ctx context.Context) (int, int, error) {
				s, err := m.Stats(ctx)
				return s.Bytes, unknown, err
			}}, nil
		}},
		{"ordered", func() (*orderedMap[K, V], error) {
			m, err := ordered.New[K, V](r.Device, nil)
			if err != nil {
				return nil, err
			}
			return &orderedMap[K, V]{mapOf: m.OrderedMap, bytes: func(ctx context.Context) (int, int, error) {
				s, err := m.Stats(ctx)
				kept := 0
				if all := s.Leaves + s.Kept + s.Free; all > 0 {
					kept = int(float64(s.Bytes) * float64(s.Kept) / float64(all))
				}
				return s.Bytes - kept, kept, err
			}}, nil
		}},
	} {
		m, err := kind.open()
		switch {
		case errors.Is(err, device.ErrUnsupported):
			r.result.Rows = append(r.result.Rows, Row{Structure: kind.name, Op: "none", KeyBits: bitsOf[K](), ValueBits: bitsOf[V](), Reason: err.Error()})
		case err != nil:
			return maps, errors.Join(err, closeOrdered(maps))
		default:
			m.name = kind.name
			maps = append(maps, m)
		}
	}
	return maps, nil
}

func closeOrdered[K weft.Key, V weft.Value](maps []*orderedMap[K, V]) (err error) {
	for _, m := range maps {
		err = errors.Join(err, m.Close())
	}
	return err
}

// orderedTrial measures operations of ordered maps on columns of pairs on the device.
type orderedTrial[K weft.Key, V weft.Value] struct {
	trial[K, V]
	maps []*orderedMap[K, V]
	keys device.Slice[K] // unique keys, which derive from the counters 0, 1, 2 and so on
	vals device.Slice[V]
	m    *orderedMap[K, V] // map under measurement
	n    int               // number of pairs in the map
}

// newOrderedTrial makes the given number of pairs, for maps of at most n pairs.
func newOrderedTrial[K weft.Key, V weft.Value](r *runner, pairs, n int) (t *orderedTrial[K, V], err error) {
	return newTrialOf(r, pairs, n, func() ([]*orderedMap[K, V], error) { return openOrdered[K, V](r, n) })
}

// newTrialOf acts as newOrderedTrial for the maps that open returns.
func newTrialOf[K weft.Key, V weft.Value](r *runner, pairs, n int, open func() ([]*orderedMap[K, V], error)) (t *orderedTrial[K, V], err error) {
	t = &orderedTrial[K, V]{trial: trial[K, V]{runner: r, keyBits: bitsOf[K](), valueBits: bitsOf[V]()}, n: n}
	t.cols = &columns[K, V]{n: n, r: r}
	t.step("%s %s: %d pairs", r.result.Experiment, t.width(), pairs)
	keys, vals := make([]K, pairs), make([]V, pairs)
	workload.Unique(keys, r.Seed, 0)
	workload.Values(vals, keys)
	if t.keys, err = device.Upload(r.stream, keys); err == nil {
		t.vals, err = device.Upload(r.stream, vals)
	}
	if err == nil {
		t.maps, err = open()
	}
	if err != nil {
		return t, errors.Join(err, t.free())
	}
	return t, nil
}

func (t *orderedTrial[K, V]) free() error {
	return errors.Join(t.stream.Sync(context.Background()), closeOrdered(t.maps), t.cols.free(), t.runner.free(&t.keys, &t.vals))
}

func (t *orderedTrial[K, V]) use(m *orderedMap[K, V]) { t.m, t.table, t.structure = m, m, m.name }

// each calls measure for each map. It frees the memory of a map before it measures the next.
func (t *orderedTrial[K, V]) each(ctx context.Context, measure func(m *orderedMap[K, V]) error) error {
	for _, m := range t.maps {
		t.use(m)
		err := measure(m)
		if err == nil {
			err = errors.Join(m.Clear(ctx), m.mapOf.Compact(ctx))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// of returns the pairs [lo,hi) of the columns.
func (t *orderedTrial[K, V]) of(lo, hi int) (device.Slice[K], device.Slice[V]) {
	return t.keys.Sub(lo, hi), t.vals.Sub(lo, hi)
}

// reload returns a function that puts the first n pairs into the map.
func (t *orderedTrial[K, V]) reload(ctx context.Context) func() error {
	return func() error {
		keys, vals := t.of(0, t.n)
		return t.m.load(ctx, t.stream, keys, vals)
	}
}

func (t *orderedTrial[K, V]) has(ctx context.Context, n int) error {
	if err := t.m.Sync(ctx); err != nil {
		return err
	}
	if t.m.Len() != n {
		return fmt.Errorf("%w: %s has %d pairs, want %d", errWrong, t.m.name, t.m.Len(), n)
	}
	return nil
}

func (t *orderedTrial[K, V]) row() Row { return Row{Keys: t.n} }

// orderedBytes is the maximum memory per pair in all ordered maps and in columns. It includes
// reserves for merges and sorts.
func orderedBytes[K weft.Key, V weft.Value]() int { return 12 * (bitsOf[K]() + bitsOf[V]()) / 8 }

// plotOverKeys plots the rates of the selected rows over the number of keys.
func plotOverKeys(res *Result, name, title string, of func(Row) bool) Plot {
	p := Plot{Name: name, Title: title, XLabel: "keys", YLabel: "operations per second", LogX: true, LogY: true}
	for _, row := range res.Rows {
		if row.Reason == "" && of(row) {
			p.point(row.Structure, float64(row.Keys), row.OpsPerS)
		}
	}
	return p
}

// nonEmpty returns the plots that have a series.
func nonEmpty(plots ...Plot) (some []Plot) {
	for _, p := range plots {
		if len(p.Series) > 0 {
			some = append(some, p)
		}
	}
	return some
}
