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
// right side is built first and should be the smaller one. With Options.Memory both sides may
// exceed memory.
//
// The algorithm is the hybrid hash join of DeWitt et al. (SIGMOD 1984). Rows of the right side stay
// in memory until they exceed the limit. Then they are partitioned by [column.Hash], and the
// largest partitions go to a temporary file. A left row is joined at once if its partition is in
// memory, and goes to the file otherwise. Finish joins the rows in the file, partition by
// partition. A partition that exceeds memory is partitioned again with another seed. If it has only
// a few keys, its right rows are read in pieces that fit, and the left rows once for each piece.
//
// Until rows go to the file, the result is in the order of the left side. Rows with the same left
// row are in the order of the right side. Afterwards there is no order.
//
// Concurrent calls wait for each other. After an error of the file, or the end of a context, all
// later calls return that error.
type Join struct {
	mu        sync.Mutex
	openedCPU *cpu.Device // host, if NewJoin opened it because the device is another one
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

// NewJoin returns a join without rows. For invalid options it returns [weft.ErrOptions]. If dev is
// not a CPU, NewJoin opens one, which may fail.
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

// Build adds rows of the right side: their keys, and the columns that the join yields for them.
// [Semi] and [Anti] ignore these columns. The first batch fixes the types, and may have no rows.
// Build copies the columns. If the types differ from those of earlier batches, Build returns
// [weft.ErrOptions]. After the first Probe it always returns [device.ErrInvalid]. Other errors come
// from the temporary file and from ctx.
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

// Probe joins a batch of the left side, and yields the rows joined so far. They have the left
// columns, and for [Inner] and [Left] also the right columns. Finish yields the remaining rows:
// rows whose right side is in the file, and rows of the last batches, because small batches are
// joined together.
//
// Yielded batches have at most Options.Piece rows and memory of their own, except that left columns
// of [column.OfCodes] may keep their dictionary. An error comes last, without columns. Other calls
// wait until the iteration ends, so the loop must not make any. A loop that ends early, even by a
// panic, ends the join. Without any Build, the error is [device.ErrInvalid]. If the result has no
// columns, it is [weft.ErrOptions]. See [Join.Build] for other errors.
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

// Finish yields the rows that Probe has not yielded, and ends the join. See [Join.Probe] for
// details.
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

// emitter receives a batch of the result.
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

// startProbe completes the right side before the first left row.
func (j *Join) startProbe(ctx context.Context) error {
	if j.state == building && j.failed == nil {
		if j.root == nil {
			return fmt.Errorf("%w: call Build first, even if there are no rows", device.ErrInvalid)
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

// Spilled returns the number of bytes written to the temporary file so far.
func (j *Join) Spilled() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.job.file == nil {
		return 0
	}
	return max(j.job.file.Stats().Written, 1)
}

// Close frees memory and the temporary file. Later calls of other methods return [weft.ErrClosed].
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

// checkColumns returns an error for columns that differ from the given types. It panics if columns
// differ in length.
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

// job is the state that all partitions of a join share.
type job struct {
	dev      device.Host
	kind     Kind
	opts     Options
	plan     plan
	keys     int           // number of key columns, which come first on each side
	right    []column.Type // types of keys and columns
	file     *spill.File   // nil before the first spill
	budget   *spill.Budget // counts the memory of stores, without a limit
	wrapDisk func(spill.Disk) spill.Disk

	rows                          *spill.Store // right rows in memory
	buffered                      *spill.Store // left rows of small batches
	rightBatchRows, leftBatchRows *spill.Store // rows from the file
	// for keys that stay in memory, and for rows that go to the file
	keptTaker, spillTaker spill.Taker

	hashSeed uint64 // seed of the hash of wide keys

	nParts      int   // spillParts, or fewer in tests
	rightBytes  int64 // bytes of right rows and their index
	bufferBytes int64 // bytes of the file's buffers
	batchBytes  int64 // bytes of left rows joined at a time
}

// newJob divides Options.Memory into rightBytes, bufferBytes and batchBytes. The rest is for
// batches of the result, and for pages on their way to the file, which lie on the Go heap.
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

// bindRight fixes the types of the right side at its first batch.
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

// spillFile returns the temporary file, and creates it first if necessary.
func (j *job) spillFile() (*spill.File, error) {
	if j.file != nil {
		return j.file, nil
	}
	var err error
	j.file, err = spill.Create(j.opts.TempDir, &spill.Options{Memory: 2 * j.bufferBytes,
		Chains: 2 * spillParts, Wrap: j.wrapDisk})
	return j.file, err
}
