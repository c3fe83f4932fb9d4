package slab

import (
	"context"
	"errors"
	"fmt"
	"structs"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// An address is 32 bits: super block (8), memory block (14), unit (10).
const (
	blockUnits = 1 << 10  // units of a memory block, the paper's N_U
	maxBlocks  = 1 << 14  // memory blocks of a super block, N_M
	maxSupers  = 1<<8 - 1 // super blocks, N_S: the last addresses are nobody's

	superShift = 24
	blockShift = 10
	unitMask   = 1<<superShift - 1 // the unit's number in its super block

	bitmapWords = blockUnits / 32 // one for each lane of a warp
	bitmapBytes = 4 * bitmapWords

	// hashedTries are the random memory blocks that a worker tries first.
	// When nine of ten are full, one worker of thirty finds nothing.
	hashedTries = 32

	defaultBlocks = 256
)

// AllocOptions configure an [Alloc]. The zero value and nil are good defaults.
type AllocOptions struct {
	// UnitBytes is the size of a unit: 128 (the default) or 256.
	UnitBytes int
	// Blocks is the number of memory blocks, of 1024 units each, in a super
	// block: 1 to 16384. Default 256: 32 MiB at 128 bytes a unit. The
	// allocator grows by whole super blocks.
	Blocks int
	// SuperBlocks is the number of super blocks to begin with. Default 0; 1
	// for a light allocator.
	SuperBlocks int
	// MaxSuperBlocks bounds growth. Default and most: 255.
	MaxSuperBlocks int
	// Light puts all super blocks into one block of device memory, whose
	// units are found without reading a table of addresses (SlabAlloc-light).
	// Such an allocator never grows.
	Light bool
}

// check fills in defaults and reports what makes no sense.
func (o *AllocOptions) check() (AllocOptions, error) {
	var c AllocOptions
	if o != nil {
		c = *o
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&c.UnitBytes, slabBytes}, {&c.Blocks, defaultBlocks}, {&c.MaxSuperBlocks, maxSupers}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Light {
		if c.SuperBlocks == 0 {
			c.SuperBlocks = 1
		}
		c.MaxSuperBlocks = c.SuperBlocks
	}
	fail := func(format string, args ...any) (AllocOptions, error) {
		return c, fmt.Errorf("slab: new Alloc: %w: %s", weft.ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case c.UnitBytes != 128 && c.UnitBytes != 256:
		return fail("UnitBytes is %d, not 128 or 256", c.UnitBytes)
	case c.Blocks < 1 || c.Blocks > maxBlocks:
		return fail("Blocks %d is not in [1, %d]", c.Blocks, maxBlocks)
	case c.MaxSuperBlocks < 1 || c.MaxSuperBlocks > maxSupers:
		return fail("at most %d super blocks are not in [1, %d]", c.MaxSuperBlocks, maxSupers)
	case c.SuperBlocks < 0 || c.SuperBlocks > c.MaxSuperBlocks:
		return fail("SuperBlocks %d is not in [0, %d]", c.SuperBlocks, c.MaxSuperBlocks)
	}
	return c, nil
}

// superBytes is the size of a super block: bitmaps, then units.
func (o *AllocOptions) superBytes() int {
	return o.Blocks * (bitmapBytes + blockUnits*o.UnitBytes)
}

// Alloc is SlabAlloc: it gives out units of device memory, all of one size, by
// 32-bit addresses, to kernels that ask for them one at a time or to batches
// (Ashkiani, Farach-Colton and Owens, section V). It is what a slab hash takes
// its slabs from, and can be used without one.
//
// A super block is one block of device memory. It holds memory blocks of 1024
// units, and a bitmap of each. A worker, a warp of a GPU or a core, keeps one
// memory block as its resident and sets bits in its bitmap; when that is full
// it moves to another by a hash. The allocator grows by super blocks.
//
// Units come and go with their content: a unit never given out is all ones,
// and one that comes back keeps what is in it.
//
// All methods may be called from many goroutines; batches run one after
// another, each on the whole device.
type Alloc struct {
	dev  device.Device
	opts AllocOptions

	mu     sync.Mutex
	engine allocEngine
	closed bool

	// table holds the addresses of the super blocks, for kernels; supers are
	// the same numbers.
	table   device.Slice[uint64]
	supers  []device.Ptr
	buffers []device.Buffer

	// stream runs what the allocator does on its own account. changed is
	// recorded behind each batch on a stream of the caller.
	stream  *device.Stream
	changed *device.Event
}

// AllocRef is an [Alloc] as kernels see it, passed to them by value (twin:
// Allocator in kernels/include/weft/alloc.cuh). It is valid until the
// allocator grows or is closed.
type AllocRef struct {
	_      structs.HostLayout
	Supers device.Ptr // table of the addresses of the super blocks, on the device
	Light  device.Ptr // address of the only allocation of a light allocator, or 0
	Count  uint32     // super blocks
	Blocks uint32     // memory blocks in each of them
	Unit   uint32     // bytes in a unit
	Tries  uint32     // memory blocks a warp tries before it gives up
}

// NewAlloc makes an allocator on a device. Close it.
func NewAlloc(dev device.Device, opts *AllocOptions) (_ *Alloc, err error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if dev == nil {
		return nil, fmt.Errorf("slab: new Alloc: %w: no device", weft.ErrOptions)
	}
	a := &Alloc{dev: dev, opts: o}
	defer func() {
		if err != nil {
			err = fmt.Errorf("slab: new Alloc: %w", err)
			a.free()
		}
	}()
	if a.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if a.changed, err = dev.NewEvent(); err != nil {
		return nil, err
	}
	if a.table, err = device.Make[uint64](dev, maxSupers); err != nil {
		return nil, err
	}
	if a.engine, err = newAllocEngine(dev, a.table); err != nil {
		return nil, err
	}
	if o.Light {
		err = a.addLight()
	} else {
		_, err = a.add(o.SuperBlocks)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// ---- batches ----------------------------------------------------------------

// Allocate fills units with the addresses of as many units, and grows as it
// must. If there is not enough memory (device.ErrMemory) or the allocator may
// not grow (weft.ErrFull), the first n addresses are valid, and no unit is
// left.
func (a *Alloc) Allocate(ctx context.Context, units []uint32) (n int, err error) {
	if err := a.enter(ctx, "Allocate"); err != nil {
		return 0, err
	}
	defer a.mu.Unlock()
	var full error // why it can't grow
	sweep := false // look into every memory block
	for n < len(units) {
		rest := units[n:]
		done, missing, err := a.engine.allocate(ctx, a.ref(sweep || full != nil), rest)
		n += compact(rest, done, missing)
		if err != nil {
			return n, wrapAlloc("Allocate", err)
		}
		if n == len(units) {
			break
		}
		if full != nil {
			return n, wrapAlloc("Allocate", fmt.Errorf("%d of %d units: %w", n, len(units), full))
		}
		// Units that are free but hard to find come before new ones.
		used, err := a.engine.used(ctx, a.ref(true))
		if err != nil {
			return n, wrapAlloc("Allocate", err)
		}
		if sweep = !sweep && a.units()-used >= len(units)-n; !sweep {
			_, full = a.grow(len(units) - n)
		}
	}
	return n, nil
}

// compact moves the addresses in the first done units to the front and fills
// the rest with noUnit. missing tells how many of them are none.
func compact(units []uint32, done, missing int) (n int) {
	n = done
	if missing > 0 {
		n = 0
		for _, u := range units[:done] {
			if u != noUnit {
				units[n] = u
				n++
			}
		}
	}
	for i := range units[n:] {
		units[n+i] = noUnit
	}
	return n
}

// Free gives units back and counts them. What is in them stays. Addresses that
// are not taken, because they were never given out or have been freed already,
// are left out and reported as device.ErrInvalid.
func (a *Alloc) Free(ctx context.Context, units []uint32) (n int, err error) {
	if err := a.enter(ctx, "Free"); err != nil {
		return 0, err
	}
	defer a.mu.Unlock()
	done, invalid, err := a.engine.release(ctx, a.ref(true), units)
	if err == nil && invalid > 0 {
		err = fmt.Errorf("%w: %d of %d units are not taken: freed twice, or never allocated?", device.ErrInvalid, invalid, len(units))
	}
	return done - invalid, wrapAlloc("Free", err)
}

// AllocateOn submits filling units, on the device, with addresses. It does not
// grow: Reserve first. Where there is no unit left the address is ^0.
func (a *Alloc) AllocateOn(s *device.Stream, units device.Slice[uint32]) error {
	return a.on("AllocateOn", s, units, func(ref AllocRef) error { return a.engine.allocateOn(s, ref, units) })
}

// FreeOn submits giving back units whose addresses lie on the device. Those
// that are not taken, such as ^0, are left out.
func (a *Alloc) FreeOn(s *device.Stream, units device.Slice[uint32]) error {
	return a.on("FreeOn", s, units, func(ref AllocRef) error { return a.engine.releaseOn(s, ref, units) })
}

// on submits a batch behind the one before.
func (a *Alloc) on(op string, s *device.Stream, units device.Slice[uint32], submit func(AllocRef) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return errAllocClosed(op)
	case s == nil:
		return wrapAlloc(op, fmt.Errorf("%w: no stream", device.ErrInvalid))
	case s.Device() != a.dev:
		return wrapAlloc(op, fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name))
	case units.Len() > 0 && units.Device() != a.dev:
		return wrapAlloc(op, fmt.Errorf("%w: the units lie on another device, %s", device.ErrInvalid, units.Device().Properties().Name))
	}
	if err := s.Wait(a.changed); err != nil {
		return wrapAlloc(op, err)
	}
	return wrapAlloc(op, errors.Join(submit(a.ref(true)), s.Record(a.changed)))
}

// ---- size -------------------------------------------------------------------

// Reserve grows until so many units are free.
func (a *Alloc) Reserve(ctx context.Context, free int) error {
	if err := a.enter(ctx, "Reserve"); err != nil {
		return err
	}
	defer a.mu.Unlock()
	used, err := a.engine.used(ctx, a.ref(true))
	most := a.opts.MaxSuperBlocks * a.opts.Blocks * blockUnits
	if err == nil && free > most-used {
		err = fmt.Errorf("%w: %d free units are more than %d super blocks have beside the %d in use", weft.ErrFull, free, a.opts.MaxSuperBlocks, used)
	}
	for err == nil && a.units()-used < free {
		if err = ctx.Err(); err != nil {
			break
		}
		_, err = a.grow(free - (a.units() - used))
	}
	return wrapAlloc("Reserve", err)
}

// units is the number of units, free or taken.
func (a *Alloc) units() int { return len(a.supers) * a.opts.Blocks * blockUnits }

// grow adds super blocks for so many more units, and at least a quarter of those
// that there are, so that few calls add many. It is content with less; an error
// means that it added none.
func (a *Alloc) grow(units int) (added int, err error) {
	per := a.opts.Blocks * blockUnits
	room := a.opts.MaxSuperBlocks - len(a.supers)
	if room == 0 {
		return 0, fmt.Errorf("%w: all %d units of %d super blocks", weft.ErrFull, a.units(), len(a.supers))
	}
	added, err = a.add(min(max(ceilDiv(len(a.supers), 4), ceilDiv(units, per)), room))
	if added > 0 && errors.Is(err, device.ErrMemory) {
		err = nil
	}
	return added, err
}

// add adds n super blocks, or as many as it can.
func (a *Alloc) add(n int) (added int, err error) {
	for ; added < n; added++ {
		buf, err := a.dev.Alloc(a.opts.superBytes())
		if err != nil {
			return added, fmt.Errorf("super block of %d bytes: %w", a.opts.superBytes(), err)
		}
		a.buffers = append(a.buffers, buf)
		a.supers = append(a.supers, buf.Ptr)
		if err := errors.Join(a.wipe(len(a.supers)-1), a.stream.Sync(context.Background())); err != nil {
			a.buffers = a.buffers[:len(a.buffers)-1]
			a.supers = a.supers[:len(a.supers)-1]
			return added, errors.Join(err, a.dev.Free(buf))
		}
	}
	return added, nil
}

// addLight makes all super blocks of a light allocator.
func (a *Alloc) addLight() error {
	size := a.opts.superBytes()
	buf, err := a.dev.Alloc(a.opts.SuperBlocks * size)
	if err != nil {
		return fmt.Errorf("%d super blocks of %d bytes: %w", a.opts.SuperBlocks, size, err)
	}
	a.buffers = append(a.buffers, buf)
	for i := range a.opts.SuperBlocks {
		a.supers = append(a.supers, buf.Ptr+device.Ptr(i*size))
		if err := a.wipe(i); err != nil {
			return err
		}
	}
	return a.stream.Sync(context.Background())
}

// wipe submits freeing all units of a super block, filling them with ones, and
// entering it in the table.
func (a *Alloc) wipe(i int) error {
	at, bitmaps := a.supers[i], a.opts.Blocks*bitmapBytes
	return errors.Join(
		a.stream.Fill(at, 0, bitmaps/4),
		a.stream.Fill(at+device.Ptr(bitmaps), ^uint32(0), (a.opts.superBytes()-bitmaps)/4),
		a.stream.CopyIn(a.table.Ptr()+device.Ptr(8*i), device.Bytes([]uint64{uint64(at)})),
	)
}

// ---- the rest ---------------------------------------------------------------

// enter locks the allocator for a method and waits for submitted batches. On
// an error it is not locked.
func (a *Alloc) enter(ctx context.Context, op string) error {
	a.mu.Lock()
	err := error(nil)
	if a.closed {
		err = errAllocClosed(op)
	} else {
		err = wrapAlloc(op, errors.Join(ctx.Err(), a.changed.Sync(ctx)))
	}
	if err != nil {
		a.mu.Unlock()
	}
	return err
}

// Ref is the allocator for kernels of the caller. The Tries let a warp look at
// every memory block before it gives up.
func (a *Alloc) Ref() AllocRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ref(true)
}

// ref describes the allocator to a batch. One after which the allocator can
// grow gives up early, others sweep: they try all memory blocks.
func (a *Alloc) ref(sweep bool) AllocRef {
	r := AllocRef{
		Supers: a.table.Ptr(),
		Count:  uint32(len(a.supers)),
		Blocks: uint32(a.opts.Blocks),
		Unit:   uint32(a.opts.UnitBytes),
		Tries:  hashedTries,
	}
	if a.opts.Light && r.Count > 0 {
		r.Light = a.supers[0]
	}
	if sweep || len(a.supers) == a.opts.MaxSuperBlocks {
		r.Tries += r.Count * r.Blocks
	}
	return r
}

// has tells whether an address is one of the allocator's.
func (r AllocRef) has(unit uint32) bool {
	return unit>>superShift < r.Count && unit&unitMask < r.Blocks*blockUnits
}

// Ptr is where a unit lies on the device, aligned to 128 bytes.
func (a *Alloc) Ptr(unit uint32) (device.Ptr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, errAllocClosed("Ptr")
	}
	if !a.ref(true).has(unit) {
		return 0, wrapAlloc("Ptr", fmt.Errorf("%w: no unit has the address %#x", device.ErrInvalid, unit))
	}
	at := a.opts.Blocks*bitmapBytes + int(unit&unitMask)*a.opts.UnitBytes
	return a.supers[unit>>superShift] + device.Ptr(at), nil
}

// AllocStats describe the state of an [Alloc].
type AllocStats struct {
	UnitBytes      int
	SuperBlocks    int
	MaxSuperBlocks int
	Blocks         int // memory blocks in a super block
	Units          int // in all super blocks
	Used           int // of them
	Bytes          int // of device memory, bitmaps included
}

// String is the statistics in one line.
func (s AllocStats) String() string {
	return fmt.Sprintf("%d of %d units of %d bytes taken, %d of at most %d super blocks of %d memory blocks, %d bytes",
		s.Used, s.Units, s.UnitBytes, s.SuperBlocks, s.MaxSuperBlocks, s.Blocks, s.Bytes)
}

// Stats counts the units that are taken.
func (a *Alloc) Stats(ctx context.Context) (AllocStats, error) {
	if err := a.enter(ctx, "Stats"); err != nil {
		return AllocStats{}, err
	}
	defer a.mu.Unlock()
	used, err := a.engine.used(ctx, a.ref(true))
	if err != nil {
		return AllocStats{}, wrapAlloc("Stats", err)
	}
	return AllocStats{
		UnitBytes:      a.opts.UnitBytes,
		SuperBlocks:    len(a.supers),
		MaxSuperBlocks: a.opts.MaxSuperBlocks,
		Blocks:         a.opts.Blocks,
		Units:          a.units(),
		Used:           used,
		Bytes:          len(a.supers)*a.opts.superBytes() + 8*maxSupers,
	}, nil
}

// Clear frees all units and fills them with ones. The memory stays.
func (a *Alloc) Clear(ctx context.Context) error {
	if err := a.enter(ctx, "Clear"); err != nil {
		return err
	}
	defer a.mu.Unlock()
	var err error
	for i := range a.supers {
		err = errors.Join(err, a.wipe(i))
	}
	// What has been submitted happens, whatever becomes of the context.
	return wrapAlloc("Clear", errors.Join(err, a.stream.Sync(context.WithoutCancel(ctx))))
}

// Close frees the memory, once submitted batches are done. Idempotent; later
// calls of other methods return weft.ErrClosed.
func (a *Alloc) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	return wrapAlloc("Close", errors.Join(a.changed.Sync(context.Background()), a.free()))
}

// free frees what there is.
func (a *Alloc) free() (err error) {
	if a.engine != nil {
		err = a.engine.close()
	}
	if a.changed != nil {
		err = errors.Join(err, a.changed.Close())
	}
	if a.stream != nil {
		err = errors.Join(err, a.stream.Close())
	}
	for _, b := range a.buffers {
		err = errors.Join(err, a.dev.Free(b))
	}
	a.buffers, a.supers = nil, nil
	return errors.Join(err, a.table.Free())
}

func errAllocClosed(op string) error { return wrapAlloc(op, weft.ErrClosed) }

func wrapAlloc(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("slab: Alloc: %s: %w", op, err)
}
