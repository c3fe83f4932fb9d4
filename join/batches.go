package join

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/spill"
)

// Join joins two sides that arrive in batches of rows, and yields batches of their columns. The
// right side is built first and should be the smaller one. With Options.Memory both sides may be
// larger than memory.
//
// The algorithm is the hybrid hash join of DeWitt et al. (SIGMOD 1984). Rows of the right side stay
// in memory until they exceed the limit. Then partitions of them, by [column.Hash], go to a
// temporary file, the largest first. A left row whose partition is in memory is joined at once, and
// the others go to the file, too. Finish joins them partition by partition. A partition that
// exceeds memory is partitioned again with another seed. One that consists of few keys is read in
// pieces that fit, and the left rows are read again for each.
//
// While nothing was spilled, rows come in the order of the left side, and those with one left row
// in that of the right side. Afterwards there is no order.
//
// Calls of several goroutines wait for each other. An error of the file or of a context that ended
// is final: later calls return it.
type Join struct {
	mu        sync.Mutex
	openedCPU *cpu.Device // the host, if the device is another one
	job       *job
	root      *hybrid // nil before the first batch
	left      []column.Type
	state     joinState
	failed    error
}

type joinState uint8

const (
	building joinState = iota
	probing
	finished
	joinClosed
)

// NewJoin returns a join without rows. Errors: [weft.ErrOptions], and those of opening a CPU if the
// device is none.
func NewJoin(dev device.Device, kind Kind, opts *Options) (*Join, error) {
	o, err := opts.checkJoin(kind)
	if err != nil {
		return nil, fmt.Errorf("join: NewJoin: %w", err)
	}
	j := &Join{}
	host, ok := dev.(device.Host)
	if !ok {
		if j.openedCPU, err = cpu.Open(nil); err != nil {
			return nil, fmt.Errorf("join: NewJoin: %w", err)
		}
		host = j.openedCPU
	}
	j.job = newJob(host, kind, o)
	return j, nil
}

// Build adds rows of the right side: their keys, and the columns that the join yields of them,
// which [Semi] and [Anti] ignore. The first batch decides the types, and it may have no rows.
// Columns are copied. Errors: [weft.ErrOptions] for columns that do not fit those of earlier
// batches, [device.ErrInvalid] after the first Probe, those of the file, and that of the context.
func (j *Join) Build(ctx context.Context, keys, columns []column.Column) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.build(ctx, keys, columns); err != nil {
		return fmt.Errorf("join: Build: %w", err)
	}
	return nil
}

func (j *Join) build(ctx context.Context, keys, columns []column.Column) error {
	if err := j.checkState(building); err != nil {
		return err
	}
	if !j.job.kind.pairs() {
		columns = nil
	}
	all := slices.Concat(keys, columns)
	if j.root == nil {
		if err := j.job.bindRight(keys, all); err != nil {
			return err
		}
		j.root = newHybrid(j.job, 0)
	}
	if err := checkColumns("right", all, j.job.right); err != nil {
		return err
	}
	j.failed = j.root.add(ctx, all)
	return j.failed
}

// Probe joins a batch of the left side, and yields rows that are joined so far: their left columns,
// and, of [Inner] and [Left], the right ones. Finish yields the others: those whose right rows are
// in the file, and those of the last batches, because small batches are joined several at a time.
// Batches have memory of their own, except that left columns of [column.OfCodes] may keep their
// dictionary, and Options.Piece rows at most. The error comes last, with no columns. Other calls
// wait until the iteration ends, so the loop must not make any. A loop that ends early, by a panic
// as well, ends the join. Errors: as of Build, [device.ErrInvalid] without any Build, and
// [weft.ErrOptions] if the result has no columns.
func (j *Join) Probe(ctx context.Context, keys, columns []column.Column) iter.Seq2[[]column.Column,
	error] {
	return j.yield("Probe", func(emit emitter) error {
		if err := j.startProbe(ctx); err != nil {
			return err
		}
		if _, err := j.job.plan.check(keys); err != nil {
			return err
		}
		if len(columns) == 0 && (!j.job.kind.pairs() || len(j.job.right) == j.job.keys) {
			return fmt.Errorf("%w: neither side has columns to yield", op.ErrOptions)
		}
		all := slices.Concat(keys, columns)
		types := j.left
		if types == nil {
			types = rowkey.TypesOf(all)
		}
		if err := checkColumns("left", all, types); err != nil {
			return err
		}
		j.left = types
		j.failed = j.root.probeOrBuffer(ctx, all, emit)
		return j.failed
	})
}

// Finish yields the rows that Probe could not, and ends the join. Otherwise it is as Probe.
func (j *Join) Finish(ctx context.Context) iter.Seq2[[]column.Column, error] {
	return j.yield("Finish", func(emit emitter) error {
		if err := j.startProbe(ctx); err != nil {
			return err
		}
		j.state = finished
		if j.failed = j.root.probeBuffered(ctx, emit); j.failed == nil {
			j.failed = j.root.joinSpilled(ctx, emit)
		}
		return j.failed
	})
}

// emitter passes a batch of the result on.
type emitter func([]column.Column) error

var errStopped = errors.New("the caller has seen enough")

func (j *Join) yield(method string, run func(emitter) error) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		j.mu.Lock()
		defer j.mu.Unlock()
		ended := false
		defer func() {
			if !ended { // the caller's loop panics
				j.failed, j.state = nil, finished
			}
		}()
		err := run(func(columns []column.Column) error {
			if !yield(columns, nil) {
				return errStopped
			}
			return nil
		})
		ended = true
		if errors.Is(err, errStopped) {
			j.failed, j.state = nil, finished
		} else if err != nil {
			yield(nil, fmt.Errorf("join: %s: %w", method, err))
		}
	}
}

// startProbe ends the right side before the first left row.
func (j *Join) startProbe(ctx context.Context) error {
	if j.state == building && j.failed == nil {
		if j.root == nil {
			return fmt.Errorf("%w: no Build came first; it may have no rows", device.ErrInvalid)
		}
		if j.failed = j.root.finishBuild(ctx); j.failed == nil {
			j.state = probing
		}
	}
	return j.checkState(probing)
}

func (j *Join) checkState(want joinState) error {
	switch {
	case j.failed != nil:
		return j.failed
	case j.state == joinClosed:
		return fmt.Errorf("join %w", op.ErrClosed)
	case j.state != want && want == building:
		return fmt.Errorf("%w: left rows have been probed", device.ErrInvalid)
	case j.state != want:
		return fmt.Errorf("%w: the join has ended", device.ErrInvalid)
	}
	return nil
}

// Spilled returns the number of bytes that went to the temporary file so far.
func (j *Join) Spilled() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.job.file == nil {
		return 0
	}
	return max(j.job.file.Stats().Written, 1)
}

// Close frees memory and the temporary file. Idempotent; later calls return [weft.ErrClosed].
func (j *Join) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state == joinClosed {
		return nil
	}
	j.state, j.failed = joinClosed, nil
	var err error
	if j.root != nil {
		err = j.root.close()
	}
	j.job.free()
	if j.job.file != nil {
		err = errors.Join(err, j.job.file.Close())
	}
	if j.openedCPU != nil {
		err = errors.Join(err, j.openedCPU.Close())
	}
	if err != nil {
		return fmt.Errorf("join: Close: %w", err)
	}
	return nil
}

// checkColumns reports columns that do not have some types, or not one length.
func checkColumns(side string, columns []column.Column, types []column.Type) error {
	if len(columns) != len(types) {
		return fmt.Errorf("%w: %d columns of the %s side, after %d before", op.ErrOptions,
			len(columns), side, len(types))
	}
	for i, c := range columns {
		switch {
		case c.Type() == column.None:
			return fmt.Errorf("%w: column %d of the %s side has no type", op.ErrOptions, i, side)
		case c.Type() != types[i]:
			return fmt.Errorf("%w: column %d of the %s side holds %v, and %v before", op.ErrOptions,
				i, side, c.Type(), types[i])
		case c.Len() != columns[0].Len():
			panic(fmt.Sprintf("join: column %d of the %s side has %d rows and column 0 has %d", i,
				side, c.Len(), columns[0].Len()))
		}
	}
	return nil
}

// job is what all partitions of a join share.
type job struct {
	dev      device.Host
	kind     Kind
	opts     Options
	plan     plan
	keys     int           // the first columns of each side
	right    []column.Type // of keys and columns
	file     *spill.File   // nil before something is spilled
	budget   *spill.Budget // of stores, without a limit: share is one
	wrapDisk func(spill.Disk) spill.Disk

	rows                          *spill.Store // right rows in memory
	buffered                      *spill.Store // left rows of small batches
	rightBatchRows, leftBatchRows *spill.Store // rows from the file
	keptTaker, spillTaker         spill.Taker  // of keys that stay, and rows that go there

	hashSeed uint64 // of keys that are indexed by their hash

	nParts      int   // spillParts, or fewer in tests
	rightBytes  int64 // bytes of right rows and their index
	bufferBytes int64 // bytes of the file
	batchBytes  int64 // bytes of left rows that are joined at a time
}

// newJob divides Options.Memory. What rightBytes, bufferBytes and batchBytes leave is for the Go
// heap, where batches of the result and pages on their way to the file lie.
func newJob(dev device.Host, kind Kind, o Options) *job {
	j := &job{dev: dev, kind: kind, opts: o, hashSeed: seed(), nParts: spillParts,
		budget:      spill.NewBudget(0),
		bufferBytes: 64 << 20, batchBytes: 64 << 20}
	if m := o.Memory; m > 0 {
		j.rightBytes, j.batchBytes = m/4*3, m/32
		j.bufferBytes = max(min(m/8, j.bufferBytes), spillParts*16<<10)
	}
	return j
}

// bindRight fixes the types of the right side, by its first batch.
func (j *job) bindRight(keys, all []column.Column) error {
	plan, err := planOf(keys, j.opts.NullsMatch)
	if err != nil {
		return err
	}
	types := rowkey.TypesOf(all)
	if err := checkColumns("right", all, types); err != nil {
		return err
	}
	j.plan, j.keys, j.right = plan, len(keys), types
	j.rows = spill.NewStore(j.budget, j.right)
	return nil
}

func (j *job) free() {
	for _, s := range []*spill.Store{j.rows, j.buffered, j.rightBatchRows, j.leftBatchRows} {
		s.Free()
	}
}

// spillFile returns the temporary file, and makes it first if there is none.
func (j *job) spillFile() (*spill.File, error) {
	if j.file != nil {
		return j.file, nil
	}
	var err error
	j.file, err = spill.Create(j.opts.TempDir, &spill.Options{Memory: 2 * j.bufferBytes,
		Chains: 2 * spillParts, Wrap: j.wrapDisk})
	return j.file, err
}
