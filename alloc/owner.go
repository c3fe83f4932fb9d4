package alloc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Owner takes units from a [Pool] and gives them back: to kernels that ask for
// them one at a time, to cores, or in batches. What it takes comes from memory
// blocks that nobody else takes units from, so closing it frees all of its
// units, whoever has their addresses.
//
// Units come and go with their content: a unit that the owner has never given
// out is all ones, and one that comes back keeps what is in it.
//
// All methods may be called from many goroutines; batches of a pool run one
// after another, each on the whole device.
type Owner struct {
	pool *Pool

	mu     sync.Mutex
	closed bool

	blocks []uint32 // first units of its memory blocks
	apart  bool     // they are not the first of the pool, in order
	// lists are blocks on the device, as often as that had to be made larger:
	// the last one counts, the others are in older Refs.
	lists []device.Slice[uint32]

	// shown is what Refs say, so that they wait for no method under way: as of
	// the last growth. Its Old is the address behind those that all Refs know;
	// None before the first Ref.
	refs  sync.Mutex
	shown Ref

	// changed is recorded behind each batch on a stream of the caller.
	changed *device.Event
}

// Owner makes an owner that has nothing yet. Close it, or the pool.
func (p *Pool) Owner() (*Owner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, wrap("Pool", "Owner", op.ErrClosed)
	}
	changed, err := p.dev.NewEvent()
	if err != nil {
		return nil, wrap("Pool", "Owner", err)
	}
	o := &Owner{pool: p, changed: changed, shown: Ref{Old: None}}
	o.show()
	p.owners = append(p.owners, o)
	return o, nil
}

// Pool is what the owner takes its units from.
func (o *Owner) Pool() *Pool { return o.pool }

// ---- batches ----------------------------------------------------------------

// Allocate fills units with the addresses of as many units, and has the pool
// grow as it must. If there is not enough memory (device.ErrMemory) or the pool
// may not grow (weft.ErrFull), the first n addresses are valid, and no unit is
// left.
func (o *Owner) Allocate(ctx context.Context, units []uint32) (n int, err error) {
	if err := o.enter(ctx, "Allocate"); err != nil {
		return 0, err
	}
	defer o.mu.Unlock()
	var full error // why it can't grow
	sweep := false // look into every memory block
	for n < len(units) {
		rest := units[n:]
		done, missing, err := o.run(func(e engine) (int, int, error) { return e.allocate(ctx, o.view(sweep || full != nil), rest) })
		n += compact(rest, done, missing)
		if err != nil {
			return n, wrap("Owner", "Allocate", err)
		}
		if n == len(units) {
			break
		}
		if full != nil {
			return n, wrap("Owner", "Allocate", fmt.Errorf("%d of %d units: %w", n, len(units), full))
		}
		// Units that are free but hard to find come before new ones.
		used, err := o.used(ctx)
		if err != nil {
			return n, wrap("Owner", "Allocate", err)
		}
		if sweep = !sweep && o.units()-used >= len(units)-n; !sweep {
			full = o.grow(len(units) - n)
		}
	}
	return n, nil
}

// run has the pool's engine do something.
func (o *Owner) run(do func(e engine) (int, int, error)) (int, int, error) {
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	if o.pool.closed {
		return 0, 0, op.ErrClosed
	}
	return do(o.pool.engine)
}

// used counts the units that are taken.
func (o *Owner) used(ctx context.Context) (int, error) {
	n, _, err := o.run(func(e engine) (int, int, error) {
		if len(o.blocks) == 0 {
			return 0, 0, ctx.Err()
		}
		n, err := e.used(ctx, o.view(true))
		return n, 0, err
	})
	return n, err
}

// compact moves the addresses in the first done units to the front and fills
// the rest with None. missing tells how many of them are none.
func compact(units []uint32, done, missing int) (n int) {
	n = done
	if missing > 0 {
		n = 0
		for _, u := range units[:done] {
			if u != None {
				units[n] = u
				n++
			}
		}
	}
	for i := range units[n:] {
		units[n+i] = None
	}
	return n
}

// Free gives units back and counts them. What is in them stays. Addresses that
// are not taken, because they were never given out or have been freed already,
// and those of other owners, are left out and reported as device.ErrInvalid.
func (o *Owner) Free(ctx context.Context, units []uint32) (n int, err error) {
	if err := o.enter(ctx, "Free"); err != nil {
		return 0, err
	}
	defer o.mu.Unlock()
	own := o.own(units)
	done, invalid, err := o.run(func(e engine) (int, int, error) { return e.release(ctx, o.view(true), own) })
	if others := len(units) - len(own); err == nil && invalid+others > 0 {
		err = fmt.Errorf("%w: %d of %d units are not taken by this owner: freed twice, or never allocated?", device.ErrInvalid, invalid+others, len(units))
	}
	return done - invalid, wrap("Owner", "Free", err)
}

// own leaves out the addresses of others. If the owner has the first memory
// blocks of the pool, engines do.
func (o *Owner) own(units []uint32) []uint32 {
	if !o.apart {
		return units
	}
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	others := func(u uint32) bool { return o.pool.owner(u) != o }
	if !slices.ContainsFunc(units, others) {
		return units
	}
	return slices.DeleteFunc(slices.Clone(units), others)
}

// AllocateOn submits filling units, on the device, with addresses. It does not
// grow: Reserve first. Where there is no unit left the address is [None].
func (o *Owner) AllocateOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.on("AllocateOn", s, units, func(e engine) error { return e.allocateOn(s, o.view(true), units) })
}

// FreeOn submits giving back units whose addresses are on the device. Those
// that are not taken, such as [None], are left out; those of other owners must
// not be there.
func (o *Owner) FreeOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.on("FreeOn", s, units, func(e engine) error { return e.releaseOn(s, o.view(true), units) })
}

// on submits a batch behind the one before.
func (o *Owner) on(method string, s *device.Stream, units device.Slice[uint32], submit func(engine) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	dev := o.pool.dev
	switch {
	case o.closed:
		return wrap("Owner", method, op.ErrClosed)
	case s == nil:
		return wrap("Owner", method, fmt.Errorf("%w: no stream", device.ErrInvalid))
	case s.Device() != dev:
		return wrap("Owner", method, fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name))
	case units.Len() > 0 && units.Device() != dev:
		return wrap("Owner", method, fmt.Errorf("%w: the units are on another device, %s", device.ErrInvalid, units.Device().Properties().Name))
	}
	if err := s.Wait(o.changed); err != nil {
		return wrap("Owner", method, err)
	}
	return wrap("Owner", method, errors.Join(submit(o.pool.engine), s.Record(o.changed)))
}

// ---- size -------------------------------------------------------------------

// Reserve takes memory blocks from the pool until so many units are free. It
// waits for nothing that runs but batches of this owner.
func (o *Owner) Reserve(ctx context.Context, free int) error {
	if err := o.enter(ctx, "Reserve"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	used, err := o.used(ctx)
	if most := o.most(); err == nil && free > most-used {
		err = fmt.Errorf("%w: %d free units are more than the %d that can be had beside the %d in use", op.ErrFull, free, most, used)
	}
	for err == nil && o.units()-used < free {
		if err = ctx.Err(); err != nil {
			break
		}
		err = o.grow(free - (o.units() - used))
	}
	return wrap("Owner", "Reserve", err)
}

// units is the number of units, free or taken.
func (o *Owner) units() int { return len(o.blocks) * blockUnits }

// most is the number of units when all that nobody else has are this owner's.
func (o *Owner) most() int {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.opts.MaxSuperBlocks*p.opts.Blocks - (len(p.blocks) - p.spare) + len(o.blocks)) * blockUnits
}

// grow takes memory blocks for so many more units, and as many as there are
// already if the pool has them, so that growth costs each unit a constant. It is
// content with less; an error means that it took none.
func (o *Owner) grow(units int) error {
	n := ceilDiv(units, blockUnits)
	given, err := o.pool.give(o, n, max(n, len(o.blocks)))
	if err != nil {
		return err
	}
	r, have, apart := Ref{Blocks: uint32(o.pool.opts.Blocks)}, len(o.blocks), o.apart
	o.blocks = append(o.blocks, given...)
	for i := have; i < len(o.blocks) && !o.apart; i++ {
		o.apart = o.blocks[i] != r.address(uint32(i))
	}
	if err := o.list(have); err != nil {
		o.blocks, o.apart = o.blocks[:have], apart
		o.pool.mu.Lock()
		defer o.pool.mu.Unlock()
		o.pool.takeBack(&Owner{blocks: given})
		return err
	}
	o.show()
	return nil
}

// list writes the memory blocks that the owner has beyond so many to the
// device, if kernels need to be told.
func (o *Owner) list(have int) (err error) {
	if !o.apart {
		return nil
	}
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(o.lists) - 1; last < 0 || o.lists[last].Len() < len(o.blocks) {
		l, err := device.Make[uint32](p.dev, 2*len(o.blocks))
		if err != nil {
			return err
		}
		o.lists, have = append(o.lists, l), 0
	}
	at := o.lists[len(o.lists)-1].Ptr() + device.Ptr(4*have)
	return errors.Join(p.stream.CopyIn(at, device.Bytes(o.blocks[have:])), p.sync())
}

// ---- the rest ---------------------------------------------------------------

// enter locks the owner for a method and waits for its submitted batches. On
// an error it is not locked.
func (o *Owner) enter(ctx context.Context, method string) error {
	o.mu.Lock()
	err := error(nil)
	if o.closed {
		err = wrap("Owner", method, op.ErrClosed)
	} else {
		err = wrap("Owner", method, errors.Join(ctx.Err(), o.changed.Sync(ctx)))
	}
	if err != nil {
		o.mu.Unlock()
	}
	return err
}

// Ref is the owner for kernels of the caller. With sweep, a warp looks into
// every memory block before it gives up; without, into 32 of them: for those
// who can ask for more memory blocks and run again. An owner that can't have
// more sweeps in any case. A closed owner's Ref has nothing.
func (o *Owner) Ref(sweep bool) Ref {
	o.refs.Lock()
	defer o.refs.Unlock()
	if o.shown.Old == None {
		o.shown.Old = o.shown.Known
	}
	return o.ref(sweep)
}

// view describes the owner to a batch.
func (o *Owner) view(sweep bool) view {
	o.refs.Lock()
	defer o.refs.Unlock()
	return view{o.ref(sweep), o.blocks}
}

// ref is Ref with the lock.
func (o *Owner) ref(sweep bool) Ref {
	r := o.shown
	if p := o.pool; sweep || int(r.Count) == p.opts.MaxSuperBlocks*p.opts.Blocks {
		r.Tries += r.Count
	}
	return r
}

// show has Refs know all memory blocks.
func (o *Owner) show() {
	o.refs.Lock()
	defer o.refs.Unlock()
	p := o.pool
	r := Ref{
		Supers: p.table.Ptr(),
		Count:  uint32(len(o.blocks)),
		Tries:  hashedTries,
		Blocks: uint32(p.opts.Blocks),
		Unit:   uint32(p.opts.UnitBytes),
		Old:    o.shown.Old,
	}
	if p.opts.Light {
		r.Light = p.buffers[0].Ptr
	}
	if !o.apart {
		r.Known = r.address(r.Count)
	} else {
		r.List = o.lists[len(o.lists)-1].Ptr()
	}
	o.shown = r
}

// Ptr is where a unit is on the device, aligned to 128 bytes.
func (o *Owner) Ptr(unit uint32) (device.Ptr, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, wrap("Owner", "Ptr", op.ErrClosed)
	}
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner(unit) != o {
		return 0, wrap("Owner", "Ptr", fmt.Errorf("%w: the owner has no unit of the address %#x", device.ErrInvalid, unit))
	}
	at := p.opts.Blocks*bitmapBytes + int(unit&unitMask)*p.opts.UnitBytes
	return p.supers[unit>>superShift] + device.Ptr(at), nil
}

// Usage is what an [Owner] has.
type Usage struct {
	Blocks int // memory blocks
	Units  int // in them
	Used   int // of them
	Bytes  int // of device memory: units and bitmaps
}

// String is the usage in one line.
func (u Usage) String() string {
	return fmt.Sprintf("%d of %d units taken, in %d memory blocks, %d bytes", u.Used, u.Units, u.Blocks, u.Bytes)
}

// Usage counts the units that are taken.
func (o *Owner) Usage(ctx context.Context) (Usage, error) {
	if err := o.enter(ctx, "Usage"); err != nil {
		return Usage{}, err
	}
	defer o.mu.Unlock()
	used, err := o.used(ctx)
	if err != nil {
		return Usage{}, wrap("Owner", "Usage", err)
	}
	n := len(o.blocks)
	return Usage{Blocks: n, Units: n * blockUnits, Used: used, Bytes: n * (bitmapBytes + blockUnits*o.pool.opts.UnitBytes)}, nil
}

// Clear frees all units and fills them with ones. The memory blocks stay the
// owner's. Nothing may use units meanwhile.
func (o *Owner) Clear(ctx context.Context) error {
	if err := o.enter(ctx, "Clear"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	// What has been submitted happens, whatever becomes of the context.
	return wrap("Owner", "Clear", o.pool.wipe(o.pool.numbers(o.blocks)))
}

// Close frees all units at once: the memory blocks go back to the pool, in a
// time that does not depend on what is in them. It waits for submitted batches;
// kernels of the caller that use units must have completed. Idempotent; later
// calls of other methods return weft.ErrClosed.
func (o *Owner) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.changed.Sync(context.Background())
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	o.pool.takeBack(o)
	o.blocks = nil
	o.refs.Lock()
	o.shown = Ref{}
	o.refs.Unlock()
	for _, l := range o.lists {
		err = errors.Join(err, l.Free())
	}
	return wrap("Owner", "Close", errors.Join(err, o.changed.Close()))
}
