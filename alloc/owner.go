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

// Owner takes units from a [Pool] and releases them: one at a time for kernels, for cores, or in
// batches. They come from memory blocks that no other owner uses, so closing an owner frees all of
// its units, whatever still has their addresses.
//
// Units keep their content: a unit that the owner has never allocated is all ones, and a released
// one keeps what is in it.
//
// All methods may be called from many goroutines. Batches of a pool run one after another, each on
// the whole device.
type Owner struct {
	pool *Pool

	mu     sync.Mutex
	closed bool

	blocks    []uint32 // first units of its memory blocks
	scattered bool     // they are not the first of the pool, in order
	// lists are copies of blocks on the device, one for each time that it had to be made larger.
	// The last one counts, the others are in older Refs.
	lists []device.Slice[uint32]

	// current is the Ref in use, as of the last growth, so that Ref waits for no other method. Its
	// Old is the address after the units that all Refs contain, or NoUnit before the first Ref.
	refs    sync.Mutex
	current Ref

	// lastBatch is recorded after each batch on a stream of the caller.
	lastBatch *device.Event
}

// Owner makes an owner without memory. The caller closes it, or the pool.
func (p *Pool) Owner() (*Owner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, wrap("Pool", "Owner", op.ErrClosed)
	}
	lastBatch, err := p.dev.NewEvent()
	if err != nil {
		return nil, wrap("Pool", "Owner", err)
	}
	o := &Owner{pool: p, lastBatch: lastBatch, current: Ref{Old: NoUnit}}
	o.updateRef()
	p.owners = append(p.owners, o)
	return o, nil
}

// Pool returns the pool of the owner.
func (o *Owner) Pool() *Pool { return o.pool }

// ---- batches ----------------------------------------------------------------

// Allocate fills units with the addresses of newly taken units, and grows the pool if necessary. If
// memory runs out (device.ErrMemory) or the pool may not grow (weft.ErrFull), the first n addresses
// are valid, and no unit is left.
func (o *Owner) Allocate(ctx context.Context, units []uint32) (n int, err error) {
	if err := o.lock(ctx, "Allocate"); err != nil {
		return 0, err
	}
	defer o.mu.Unlock()
	var full error // why it can't grow
	sweep := false // try every memory block
	for n < len(units) {
		tail := units[n:]
		done, missing, err := o.run(func(e engine) (int, int, error) { return e.allocate(ctx, o.view(sweep || full != nil), tail) })
		n += compact(tail, done, missing)
		if err != nil {
			return n, wrap("Owner", "Allocate", err)
		}
		if n == len(units) {
			break
		}
		if full != nil {
			return n, wrap("Owner", "Allocate", fmt.Errorf("%d of %d units: %w", n, len(units), full))
		}
		// Free units that are hard to find come before new ones.
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

// run calls do with the pool's engine, under the pool's lock.
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

// compact moves the addresses in the first done units to the front and fills the others with
// NoUnit. missing is the number of these units that are NoUnit.
func compact(units []uint32, done, missing int) (n int) {
	n = done
	if missing > 0 {
		n = 0
		for _, u := range units[:done] {
			if u != NoUnit {
				units[n] = u
				n++
			}
		}
	}
	for i := range units[n:] {
		units[n+i] = NoUnit
	}
	return n
}

// Free releases units and returns their number. They keep their content. Addresses that are not
// taken, because they were never allocated or have been freed already, and those of other owners,
// are left out and reported as device.ErrInvalid.
func (o *Owner) Free(ctx context.Context, units []uint32) (n int, err error) {
	if err := o.lock(ctx, "Free"); err != nil {
		return 0, err
	}
	defer o.mu.Unlock()
	owned := o.ownUnits(units)
	done, invalid, err := o.run(func(e engine) (int, int, error) { return e.release(ctx, o.view(true), owned) })
	if foreign := len(units) - len(owned); err == nil && invalid+foreign > 0 {
		err = fmt.Errorf("%w: %d of %d units are not taken by this owner: freed twice, or never allocated?", device.ErrInvalid, invalid+foreign, len(units))
	}
	return done - invalid, wrap("Owner", "Free", err)
}

// ownUnits returns units without the addresses of others. If the owner has the first memory blocks
// of the pool, engines do that.
func (o *Owner) ownUnits(units []uint32) []uint32 {
	if !o.scattered {
		return units
	}
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	foreign := func(u uint32) bool { return o.pool.owner(u) != o }
	if !slices.ContainsFunc(units, foreign) {
		return units
	}
	return slices.DeleteFunc(slices.Clone(units), foreign)
}

// AllocateOn submits filling units, on the device, with addresses. It does not grow, so call
// Reserve first. If no unit is left the address is [NoUnit].
func (o *Owner) AllocateOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.submit("AllocateOn", s, units, func(e engine) error { return e.allocateOn(s, o.view(true), units) })
}

// FreeOn submits releasing units with addresses on the device. Those that are not taken, such as
// [NoUnit], are left out. The addresses must not include units of other owners.
func (o *Owner) FreeOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.submit("FreeOn", s, units, func(e engine) error { return e.releaseOn(s, o.view(true), units) })
}

// submit submits a batch after the previous one.
func (o *Owner) submit(method string, s *device.Stream, units device.Slice[uint32], enqueue func(engine) error) error {
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
	if err := s.Wait(o.lastBatch); err != nil {
		return wrap("Owner", method, err)
	}
	return wrap("Owner", method, errors.Join(enqueue(o.pool.engine), s.Record(o.lastBatch)))
}

// ---- size -------------------------------------------------------------------

// Reserve takes memory blocks from the pool until that many units are free. It waits only for
// batches of this owner.
func (o *Owner) Reserve(ctx context.Context, free int) error {
	if err := o.lock(ctx, "Reserve"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	used, err := o.used(ctx)
	if limit := o.maxUnits(); err == nil && free > limit-used {
		err = fmt.Errorf("%w: %d free units are more than the %d that can be had beside the %d in use", op.ErrFull, free, limit, used)
	}
	for err == nil && o.units()-used < free {
		if err = ctx.Err(); err != nil {
			break
		}
		err = o.grow(free - (o.units() - used))
	}
	return wrap("Owner", "Reserve", err)
}

// units returns the number of units, free or taken.
func (o *Owner) units() int { return len(o.blocks) * blockUnits }

// maxUnits returns the number of units that the owner can have: all that no other owner has.
func (o *Owner) maxUnits() int {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.opts.MaxSuperBlocks*p.opts.Blocks - (len(p.blocks) - p.spare) + len(o.blocks)) * blockUnits
}

// grow takes memory blocks for that many more units. If the pool has them, it takes as many blocks
// as it has already, so that growth costs each unit a constant. It may take fewer. An error means
// that it took none.
func (o *Owner) grow(units int) error {
	n := ceilDiv(units, blockUnits)
	blocks, err := o.pool.assignBlocks(o, n, max(n, len(o.blocks)))
	if err != nil {
		return err
	}
	r, old, scattered := Ref{Blocks: uint32(o.pool.opts.Blocks)}, len(o.blocks), o.scattered
	o.blocks = append(o.blocks, blocks...)
	for i := old; i < len(o.blocks) && !o.scattered; i++ {
		o.scattered = o.blocks[i] != r.address(uint32(i))
	}
	if err := o.writeList(old); err != nil {
		o.blocks, o.scattered = o.blocks[:old], scattered
		o.pool.mu.Lock()
		defer o.pool.mu.Unlock()
		o.pool.reclaimBlocks(&Owner{blocks: blocks})
		return err
	}
	o.updateRef()
	return nil
}

// writeList writes the owner's memory blocks from number first on to the device, if kernels need a
// list.
func (o *Owner) writeList(first int) (err error) {
	if !o.scattered {
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
		o.lists, first = append(o.lists, l), 0
	}
	at := o.lists[len(o.lists)-1].Ptr() + device.Ptr(4*first)
	return errors.Join(p.stream.CopyIn(at, device.Bytes(o.blocks[first:])), p.sync())
}

// ---- life cycle ---------------------------------------------------------------

// lock locks the owner for a method and waits for its submitted batches. On
// an error it is not locked.
func (o *Owner) lock(ctx context.Context, method string) error {
	o.mu.Lock()
	err := error(nil)
	if o.closed {
		err = wrap("Owner", method, op.ErrClosed)
	} else {
		err = wrap("Owner", method, errors.Join(ctx.Err(), o.lastBatch.Sync(ctx)))
	}
	if err != nil {
		o.mu.Unlock()
	}
	return err
}

// Ref returns the owner for kernels of the caller. With sweep, a warp tries every memory block
// before it gives up. Without, it tries 32 of them, for callers that can get more memory blocks and
// run again. An owner that can't have more sweeps in any case. A closed owner's Ref has nothing.
func (o *Owner) Ref(sweep bool) Ref {
	o.refs.Lock()
	defer o.refs.Unlock()
	if o.current.Old == NoUnit {
		o.current.Old = o.current.Known
	}
	return o.ref(sweep)
}

// view describes the owner for a batch.
func (o *Owner) view(sweep bool) view {
	o.refs.Lock()
	defer o.refs.Unlock()
	return view{o.ref(sweep), o.blocks}
}

// ref is Ref under the lock.
func (o *Owner) ref(sweep bool) Ref {
	r := o.current
	if p := o.pool; sweep || int(r.Count) == p.opts.MaxSuperBlocks*p.opts.Blocks {
		r.Tries += r.Count
	}
	return r
}

// updateRef updates current with all memory blocks.
func (o *Owner) updateRef() {
	o.refs.Lock()
	defer o.refs.Unlock()
	p := o.pool
	r := Ref{
		Supers: p.table.Ptr(),
		Count:  uint32(len(o.blocks)),
		Tries:  hashedTries,
		Blocks: uint32(p.opts.Blocks),
		Unit:   uint32(p.opts.UnitBytes),
		Old:    o.current.Old,
	}
	if p.opts.Light {
		r.Light = p.buffers[0].Ptr
	}
	if !o.scattered {
		r.Known = r.address(r.Count)
	} else {
		r.List = o.lists[len(o.lists)-1].Ptr()
	}
	o.current = r
}

// Ptr returns the address of a unit on the device, aligned to 128 bytes.
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

// Usage is the memory of an [Owner].
type Usage struct {
	Blocks int // memory blocks
	Units  int // in them
	Used   int // taken units
	Bytes  int // of device memory: units and bitmaps
}

// String returns the usage in one line.
func (u Usage) String() string {
	return fmt.Sprintf("%d of %d units taken, in %d memory blocks, %d bytes", u.Used, u.Units, u.Blocks, u.Bytes)
}

// Usage counts the units that are taken.
func (o *Owner) Usage(ctx context.Context) (Usage, error) {
	if err := o.lock(ctx, "Usage"); err != nil {
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

// Clear frees all units and fills them with ones. The owner keeps its memory blocks. Nothing may
// use units meanwhile.
func (o *Owner) Clear(ctx context.Context) error {
	if err := o.lock(ctx, "Clear"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	// What has been submitted runs, even if the context ends.
	return wrap("Owner", "Clear", o.pool.wipe(o.pool.numbers(o.blocks)))
}

// Close frees all units at once. The memory blocks return to the pool in a time that does not
// depend on their content. It waits for submitted batches. Kernels of the caller that use units
// must have completed. It is idempotent. Later calls of other methods return weft.ErrClosed.
func (o *Owner) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.lastBatch.Sync(context.Background())
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	o.pool.reclaimBlocks(o)
	o.blocks = nil
	o.refs.Lock()
	o.current = Ref{}
	o.refs.Unlock()
	for _, l := range o.lists {
		err = errors.Join(err, l.Free())
	}
	return wrap("Owner", "Close", errors.Join(err, o.lastBatch.Close()))
}
