package group

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// KeyOn are the types of keys in device memory.
type KeyOn interface {
	weft.Key | ~float32 | ~float64
}

// GroupsOn are groups of rows that lie on a device, by one key column, with any number of value columns of one type, none of
// which has nulls. On a GPU one kernel reads the columns once: blocks of threads combine few groups before the table sees
// them. For several key columns, other types and nulls there are [Groups], which take columns of the host.
//
// Results are those of [Groups] with Options.Sorted, but that the last digits of sums of floats depend on chance; [GroupsOn.ResultOn]
// leaves them on the device.
//
// All methods may be called from many goroutines; batches are added in the order of the calls.
type GroupsOn[K KeyOn, V weft.Value] struct {
	dev     device.Device
	columns int // of values

	mu     sync.Mutex
	on     groupsOn[K, V]
	err    error // of the first batch that may have been added in part, or that of groups that are closed
	closed bool
}

// groupsOn is what groups on some kind of device do.
type groupsOn[K KeyOn, V weft.Value] interface {
	add(s *device.Stream, keys device.Slice[K], values []device.Slice[V]) error
	result(ctx context.Context) (*Result, error)
	resultOn(ctx context.Context) (*ResultOn[K], error)
	close() error
}

// mostColumns are the value columns of one call of AddOn.
const mostColumns = 1 << 16

// NewOn makes groups without rows on a device. There are as many value columns as aggregates name, 2^16 at most. [weft.ErrOptions] if
// options or aggregates make no sense, and for Options.MaxBytes; [device.ErrUnsupported] for [First] and [Last], since a GPU keeps no order
// of rows, and where it has no room for what aggregates keep of a group, which is 1533 sums of integers or twice as many others;
// device.ErrNoKernels and device.ErrMemory. Options.Sorted and SkipNulls change nothing.
func NewOn[K KeyOn, V weft.Value](dev device.Device, aggs []Aggregate, opts *Options) (*GroupsOn[K, V], error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if err := checkOn(aggs, o); err != nil {
		return nil, err
	}
	g := &GroupsOn[K, V]{dev: dev}
	for _, a := range aggs {
		if a.Func != Rows {
			g.columns = max(g.columns, a.Column+1)
		}
	}
	if host, ok := dev.(device.Host); ok {
		g.on, err = newHostOn[K, V](host, aggs, o, g.columns)
	} else {
		g.on, err = newGPUOn[K, V](dev, aggs, o)
	}
	if err != nil {
		return nil, fmt.Errorf("group: NewOn: %w", err)
	}
	return g, nil
}

// checkOn reports what makes no sense on a device.
func checkOn(aggs []Aggregate, o Options) error {
	if err := check(aggs); err != nil {
		return err
	}
	if o.MaxBytes != 0 {
		return fmt.Errorf("group: %w: Options.MaxBytes is %d, and on a device there is no such bound", op.ErrOptions, o.MaxBytes)
	}
	for i, a := range aggs {
		if a.Func != Rows && a.Column >= mostColumns {
			return fmt.Errorf("group: %w: aggregate %d is the %v of value column %d, and on a device there are %d at most", op.ErrOptions, i, a.Func, a.Column, mostColumns)
		}
		if a.Func == First || a.Func == Last {
			return fmt.Errorf("group: %w: aggregate %d is %v; rows on a device are in no order", device.ErrUnsupported, i, a.Func)
		}
	}
	return nil
}

// AddOn adds rows that lie on the device, as work of a stream; the columns must stay until the stream has done it. It waits for
// the stream if the table may have to grow: not as long as all rows so far are no more than Options.Capacity. Columns of different
// lengths panic; another number of value columns than aggregates name, no stream, and a stream or columns of another device are
// device.ErrInvalid, and nothing has been added then.
//
// A batch that fails, for lack of memory or on a stream that has been closed, may have been added in part, so all later calls fail
// with its error. So it is with sums of integers that go over 2^94, which is an [ErrOverflow] whatever the options.
func (g *GroupsOn[K, V]) AddOn(s *device.Stream, keys device.Slice[K], values ...device.Slice[V]) error {
	for i, v := range values {
		if v.Len() != keys.Len() {
			panic(fmt.Sprintf("group: AddOn: %d keys and %d values in column %d", keys.Len(), v.Len(), i))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return fmt.Errorf("group: AddOn: %w", g.err)
	}
	if err := g.check(s, keys, values); err != nil {
		return fmt.Errorf("group: AddOn: %w", err)
	}
	if keys.Len() == 0 {
		return nil
	}
	if g.err = g.on.add(s, keys, values); g.err != nil {
		return fmt.Errorf("group: AddOn: %w", g.err)
	}
	return nil
}

// check reports columns that cannot be added, or not by a stream.
func (g *GroupsOn[K, V]) check(s *device.Stream, keys device.Slice[K], values []device.Slice[V]) error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: no stream", device.ErrInvalid)
	case s.Device() != g.dev:
		return fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name)
	case len(values) != g.columns:
		return fmt.Errorf("%w: %d value columns; aggregates name %d", device.ErrInvalid, len(values), g.columns)
	case keys.Len() == 0:
		return nil
	case keys.Device() != g.dev:
		return fmt.Errorf("%w: the keys lie on another device, %s", device.ErrInvalid, keys.Device().Properties().Name)
	}
	for i, v := range values {
		if v.Device() != g.dev {
			return fmt.Errorf("%w: value column %d lies on another device, %s", device.ErrInvalid, i, v.Device().Properties().Name)
		}
	}
	return nil
}

// Result receives the keys in ascending order, NaN last, and their aggregates, in memory of the host, behind all batches that have been
// added. On a GPU it needs memory of the device for as much. A sum of integers that needs more than 64 bits is an [ErrOverflow] that names its group, unless Options.WrapSums is set.
func (g *GroupsOn[K, V]) Result(ctx context.Context) (*Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, fmt.Errorf("group: Result: %w", g.err)
	}
	r, err := g.on.result(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	return r, nil
}

// ResultOn is Result in memory of the device, in no order. It waits until all is there.
func (g *GroupsOn[K, V]) ResultOn(ctx context.Context) (*ResultOn[K], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, fmt.Errorf("group: ResultOn: %w", g.err)
	}
	r, err := g.on.resultOn(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: ResultOn: %w", err)
	}
	return r, nil
}

// Close frees the memory of groups, once streams have done what they were given; results stay. Idempotent; later calls fail
// with [weft.ErrClosed].
func (g *GroupsOn[K, V]) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed, g.err = true, fmt.Errorf("groups %w", op.ErrClosed)
	return g.on.close()
}

// hostOn is groups on a CPU, whose streams do at once what they are told.
type hostOn[K KeyOn, V weft.Value] struct{ groups *Groups }

func newHostOn[K KeyOn, V weft.Value](dev device.Host, aggs []Aggregate, o Options, columns int) (groupsOn[K, V], error) {
	o.Sorted = true
	groups, err := New(dev, aggs, &o)
	if err != nil {
		return nil, err
	}
	h := hostOn[K, V]{groups}
	return h, h.add(nil, device.Slice[K]{}, make([]device.Slice[V], columns)) // tells the types
}

func (h hostOn[K, V]) add(_ *device.Stream, keys device.Slice[K], values []device.Slice[V]) error {
	columns := make([]column.Column, len(values))
	for i, v := range values {
		columns[i] = column.Of(v.Host())
	}
	return h.groups.Add(context.Background(), []column.Column{column.Of(keys.Host())}, columns)
}

func (h hostOn[K, V]) result(ctx context.Context) (*Result, error) {
	r, err := h.groups.Result(ctx)
	return r, errors.Unwrap(err) // without the name of the method
}

func (h hostOn[K, V]) resultOn(ctx context.Context) (*ResultOn[K], error) {
	there, err := h.result(ctx)
	if err != nil {
		return nil, err
	}
	r := &ResultOn[K]{}
	if r.Keys, err = device.Make[K](h.groups.dev, there.Len()); err != nil {
		return nil, err
	}
	copy(device.Bytes(r.Keys.Host()), there.Keys[0].Raw())
	for _, c := range there.Values {
		on, err := newColumnOn(h.groups.dev, c.Type(), c.Len())
		if err != nil {
			return nil, errors.Join(err, r.Free())
		}
		copy(on.buffer().Host, c.Raw())
		r.values = append(r.values, on)
	}
	return r, nil
}

func (h hostOn[K, V]) close() error { return h.groups.Close() }
