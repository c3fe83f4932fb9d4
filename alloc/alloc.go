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

// Pool is device memory that is divided into units. It consists of super blocks, each a block of
// device memory that is divided into memory blocks of 1024 units. A pool assigns memory blocks to
// its owners and grows by super blocks. All methods may be called from many goroutines.
type Pool struct {
	dev  device.Device
	opts Options

	mu     sync.Mutex
	engine engine
	closed bool

	// table holds the addresses of the super blocks for kernels, and supers holds the same
	// addresses for the host.
	table   device.Slice[uint64]
	supers  []device.Ptr
	buffers []device.Buffer

	// blocks holds the owner of each memory block, or nil. All memory blocks before first have
	// owners.
	blocks []*Owner
	first  int
	spare  int // number of memory blocks without an owner
	owners []*Owner

	// stream runs the work that the pool itself submits.
	stream *device.Stream
}

// New creates a pool on a device. The caller closes it. If the initial size exceeds the free memory
// of the device, New returns device.ErrMemory before it allocates anything.
func New(dev device.Device, opts *Options) (_ *Pool, err error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if dev == nil {
		return nil, fmt.Errorf("alloc: new Pool: %w: no device", op.ErrOptions)
	}
	p := &Pool{dev: dev, opts: o}
	defer func() {
		if err != nil {
			err = fmt.Errorf("alloc: new Pool: %w", err)
			p.free()
		}
	}()
	if err = o.afford(dev); err != nil {
		return nil, fmt.Errorf("%d super blocks of %d units: %w", o.SuperBlocks, o.Blocks*blockUnits, err)
	}
	if p.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if p.table, err = device.Make[uint64](dev, maxSupers); err != nil {
		return nil, err
	}
	if err = errors.Join(p.stream.Fill(p.table.Ptr(), 0, tableBytes/4), p.sync()); err != nil {
		return nil, err
	}
	if p.engine, err = newEngine(dev, p.table); err != nil {
		return nil, err
	}
	if o.Light {
		err = p.addLight()
	} else {
		_, err = p.add(o.SuperBlocks)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sync waits for the work that the pool has submitted. It cannot be canceled, since the next step
// requires the work.
func (p *Pool) sync() error { return p.stream.Sync(context.Background()) }

// ---- super blocks -----------------------------------------------------------

// grow adds super blocks with room for at least the given number of memory blocks. To keep growth
// rare, it adds at least a quarter of the existing super blocks. If the device or the pool's limit
// does not allow that many, it adds fewer. An error means that it added none.
func (p *Pool) grow(blocks int) error {
	limit := p.opts.MaxSuperBlocks - len(p.supers)
	if limit == 0 {
		return fmt.Errorf("%w: the pool has all of its %d super blocks of %d units", op.ErrFull, len(p.supers), p.opts.Blocks*blockUnits)
	}
	added, err := p.add(min(max(ceilDiv(len(p.supers), 4), ceilDiv(blocks, p.opts.Blocks)), limit))
	if added > 0 && errors.Is(err, device.ErrMemory) {
		err = nil
	}
	return err
}

// add adds n super blocks. If memory runs out, it adds fewer and returns the error.
func (p *Pool) add(n int) (added int, err error) {
	size := p.opts.superBytes()
	for ; added < n; added++ {
		buf, err := p.dev.Alloc(size)
		if err != nil {
			return added, fmt.Errorf("super block of %d bytes: %w", size, err)
		}
		if err := errors.Join(p.writeTableEntry(len(p.supers), buf.Ptr), p.sync()); err != nil {
			return added, errors.Join(err, p.dev.Free(buf))
		}
		p.buffers = append(p.buffers, buf)
		p.addSuper(buf.Ptr)
	}
	return added, nil
}

// addLight allocates all super blocks of a light pool in one block of device memory.
func (p *Pool) addLight() error {
	size := p.opts.superBytes()
	buf, err := p.dev.Alloc(p.opts.SuperBlocks * size)
	if err != nil {
		return fmt.Errorf("%d super blocks of %d bytes: %w", p.opts.SuperBlocks, size, err)
	}
	p.buffers = append(p.buffers, buf)
	for i := range p.opts.SuperBlocks {
		at := buf.Ptr + device.Ptr(i*size)
		if err := p.writeTableEntry(i, at); err != nil {
			return err
		}
		p.addSuper(at)
	}
	return p.sync()
}

func (p *Pool) writeTableEntry(i int, at device.Ptr) error {
	return p.stream.CopyIn(p.table.Ptr()+device.Ptr(8*i), device.Bytes([]uint64{uint64(at)}))
}

func (p *Pool) addSuper(at device.Ptr) {
	p.supers = append(p.supers, at)
	p.blocks = slices.Grow(p.blocks, p.opts.Blocks)[:len(p.blocks)+p.opts.Blocks]
	p.spare += p.opts.Blocks
}

// ---- memory blocks ----------------------------------------------------------

// assignBlocks assigns free memory blocks to an owner. If fewer than n are free, it first grows the
// pool. Then it assigns all free blocks, but at most limit, and fewer than n if the pool cannot
// grow enough. It chooses the blocks with the lowest addresses. An error means that it assigned
// none. The units of the assigned blocks are free and filled with ones, and no running kernel can
// reach them.
func (p *Pool) assignBlocks(o *Owner, n, limit int) (assigned []uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, op.ErrClosed
	}
	if p.spare < n {
		if err := p.grow(n - p.spare); err != nil && p.spare == 0 {
			return nil, err
		}
	}
	limit = min(limit, p.spare)
	numbers := make([]int, 0, limit)
	for i := p.first; len(numbers) < limit; i++ {
		if p.blocks[i] == nil {
			numbers = append(numbers, i)
		}
	}
	if err := p.wipe(numbers); err != nil {
		return nil, err
	}
	r := Ref{Blocks: uint32(p.opts.Blocks)}
	for _, i := range numbers {
		p.blocks[i] = o
		assigned = append(assigned, r.address(uint32(i)))
	}
	p.first, p.spare = numbers[limit-1]+1, p.spare-limit
	return assigned, nil
}

// wipe frees all units of the memory blocks with the given numbers, which must ascend, and fills
// the units with ones.
func (p *Pool) wipe(blocks []int) (err error) {
	for lo := 0; lo < len(blocks); {
		hi := lo + 1
		for hi < len(blocks) && blocks[hi] == blocks[hi-1]+1 && blocks[hi]%p.opts.Blocks != 0 {
			hi++
		}
		super, i, n := p.supers[blocks[lo]/p.opts.Blocks], blocks[lo]%p.opts.Blocks, hi-lo
		units := super + device.Ptr(p.opts.Blocks*bitmapBytes+i*blockUnits*p.opts.UnitBytes)
		err = errors.Join(err,
			p.stream.Fill(super+device.Ptr(i*bitmapBytes), 0, n*bitmapWords),
			p.stream.Fill(units, ^uint32(0), n*blockUnits*p.opts.UnitBytes/4),
		)
		lo = hi
	}
	return errors.Join(err, p.sync())
}

func (p *Pool) numbers(blocks []uint32) []int {
	n := make([]int, len(blocks))
	for i, at := range blocks {
		n[i] = p.number(at)
	}
	return n
}

// number returns the number of the memory block that contains the unit.
func (p *Pool) number(unit uint32) int {
	return int(unit>>superShift)*p.opts.Blocks + int(unit&unitMask>>blockShift)
}

// owner returns the owner of the memory block that contains the unit. It returns nil if the block
// has no owner or does not exist.
func (p *Pool) owner(unit uint32) *Owner {
	if unit&unitMask >= uint32(p.opts.Blocks*blockUnits) || p.number(unit) >= len(p.blocks) {
		return nil
	}
	return p.blocks[p.number(unit)]
}

// reclaimBlocks removes an owner from the pool. Its memory blocks become available to other owners.
func (p *Pool) reclaimBlocks(o *Owner) {
	for _, i := range p.numbers(o.blocks) {
		p.blocks[i] = nil
		p.first = min(p.first, i)
	}
	p.spare += len(o.blocks)
	p.owners = slices.DeleteFunc(p.owners, func(x *Owner) bool { return x == o })
}

// ceilDiv returns n / d, rounded up. n must not be negative.
func ceilDiv(n, d int) int { return n/d + (n%d+d-1)/d }

// ---- life cycle ---------------------------------------------------------------

// Stats describes the state of a [Pool].
type Stats struct {
	UnitBytes      int
	SuperBlocks    int
	MaxSuperBlocks int
	Blocks         int // memory blocks per super block
	Owners         int
	Units          int // units in all super blocks
	Owned          int // units in memory blocks that have owners
	Bytes          int // device memory, including bitmaps
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d owners of %d of %d units of %d bytes, %d of at most %d super blocks of %d memory blocks, %d bytes",
		s.Owners, s.Owned, s.Units, s.UnitBytes, s.SuperBlocks, s.MaxSuperBlocks, s.Blocks, s.Bytes)
}

// Stats returns the size of the pool and the share that it has assigned to owners. [Owner.Usage]
// counts the units that an owner has taken. The Stats of a closed pool are zero.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Stats{}
	}
	return Stats{
		UnitBytes:      p.opts.UnitBytes,
		SuperBlocks:    len(p.supers),
		MaxSuperBlocks: p.opts.MaxSuperBlocks,
		Blocks:         p.opts.Blocks,
		Owners:         len(p.owners),
		Units:          len(p.blocks) * blockUnits,
		Owned:          (len(p.blocks) - p.spare) * blockUnits,
		Bytes:          len(p.supers)*p.opts.superBytes() + tableBytes,
	}
}

// Close closes all owners and frees the memory. A second Close does nothing. After Close, the other
// methods return weft.ErrClosed.
func (p *Pool) Close() (err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	owners := slices.Clone(p.owners)
	p.mu.Unlock()
	for _, o := range owners {
		err = errors.Join(err, o.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, wrap("Pool", "Close", p.free()))
}

func (p *Pool) free() (err error) {
	if p.engine != nil {
		err = p.engine.close()
	}
	if p.stream != nil {
		err = errors.Join(err, p.stream.Close())
	}
	for _, b := range p.buffers {
		err = errors.Join(err, p.dev.Free(b))
	}
	p.buffers = nil
	return errors.Join(err, p.table.Free())
}

func wrap(typ, method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("alloc: %s: %s: %w", typ, method, err)
}
