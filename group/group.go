package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/spill"
)

// Groups holds groups of rows and their aggregates. It takes batches of rows, and returns the
// result so far at any time. All methods may be called by many goroutines. Calls of Add and Result
// exclude each other.
type Groups struct {
	dev       device.Host
	aggs      []Aggregate
	opts      Options
	lockOrder uint64 // creation number; merges lock in this order

	n      atomic.Int64 // number of groups
	loaded uint64       // number of rows in groups that were read from streams; at most maxRows

	mu     sync.Mutex
	closed bool
	seed   uint64
	failed error   // the error that all later calls return
	l      *layout // nil before the first batch
	// mergeLayout is the layout for rows that are the states of other groups.
	mergeLayout *layout
	coder       coder
	// packed holds groups with packed keys, and numbered holds groups with interned keys.
	packed, numbered *table
	interner         *interner
	resident         int      // groups in packed and numbered
	scratch          *scratch // shared by all Groups that use the same file
	spilled          spillState

	// buffered rows: keys, then the values that aggregates read; nil before the first
	buffered  *spill.Store
	nBuffered atomic.Int64 // rows in buffered

	maxPiece int // maxPiece, except in tests
}

// New makes groups without rows, on a device of the host. The first batch fixes the types of keys
// and values. New returns ErrOptions for invalid options or aggregates. For a GPU it returns
// ErrUnsupported, because Groups takes host columns; see [NewOn].
func New(dev device.Device, aggs []Aggregate, opts *Options) (*Groups, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if err := check(aggs); err != nil {
		return nil, err
	}
	host, ok := dev.(device.Host)
	if !ok {
		return nil, fmt.Errorf("group: %w: groups of columns of the host need device/cpu, not %s", device.ErrUnsupported, dev.Properties().Kind)
	}
	return newGroups(host, slices.Clone(aggs), o), nil
}

func newGroups(dev device.Host, aggs []Aggregate, o Options) *Groups {
	return &Groups{dev: dev, aggs: aggs, opts: o, seed: rand.Uint64(), lockOrder: nCreated.Add(1),
		maxPiece: maxPiece, scratch: newScratch(o.Memory > 0)}
}

// By adds all rows at once and returns the result.
func By(ctx context.Context, dev device.Device, keys, values []column.Column, aggs []Aggregate, opts *Options) (*Result, error) {
	g, err := New(dev, aggs, opts)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if err := g.Add(ctx, keys, values); err != nil {
		return nil, err
	}
	return g.Result(ctx)
}

// mainTable returns the table that holds most groups.
func (g *Groups) mainTable() *table {
	if g.coder.packable {
		return g.packed
	}
	return g.numbered
}

// Len returns the number of groups. It counts a group again for each time the group went to the
// temporary file. If rows of small batches are buffered, Len adds them first, and then waits for
// calls in progress.
func (g *Groups) Len() int {
	if g.nBuffered.Load() > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		_ = g.prepareRead(context.Background()) // the next call returns the error, too
	}
	return int(g.n.Load())
}

// Close frees the memory of groups, but not of results. Close is idempotent.
func (g *Groups) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	err := g.interner.close()
	g.buffered.Free()
	if g.l != nil {
		g.packed.free()
		g.numbered.free()
	}
	err = errors.Join(err, g.spilled.close())
	if !g.spilled.shared {
		g.scratch.free()
	}
	g.packed, g.numbered, g.interner, g.scratch, g.buffered = nil, nil, nil, nil, nil
	return err
}

// Add adds a batch of rows: row i consists of value i of each column. Add panics if columns differ
// in length. It returns an error and adds no row in the following cases. The number or the types of
// the columns differ from the first batch. An aggregate names a missing column, or a column with an
// unsuitable type.
//
// If there are many groups, Add copies the rows of small batches to a buffer. They are added before
// groups are read, so a later call may return an error of the temporary file.
//
// Add checks the context every few hundred milliseconds. If the context ends, Add returns a
// [weft.PartialError] with the number n of rows added, which are the first n rows of the batch.
func (g *Groups) Add(ctx context.Context, keys, values []column.Column) error {
	if err := g.addRows(ctx, keys, values, false); err != nil {
		return fmt.Errorf("group: Add: %w", err)
	}
	return nil
}

// AddAt adds a batch of rows that have ordinals, such as line numbers in a file. See [Groups.Add]
// for columns and errors. [First], [Last] and the order of groups then follow the ordinals, in any
// order of additions and merges. Two rows of a group must not have the same ordinal. Groups with
// equal first ordinals are in the order of their keys. If some rows have ordinals and others do
// not, AddAt and Add return [weft.ErrOptions].
func (g *Groups) AddAt(ctx context.Context, ordinals []uint64, keys, values []column.Column) error {
	values = append(values[:len(values):len(values)], column.Of(ordinals))
	if err := g.addRows(ctx, keys, values, true); err != nil {
		return fmt.Errorf("group: AddAt: %w", err)
	}
	return nil
}

// addRows adds a batch. If ordered is set, the last value column holds the ordinals of the rows.
func (g *Groups) addRows(ctx context.Context, keys, values []column.Column, ordered bool) error {
	n := length(keys, values)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkOpen(); err != nil {
		return err
	}
	types := typesOf(values)
	if ordered {
		types = types[:len(types)-1]
	}
	if err := g.bindTypes(typesOf(keys), types, ordered); err != nil {
		return err
	}
	if g.bufferable(keys, values, n) {
		return g.bufferBatch(ctx, keys, values, n)
	}
	if err := g.addBuffered(ctx); err != nil {
		return &op.PartialError{Err: op.Cause(err)}
	}
	if err := g.addAll(ctx, g.l, keys, values, n); err != nil {
		return err
	}
	g.scratch.trim()
	return nil
}

func (g *Groups) checkOpen() error {
	if g.closed {
		return fmt.Errorf("groups %w", op.ErrClosed)
	}
	return g.failed
}

// addAll adds a batch in pieces of about equal size.
func (g *Groups) addAll(ctx context.Context, l *layout, keys, values []column.Column, n int) error {
	for done := 0; done < n; {
		if err := ctx.Err(); err != nil {
			return &op.PartialError{Done: done, Err: err}
		}
		// Equal sizes avoid a small last piece.
		size := g.maxPiece
		size = (n - done + (n-done+size-1)/size - 1) / ((n - done + size - 1) / size)
		p := piece{l: l, keys: keys, values: values, lo: done, n: size, remaining: n - done - size}
		added, err := g.add(ctx, &p)
		if done += added; err != nil {
			return &op.PartialError{Done: done, Err: err}
		}
	}
	return nil
}

// length returns the number of rows, and panics if columns differ in length.
func length[C interface{ Len() int }](columns ...[]C) int {
	n := -1
	for _, cs := range columns {
		for i, c := range cs {
			if n >= 0 && c.Len() != n {
				panic(fmt.Sprintf("group: column %d has %d rows, those before it %d", i, c.Len(), n))
			}
			n = c.Len()
		}
	}
	return max(n, 0)
}

func typesOf[C interface{ Type() column.Type }](columns []C) []column.Type {
	types := make([]column.Type, len(columns))
	for i, c := range columns {
		types[i] = c.Type()
	}
	return types
}

// bindTypes fixes the types of columns at the first batch. Later, other types are an error.
func (g *Groups) bindTypes(keys, values []column.Type, ordered bool) error {
	if g.l != nil {
		return g.l.checkTypes(keys, values, ordered)
	}
	l, err := newLayout(g.aggs, keys, values, ordered)
	if err != nil {
		return err
	}
	g.coder = newCoder(keys, g.opts.SkipNulls)
	g.l, g.mergeLayout = l, l.newMergeLayout()
	g.packed, g.numbered = g.newTable(), g.newTable()
	g.divideMemory()
	if g.interner, err = g.newInterner(int(min(int64(g.spilled.maxGroups),
		g.spilled.textBytes/keyBytes))); err != nil {
		g.l = nil
		return err
	}
	if room := g.opts.Capacity; room > 0 {
		if g.opts.Memory > 0 {
			room = int(min(int64(room), g.spilled.growingBytes/int64(g.mainTable().groupBytes())))
		}
		g.mainTable().repartition(g.dev, partsFor(room), room)
	}
	return nil
}

// checkTypes returns an error if types differ from the first batch.
func (l *layout) checkTypes(keys, values []column.Type, ordered bool) error {
	if ordered != l.ordered {
		return fmt.Errorf("%w: some rows have ordinals, and others do not", op.ErrOptions)
	}
	if err := checkSame("key", keys, l.keys); err != nil {
		return err
	}
	return checkSame("value", values, l.values)
}

func checkSame(kind string, got, want []column.Type) error {
	if len(got) != len(want) {
		return fmt.Errorf("%w: %d %s columns, where the first batch had %d", op.ErrOptions,
			len(got), kind, len(want))
	}
	for i, t := range got {
		if t != want[i] {
			return fmt.Errorf("%w: %s column %d has %v, where the first batch had %v",
				op.ErrOptions, kind, i, t, want[i])
		}
	}
	return nil
}
