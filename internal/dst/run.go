package dst

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpu/staging"
)

type runner[K weft.Key, V weft.Value] struct {
	sim     *sim.Device
	dev     device.Device // sim, or the configuration's wrapper of sim
	subject Subject[K, V]
	streams []*device.Stream
	link    []*device.Event // one event per stream
	shape   Shape
	ordered bool // operations of uniform batches run in order
	multi   bool
	pairs   bool           // the structure has values
	loads   bool           // PutNews run as GetOrPuts
	orders  orderedActions // nil unless the map is ordered and has atomic batches

	history      history
	pendingReads []pendingRead       // range operations on the device with unread results
	submissions  []*submission[K, V] // device batches with unread results
	width        int                 // size of a key in bytes
	time         int64               // clock: number of memory accesses so far
}

// submission is a device batch that was submitted, with its columns.
type submission[K weft.Key, V weft.Value] struct {
	Columns[K, V]
	number  int
	stream  int
	events  []event
	watched bool // memory accesses set the times of its operations
}

// execute runs a program and returns its history and the number of kernel launches. An error means
// a fault of the structure, because the test code itself does not fail.
func execute[K weft.Key, V weft.Value](cfg *Config[K, V], shape Shape, opts sim.Options, p program) (_ *history, launches int, err error) {
	r := &runner[K, V]{shape: shape, ordered: !cfg.Unordered, multi: cfg.Multi, pairs: !cfg.Uniform, loads: cfg.Loads, width: int(sizeof[K]())}
	r.history.timed = opts.Sequential && !cfg.RetriesOps && cfg.newOrdered == nil
	r.history.multi = cfg.Multi
	if r.history.timed {
		opts.Watch = r.watch
	}
	opts.Budget = budget
	if r.sim, err = sim.Open(&opts); err != nil {
		return nil, 0, err
	}
	defer func() {
		launches = r.sim.Launches()
		r.sim.Close()
	}()
	if r.dev = r.sim; cfg.Wrap != nil {
		r.dev = cfg.Wrap(r.sim)
	}
	defer staging.Configure(r.dev, stagingOf(opts.Seed))()
	if r.subject, err = cfg.New(r.dev, shape); err != nil {
		return nil, 0, fmt.Errorf("new: %w", err)
	}
	if cfg.newOrdered != nil {
		r.orders = cfg.newOrdered(r)
	}
	// A lost device cannot be closed properly, so leaks are not checked.
	defer r.subject.Close()
	for range max(shape.Streams, 1) {
		s, err := r.dev.NewStream()
		e, err2 := r.dev.NewEvent()
		if err := errors.Join(err, err2); err != nil {
			return nil, 0, err
		}
		r.streams, r.link = append(r.streams, s), append(r.link, e)
		r.history.streams = append(r.history.streams, 0)
	}
	for i, b := range p {
		for _, u := range cfg.Upkeep {
			if u.Name != b.upkeep {
				continue
			}
			if err := u.Do(r.subject); err != nil {
				return nil, 0, fmt.Errorf("%s before batch %d: %w", u.Name, i, err)
			}
		}
		if err := r.run(b); err != nil {
			return nil, 0, fmt.Errorf("batch %d: %w", i, err)
		}
	}
	if err := r.finish(p); err != nil {
		return nil, 0, err
	}
	return &r.history, 0, nil
}

// budget is the maximum number of warp instructions per launch. No launch of a small program needs
// that many.
const budget = 1 << 27

// stagingOf returns settings that divide small host batches into many pieces, in an order that the
// seed determines.
func stagingOf(seed uint64) staging.Settings {
	rng := rand.New(rand.NewPCG(seed, 1))
	return staging.Settings{PieceBytes: 32 << rng.IntN(6), Slots: 1 + rng.IntN(3), Order: rng.IntN}
}

func sizeof[T device.Elem]() uintptr {
	return uintptr(len(device.Bytes(make([]T, 1))))
}

func (r *runner[K, V]) run(b batch) error {
	host, ok := r.subject.(HostSubject[K, V])
	ctx := context.Context(context.Background())
	if b.maxChecks > 0 {
		ctx = &countdown{ctx, b.maxChecks}
	}
	b.stream %= len(r.streams)
	b.to %= len(r.streams)
	switch {
	case len(b.ops) > 0 && b.ops[0].Kind == getAll && b.action == call && ok:
		return r.listCall(ctx, b)
	case len(b.ops) > 0 && b.ops[0].Kind == getAll:
		return r.list(b)
	case b.action == submit, b.action == call && !ok:
		return r.submit(b)
	case b.action == call:
		return r.call(ctx, host, b)
	case b.action == link:
		r.history.link(b.stream, b.to)
		e := r.link[b.stream]
		return errors.Join(r.streams[b.stream].Record(e), r.streams[b.to].Wait(e))
	case b.action == wait:
		err := r.streams[b.stream].Sync(ctx)
		if err == nil {
			r.history.markStreamWaited(b.stream)
			err = r.collect()
		}
		return r.filterError(err, b)
	case b.action == sync:
		return r.filterError(r.sync(ctx), b)
	case b.action == iterate && ok:
		return r.iterate(host, b)
	case b.action == clear && ok:
		return r.clear(host)
	case b.action >= rangeLookup && r.orders != nil:
		return r.orders.run(ctx, b)
	}
	return nil
}

type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// filterError drops errors that batch b may return, because a fixed structure is full or the
// context of b ends.
func (r *runner[K, V]) filterError(err error, b batch) error {
	if err != nil && !errors.Is(err, device.ErrLost) &&
		(r.shape.Fixed && errors.Is(err, weft.ErrFull) || b.maxChecks > 0 && errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

func (r *runner[K, V]) sync(ctx context.Context) error {
	err := r.subject.Sync(ctx)
	if err == nil || errors.Is(err, weft.ErrFull) {
		r.history.markAllWaited()
		err = errors.Join(err, r.collect())
	}
	return err
}

func (r *runner[K, V]) submit(b batch) error {
	n := len(b.ops)
	if n == 0 {
		return nil
	}
	keys, vals, kinds := columns[K, V](b.ops)
	s := r.streams[b.stream]
	f := &submission[K, V]{stream: b.stream, Columns: Columns[K, V]{Kind: r.kind(kinds[0])}}
	var errs [5]error
	f.Keys, errs[0] = device.Upload(s, keys)
	f.Vals, errs[1] = device.Upload(s, vals)
	f.OK, errs[2] = device.Upload(s, make([]bool, n))
	if !b.uniform {
		f.Kinds, errs[3] = device.Upload(s, kinds)
	}
	if r.multi {
		f.Removed, errs[4] = device.Upload(s, make([]uint32, n))
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	inOrder := r.inOrder(b)
	r.time++
	f.events = r.events(b, inOrder)
	f.watched = r.history.timed && !inOrder
	f.number = r.history.begin(b.stream, changes(b))
	r.submissions = append(r.submissions, f)
	returns, err := r.subject.Submit(s, &f.Columns)
	for i := range f.events {
		f.events[i].returns = returns
	}
	return r.filterError(err, b)
}

// inOrder reports whether the operations of a batch must run in order. Lookups need not run in
// order, because each may see concurrent changes.
func (r *runner[K, V]) inOrder(b batch) bool {
	return b.uniform && changes(b) && r.ordered && !b.ops[0].Kind.Reduces() && (!r.multi || b.ops[0].Kind == weft.OpPutNew)
}

// kind returns the kind of method that runs a uniform batch of kind k: with Config.Loads, GetOrPut
// runs a batch of PutNews.
func (r *runner[K, V]) kind(k weft.OpKind) weft.OpKind {
	if k == weft.OpPutNew && r.loads {
		return getOrPut
	}
	return k
}

func changes(b batch) bool {
	return !b.uniform || b.ops[0].Kind != weft.OpGet
}

func columns[K weft.Key, V weft.Value](ops []weft.Op[uint64, uint64]) (keys []K, vals []V, kinds []weft.OpKind) {
	for _, op := range ops {
		keys, vals, kinds = append(keys, typed[K](op.Key)), append(vals, V(op.Value)), append(kinds, op.Kind)
	}
	return keys, vals, kinds
}

func (r *runner[K, V]) events(b batch, inOrder bool) []event {
	events := make([]event, len(b.ops))
	for i := range events {
		events[i] = event{op: b.ops[i], start: r.time, end: forever}
		if inOrder {
			events[i].rank = i + 1
		}
	}
	return events
}

// collect reads the results of all batches that the host has waited for.
func (r *runner[K, V]) collect() error {
	var err error
	r.submissions = slices.DeleteFunc(r.submissions, func(f *submission[K, V]) bool {
		if !r.history.waited.has(f.number) {
			return false
		}
		err = errors.Join(err, r.readResults(f))
		return true
	})
	return errors.Join(err, r.collectPending())
}

func (r *runner[K, V]) readResults(f *submission[K, V]) error {
	ctx, s, n := context.Background(), r.streams[f.stream], len(f.events)
	vals, ok, removed := make([]V, n), make([]bool, n), make([]uint32, f.Removed.Len())
	if err := errors.Join(f.Vals.CopyTo(ctx, s, vals), f.OK.CopyTo(ctx, s, ok), f.Removed.CopyTo(ctx, s, removed)); err != nil {
		return err
	}
	r.time++
	for i := range f.events {
		e := &f.events[i]
		e.ok, e.val = ok[i] != e.returns.Loaded, uint64(vals[i])
		if r.multi {
			e.removed = int(removed[i])
		}
		e.end = min(e.end, r.time)
	}
	r.history.add(f.number, f.events)
	return errors.Join(f.Keys.Free(), f.Vals.Free(), f.OK.Free(), f.Kinds.Free(), f.Removed.Free())
}

// call runs a host batch. If the batch's context ends, the error contains the number of operations
// that ran, and the other operations must not have run.
func (r *runner[K, V]) call(ctx context.Context, host HostSubject[K, V], b batch) error {
	if len(b.ops) == 0 {
		return nil
	}
	keys, vals, kinds := columns[K, V](b.ops)
	kind, ok := r.kind(kinds[0]), make([]bool, len(keys))
	if b.uniform {
		kinds = nil
	}
	r.time++
	events := r.events(b, r.inOrder(b))
	number := r.history.beginCall(changes(b))
	returns, err := host.Call(ctx, kind, kinds, keys, vals, ok)
	var cut *weft.PartialError
	if errors.As(err, &cut) {
		events = events[:cut.Done]
	}
	r.time++
	for i := range events {
		e := &events[i]
		e.ok, e.val, e.returns, e.end = ok[i] != returns.Loaded, uint64(vals[i]), returns, r.time
	}
	r.history.add(number, events)
	if err := r.filterError(err, b); err != nil {
		return err
	}
	r.history.markReturned(number)
	return r.collect()
}

// iterate iterates over all pairs and requires each unchanged pair to occur once. Meanwhile it
// submits a batch. In a multimap, the history records the values of each key as a list, and no
// batch is submitted.
func (r *runner[K, V]) iterate(host HostSubject[K, V], b batch) error {
	r.time++
	start := r.time
	number := r.history.beginCall(false)
	found, changed := map[uint64][]uint64{}, map[uint64]bool{}
	byBatch := r.orders != nil
	for p, err := range host.Pages(context.Background()) {
		if err == nil && len(found) == 0 && !r.multi {
			if err = r.submit(b); err == nil && !byBatch {
				for _, op := range b.ops {
					changed[op.Key] = true
				}
			}
		}
		if err != nil {
			return fmt.Errorf("iteration: %w", err)
		}
		for i, key := range p.Keys {
			k := keyNumber(key)
			if found[k] != nil && !r.multi && !changed[k] {
				return fmt.Errorf("key %#x comes twice in an iteration", k)
			}
			found[k] = append(found[k], uint64(p.Vals[i]))
		}
	}
	r.time++
	if byBatch {
		r.history.views = append(r.history.views, view{number: number, at: number, desc: "iteration", matches: func(c contents) bool {
			return maps.EqualFunc(found, c, func(vals []uint64, v uint64) bool { return len(vals) == 1 && vals[0] == v })
		}})
		r.history.markReturned(number)
		return r.collect()
	}
	var events []event
	for _, k := range r.history.keys(maps.Keys(found), r.running()) {
		if changed[k] {
			continue
		}
		e := event{op: weft.Op[uint64, uint64]{Kind: getAll, Key: k}, all: found[k], start: start, end: r.time}
		if !r.multi {
			e.op.Kind, e.all, e.returns = weft.OpGet, nil, Returns{OK: true, Vals: r.pairs}
			if vals := found[k]; vals != nil {
				e.ok, e.val = true, vals[0]
			}
		}
		events = append(events, e)
	}
	r.history.add(number, events)
	r.history.markReturned(number)
	return r.collect()
}

func (r *runner[K, V]) running() (events []event) {
	for _, f := range r.submissions {
		events = append(events, f.events...)
	}
	return events
}

// clear removes all pairs. The history records deletions of all keys that have occurred.
func (r *runner[K, V]) clear(host HostSubject[K, V]) error {
	kind := weft.OpDelete
	if r.multi {
		kind = weft.OpDeleteAll
	}
	r.time++
	number := r.history.beginCall(true)
	if err := host.Clear(context.Background()); err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	r.time++
	var events []event
	for _, k := range r.history.keys(func(func(uint64) bool) {}, r.running()) {
		events = append(events, event{op: weft.Op[uint64, uint64]{Kind: kind, Key: k}, start: r.time - 1, end: r.time})
	}
	r.history.add(number, events)
	r.history.markReturned(number)
	return r.collect()
}

func (r *runner[K, V]) list(b batch) error {
	if err := r.filterError(r.sync(context.Background()), b); err != nil {
		return err
	}
	n := len(b.ops)
	keys, _, _ := columns[K, V](b.ops)
	offsets, vals := make([]uint64, n+1), make([]V, r.subject.Len()+1)
	s := r.streams[b.stream]
	on, err := device.Upload(s, keys)
	counts, e := device.Upload(s, make([]uint32, n))
	offsetsOn, e2 := device.Upload(s, offsets)
	valsOn, e3 := device.Upload(s, vals)
	if err := errors.Join(err, e, e2, e3); err != nil {
		return err
	}
	m := r.subject.(interface {
		GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error
	})
	number := r.history.begin(b.stream, false)
	if err := m.GetAllOn(s, on, counts, offsetsOn, valsOn); err != nil {
		return err
	}
	if err := errors.Join(offsetsOn.CopyTo(context.Background(), s, offsets), valsOn.CopyTo(context.Background(), s, vals)); err != nil {
		return err
	}
	r.history.markReturned(number)
	if total := offsets[n]; !slices.IsSorted(offsets) || total >= uint64(len(vals)) {
		return fmt.Errorf("length %d, but the keys have %d values: %v", len(vals)-1, total, offsets)
	}
	r.time += 2
	var events []event
	for i, op := range b.ops {
		events = append(events, event{op: op, all: numberColumn(vals[offsets[i]:offsets[i+1]], valNumber[V]), start: r.time - 1, end: r.time})
	}
	r.history.add(number, events)
	return errors.Join(on.Free(), counts.Free(), offsetsOn.Free(), valsOn.Free())
}

func (r *runner[K, V]) listCall(ctx context.Context, b batch) error {
	m, ok := r.subject.(interface {
		GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error
	})
	if !ok {
		return nil
	}
	keys, _, _ := columns[K, V](b.ops)
	r.time++
	start := r.time
	number := r.history.beginCall(false)
	var rows weft.Rows[V]
	if err := m.GetAll(ctx, keys, &rows); err != nil {
		return r.filterError(err, b)
	}
	r.time++
	var events []event
	for i, op := range b.ops {
		events = append(events, event{op: op, all: numberColumn(rows.Row(i), valNumber[V]), start: start, end: r.time})
	}
	r.history.add(number, events)
	r.history.markReturned(number)
	return r.collect()
}

// watch observes a memory access and sets the start or end of an operation. An operation starts at
// the first read of its key and ends at the last write of its result.
func (r *runner[K, V]) watch(a sim.Access) {
	r.time++
	for _, f := range r.submissions {
		if !f.watched {
			continue
		}
		if i := int(a.Addr-f.Keys.Ptr()) / r.width; !a.Write && a.Addr >= f.Keys.Ptr() && i < len(f.events) {
			if e := &f.events[i]; !e.begun {
				e.start, e.begun = r.time, true
			}
		}
		if i := int(a.Addr - f.OK.Ptr()); a.Write && a.Addr >= f.OK.Ptr() && i < len(f.events) {
			f.events[i].end = r.time
		}
	}
}

// finish looks up every key that has occurred and requires Len to equal the number found.
func (r *runner[K, V]) finish(p program) error {
	if err := r.filterError(r.sync(context.Background()), batch{}); err != nil {
		return err
	}
	kind := weft.OpGet
	if r.multi {
		kind = getAll
	}
	b := batch{uniform: true}
	for _, k := range r.history.keys(p.keys, nil) {
		b.ops = append(b.ops, weft.Op[uint64, uint64]{Kind: kind, Key: k})
	}
	if err := errors.Join(r.run(b), r.filterError(r.sync(context.Background()), b)); err != nil {
		return fmt.Errorf("final lookup: %w", err)
	}
	found := 0
	for _, e := range r.history.events[len(r.history.events)-len(b.ops):] {
		if e.ok {
			found++
		}
		found += len(e.all)
	}
	if n := r.subject.Len(); n != found {
		return fmt.Errorf("length %d, but %d pairs are found", n, found)
	}
	if c, ok := r.subject.(interface{ CheckInvariants() error }); ok {
		if err := c.CheckInvariants(); err != nil {
			return fmt.Errorf("invariants: %w", err)
		}
	}
	if err := r.closeBusy(p); err != nil {
		return err
	}
	r.history.complete(r.shape)
	return nil
}

func (r *runner[K, V]) closeBusy(p program) error {
	for _, b := range p {
		if b.action == closeBusy {
			if err := r.submit(b); err != nil {
				return fmt.Errorf("last batch: %w", err)
			}
		}
	}
	err := r.subject.Close()
	if r.orders != nil {
		err = errors.Join(err, r.orders.closeSnapshots())
	}
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	r.history.markAllWaited()
	return errors.Join(r.dev.Sync(context.Background()), r.collect())
}

// keys calls yield with the keys of all operations in the program.
func (p program) keys(yield func(uint64) bool) {
	for _, b := range p {
		for _, op := range b.ops {
			if !yield(op.Key) {
				return
			}
		}
	}
}
