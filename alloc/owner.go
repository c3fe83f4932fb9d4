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

// Owner takes units from a [Pool] and releases them, for kernels, for cores, or in batches. No
// other owner uses its memory blocks, so closing an owner frees all of its units, even if their
// addresses are still stored elsewhere.
//
// Units keep their content. A unit that the owner has never allocated is all ones, and a released
// unit keeps its last content.
//
// All methods may be called from many goroutines. Batches of a pool run one after another, each on
// the whole device.
type Owner struct {
	pool *Pool

	mu     sync.Mutex
	closed bool

	blocks    []uint32 // addresses of the first units of its memory blocks
	scattered bool     // reports whether blocks differ from the first blocks of the pool, in order
	// lists are copies of blocks on the device. The list is replaced when it is too short. The last
	// list is current, and older Refs use the others.
	lists []device.Slice[uint32]

	// current is the Ref since the last growth. It has a separate mutex, so that Ref waits for no
	// other method. current.Old is the address after the units that all Refs contain, or NoUnit
	// before the first call of Ref.
	refs    sync.Mutex
	current Ref

	// lastBatch is recorded after each batch on a stream of the caller.
	lastBatch *device.Event
}

// Owner creates an owner without memory. The owner is closed by the caller or with the pool.
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

// Allocate takes units and stores their addresses in the slice. It grows the pool if necessary. If
// the pool cannot grow, it returns weft.ErrFull or device.ErrMemory. Then the first n addresses are
// valid and no free unit is left.
func (o *Owner) Allocate(ctx context.Context, units []uint32) (n int, err error) {
	if err := o.lock(ctx, "Allocate"); err != nil {
		return 0, err
	}
	defer o.mu.Unlock()
	var full error // why the owner cannot grow
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
		// Search all memory blocks for free units before growing.
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

// run calls do with the pool's engine and holds the pool's lock during the call.
func (o *Owner) run(do func(e engine) (int, int, error)) (int, int, error) {
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	if o.pool.closed {
		return 0, 0, op.ErrClosed
	}
	return do(o.pool.engine)
}

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

// compact moves the valid addresses in units[:done] to the front and fills the rest of the slice
// with NoUnit. missing is the number of NoUnit in units[:done]. compact returns the number of valid
// addresses.
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

// Free releases units and returns the number of released units. The units keep their content.
// Addresses that are not taken, or that belong to other owners, are skipped and reported as
// device.ErrInvalid.
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

// ownUnits returns the addresses without those of other owners' units. If the owner has the first
// memory blocks of the pool, it returns all addresses, because engines check them.
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

// AllocateOn submits a batch to s that takes units and stores their addresses in units. The owner
// does not grow, so call Reserve first. If no unit is free, the address is [NoUnit].
func (o *Owner) AllocateOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.submit("AllocateOn", s, units, func(e engine) error { return e.allocateOn(s, o.view(true), units) })
}

// FreeOn submits a batch to s that releases the units with addresses in units. Addresses that are
// not taken, such as [NoUnit], are skipped. The addresses must not include units of other owners.
func (o *Owner) FreeOn(s *device.Stream, units device.Slice[uint32]) error {
	return o.submit("FreeOn", s, units, func(e engine) error { return e.releaseOn(s, o.view(true), units) })
}

// submit calls enqueue, so that the batch runs on s after the owner's previous batch. method names
// the caller in errors.
func (o *Owner) submit(method string, s *device.Stream, units device.Slice[uint32], enqueue func(engine) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	dev := o.pool.dev
	switch {
	case o.closed:
		return wrap("Owner", method, op.ErrClosed)
	case s == nil:
		return wrap("Owner", method, fmt.Errorf("%w: the stream is nil", device.ErrInvalid))
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

// Reserve takes memory blocks from the pool until the owner has at least the given number of free
// units. It waits only for batches of this owner.
func (o *Owner) Reserve(ctx context.Context, free int) error {
	if err := o.lock(ctx, "Reserve"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	used, err := o.used(ctx)
	if limit := o.maxUnits(); err == nil && free > limit-used {
		err = fmt.Errorf("%w: %d free units, but at most %d are possible with %d in use",
			op.ErrFull, free, limit, used)
	}
	for err == nil && o.units()-used < free {
		if err = ctx.Err(); err != nil {
			break
		}
		err = o.grow(free - (o.units() - used))
	}
	return wrap("Owner", "Reserve", err)
}

func (o *Owner) units() int { return len(o.blocks) * blockUnits }

// maxUnits returns the number of units that the owner would have if it took all memory blocks
// without an owner, including those that the pool can still add.
func (o *Owner) maxUnits() int {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.opts.MaxSuperBlocks*p.opts.Blocks - (len(p.blocks) - p.spare) + len(o.blocks)) * blockUnits
}

// grow takes memory blocks with room for at least the given number of units. So that growth has a
// constant cost per unit, it takes at least as many blocks as the owner has, if available. It may
// take fewer. An error means that it took none.
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

// writeList writes the addresses of the owner's memory blocks to the device, starting at the index
// first. It does nothing if kernels need no list.
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

// lock waits for the owner's submitted batches and locks the owner. method names the caller in
// errors. If lock returns an error, the owner is not locked.
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

// Ref returns the parameter that gives kernels access to the owner's units. With sweep, a warp
// tries every memory block before it reports that no unit is free. Without sweep it tries 32, for
// callers that can grow the owner and run again. If the owner cannot grow, warps always sweep. The
// Ref of a closed owner has no units.
func (o *Owner) Ref(sweep bool) Ref {
	o.refs.Lock()
	defer o.refs.Unlock()
	if o.current.Old == NoUnit {
		o.current.Old = o.current.Known
	}
	return o.ref(sweep)
}

// view returns the description of the owner for an engine. See [Owner.Ref] for sweep.
func (o *Owner) view(sweep bool) view {
	o.refs.Lock()
	defer o.refs.Unlock()
	return view{o.ref(sweep), o.blocks}
}

// ref returns the current Ref, adapted to sweep; see [Owner.Ref]. The caller holds o.refs.
func (o *Owner) ref(sweep bool) Ref {
	r := o.current
	if p := o.pool; sweep || int(r.Count) == p.opts.MaxSuperBlocks*p.opts.Blocks {
		r.Tries += r.Count
	}
	return r
}

// updateRef sets current to a Ref with all memory blocks of the owner.
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

// Ptr returns the device address of a unit. It is aligned to 128 bytes.
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
		return 0, wrap("Owner", "Ptr", fmt.Errorf("%w: the owner has no unit at address %#x",
			device.ErrInvalid, unit))
	}
	at := p.opts.Blocks*bitmapBytes + int(unit&unitMask)*p.opts.UnitBytes
	return p.supers[unit>>superShift] + device.Ptr(at), nil
}

// Usage describes the memory of an [Owner].
type Usage struct {
	Blocks int // number of memory blocks
	Units  int // number of units in them
	Used   int // number of taken units
	Bytes  int // device memory for units and bitmaps
}

// String returns the usage in one line.
func (u Usage) String() string {
	return fmt.Sprintf("%d of %d units taken, in %d memory blocks, %d bytes", u.Used, u.Units, u.Blocks, u.Bytes)
}

// Usage returns the memory of the owner and counts the taken units.
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

// Clear frees all units and fills them with ones. The owner keeps its memory blocks. No other work
// may use the units meanwhile.
func (o *Owner) Clear(ctx context.Context) error {
	if err := o.lock(ctx, "Clear"); err != nil {
		return err
	}
	defer o.mu.Unlock()
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	// Submitted work runs, even if the context ends.
	return wrap("Owner", "Clear", o.pool.wipe(o.pool.numbers(o.blocks)))
}

// Close frees all units at once. The memory blocks return to the pool in a time that does not
// depend on their content. Close waits for submitted batches. The caller's kernels that use units
// must have completed. A second Close does nothing. After Close, the other methods return
// weft.ErrClosed.
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
