package experiment

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// trial measures operations of one table on the keys of its columns, and adds their rows.
type trial[K weft.Key, V weft.Value] struct {
	*runner
	structure          string
	keyBits, valueBits int
	read, write        string // names of the limits of a lookup and of an update

	cols  *columns[K, V]
	table subject[K, V]
	load  float64 // load in rows that set no other
}

func (s *trial[K, V]) width() string {
	if s.valueBits == 0 {
		return fmt.Sprint(s.keyBits)
	}
	return fmt.Sprintf("%d/%d", s.keyBits, s.valueBits)
}

// begin reports the operation that is measured next.
func (s *trial[K, V]) begin(op string) {
	s.step("%s %s at load %.3g: %s", s.structure, s.width(), s.load, op)
}

func (s *trial[K, V]) clear(ctx context.Context) func() error {
	return func() error { return s.table.Clear(ctx) }
}

func (s *trial[K, V]) fill() error { return s.table.put(s.stream, s.cols.keys, s.cols.vals) }

// refill returns a function that clears the table and inserts the first n keys.
func (s *trial[K, V]) refill(ctx context.Context, n int) func() error {
	return func() error {
		if err := s.table.Clear(ctx); err != nil {
			return err
		}
		return s.table.put(s.stream, s.cols.keys.Sub(0, n), s.cols.vals.Sub(0, n))
	}
}

// time returns the median time of the submitted work. If the runner has a busyTimer, time also
// measures the work on a busy device and sets the rate in the row.
func (s *trial[K, V]) time(ctx context.Context, prepare, submit func() error, row *Row) (time.Duration, error) {
	t, err := s.median(ctx, prepare, submit)
	if err != nil || s.busyTimer == nil {
		return t, err
	}
	busy, err := s.medianBusy(ctx, prepare, submit)
	row.BusyOpsPerS = figure(roofline.Rate(s.cols.n, busy))
	return t, err
}

func (s *trial[K, V]) report(op string, n int, t time.Duration, limit string, row Row) {
	row.Structure, row.Op, row.KeyBits, row.ValueBits = s.structure, op, s.keyBits, s.valueBits
	if row.Load == 0 {
		row.Load = s.load
	}
	row.N, row.Seconds = n, t.Seconds()
	row.OpsPerS, row.Limit = roofline.Rate(n, t), limit
	s.add(row)
}

func (s *trial[K, V]) insert(ctx context.Context, op string) error {
	s.begin(op)
	var row Row
	t, err := s.time(ctx, s.clear(ctx), s.fill, &row)
	if err != nil {
		return err
	}
	if err := s.table.Sync(ctx); err != nil {
		return err
	}
	if err := s.table.describe(ctx, &row); err != nil {
		return err
	}
	s.report(op, s.cols.n, t, s.write, row)
	return nil
}

// lookup measures lookups. op is get_hit, get_miss or get_half; the first two may have a suffix.
// Then lookup repeats them untimed and checks the results.
func (s *trial[K, V]) lookup(ctx context.Context, op string) error {
	s.begin(op)
	keys := s.cols.hits
	hits := keys.Len()
	switch {
	case strings.HasPrefix(op, "get_miss"):
		keys, hits = s.cols.miss, 0
	case op == "get_half":
		keys, hits = s.cols.half, (s.cols.n+1)/2
	}
	var found device.Slice[bool]
	if s.valueBits == 0 {
		found = s.cols.flags // a set's only result
	}
	row := Row{HitRatio: figure(float64(hits) / float64(keys.Len()))}
	t, err := s.time(ctx, nil, func() error { return s.table.get(s.stream, keys, s.cols.out, found) }, &row)
	if err != nil {
		return err
	}
	if err := s.checkLookup(ctx, keys, op, hits); err != nil {
		return err
	}
	s.report(op, keys.Len(), t, s.read, row)
	return nil
}

// checkLookup repeats the lookups and verifies that exactly hits keys are found. If all are found,
// it also verifies values.
func (s *trial[K, V]) checkLookup(ctx context.Context, keys device.Slice[K], what string, hits int) error {
	if err := s.table.get(s.stream, keys, s.cols.out, s.cols.flags); err != nil {
		return err
	}
	if err := checkFlags(ctx, s.runner, s.cols.flags, what, hits); err != nil {
		return err
	}
	if hits < keys.Len() || s.valueBits == 0 {
		return nil
	}
	return checkValues(ctx, s.runner, keys, s.cols.out)
}

func (s *trial[K, V]) deletes(ctx context.Context) error {
	s.begin("delete")
	var row Row
	t, err := s.time(ctx, s.refill(ctx, s.cols.n), func() error {
		return s.table.remove(s.stream, s.cols.hits, device.Slice[bool]{})
	}, &row)
	if err != nil {
		return err
	}
	if err := s.checkLookup(ctx, s.cols.hits, "lookup after delete", 0); err != nil {
		return err
	}
	s.report("delete", s.cols.n, t, s.write, row)
	return nil
}
