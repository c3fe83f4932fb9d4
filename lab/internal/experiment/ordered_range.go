package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedRangeExperiment = Experiment{
	Name:  "awad-fig3.2b",
	Was:   "ordered-range",
	Title: "Ranges of ordered maps over their length",
	Doc: `After figures 3.2b and 4.4 of Awad's thesis: ranges of 4 to 1024 pairs in a map of 10^8 pairs (2^20 on a CPU; as many as --n says) of 32-bit keys and values, which
begin anywhere: up to 2^22 of them (2^16 on a CPU), fewer where their pairs would be more than 2^28 (2^22). first is with a limit, one place in the columns for each
pair (RangeFirst); rows is exact, one behind the other, in columns that have room (Range on the device); count is their number alone.` + allOrdered + `
The limit is a random read of 64 bytes and copying the pairs. The thesis, on a TITAN V: 502 million ranges of 8 a second, LSM 166.`,
	run:       runOrderedRange,
	plots:     plotOrderedRange,
	published: []Published{{"TITAN V, B-tree, ranges of 8", 502.28e6, "op/s"}, {"TITAN V, LSM, ranges of 8", 166.02e6, "op/s"}},
}

// ranges holds ranges of one length, and columns for their pairs.
type ranges struct {
	*orderedTrial[uint32, uint32]
	stride           int // distance between keys
	lo, hi, counts   device.Slice[uint32]
	outKeys, outVals device.Slice[uint32]
	offsets          device.Slice[uint64]
	// Maximum number of ranges, maximum number of pairs, and number of ranges of the current
	// length.
	limit, pairs, size int
	from               []uint32
}

func runOrderedRange(ctx context.Context, r *runner) (err error) {
	n, err := r.keysFrom(16, 1<<20, 100_000_000, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	if _, err := r.changeLimit(ctx, n); err != nil {
		return err
	}
	t, err := newOrderedTrial[uint32, uint32](r, n, n)
	if err != nil {
		return err
	}
	s := &ranges{orderedTrial: t, limit: r.size(1<<16, 1<<22), pairs: r.size(1<<22, 1<<28), stride: max(1<<32/(n+1), 1)}
	if r.N > 0 && r.N < 1<<16 { // a trial run
		s.limit, s.pairs = n, 16*n
	}
	defer func() {
		err = errors.Join(err, r.free(&s.lo, &s.hi, &s.counts, &s.outKeys, &s.outVals, &s.offsets), t.free())
	}()
	if err := s.open(); err != nil {
		return err
	}
	lengths := r.powers(2, min(1024, n/4), map[Scale]int{Quick: 4, Default: 1, Full: 1})
	for _, m := range t.maps {
		t.use(m)
		if err := errors.Join(t.reload(ctx)(), t.has(ctx, n)); err != nil {
			return err
		}
		for _, length := range lengths {
			if err := s.ofLength(ctx, length); err != nil {
				return fmt.Errorf("%s: ranges of %d: %w", m.name, length, err)
			}
		}
		if err := errors.Join(m.Clear(ctx), m.mapOf.Compact(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// open allocates columns. It gives the pairs equidistant keys in random order, so that ranges
// contain the intended number of pairs.
func (s *ranges) open() (err error) {
	order := workload.NewPermutation(uint64(s.n), s.Seed+1)
	keys := make([]uint32, s.n)
	for i := range keys {
		keys[i] = uint32(int(order.At(uint64(i)))*s.stride + s.stride/2)
	}
	vals := make([]uint32, s.n)
	workload.Values(vals, keys)
	if err := errors.Join(s.keys.CopyFrom(s.stream, keys), s.vals.CopyFrom(s.stream, vals)); err != nil {
		return err
	}
	s.from = make([]uint32, s.limit)
	for _, c := range []struct {
		column *device.Slice[uint32]
		n      int
	}{{&s.lo, s.limit}, {&s.hi, s.limit}, {&s.counts, s.limit}, {&s.outKeys, s.pairs}, {&s.outVals, s.pairs}} {
		if *c.column, err = device.Make[uint32](s.Device, c.n); err != nil {
			return err
		}
	}
	s.offsets, err = device.Make[uint64](s.Device, s.limit+1)
	return err
}

func (s *ranges) ofLength(ctx context.Context, length int) error {
	s.size = max(min(s.limit, s.pairs/length), 1)
	places := make([]uint64, s.size)
	first := workload.NewPermutation(uint64(s.n-length), s.Seed+2)
	lo, hi := s.from[:s.size], make([]uint32, s.size)
	for i := range places {
		at := int(first.At(uint64(i) % uint64(s.n-length)))
		lo[i] = uint32(at*s.stride + s.stride/2)
		hi[i] = uint32((at+length-1)*s.stride + s.stride/2)
	}
	if err := errors.Join(s.lo.Sub(0, s.size).CopyFrom(s.stream, lo), s.hi.Sub(0, s.size).CopyFrom(s.stream, hi)); err != nil {
		return err
	}
	limit := fmt.Sprintf("range%d_%s_%s", length, roofline.Read64, roofline.Copy)
	l := s.result.Limits
	l[limit] = 1 / (1/l[roofline.Read64] + float64(16*length)/l[roofline.Copy])
	from, to, counts := s.lo.Sub(0, s.size), s.hi.Sub(0, s.size), s.counts.Sub(0, s.size)
	keys, vals := s.outKeys.Sub(0, s.size*length), s.outVals.Sub(0, s.size*length)
	m := s.m.mapOf
	for _, c := range []struct {
		op, limit string
		submit    func() error
		written   bool
	}{
		{"first", limit, func() error { return m.RangeFirstOn(s.stream, from, to, length, counts, keys, vals) }, true},
		{"rows", limit, func() error {
			return m.RangeOn(s.stream, from, to, 0, counts, s.offsets.Sub(0, s.size+1), keys, vals)
		}, true},
		{"count", roofline.Read64, func() error { return m.CountOn(s.stream, from, to, counts) }, false},
	} {
		s.begin(fmt.Sprintf("%s of %d", c.op, length))
		elapsed, err := s.median(ctx, func() error { return s.stream.Fill(keys.Ptr(), 0, keys.Len()) }, c.submit)
		if err != nil {
			return err
		}
		if err := s.check(ctx, length, c.written); err != nil {
			return err
		}
		row := s.row()
		row.Batch = length
		s.report(c.op, s.size, elapsed, c.limit, row)
	}
	return nil
}

// check verifies the number of pairs in each range, and the pairs of three ranges.
func (s *ranges) check(ctx context.Context, length int, written bool) error {
	counts := make([]uint32, s.size)
	if err := s.counts.Sub(0, s.size).CopyTo(ctx, s.stream, counts); err != nil {
		return err
	}
	for i, n := range counts {
		if int(n) != length {
			return fmt.Errorf("%w: the range from %d on has %d pairs", errWrong, s.from[i], n)
		}
	}
	if !written {
		return nil
	}
	for _, i := range []int{0, s.size / 2, s.size - 1} {
		keys, vals := make([]uint32, length), make([]uint32, length)
		at := i * length
		if err := errors.Join(s.outKeys.Sub(at, at+length).CopyTo(ctx, s.stream, keys), s.outVals.Sub(at, at+length).CopyTo(ctx, s.stream, vals)); err != nil {
			return err
		}
		for j, k := range keys {
			if want := s.from[i] + uint32(j*s.stride); k != want || vals[j] != workload.Value[uint32, uint32](want) {
				return fmt.Errorf("%w: pair %d of the range from %d on is %d: %d", errWrong, j, s.from[i], k, vals[j])
			}
		}
	}
	return nil
}

func plotOrderedRange(res *Result) []Plot {
	var plots []Plot
	for _, op := range []string{"first", "rows", "count"} {
		p := Plot{Name: "awad-fig3.2b-" + op, Title: "Ranges: " + op, XLabel: "pairs of a range", YLabel: "ranges per second", LogX: true, LogY: true}
		for _, row := range res.Rows {
			if row.Op == op {
				p.point(row.Structure, float64(row.Batch), row.OpsPerS)
			}
		}
		if op == "first" && len(p.Series) > 0 {
			for _, f := range res.Published {
				p.Series = append(p.Series, Series{Name: "published: " + f.What, X: []float64{8}, Y: []float64{f.Value}, Published: true})
			}
		}
		plots = append(plots, p)
	}
	return nonEmpty(plots...)
}
