package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
)

const (
	loopTable = 1 << 20 // keys of the table for all batch sizes
	// loopKeys is the minimum number of keys per measurement. Small batches take many calls.
	loopKeys = 1 << 16
	// loopRegion is the size of the smallest region in which limits are measured. A smaller region
	// would fit in the core's own cache.
	loopRegion = 1 << 15
	ownTable   = "_own" // suffix of operations on a table as large as the batch
)

func runLoops(ctx context.Context, r *runner) error {
	// A table of each kind, and columns.
	n, err := r.keys(1<<22, 0, 2*(32+40)+columnBytes[uint64, uint64]())
	if err != nil {
		return err
	}
	n = max(n, 1)
	table, columns := loopTable, max(n, loopKeys)
	if r.N > 0 {
		table, columns = min(table, n), n
	}
	r.result.Parameters["table_keys"] = table
	sizes := r.powers(0, n, map[Scale]int{Quick: 2, Default: 1, Full: 1})
	l := newLoops(r, columns)
	if err := l.tables(ctx, "", table, sizes...); err != nil {
		return err
	}
	for _, size := range sizes {
		if err := l.tables(ctx, ownTable, size, size); err != nil {
			return err
		}
	}
	for _, op := range []string{"get", "put", "get" + ownTable, "put" + ownTable} {
		r.result.Parameters["crossover_"+op] = crossover(r.result.Rows, op)
	}
	return nil
}

// crossover returns the smallest batch size from which on the operation was never slower than the
// loop, or "none".
func crossover(rows []Row, op string) any {
	var from any = "none"
	for _, row := range rows { // sizes ascend
		switch {
		case row.Op != op || row.Speedup == nil:
		case *row.Speedup < 1:
			from = "none"
		case from == "none":
			from = row.N
		}
	}
	return from
}

// loops holds the columns of batches: keys with new values, and results.
type loops struct {
	*runner
	keys, vals, out []uint64
	found           []bool
}

func newLoops(r *runner, n int) *loops {
	return &loops{r, make([]uint64, n), make([]uint64, n), make([]uint64, n), make([]bool, n)}
}

// loopPeer is a table of one of the two structures.
type loopPeer struct {
	structure string
	cores     int
	load      float64
	put       func(keys, vals []uint64) (inserted int, err error)
	get       func(keys, vals []uint64, found []bool) (hits int, err error)
}

// goLoop returns the loops that a programmer writes without weft.
func goLoop(m map[uint64]uint64) loopPeer {
	return loopPeer{
		structure: goMap, cores: 1,
		put: func(keys, vals []uint64) (int, error) {
			before := len(m)
			for i, k := range keys {
				m[k] = vals[i]
			}
			return len(m) - before, nil
		},
		get: func(keys, vals []uint64, found []bool) (hits int, err error) {
			for i, k := range keys {
				v, ok := m[k]
				vals[i], found[i] = v, ok
				if ok {
					hits++
				}
			}
			return hits, nil
		},
	}
}

// tables measures batches of the given sizes on a table of each structure. Names of operations end
// in suffix.
func (l *loops) tables(ctx context.Context, suffix string, keys int, sizes ...int) (err error) {
	const load = .5 // as in experiment cpu
	region := max(regionOf(32*keys), loopRegion)
	if err := l.limitsIn(ctx, region, roofline.Read64, roofline.Read64OneCore, roofline.CAS64, roofline.CAS64OneCore); err != nil {
		return err
	}
	m, err := linear.New[uint64, uint64](l.Device, &linear.Options{Capacity: keys, MaxLoad: load, Fixed: true, Seed: l.Seed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	peers := []loopPeer{goLoop(make(map[uint64]uint64, keys)), {
		structure: "linear", cores: l.props().Units, load: load,
		put: func(keys, vals []uint64) (int, error) { return m.Put(ctx, keys, vals) },
		get: func(keys, vals []uint64, found []bool) (int, error) { return m.Get(ctx, keys, vals, found) },
	}}
	if err := fillPeers(l.Seed, keys, peers); err != nil {
		return err
	}
	for _, size := range sizes {
		n := l.draw(keys, size)
		for _, p := range peers {
			if err := l.measure(ctx, p, suffix, size, n, region); err != nil {
				return fmt.Errorf("%s: batches of %d keys on a table of %d: %w", p.structure, size, keys, err)
			}
		}
	}
	return nil
}

func fillPeers(seed uint64, n int, peers []loopPeer) error {
	all := make([]uint64, n)
	workload.Unique(all, seed, 0)
	for _, p := range peers {
		if got, err := p.put(all, all); err != nil || got != n {
			return errors.Join(err, fmt.Errorf("%w: %s takes %d of %d different keys", errWrong, p.structure, got, n))
		}
	}
	return nil
}

// draw fills the columns for measuring batches of the given size, and returns the number of rows.
// Keys are present in a table of the given size. Values are new for each batch size.
func (l *loops) draw(table, size int) (n int) {
	n = max(size, min(loopKeys, len(l.keys))/size*size)
	workload.Uniform(l.keys[:n], l.Seed, uint64(table), l.Seed+uint64(size))
	for i, k := range l.keys[:n] {
		l.vals[i] = k + uint64(size)
	}
	return n
}

// measure times Put and then Get of the first n keys in batches of the given size, and adds a row
// for each.
func (l *loops) measure(ctx context.Context, p loopPeer, suffix string, size, n, region int) error {
	clear(l.out[:n])
	for _, op := range []struct {
		name, limit string
		counts      int
		call        func(lo, hi int) (int, error)
	}{
		{"put", roofline.CAS64, 0, func(lo, hi int) (int, error) { return p.put(l.keys[lo:hi], l.vals[lo:hi]) }},
		{"get", roofline.Read64, n, func(lo, hi int) (int, error) {
			return p.get(l.keys[lo:hi], l.out[lo:hi], l.found[lo:hi])
		}},
	} {
		l.step("sizes: %s, %s, batches of %d keys", p.structure, op.name+suffix, size)
		t, err := l.repeat(ctx, l.withMoreRuns(size).Runs, func() (time.Duration, error) { return l.pass(n, size, op.counts, op.call) })
		if err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		if p.cores == 1 {
			op.limit += "_1core"
		}
		row := Row{
			Structure: p.structure, Op: op.name + suffix, KeyBits: 64, ValueBits: 64, N: size, Load: p.load, Cores: p.cores,
			OpsPerS: roofline.Rate(n, t), Seconds: t.Seconds() * float64(size) / float64(n), Limit: roofline.In(op.limit, region),
		}
		if p.structure != goMap {
			row.Speedup = figure(row.OpsPerS / l.loopRate(row))
		}
		l.add(row)
	}
	for i, v := range l.out[:n] {
		if v != l.vals[i] {
			return fmt.Errorf("%w: key %d has value %d, want %d", errWrong, l.keys[i], v, l.vals[i])
		}
	}
	return nil
}

// pass times calls for all batches of the columns. The counts that the calls return must add up to
// want.
func (l *loops) pass(n, size, want int, call func(lo, hi int) (int, error)) (time.Duration, error) {
	got := 0
	start := time.Now()
	for lo := 0; lo < n; lo += size {
		count, err := call(lo, lo+size)
		if err != nil {
			return 0, err
		}
		got += count
	}
	t := time.Since(start)
	if got != want {
		return 0, fmt.Errorf("%w: %d of %d keys counted, want %d", errWrong, got, n, want)
	}
	return t, nil
}

// loopRate returns the rate of the loop that corresponds to a row.
func (l *loops) loopRate(like Row) (rate float64) {
	for _, row := range l.result.Rows {
		if row.Structure == goMap && row.Op == like.Op && row.N == like.N {
			rate = row.OpsPerS
		}
	}
	return rate
}
