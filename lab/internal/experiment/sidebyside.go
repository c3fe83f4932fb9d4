package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/workload"
)

var sideBySideExperiment = Experiment{
	Name:  "horton-side-by-side",
	Title: "Every hash table of weft over the load",
	Doc: `10^8 unique random keys (2^18 on a CPU) in linear, slab, cuckoo with both policies, and horton with lazy and eager
reclaiming, at loads from .5 to .98, each structure up to what it bears: the parameters have the highest load at which every
key found room; those of horton on a GPU end at .92, beyond which tables of fixed size take other seeds again and again.
A slab hash's load is its memory utilization. insert fills the empty table, get_hit looks up keys that are
there, get_miss keys that are not, delete deletes all. churn is ten turnovers: an eighth of the keys is deleted, as many new ones are inserted, and so on
until every key has been replaced ten times; it is timed once, and its rate counts deletions and insertions. Then keys are
looked up again (get_hit_churned, get_miss_churned). Which of equal keys in a batch wins is left open.`,
	run:   runSideBySide,
	plots: plotSideBySide,
}

const (
	turnovers    = 10
	churnBatches = 8          // batches per turnover
	churned      = "_churned" // suffix of lookups after the churn

	// hortonGPUBound is the maximum load of Horton tables of fixed size on a GPU. At higher loads,
	// single keys out of 10^8 do not fit, and each causes rehashes of the whole table.
	hortonGPUBound = .92
)

func (r *runner) sideLoads() []float64 {
	switch r.Scale {
	case Quick:
		return []float64{.9}
	case Full:
		return []float64{.5, .55, .6, .65, .7, .75, .8, .85, .9, .92, .95, .98}
	}
	return []float64{.5, .6, .7, .8, .9, .95, .98}
}

func runSideBySide(ctx context.Context, r *runner) error {
	// The memory per key covers the widest table, columns, and the keys of all turnovers. The
	// widest table is a slab hash at the lowest load, with space for any distribution of keys.
	n, err := r.keys(1<<18, 100_000_000, 4*16+columnBytes[uint64, uint64]()+turnovers*16)
	if err != nil {
		return err
	}
	n = min(n, workload.Misses/(turnovers+1)) // so that 32-bit keys are distinct
	r.result.Parameters["keys"] = n
	limits := []string{r.slabLimit()}
	for _, slot := range []int{8, 16} {
		limits = append(limits, r.readLimit(slot), r.writeLimit(slot))
	}
	if err := r.limits(ctx, 2*n*16, limits...); err != nil {
		return err
	}
	if err := sideBySide[uint32, uint32](ctx, r, n); err != nil || r.Scale == Quick {
		return err
	}
	return sideBySide[uint64, uint64](ctx, r, n)
}

// side measures tables of one pair of widths.
type side[K weft.Key, V weft.Value] struct {
	trial[K, V]
	// The pairs of all turnovers, one after the other. The pairs of the columns come last.
	keys device.Slice[K]
	vals device.Slice[V]
}

func sideBySide[K weft.Key, V weft.Value](ctx context.Context, r *runner, n int) (err error) {
	s := side[K, V]{trial: trial[K, V]{runner: r}}
	s.keyBits, s.valueBits = bitsOf[K](), bitsOf[V]()
	s.step("%s %s: columns of %d keys", r.result.Experiment, s.width(), n)
	if s.cols, err = newColumns[K, V](r, n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cols.free(), r.free(&s.keys, &s.vals)) }()
	if err := s.upload(); err != nil {
		return err
	}
	lazy, eager := hortonKind[K, V](r, hortonLazy, horton.Lazy), hortonKind[K, V](r, hortonEager, horton.Eager)
	if r.onGPU() {
		lazy.bound, eager.bound = hortonGPUBound, hortonGPUBound
	}
	for _, k := range []kind[K, V]{
		linearKind[K, V](r), slabKind[K, V](r),
		cuckooKind[K, V](r, cuckooFirst, cuckoo.FirstFit), cuckooKind[K, V](r, cuckooEven, cuckoo.LoadBalancing),
		lazy, eager,
	} {
		if err := s.sweep(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (s *side[K, V]) upload() (err error) {
	n := s.cols.n
	if s.keys, err = device.Make[K](s.Device, turnovers*n); err != nil {
		return err
	}
	if s.vals, err = device.Make[V](s.Device, turnovers*n); err != nil {
		return err
	}
	keys, vals := make([]K, n), make([]V, n)
	for i := range turnovers {
		workload.Unique(keys, s.Seed, uint64((i+1)*n))
		workload.Values(vals, keys)
		if err := errors.Join(s.keys.Sub(i*n, (i+1)*n).CopyFrom(s.stream, keys), s.vals.Sub(i*n, (i+1)*n).CopyFrom(s.stream, vals)); err != nil {
			return err
		}
	}
	return nil
}

// sweep measures tables of one kind at rising loads. The highest load that fits becomes a
// parameter.
func (s *side[K, V]) sweep(ctx context.Context, k kind[K, V]) error {
	slot := slotBytes[K, V]()
	s.structure, s.read, s.write = k.name, s.readLimit(slot), s.writeLimit(slot)
	if k.wide {
		s.read = s.slabLimit()
	}
	loads := append(s.sideLoads(), k.bound)
	slices.Sort(loads)
	bound := 0.
	for _, s.load = range slices.Compact(loads) {
		if s.load > k.bound {
			break
		}
		before := len(s.result.Rows)
		full, err := k.with(s.cols.n, s.load, func(t subject[K, V]) error {
			s.table = t
			return s.measure(ctx)
		})
		if err != nil {
			return err
		}
		if full {
			s.result.Rows = s.result.Rows[:before]
			break
		}
		bound = s.load
		for i := range s.result.Rows[before:] {
			s.result.Rows[before+i].Load = s.load // the load requested, not the utilization reached
		}
	}
	s.result.Parameters["bound_"+k.name+"_"+s.width()] = bound
	return nil
}

func (s *side[K, V]) measure(ctx context.Context) error {
	if err := s.insert(ctx, "insert"); err != nil {
		return err
	}
	for _, op := range []string{"get_hit", "get_miss"} {
		if err := s.lookup(ctx, op); err != nil {
			return err
		}
	}
	if err := s.deletes(ctx); err != nil {
		return err
	}
	if err := s.churn(ctx); err != nil {
		return err
	}
	for _, op := range []string{"get_hit", "get_miss"} {
		if err := s.lookup(ctx, op+churned); err != nil {
			return err
		}
	}
	return nil
}

// churn times ten turnovers. Afterwards the table contains the pairs of the columns.
func (s *side[K, V]) churn(ctx context.Context) error {
	s.begin("churn")
	n := s.cols.n
	if err := s.table.Clear(ctx); err != nil {
		return err
	}
	if err := s.table.put(s.stream, s.keys.Sub(0, n), s.vals.Sub(0, n)); err != nil {
		return err
	}
	if err := s.stream.Sync(ctx); err != nil {
		return err
	}
	t, err := s.watch.Time(ctx, func() error {
		for i := range turnovers {
			if err := s.turnover(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.table.Sync(ctx); err != nil {
		return err
	}
	var row Row
	if err := s.table.describe(ctx, &row); err != nil {
		return err
	}
	s.report("churn", 2*turnovers*n, t, s.write, row)
	return nil
}

// turnover replaces the keys of turnover i by the keys of the next.
func (s *side[K, V]) turnover(i int) error {
	n := s.cols.n
	old, keys, vals := s.keys.Sub(i*n, (i+1)*n), s.cols.keys, s.cols.vals
	if i+1 < turnovers {
		keys, vals = s.keys.Sub((i+1)*n, (i+2)*n), s.vals.Sub((i+1)*n, (i+2)*n)
	}
	for b := range churnBatches {
		lo, hi := b*n/churnBatches, (b+1)*n/churnBatches
		if err := s.table.remove(s.stream, old.Sub(lo, hi), device.Slice[bool]{}); err != nil {
			return err
		}
		if err := s.table.put(s.stream, keys.Sub(lo, hi), vals.Sub(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// plotSideBySide plots all structures over the load, with limits, for each width and operation.
func plotSideBySide(res *Result) []Plot {
	var plots []Plot
	nameOf := func(row Row) string {
		return fmt.Sprintf("horton-side-by-side-%d-%d-%s", row.KeyBits, row.ValueBits, row.Op)
	}
	for _, row := range res.Rows {
		name := nameOf(row)
		i := slices.IndexFunc(plots, func(p Plot) bool { return p.Name == name })
		if i < 0 {
			i = len(plots)
			plots = append(plots, Plot{
				Name: name, Title: fmt.Sprintf("%s, %d-bit keys, %d-bit values", row.Op, row.KeyBits, row.ValueBits),
				XLabel: "load", YLabel: "operations per second",
			})
		}
		plots[i].point(row.Structure, row.Load, row.OpsPerS)
	}
	for i := range plots {
		plots[i].limits(res, func(row Row) bool { return nameOf(row) == plots[i].Name })
	}
	return plots
}
