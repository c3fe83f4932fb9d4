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

// Batcher gathers one-key calls of many goroutines into batches on one map. It saves time on a GPU,
// where a call with one key takes about as long as a call with a thousand. Each call has its own
// context, result and error.
//
// A batch begins as soon as the previous batch has ended, with the calls that have arrived
// meanwhile. So a call takes at most as long as two batches, and a single call does not wait.
// Lookups and changes form separate batches, which run concurrently if the map permits it. Calls
// begin in the order of their arrival. A call that starts after another call has returned sees the
// effect of that call. Calls that overlap happen in any order.
//
// On a CPU, a direct call of the map costs less than a handover to another goroutine. So on a CPU
// calls pass through to the map, unless the options say otherwise.
//
// If a context ends while its call waits, the call is withdrawn and has no effect. Once the batch
// has begun, a change waits for its result, but a lookup returns at once.
type Batcher[K Key, V Value] struct {
	m       Batched[K, V]
	table   *core.Table
	lookups *coalesce.Queue[call[K, V]] // nil if calls pass through
	changes *coalesce.Queue[call[K, V]]
	singles sync.Pool // *single, for calls that pass through
	closed  atomic.Bool
}

// Batched is the interface that a [Batcher] requires: the maps and ordered maps of all packages
// implement it.
type Batched[K Key, V Value] interface {
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error)
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
	Reduce(ctx context.Context, keys []K, vals []V, kind Reduction) (inserted int, err error)
	Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error
	base() *core.Table
}

// BatcherOptions controls how a [Batcher] gathers calls. The zero value suits most programs.
type BatcherOptions struct {
	// MaxBatch is the maximum number of calls per batch. 0 means 65536.
	MaxBatch int
	// Delay is the time that the first call of a batch waits for other calls, unless the batch
	// fills earlier. A longer delay makes batches larger and calls slower. With 0, a batch begins
	// when the previous batch has ended and the runnable goroutines have made their calls.
	Delay time.Duration
	// MaxWaiting is the maximum number of unanswered calls, separately for lookups and for changes.
	// Further calls wait in order of arrival and take no memory except their goroutine's. 0 means
	// four times MaxBatch.
	MaxWaiting int
	// Coalesce selects whether the Batcher gathers calls at all.
	Coalesce Coalesce
}

// Coalesce selects when a [Batcher] gathers calls.
type Coalesce int

// The choices of when calls are gathered.
const (
	CoalesceAuto   Coalesce = iota // gather on GPUs; on CPUs, changes that wait for a disk
	CoalesceAlways                 // gather on all devices
	CoalesceNever                  // gather nowhere; calls pass through to the map
)

var coalesces = enum.Names[Coalesce]{Type: "weft.Coalesce", Names: []string{"Auto", "Always", "Never"}, Err: op.ErrOptions}

// String returns the name of the choice.
func (c Coalesce) String() string { return coalesces.String(c) }

// MarshalText returns the name of the choice, or [ErrOptions] if c is not a known one.
func (c Coalesce) MarshalText() ([]byte, error) { return coalesces.Text(c) }

// UnmarshalText sets c to the choice with the given name, in upper or lower case. So flag.TextVar
// accepts a Coalesce.
func (c *Coalesce) UnmarshalText(text []byte) error { return coalesces.Read(c, text) }

// NewBatcher returns a Batcher for a map. The map must stay open longer than the Batcher and may be
// used directly as well. If opts is nil, the zero BatcherOptions apply.
func NewBatcher[K Key, V Value](m Batched[K, V], opts *BatcherOptions) (*Batcher[K, V], error) {
	b := &Batcher[K, V]{m: m, table: m.base()}
	var o BatcherOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBatch < 0 || o.Delay < 0 || o.MaxWaiting < 0 || o.Coalesce < CoalesceAuto || o.Coalesce > CoalesceNever {
		return nil, fmt.Errorf("%s: NewBatcher: %w: MaxBatch %d, Delay %v, MaxWaiting %d, Coalesce %d: want numbers that are not negative, and a Coalesce constant",
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
	auto, gpu, journal := o.Coalesce == CoalesceAuto, b.table.Device.Properties().Kind != device.CPU, b.table.Journal()
	c := coalesce.Options{Batch: o.MaxBatch, Delay: o.Delay, Waiting: o.MaxWaiting}
	if o.Coalesce == CoalesceAlways || auto && gpu {
		b.lookups = coalesce.New(c, (&lookups[K, V]{m: m}).run)
	}
	if b.lookups != nil || auto && journal != nil && journal.Slow() {
		b.changes = coalesce.New(c, (&changes[K, V]{m: m}).run)
	}
	return b, nil
}

// Get looks a key up. val is zero if the key is absent.
func (b *Batcher[K, V]) Get(ctx context.Context, key K) (val V, found bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{Kind: OpGet, Key: key})
	return r.Value, r.OK, err
}

// Put inserts a pair or replaces the key's value, and reports whether the key was new.
func (b *Batcher[K, V]) Put(ctx context.Context, key K, val V) (inserted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{OpPut, key, val})
	return r.OK, err
}

// GetOrPut looks a key up, and inserts it with val if it is absent, like LoadOrStore of sync.Map.
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

// Delete removes a key and reports whether it was present.
func (b *Batcher[K, V]) Delete(ctx context.Context, key K) (deleted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{Kind: OpDelete, Key: key})
	return r.OK, err
}

// Reduce inserts a pair or combines its value with the stored value, and reports whether the key
// was new. See [Map.Reduce].
func (b *Batcher[K, V]) Reduce(ctx context.Context, key K, val V, kind Reduction) (inserted bool, err error) {
	r, err := b.Apply(ctx, Op[K, V]{OpKind(kind), key, val})
	return r.OK, err
}

// Apply runs one operation of any kind that the map supports.
//
// If a batch fails partway, only the calls that were not done return the error. In maps of fixed
// size, calls that overflowed return [ErrFull].
func (b *Batcher[K, V]) Apply(ctx context.Context, o Op[K, V]) (Result[V], error) {
	if b.closed.Load() {
		return Result[V]{}, b.wrap(ErrClosed)
	}
	if err := b.table.CheckKind(op.Kind(o.Kind)); err != nil {
		return Result[V]{}, b.wrap(err)
	}
	queue := b.changes
	if o.Kind == OpGet {
		queue = b.lookups
	}
	if queue == nil {
		return b.runDirect(ctx, o)
	}
	c := &call[K, V]{op: o}
	if err := queue.Do(ctx, c, o.Kind == OpGet); err != nil {
		return Result[V]{}, b.wrap(err)
	}
	return c.res, c.err
}

// Close runs the waiting calls and frees the Batcher's memory; later calls return [ErrClosed]. The
// map stays open. A second Close does nothing.
func (b *Batcher[K, V]) Close() error {
	b.closed.Store(true)
	for _, q := range []*coalesce.Queue[call[K, V]]{b.lookups, b.changes} {
		if q != nil {
			q.Close()
		}
	}
	return nil
}

func (b *Batcher[K, V]) wrap(err error) error {
	return fmt.Errorf("%s: Batcher: %w", b.table.Name, err)
}

type single[K Key, V Value] struct {
	keys [1]K
	vals [1]V
	ops  [1]Op[K, V]
	res  [1]Result[V]
}

func (b *Batcher[K, V]) runDirect(ctx context.Context, o Op[K, V]) (r Result[V], err error) {
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

type call[K Key, V Value] struct {
	op  Op[K, V]
	res Result[V]
	err error
}

// setErrors sets the error in those calls of a batch that were not done before the batch failed.
func setErrors[K Key, V Value](calls []*call[K, V], err error) {
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

// lookups runs batches of OpGet. All batches reuse the same slices.
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
	setErrors(calls, err)
}

// changes runs batches of the other operations. All batches reuse the same slices.
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
	setErrors(calls, err)
}
