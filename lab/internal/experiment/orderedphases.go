package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedPhasesExperiment = Experiment{
	Name:  "ordered-phases",
	Title: "Insertions and ranges, deletions and lookups in ordered maps",
	Doc: `After tables 4.1 and 4.2 and figures 4.3 and 4.5 of Awad's thesis: five million operations (2^16 on a CPU), a share of which are updates. In maps of 1 and of 40 million
random 32-bit keys with 32-bit values (2^16 and 2^20 on a CPU; of --n and a fortieth as many), insertions of new keys, and ranges of 8 or 32 pairs on average that begin anywhere
(insert_range_8, insert_range_32); in a map of the larger size, deletions of keys that are there and lookups of others (delete_get). The updates are one batch and the
queries another one behind it, so queries see all of them or, in a snapshot, none; the thesis has both in one kernel, in no order. It is the time of both.` + allOrdered + `
The limit is the harmonic mean of a compare-and-swap of 64 bits and a random read of 64 bytes, in a region as large as the pairs. Published beside
btree: the thesis' B-tree without versions, on a V100, which reads ranges while they change.`,
	run: runOrderedPhases,
	plots: func(res *Result) []Plot {
		var plots []Plot
		for _, op := range []string{"insert_range_8", "insert_range_32", "delete_get"} {
			p := Plot{Name: "ordered-phases-" + op, Title: op, XLabel: "share of updates", YLabel: "operations per second"}
			for _, row := range res.Rows {
				if row.Op == op {
					p.point(fmt.Sprintf("%s, %d keys", row.Structure, row.Keys), row.Load, row.OpsPerS)
				}
			}
			plots = append(plots, p)
		}
		return drawn(plots...)
	},
}

// published41 is what tables 4.1 and 4.2 say of the B-tree, in 10^6 operations a second: of the smaller and of the
// larger map, at 5, 50 and 90 % updates.
var published41 = map[string][2][3]float64{
	"insert_range_8":  {{213, 212, 220}, {229, 220, 223}},
	"insert_range_32": {{222, 210, 213}, {240, 213, 220}},
	"delete_get":      {{}, {434, 424, 400}},
}

// leastPhase is the number of keys of the smaller map, at least.
const leastPhase = 64

// phaseShares are the shares of updates, in percent.
var phaseShares = []int{5, 50, 90}

func runOrderedPhases(ctx context.Context, r *runner) (err error) {
	large, err := r.keysFrom(leastPhase, 1<<20, 40_000_000, orderedBytes[uint32, uint32]()+2*64)
	if err != nil {
		return err
	}
	small := max(large/r.size(16, 40), leastPhase)
	total := min(r.size(1<<16, 5_000_000), large)
	if _, err := r.changeLimit(ctx, large); err != nil {
		return err
	}
	t, err := newOrderedTrial[uint32, uint32](r, large+total, large)
	if err != nil {
		return err
	}
	p := &phases{orderedTrial: t, total: total}
	defer func() {
		err = errors.Join(err, r.free(&p.lo, &p.hi, &p.counts, &p.all, &p.outKeys, &p.outVals), t.free())
	}()
	t.read, t.write = roofline.Read64, roofline.CAS64
	if err := p.open(); err != nil {
		return err
	}
	shares := phaseShares
	if r.Scale == Quick {
		shares = shares[1:2]
	}
	return t.each(ctx, func(*orderedMap[uint32, uint32]) error {
		for size, n := range []int{small, large} {
			t.n = n
			for _, percent := range shares {
				if err := p.atShare(ctx, size, percent); err != nil {
					return fmt.Errorf("%d keys, %d %% updates: %w", n, percent, err)
				}
			}
		}
		return nil
	})
}

// phases are updates and queries behind them.
type phases struct {
	*orderedTrial[uint32, uint32]
	total               int // operations
	lo, hi, counts, all device.Slice[uint32]
	outKeys, outVals    device.Slice[uint32]
}

// longestPhase is the number of pairs of the longer ranges, on average; places for twice as many are there.
const longestPhase = 32

func (p *phases) open() (err error) {
	p.cols.n = p.total
	for _, c := range []struct {
		column *device.Slice[uint32]
		n      int
	}{
		{&p.lo, p.total}, {&p.hi, p.total}, {&p.counts, p.total}, {&p.all, p.total}, {&p.cols.out, p.total},
		{&p.outKeys, 2 * longestPhase * p.total}, {&p.outVals, 2 * longestPhase * p.total},
	} {
		if *c.column, err = device.Make[uint32](p.Device, c.n); err != nil {
			return err
		}
	}
	p.cols.flags, err = device.Make[bool](p.Device, p.total)
	return err
}

// atShare measures all that there is for one share of updates, in the smaller or the larger map.
func (p *phases) atShare(ctx context.Context, size, percent int) error {
	for _, length := range []int{8, longestPhase} {
		if err := p.insertRange(ctx, size, percent, length); err != nil {
			return err
		}
	}
	if size == 0 {
		return nil
	}
	return p.deleteGet(ctx, size, percent)
}

// split is the number of updates and of queries.
func (p *phases) split(percent, most int) (updates, queries int) {
	updates = max(min(p.total*percent/100, most), 1)
	return updates, max(p.total-updates, 1)
}

func (p *phases) insertRange(ctx context.Context, size, percent, length int) error {
	updates, queries := p.split(percent, p.keys.Len()-p.n)
	lo, hi := make([]uint32, queries), make([]uint32, queries)
	workload.Uniform(lo, p.Seed+3, 1<<32, p.Seed+4)
	for i, k := range lo {
		hi[i] = k + min(^uint32(0)-k, uint32(uint64(length)<<32/uint64(p.n)))
	}
	if err := errors.Join(p.lo.Sub(0, queries).CopyFrom(p.stream, lo), p.hi.Sub(0, queries).CopyFrom(p.stream, hi)); err != nil {
		return err
	}
	keys, vals := p.of(p.n, p.n+updates)
	from, to, counts, room := p.lo.Sub(0, queries), p.hi.Sub(0, queries), p.counts.Sub(0, queries), 2*length*queries
	op := fmt.Sprintf("insert_range_%d", length)
	p.begin(op)
	took, err := p.median(ctx, p.reload(ctx), func() error {
		if err := p.m.put(p.stream, keys, vals); err != nil {
			return err
		}
		return p.m.mapOf.RangeFirstOn(p.stream, from, to, 2*length, counts, p.outKeys.Sub(0, room), p.outVals.Sub(0, room))
	})
	if err == nil {
		err = errors.Join(p.has(ctx, p.n+updates), p.m.mapOf.CountOn(p.stream, from, to, p.all.Sub(0, queries)))
	}
	if err == nil {
		err = p.agree(ctx, queries, 2*length)
	}
	if err != nil {
		return err
	}
	p.phase(op, size, percent, updates, queries, took)
	return nil
}

// agree makes sure that ranges have as many pairs as are counted, up to a limit.
func (p *phases) agree(ctx context.Context, n, limit int) error {
	counts, all := make([]uint32, n), make([]uint32, n)
	if err := errors.Join(p.counts.Sub(0, n).CopyTo(ctx, p.stream, counts), p.all.Sub(0, n).CopyTo(ctx, p.stream, all)); err != nil {
		return err
	}
	for i, n := range all {
		if counts[i] != min(n, uint32(limit)) {
			return fmt.Errorf("%w: range %d has %d pairs, of %d", errWrong, i, counts[i], n)
		}
	}
	return nil
}

func (p *phases) deleteGet(ctx context.Context, size, percent int) error {
	updates, queries := p.split(percent, p.n/2)
	queries = min(queries, p.n-updates)
	gone, _ := p.of(0, updates)
	kept, _ := p.of(p.n-queries, p.n)
	out := p.cols.out.Sub(0, queries)
	p.begin("delete_get")
	took, err := p.median(ctx, p.reload(ctx), func() error {
		if err := p.m.remove(p.stream, gone, device.Slice[bool]{}); err != nil {
			return err
		}
		return p.m.get(p.stream, kept, out, p.cols.flags.Sub(0, queries))
	})
	if err == nil {
		err = errors.Join(p.has(ctx, p.n-updates), checkFlags(ctx, p.runner, p.cols.flags.Sub(0, queries), "lookup", queries), checkValues(ctx, p.runner, kept, out))
	}
	if err != nil {
		return err
	}
	p.phase("delete_get", size, percent, updates, queries, took)
	return nil
}

// phase adds a row.
func (p *phases) phase(op string, size, percent, updates, queries int, took time.Duration) {
	row := p.row()
	n := updates + queries
	row.Load = float64(percent) / 100
	for i, share := range phaseShares {
		if rate := published41[op][size][i]; share == percent && rate > 0 && p.onGPU() && p.m.name == "btree" {
			row.PublishedOpsPerS = figure(1e6 * rate)
		}
	}
	p.report(op, n, took, p.mixedLimit(p.read, p.write, row.Load), row)
}
