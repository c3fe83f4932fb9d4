package dst

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// An event is one operation with what it returned and when it ran.
type event[K weft.Key, V weft.Value] struct {
	op         weft.Op[K, V]
	returns    Returns
	ok         bool
	val        V
	from, till int64
}

// A runner executes one program on a device of its own.
type runner[K weft.Key, V weft.Value] struct {
	dev     *sim.Device
	subject Subject[K, V]
	stream  *device.Stream
	shape   Shape
	ordered bool // operations of a uniform batch follow each other
	precise bool // concurrent operations have times of their own
	history []event[K, V]

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
	r := &runner[K, V]{shape: shape, ordered: !cfg.Unordered, precise: opts.Sequential, width: int(sizeof[K]())}
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
const budget = 1 << 26

func sizeof[T device.Elem]() uintptr {
	return uintptr(len(device.Bytes(make([]T, 1))))
}

// run submits a batch, waits for it and records its events.
func (r *runner[K, V]) run(b batch[K, V]) (err error) {
	n := len(b.ops)
	if n == 0 {
		return nil
	}
	keys, vals, kinds := make([]K, n), make([]V, n), make([]weft.OpKind, n)
	for i, op := range b.ops {
		keys[i], vals[i], kinds[i] = op.Key, op.Value, op.Kind
	}
	c := &Columns[K, V]{Kind: kinds[0]}
	var errs [4]error
	c.Keys, errs[0] = device.Upload(r.stream, keys)
	c.Vals, errs[1] = device.Upload(r.stream, vals)
	c.OK, errs[2] = device.Upload(r.stream, make([]bool, n))
	if !b.uniform {
		c.Kinds, errs[3] = device.Upload(r.stream, kinds)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	r.now = make([]event[K, V], n)
	r.time++
	start := r.time
	inOrder := b.uniform && r.ordered
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
	ok := make([]bool, n)
	if err := errors.Join(c.Vals.CopyTo(context.Background(), r.stream, vals), c.OK.CopyTo(context.Background(), r.stream, ok)); err != nil {
		return err
	}
	r.time++
	for i := range r.now {
		e := &r.now[i]
		e.op, e.returns, e.ok, e.val = b.ops[i], returns, ok[i], vals[i]
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
	r.history = append(r.history, r.now...)
	return errors.Join(c.Keys.Free(), c.Vals.Free(), c.OK.Free(), c.Kinds.Free())
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

// finish looks up every key that occurred and compares their number with Len.
func (r *runner[K, V]) finish(seen map[K]bool) error {
	var b batch[K, V]
	b.uniform = true
	for k := range seen {
		b.ops = append(b.ops, weft.Op[K, V]{Kind: weft.OpGet, Key: k})
	}
	slices.SortFunc(b.ops, func(a, b weft.Op[K, V]) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	if err := r.run(b); err != nil {
		return fmt.Errorf("final lookup: %w", err)
	}
	found := 0
	for _, e := range r.history[len(r.history)-len(b.ops):] {
		if e.ok {
			found++
		}
	}
	if n := r.subject.Len(); n != found {
		return fmt.Errorf("length %d, but %d keys are found", n, found)
	}
	if c, ok := r.subject.(interface{ CheckInvariants() error }); ok {
		if err := c.CheckInvariants(); err != nil {
			return fmt.Errorf("invariants: %w", err)
		}
	}
	return nil
}
