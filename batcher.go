package weft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/coalesce"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Batcher is a front of a map for many goroutines that have one key each: it makes batches
// of their calls, since a call of one key on a GPU takes about as long as one of a thousand.
// Each call has its own context, result and error.
//
// A batch begins as soon as the one before has ended, with the calls that have come
// meanwhile, so a call takes as long as two batches, and one that is alone does not wait.
// Lookups and changes have batches of their own, which run beside each other where the map
// lets them. Calls begin in the order in which they came. One that comes after another has
// returned sees what that did; calls that overlap happen in some order.
//
// On a CPU a call of one key costs less than to hand it to another goroutine, so there
// calls pass through to the map, unless the options say otherwise.
//
// A context that ends while its call waits takes the call back, and nothing has been done. Once
// its batch has begun, a change is waited for, so that its outcome is known, and a lookup is
// left.
type Batcher[K Key, V Value] struct {
	m       Batched[K, V]
	table   *core.Table
	lookups *coalesce.Queue[call[K, V]] // nil: calls pass through
	changes *coalesce.Queue[call[K, V]]
	singles sync.Pool // of *single, for calls that pass through
	closed  atomic.Bool
}

// Batched is what a [Batcher] can stand in front of: the maps and ordered maps of all
// packages.
type Batched[K Key, V Value] interface {
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error)
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
	Reduce(ctx context.Context, keys []K, vals []V, by Reduction) (inserted int, err error)
	Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error
	base() *core.Table
}

// BatcherOptions say how calls gather. The zero value is what fits most.
type BatcherOptions struct {
	// MaxBatch is how many calls one batch has at most. 0: 65536.
	MaxBatch int
	// Delay is how long the first call of a batch waits for others, unless the batch is full
	// before: the latency that may be spent on larger batches. 0: a batch begins when the one
	// before has ended, and goroutines that are ready to run have made their calls.
	Delay time.Duration
	// MaxWaiting is how many calls there may be, of lookups and of changes each, that have not
	// been answered; those beyond wait for them, in their order, and hold no more memory than
	// their goroutine. 0: four times MaxBatch.
	MaxWaiting int
	// Coalesce says whether calls are gathered at all.
	Coalesce Coalesce
}

// Coalesce says when a [Batcher] gathers calls.
type Coalesce int

// When calls are gathered.
const (
	CoalesceAuto   Coalesce = iota // on devices whose calls take long: on all but a CPU
	CoalesceAlways                 // on a CPU, too
	CoalesceNever                  // calls pass through
)

var coalesces = enum.Names[Coalesce]{Type: "weft.Coalesce", Names: []string{"Auto", "Always", "Never"}, Err: op.ErrOptions}

// String is the name of when calls are gathered.
func (c Coalesce) String() string { return coalesces.String(c) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (c Coalesce) MarshalText() ([]byte, error) { return coalesces.Text(c) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (c *Coalesce) UnmarshalText(text []byte) error { return coalesces.Read(c, text) }

// NewBatcher makes a front of a map, which must outlive it and may be used beside it. nil
// options are the zero value.
func NewBatcher[K Key, V Value](m Batched[K, V], opts *BatcherOptions) (*Batcher[K, V], error) {
	b := &Batcher[K, V]{m: m, table: m.base()}
	var o BatcherOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBatch < 0 || o.Delay < 0 || o.MaxWaiting < 0 || o.Coalesce < CoalesceAuto || o.Coalesce > CoalesceNever {
		return nil, fmt.Errorf("%s: NewBatcher: %w: MaxBatch %d, Delay %v, MaxWaiting %d, Coalesce %d: a number is negative, or there is no such choice",
			b.table.Name, ErrOptions, o.MaxBatch, o.Delay, o.MaxWaiting, o.Coalesce)
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 1 << 16
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 4 * min(o.MaxBatch, math.MaxInt/4)
	}
	o.MaxBatch = min(o.MaxBatch, o.MaxWaiting)
	b.singles.New = func() any { return new(single[K, V]) }
	if o.Coalesce == CoalesceNever || o.Coalesce == CoalesceAuto && b.table.Device.Properties().Kind == device.CPU {
		return b, nil
	}
	c := coalesce.Options{Batch: o.MaxBatch, Delay: o.Delay, Waiting: o.MaxWaiting}
	b.lookups = coalesce.New(c, (&lookups[K, V]{m: m}).run)
	b.changes = coalesce.New(c, (&changes[K, V]{m: m}).run)
	return b, nil
}

// Get looks a key up. val is zero where it is absent.
func (b *Batcher[K, V]) Get(ctx context.Context, key K) (val V, found bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{Kind: OpGet, Key: key})
	return r.Value, r.OK, err
}

// Put inserts a pair or replaces the value, and reports whether the key was new.
func (b *Batcher[K, V]) Put(ctx context.Context, key K, val V) (inserted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{OpPut, key, val})
	return r.OK, err
}

// GetOrPut looks a key up, and inserts it with val if it is absent; as sync.Map's LoadOrStore.
func (b *Batcher[K, V]) GetOrPut(ctx context.Context, key K, val V) (actual V, loaded bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{OpPutNew, key, val})
	switch {
	case err != nil:
		return actual, false, err
	case r.OK:
		return val, false, nil
	}
	return r.Value, true, nil
}

// Delete removes a key and reports whether it was there.
func (b *Batcher[K, V]) Delete(ctx context.Context, key K) (deleted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{Kind: OpDelete, Key: key})
	return r.OK, err
}

// Reduce inserts a pair or combines its value with the one that is there, as [Map.Reduce]
// does, and reports whether the key was new.
func (b *Batcher[K, V]) Reduce(ctx context.Context, key K, val V, by Reduction) (inserted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{OpKind(by), key, val})
	return r.OK, err
}

// Apply runs one operation of any kind that the map has.
//
// If a batch fails, the error comes from the calls that it has not done: in maps of fixed size,
// [ErrFull] comes from those that found no room.
func (b *Batcher[K, V]) Apply(ctx context.Context, o Op[K, V]) (Result[V], error) {
	if b.closed.Load() {
		return Result[V]{}, b.wrap(ErrClosed)
	}
	if err := b.table.CheckKind(op.Kind(o.Kind)); err != nil {
		return Result[V]{}, b.wrap(err)
	}
	if b.lookups == nil {
		return b.pass(ctx, o)
	}
	queue := b.changes
	if o.Kind == OpGet {
		queue = b.lookups
	}
	c := &call[K, V]{op: o}
	if err := queue.Do(ctx, c, o.Kind == OpGet); err != nil {
		return Result[V]{}, b.wrap(err)
	}
	return c.res, c.err
}

// Close runs the calls that wait, and frees what the front has; later calls return
// [ErrClosed]. The map stays open. Idempotent.
func (b *Batcher[K, V]) Close() error {
	b.closed.Store(true)
	if b.lookups != nil {
		b.lookups.Close()
		b.changes.Close()
	}
	return nil
}

func (b *Batcher[K, V]) wrap(err error) error {
	return fmt.Errorf("%s: Batcher: %w", b.table.Name, err)
}

// single is the columns of a batch of one.
type single[K Key, V Value] struct {
	keys [1]K
	vals [1]V
	ops  [1]Op[K, V]
	res  [1]Result[V]
}

// pass hands one operation to the map.
func (b *Batcher[K, V]) pass(ctx context.Context, o Op[K, V]) (r Result[V], err error) {
	s := b.singles.Get().(*single[K, V])
	defer b.singles.Put(s)
	s.keys[0], s.vals[0] = o.Key, o.Value
	n := 0
	switch {
	case o.Kind == OpGet:
		n, err = b.m.Get(ctx, s.keys[:], s.vals[:], nil)
		r.Value = s.vals[0]
	case o.Kind == OpPut:
		n, err = b.m.Put(ctx, s.keys[:], s.vals[:])
	case o.Kind == OpPutNew:
		if n, err = b.m.GetOrPut(ctx, s.keys[:], s.vals[:], nil); err == nil && n == 0 {
			r.Value = s.vals[0]
		}
	case o.Kind == OpDelete:
		n, err = b.m.Delete(ctx, s.keys[:], nil)
	case o.Kind.Reduces():
		n, err = b.m.Reduce(ctx, s.keys[:], s.vals[:], Reduction(o.Kind))
	default:
		s.ops[0] = o
		err = b.m.Apply(ctx, s.ops[:], s.res[:])
		return s.res[0], err
	}
	r.OK = n > 0
	return r, err
}

// call is an operation that has joined a batch, and what it came to.
type call[K Key, V Value] struct {
	op  Op[K, V]
	res Result[V]
	err error
}

// finish gives calls the error of their batch, unless it has done them.
func finish[K Key, V Value](calls []*call[K, V], err error) {
	if err == nil {
		return
	}
	p := &PartialError{}
	errors.As(err, &p)
	err = fmt.Errorf("batch of %d calls: %w", len(calls), err)
	fail := func(c *call[K, V]) { c.res, c.err = Result[V]{}, err }
	for _, row := range p.Rows {
		fail(calls[row])
	}
	for _, c := range calls[p.Done:] {
		fail(c)
	}
}

// lookups runs batches of OpGet. Its columns are used again by each.
type lookups[K Key, V Value] struct {
	m     Batched[K, V]
	keys  []K
	vals  []V
	found []bool
}

func (l *lookups[K, V]) run(calls []*call[K, V]) {
	n := len(calls)
	if n > len(l.keys) {
		l.keys, l.vals, l.found = make([]K, 2*n), make([]V, 2*n), make([]bool, 2*n)
	}
	for i, c := range calls {
		l.keys[i] = c.op.Key
	}
	_, err := l.m.Get(context.Background(), l.keys[:n], l.vals[:n], l.found[:n])
	for i, c := range calls {
		c.res = Result[V]{l.vals[i], l.found[i]}
	}
	finish(calls, err)
}

// changes runs batches of other operations.
type changes[K Key, V Value] struct {
	m   Batched[K, V]
	ops []Op[K, V]
	res []Result[V]
}

func (w *changes[K, V]) run(calls []*call[K, V]) {
	n := len(calls)
	if n > len(w.ops) {
		w.ops, w.res = make([]Op[K, V], 2*n), make([]Result[V], 2*n)
	}
	for i, c := range calls {
		w.ops[i] = c.op
	}
	err := w.m.Apply(context.Background(), w.ops[:n], w.res[:n])
	for i, c := range calls {
		c.res = w.res[i]
	}
	finish(calls, err)
}
