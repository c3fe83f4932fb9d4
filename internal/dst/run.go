package dst

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// An event is one operation with what it returned and when it ran.
type event[K weft.Key, V weft.Value] struct {
	op         weft.Op[K, V]
	batch      int
	returns    Returns
	ok         bool
	full       bool // there may have been no room for it
	val        V
	removed    int
	all        []V // what a GetAll lists
	from, till int64
}

// A runner executes one program on a device of its own.
type runner[K weft.Key, V weft.Value] struct {
	dev     *sim.Device
	subject Subject[K, V]
	stream  *device.Stream
	shape   Shape
	ordered bool // operations of a uniform batch follow each other
	multi   bool
	precise bool // concurrent operations have times of their own
	history []event[K, V]
	batch   int
	entered int // operations so far that may have put a key where there was none

	// The batch that runs: its events, where its columns lie, and the time,
	// which is the number of accesses to memory so far.
	now      []event[K, V]
	keys, ok device.Ptr
	width    int
	time     int64
}

// execute runs a program and returns its history and how many kernels it
// launched. An error is a fault of the structure: the harness itself does not
// fail.
func execute[K weft.Key, V weft.Value](cfg *Config[K, V], shape Shape, opts sim.Options, p program[K, V]) (_ []event[K, V], launches int, err error) {
	r := &runner[K, V]{shape: shape, ordered: !cfg.Unordered, multi: cfg.Multi, precise: opts.Sequential && !cfg.Rough, width: int(sizeof[K]())}
	opts.Watch = r.watch
	opts.Budget = budget
	if r.dev, err = sim.Open(&opts); err != nil {
		return nil, 0, err
	}
	defer func() {
		launches = r.dev.Launches()
		r.dev.Close()
	}()
	if r.subject, err = cfg.New(r.dev, shape); err != nil {
		return nil, 0, fmt.Errorf("new: %w", err)
	}
	// A device that is lost can't be closed in order; there is nothing to leak.
	defer r.subject.Close()
	if r.stream, err = r.dev.NewStream(); err != nil {
		return nil, 0, err
	}
	seen := map[K]bool{}
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
		for _, op := range b.ops {
			seen[op.Key] = true
		}
	}
	return r.history, 0, r.finish(seen)
}

// budget is more warp instructions than any launch of a small program needs.
const budget = 1 << 23

func sizeof[T device.Elem]() uintptr {
	return uintptr(len(device.Bytes(make([]T, 1))))
}

// run submits a batch, waits for it and records its events.
func (r *runner[K, V]) run(b batch[K, V]) (err error) {
	n := len(b.ops)
	r.batch++
	switch {
	case n == 0:
		return nil
	case b.ops[0].Kind == getAll:
		return r.list(b)
	}
	keys, vals, kinds := make([]K, n), make([]V, n), make([]weft.OpKind, n)
	for i, op := range b.ops {
		keys[i], vals[i], kinds[i] = op.Key, op.Value, op.Kind
	}
	c := &Columns[K, V]{Kind: kinds[0]}
	var errs [5]error
	c.Keys, errs[0] = device.Upload(r.stream, keys)
	c.Vals, errs[1] = device.Upload(r.stream, vals)
	c.OK, errs[2] = device.Upload(r.stream, make([]bool, n))
	if !b.uniform {
		c.Kinds, errs[3] = device.Upload(r.stream, kinds)
	}
	if r.multi {
		c.Removed, errs[4] = device.Upload(r.stream, make([]uint32, n))
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	r.now = make([]event[K, V], n)
	r.time++
	start := r.time
	inOrder := b.uniform && r.ordered && (!r.multi || kinds[0] == weft.OpPutNew)
	if r.precise && !inOrder {
		r.keys, r.ok = c.Keys.Ptr(), c.OK.Ptr()
	}
	returns, err := r.subject.Submit(r.stream, c)
	if err == nil {
		err = r.subject.Sync(context.Background())
	}
	r.keys, r.ok = 0, 0
	if err != nil && !(r.shape.Fixed && errors.Is(err, weft.ErrFull)) {
		return err
	}
	ok, removed := make([]bool, n), make([]uint32, c.Removed.Len())
	if err := errors.Join(c.Vals.CopyTo(context.Background(), r.stream, vals), c.OK.CopyTo(context.Background(), r.stream, ok),
		c.Removed.CopyTo(context.Background(), r.stream, removed)); err != nil {
		return err
	}
	r.time++
	for i := range r.now {
		e := &r.now[i]
		e.op, e.batch, e.returns, e.ok, e.val = b.ops[i], r.batch, returns, ok[i], vals[i]
		if r.multi {
			e.removed = int(removed[i])
		}
		switch {
		case inOrder:
			e.from, e.till = start+2*int64(i), start+2*int64(i)+1
			continue
		case e.from == 0:
			e.from = start
		}
		if e.till == 0 {
			e.till = r.time
		}
	}
	r.time = max(r.time, start+2*int64(n))
	r.fill()
	r.history = append(r.history, r.now...)
	return errors.Join(c.Keys.Free(), c.Vals.Free(), c.OK.Free(), c.Kinds.Free(), c.Removed.Free())
}

// fill notes whether the structure may have been full in the batch that ran: as
// many operations as it has room for must have put something into it.
func (r *runner[K, V]) fill() {
	for _, e := range r.now {
		if (e.op.Kind == weft.OpPut || e.op.Kind == weft.OpPutNew) && (e.ok || !e.returns.OK) {
			r.entered++
		}
	}
	for i := range r.now {
		r.now[i].full = r.shape.Fixed && r.entered >= r.shape.Capacity
	}
}

// list runs a batch of GetAlls.
func (r *runner[K, V]) list(b batch[K, V]) error {
	n := len(b.ops)
	keys := make([]K, n)
	for i, op := range b.ops {
		keys[i] = op.Key
	}
	offsets, vals := make([]uint64, n+1), make([]V, r.subject.Len()+1)
	on, err := device.Upload(r.stream, keys)
	counts, e := device.Upload(r.stream, make([]uint32, n))
	offsetsOn, e2 := device.Upload(r.stream, offsets)
	valsOn, e3 := device.Upload(r.stream, vals)
	if err := errors.Join(err, e, e2, e3); err != nil {
		return err
	}
	m := r.subject.(interface {
		GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error
	})
	if err := m.GetAllOn(r.stream, on, counts, offsetsOn, valsOn); err != nil {
		return err
	}
	if err := errors.Join(offsetsOn.CopyTo(context.Background(), r.stream, offsets), valsOn.CopyTo(context.Background(), r.stream, vals)); err != nil {
		return err
	}
	if total := offsets[n]; !slices.IsSorted(offsets) || total >= uint64(len(vals)) {
		return fmt.Errorf("length %d, but the keys have %d values: %v", len(vals)-1, total, offsets)
	}
	r.time += 2
	for i, op := range b.ops {
		e := event[K, V]{op: op, batch: r.batch, all: vals[offsets[i]:offsets[i+1]], from: r.time - 1, till: r.time}
		r.history = append(r.history, e)
	}
	return errors.Join(on.Free(), counts.Free(), offsetsOn.Free(), valsOn.Free())
}

// watch notes when the operations of a batch begin and end: at the first read
// of the key and the last write of the result.
func (r *runner[K, V]) watch(a sim.Access) {
	if r.keys == 0 {
		return
	}
	r.time++
	if i := int(a.Addr-r.keys) / r.width; !a.Write && a.Addr >= r.keys && i < len(r.now) {
		if r.now[i].from == 0 {
			r.now[i].from = r.time
		}
	}
	if i := int(a.Addr - r.ok); a.Write && a.Addr >= r.ok && i < len(r.now) {
		r.now[i].till = r.time
	}
}

// finish looks up every key that occurred and compares what there is with Len.
func (r *runner[K, V]) finish(seen map[K]bool) error {
	kind := weft.OpGet
	if r.multi {
		kind = getAll
	}
	b := batch[K, V]{uniform: true}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		b.ops = append(b.ops, weft.Op[K, V]{Kind: kind, Key: k})
	}
	if err := r.run(b); err != nil {
		return fmt.Errorf("final lookup: %w", err)
	}
	found := 0
	for _, e := range r.history[len(r.history)-len(b.ops):] {
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
	return nil
}
