package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/groups"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// GroupsOn holds groups of rows on a device. Columns have any types of fixed size, with or without
// nulls. On a GPU, one kernel reads the columns once. With a small number of groups, blocks of
// threads combine rows before they access the table. [GroupsOn.Add] streams rows of host columns to
// the device.
//
// [Groups] with Options.Sorted gives the same results, except that the last digits of sums of
// floats vary between runs. [GroupsOn.ResultOn] leaves results on the device.
//
// A GPU is fastest with one key column without nulls. Several key columns that together fit 64 bits
// are packed into one key, if possible with a bit per column for null. Longer keys, and keys with a
// null that has no bit, first get numbers from an index that compares whole keys.
//
// All methods may be called from many goroutines. Batches are added in the order of the calls.
type GroupsOn struct {
	dev  device.Device
	aggs []Aggregate
	opts Options

	tracked *observe.Tracked

	mu     sync.Mutex
	l      *layout // nil before the first batch
	impl   deviceGroups
	err    error // the error of all later calls: closed, or a batch may have been added in part
	closed bool
}

// deviceGroups holds groups on one kind of device.
type deviceGroups interface {
	// open is called once, when the types of columns are fixed.
	open(l *layout) error
	add(s *device.Stream, keys, values []column.On, n int) error
	addHost(ctx context.Context, keys, values []column.Column, n int) error
	result(ctx context.Context) (*Result, error)
	resultOn(ctx context.Context) (*ResultOn, error)
	// mergeInto adds the groups on the device to the groups of to.
	mergeInto(ctx context.Context, to *Groups) error
	close() error
}

// maxColumnsOn is the exclusive bound on Aggregate.Column on a device.
const maxColumnsOn = 1 << 16

// NewOn makes groups without rows on a device. The first batch fixes the types of keys and values.
// Options.Sorted has no effect. NewOn returns [weft.ErrOptions] for invalid options or aggregates,
// and for a nonzero Options.Memory. If the device lacks the kernels, it returns
// device.ErrNoKernels. On a GPU, [Var] and [StdDev] are device.ErrUnsupported.
func NewOn(dev device.Device, aggs []Aggregate, opts *Options) (*GroupsOn, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if err := checkOn(aggs, o); err != nil {
		return nil, err
	}
	g := &GroupsOn{dev: dev, aggs: slices.Clone(aggs), opts: o}
	if host, ok := dev.(device.Host); ok {
		g.impl, err = newHostGroups(host, aggs, o)
	} else if err = checkGPU(aggs); err == nil {
		g.impl, err = &gpuGroups{dev: dev, funcs: g.aggs, opts: o}, groups.Check(dev)
	}
	if err != nil {
		return nil, fmt.Errorf("group: NewOn: %w", err)
	}
	// Reading the number of groups would wait for the GPU.
	g.tracked = observe.Track(g, "group", nil, func(*GroupsOn) (groups, bytes int) { return 0, 0 })
	return g, nil
}

// checkOn returns an error for options and aggregates that are invalid on a device.
func checkOn(aggs []Aggregate, o Options) error {
	if err := check(aggs); err != nil {
		return err
	}
	if o.Memory != 0 {
		return fmt.Errorf("group: %w: Options.Memory is %d; on a device only ByOn has a memory limit",
			op.ErrOptions, o.Memory)
	}
	for i, a := range aggs {
		if a.Func != Rows && a.Column >= maxColumnsOn {
			return fmt.Errorf("group: %w: aggregate %d is the %v of value column %d, but on a device there are at most %d", op.ErrOptions, i, a.Func, a.Column, maxColumnsOn)
		}
	}
	return nil
}

// checkGPU returns an error for aggregates that have no kernel.
func checkGPU(aggs []Aggregate) error {
	for i, a := range aggs {
		if a.Func.isSpread() {
			return fmt.Errorf("%w: aggregate %d is the %v, which has no kernel: use By",
				device.ErrUnsupported, i, a.Func)
		}
	}
	return nil
}

// AddOn adds rows that lie on the device, as work of stream s. The columns must stay until the
// stream has done the work. AddOn waits for the stream if tables may have to grow, but not while
// the rows so far are at most Options.Capacity. AddOn panics if columns differ in length.
//
// AddOn returns an error and adds no row in the following cases. The number or the types of the
// columns differ from the first batch. An aggregate names a missing column, or a column with an
// unsuitable type. For a nil stream, and for a stream or columns of another device, the error is
// device.ErrInvalid. A GPU has a limit of 1533 sums of integers, or twice as many other aggregates,
// per group. Beyond it the error is device.ErrUnsupported.
//
// A batch that fails for lack of memory, or on a closed stream, may have been added in part. All
// later calls then return its error. Memory may also run out when a column has its first nulls,
// which the device then counts. A sum of integers beyond 2^94 fails in the same way, with
// [ErrOverflow] under all options.
func (g *GroupsOn) AddOn(s *device.Stream, keys, values []column.On) error {
	n := length(keys, values)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return fmt.Errorf("group: AddOn: %w", g.err)
	}
	if err := g.check(s, keys, values); err != nil {
		return fmt.Errorf("group: AddOn: %w", err)
	}
	if err := g.bind(typesOf(keys), typesOf(values)); err != nil {
		return fmt.Errorf("group: AddOn: %w", err)
	}
	if n == 0 {
		return nil
	}
	if g.err = g.impl.add(s, keys, values, n); g.err != nil {
		return fmt.Errorf("group: AddOn: %w", g.err)
	}
	return nil
}

// Add adds rows of host columns with types of fixed size. On a GPU it copies them in pieces, while
// kernels work on earlier pieces. Thus only the groups must fit device memory, not the rows. [ByOn]
// also groups rows if the groups do not fit. The columns may change once Add returns. Page-locked
// columns (device.Device.Register, AllocHost) are copied from where they lie. Other columns are
// first copied to page-locked memory by all cores of the host. Until Close, groups keep three
// pieces of 64 MiB on the device, and as much page-locked memory after the first pageable columns.
//
// See [GroupsOn.AddOn] for columns and errors. For byte strings, Add returns device.ErrUnsupported.
// If the context ends, the batch may have been added in part, and later calls return the same
// error.
func (g *GroupsOn) Add(ctx context.Context, keys, values []column.Column) error {
	n := length(keys, values)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.addHost(ctx, keys, values, n); err != nil {
		return fmt.Errorf("group: Add: %w", err)
	}
	return nil
}

func (g *GroupsOn) addHost(ctx context.Context, keys, values []column.Column, n int) error {
	if g.err != nil {
		return g.err
	}
	if err := fixed(keys, values); err != nil {
		return err
	}
	if err := g.bind(typesOf(keys), typesOf(values)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil || n == 0 {
		return err
	}
	g.err = g.impl.addHost(ctx, keys, values, n)
	return g.err
}

// fixed returns an error for byte strings, because a device has no such columns.
func fixed(keys, values []column.Column) error {
	for kind, columns := range map[string][]column.Column{"key": keys, "value": values} {
		for i, c := range columns {
			if c.Type() == column.Bytes {
				return fmt.Errorf("%w: %s column %d has byte strings, which a device does not "+
					"support; use ids of package intern", device.ErrUnsupported, kind, i)
			}
		}
	}
	return nil
}

// check returns an error for columns that the stream cannot add.
func (g *GroupsOn) check(s *device.Stream, keys, values []column.On) error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: the stream is nil", device.ErrInvalid)
	case s.Device() != g.dev:
		return fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name)
	}
	for _, columns := range []struct {
		kind    string
		columns []column.On
	}{{"key", keys}, {"value", values}} {
		for i, c := range columns.columns {
			if c.Len() > 0 && c.Device() != g.dev {
				return fmt.Errorf("%w: %s column %d lies on another device, %s", device.ErrInvalid, columns.kind, i, c.Device().Properties().Name)
			}
			if bits, _ := c.Valid(); c.HasNulls() && bits.Device() != g.dev {
				return fmt.Errorf("%w: the bitmap of %s column %d lies on another device, %s", device.ErrInvalid, columns.kind, i, bits.Device().Properties().Name)
			}
		}
	}
	return nil
}

// bind fixes the types of columns at the first batch. Later, other types are an error.
func (g *GroupsOn) bind(keys, values []column.Type) error {
	if g.l != nil {
		return g.l.checkTypes(keys, values, false)
	}
	l, err := newLayout(g.aggs, keys, values, false)
	if err != nil {
		return err
	}
	if err := g.impl.open(l); err != nil {
		return err
	}
	g.l = l
	return nil
}

// Result returns the groups in host memory, in ascending order of their keys: first column first,
// NaN after numbers, and null last. It covers all batches added before. On a GPU it needs device
// memory of the same size. Before the first batch it returns no key columns, and columns without a
// type for aggregates. A sum of integers that needs more than 64 bits is an [OverflowError], which
// names its group, unless Options.WrapSums is set.
func (g *GroupsOn) Result(ctx context.Context) (*Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, fmt.Errorf("group: Result: %w", g.err)
	}
	if g.l == nil {
		return &Result{Values: make([]column.Column, len(g.aggs))}, nil
	}
	r, err := g.impl.result(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	return r, nil
}

// ResultOn returns the groups in device memory, in no order. It waits until the result is complete.
// See [GroupsOn.Result] for the errors.
func (g *GroupsOn) ResultOn(ctx context.Context) (*ResultOn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, fmt.Errorf("group: ResultOn: %w", g.err)
	}
	if g.l == nil {
		return &ResultOn{Values: make([]column.On, len(g.aggs))}, nil
	}
	r, err := g.impl.resultOn(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: ResultOn: %w", err)
	}
	return r, nil
}

// Close waits for the work of streams, and frees the memory of groups but not of results. Later
// calls fail with [weft.ErrClosed]. Close is idempotent.
func (g *GroupsOn) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.tracked.Closed()
	g.closed, g.err = true, fmt.Errorf("groups %w", op.ErrClosed)
	return g.impl.close()
}

// ResultOn holds groups as columns of equal length in device memory, in no order. It has a column
// for each key and for each aggregate, with the types that [Func] documents. Free it after use.
type ResultOn struct {
	Keys, Values []column.On
}

// Len returns the number of groups.
func (r *ResultOn) Len() int { return length(r.Keys, r.Values) }

// Free frees the memory of all columns. Work that uses the columns must have completed. Free is
// idempotent.
func (r *ResultOn) Free() (err error) {
	for _, columns := range [][]column.On{r.Keys, r.Values} {
		for i := range columns {
			err = errors.Join(err, columns[i].Free())
		}
	}
	return err
}

// hostGroups implements deviceGroups on a CPU, whose streams run work at once.
type hostGroups struct{ groups *Groups }

func newHostGroups(dev device.Host, aggs []Aggregate, o Options) (deviceGroups, error) {
	o.Sorted = true
	groups, err := New(dev, aggs, &o)
	return hostGroups{groups}, err
}

func (h hostGroups) open(l *layout) error {
	return h.groups.Add(context.Background(), empty(l.keys), empty(l.values))
}

// empty returns a column without rows for each type.
func empty(types []column.Type) []column.Column {
	columns := make([]column.Column, len(types))
	for i, t := range types {
		columns[i] = newWriter(t, 0, reader{}).column()
	}
	return columns
}

func (h hostGroups) add(_ *device.Stream, keys, values []column.On, _ int) error {
	local := func(columns []column.On) (all []column.Column) {
		for _, c := range columns {
			all = append(all, c.Host())
		}
		return all
	}
	return h.groups.Add(context.Background(), local(keys), local(values))
}

func (h hostGroups) addHost(ctx context.Context, keys, values []column.Column, _ int) error {
	return errors.Unwrap(h.groups.Add(ctx, keys, values)) // without the name of the method
}

func (h hostGroups) result(ctx context.Context) (*Result, error) {
	r, err := h.groups.Result(ctx)
	return r, errors.Unwrap(err) // without the name of the method
}

func (h hostGroups) resultOn(ctx context.Context) (r *ResultOn, err error) {
	local, err := h.result(ctx)
	if err != nil {
		return nil, err
	}
	s, err := h.groups.dev.NewStream()
	if err != nil {
		return nil, err
	}
	r = &ResultOn{}
	defer func() {
		if err = errors.Join(err, s.Close()); err != nil {
			r, err = nil, errors.Join(err, r.Free())
		}
	}()
	upload := func(columns []column.Column) (all []column.On, err error) {
		for _, c := range columns {
			on, err := column.Upload(s, c)
			if err != nil {
				return all, err
			}
			all = append(all, on)
		}
		return all, nil
	}
	if r.Keys, err = upload(local.Keys); err != nil {
		return r, err
	}
	r.Values, err = upload(local.Values)
	return r, err
}

func (h hostGroups) close() error { return h.groups.Close() }
