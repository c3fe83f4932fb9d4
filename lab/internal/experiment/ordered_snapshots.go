package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedSnapshotsExperiment = Experiment{
	Name:  "ordered-snapshots",
	Title: "What snapshots of ordered maps cost",
	Doc: `Batches of 2^20 (2^14 on a CPU) Puts, half of keys that are there and half of new ones, into a map of 10^8 pairs (2^20 on a CPU; as many as --n says) of 32-bit keys and
values: eight of them, while no snapshot is held (put_held_0), one that was taken before (put_held_1), and one more behind each batch (put_held_8). speedup is the rate over that
without. B/entry is the memory of map and snapshots in the end, for each pair of the map; samples are the bytes that only snapshots have behind each batch, and, last, behind
closing them; btree does not tell. get_hit_held and get_hit_then look up keys of before in the map and in the snapshot, while one is held.` + allOrdered + `
The limit is random compare-and-swaps of 64 bits, of lookups random reads of 64 bytes, in a region as large as the pairs.`,
	run: runOrderedSnapshots,
	plots: func(res *Result) []Plot {
		p := Plot{Name: "ordered-snapshots", Title: "Memory that only snapshots have, one a batch", XLabel: "batches", YLabel: "bytes"}
		for _, row := range res.Rows {
			if row.Op == fmt.Sprintf("put_held_%d", snapshotBatches) {
				for i, bytes := range row.Samples {
					p.point(row.Structure, float64(i+1), bytes)
				}
			}
		}
		return nonEmpty(p)
	},
}

// snapshotBatches is the number of batches, and the maximum number of snapshots.
const snapshotBatches = 8

func runOrderedSnapshots(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 100_000_000, 2*orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	size := r.size(1<<14, 1<<20)
	for size > 4 && snapshotBatches*size > n {
		size /= 2
	}
	limit, err := r.changeLimit(ctx, n)
	if err != nil {
		return err
	}
	t, err := newOrderedTrial[uint32, uint32](r, n+snapshotBatches*size/2, n)
	if err != nil {
		return err
	}
	s := &snapshotTrial{orderedTrial: t, size: size}
	defer func() { err = errors.Join(err, s.release(), t.free()) }()
	t.read, t.write = roofline.Read64, limit
	t.cols.n = min(n, r.size(1<<18, 1<<24))
	if t.cols.out, err = device.Make[uint32](r.Device, t.cols.n); err != nil {
		return err
	}
	if t.cols.flags, err = device.Make[bool](r.Device, t.cols.n); err != nil {
		return err
	}
	r.result.Parameters["batch"] = size
	return t.each(ctx, func(*orderedMap[uint32, uint32]) error {
		for _, held := range []int{0, 1, snapshotBatches} {
			if err := s.held(ctx, held); err != nil {
				return fmt.Errorf("with %d snapshots: %w", held, err)
			}
		}
		return nil
	})
}

// snapshotTrial measures a map that changes while snapshots of it are open.
type snapshotTrial struct {
	*orderedTrial[uint32, uint32]
	size      int // operations per batch
	snapshots []*weft.Snapshot[uint32, uint32]
}

func (s *snapshotTrial) release() (err error) {
	for _, at := range s.snapshots {
		err = errors.Join(err, at.Close())
	}
	s.snapshots = nil
	return err
}

func (s *snapshotTrial) takeSnapshot(ctx context.Context) error {
	at, err := s.m.mapOf.Snapshot(ctx)
	if err == nil {
		s.snapshots = append(s.snapshots, at)
	}
	return err
}

// batch submits batch i. Half of its keys are present; the others are new.
func (s *snapshotTrial) batch(i int) error {
	half := s.size / 2
	for _, lo := range []int{i * half, s.n + i*half} {
		keys, vals := s.of(lo, lo+half)
		if err := s.m.put(s.stream, keys, vals); err != nil {
			return err
		}
	}
	return nil
}

// held measures batches while no snapshot is open, while one is, or while a snapshot is taken
// before each batch.
func (s *snapshotTrial) held(ctx context.Context, number int) error {
	op := fmt.Sprintf("put_held_%d", number)
	s.begin(op)
	prepare := func() error {
		if err := errors.Join(s.release(), s.reload(ctx)(), s.m.Sync(ctx)); err != nil || number == 0 {
			return err
		}
		return s.takeSnapshot(ctx)
	}
	elapsed, err := s.median(ctx, prepare, func() error {
		for i := range snapshotBatches {
			if err := s.batch(i); err != nil {
				return err
			}
			if number > 1 && i+1 < snapshotBatches {
				if err := s.takeSnapshot(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = s.has(ctx, s.n+snapshotBatches*(s.size/2))
	}
	if err != nil {
		return err
	}
	row := s.row()
	row.Batch = s.size
	used, held, err := s.m.bytes(ctx)
	row.BytesPerEntry = figure(float64(used+max(held, 0)) / float64(s.m.Len()))
	if err == nil && number > 0 && held != unknown {
		err = s.growth(ctx, prepare, number, &row)
	}
	if err == nil && number == 1 {
		err = s.lookups(ctx)
	}
	if err == nil {
		err = s.release()
	}
	if err != nil {
		return err
	}
	if number > 0 {
		_, left, err := s.m.bytes(ctx)
		if err != nil {
			return err
		}
		if left != unknown {
			row.Samples = append(row.Samples, float64(left))
		}
		row.Speedup = figure(s.rateOf("put_held_0") * elapsed.Seconds())
		*row.Speedup = float64(snapshotBatches*(s.size/2*2)) / *row.Speedup
	}
	s.report(op, snapshotBatches*(s.size/2*2), elapsed, s.write, row)
	return nil
}

// rateOf returns the rate of an operation on the map under measurement.
func (s *snapshotTrial) rateOf(op string) (rate float64) {
	for _, row := range s.result.Rows {
		if row.Structure == s.m.name && row.Op == op {
			rate = row.OpsPerS
		}
	}
	return rate
}

// growth repeats the batches untimed. After each, it adds the memory that only snapshots hold to
// the row.
func (s *snapshotTrial) growth(ctx context.Context, prepare func() error, number int, row *Row) error {
	if err := prepare(); err != nil {
		return err
	}
	for i := range snapshotBatches {
		if err := errors.Join(s.batch(i), s.m.Sync(ctx)); err != nil {
			return err
		}
		_, held, err := s.m.bytes(ctx)
		if err != nil {
			return err
		}
		row.Samples = append(row.Samples, float64(held))
		if number > 1 && i+1 < snapshotBatches {
			if err := s.takeSnapshot(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookups measures lookups in the map and in a snapshot, which must contain exactly the pairs from
// before the batches.
func (s *snapshotTrial) lookups(ctx context.Context) error {
	snapshot := s.snapshots[0]
	if snapshot.Len() != s.n {
		return fmt.Errorf("%w: the snapshot has %d pairs, want %d", errWrong, snapshot.Len(), s.n)
	}
	keys, _ := s.of(s.n-s.cols.n, s.n)
	for _, c := range []struct {
		op     string
		submit func(found device.Slice[bool]) error
	}{
		{"get_hit_held", func(found device.Slice[bool]) error { return s.m.get(s.stream, keys, s.cols.out, found) }},
		{"get_hit_then", func(found device.Slice[bool]) error { return snapshot.GetOn(s.stream, keys, s.cols.out, found) }},
	} {
		s.begin(c.op)
		elapsed, err := s.median(ctx, nil, func() error { return c.submit(device.Slice[bool]{}) })
		if err == nil {
			err = c.submit(s.cols.flags)
		}
		if err == nil {
			err = checkFlags(ctx, s.runner, s.cols.flags, c.op, s.cols.n)
		}
		if err == nil {
			err = checkValues(ctx, s.runner, keys, s.cols.out)
		}
		if err != nil {
			return err
		}
		s.report(c.op, s.cols.n, elapsed, s.read, s.row())
	}
	later, _ := s.of(s.n, s.n+1)
	if err := snapshot.GetOn(s.stream, later, s.cols.out.Sub(0, 1), s.cols.flags.Sub(0, 1)); err != nil {
		return err
	}
	return checkFlags(ctx, s.runner, s.cols.flags.Sub(0, 1), "lookup of a later key in the snapshot", 0)
}
