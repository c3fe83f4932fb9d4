package ordered

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// gpuPool is the memory of leaves and indexes on a GPU. A leaf never changes once it is in an
// index: a change writes to other leaves. When free leaves run short, the pool searches for the
// leaves that no version uses.
//
// The first nBlocks blocks of leaves are as in [pool]. All later leaves lie in one address range.
// The range grows by the number of leaves needed instead of doubling. On a GPU a range has at least
// 2 MiB, so small maps have none.
type gpuPool struct {
	dev      device.Device
	key, val int // bytes per key and value
	spare    core.Spare[*gpuIndex]

	blocks     []device.Buffer
	tail       device.Range // leaves after those of all blocks; nil if not yet reserved
	tailLeaves int          // number of leaves in tail that have memory
	tailBytes  int          // size of the address range in bytes
	// by block: address of leaf 0 if the block extended down to it; then the number of free leaves
	// taken
	table device.Slice[uint64]
	// index without leaves, shared by all empty versions before any change
	emptyBuffer device.Buffer
	free        device.Buffer // numbers of free leaves
	listed      int           // lower bound on the numbers in free; 0 if the list is invalid
	minFree     int           // lower bound on the listed leaves that are not taken
	listUsed    bool          // a batch has been submitted since the list was made

	mu       sync.Mutex  // guards versions and closed, which the end of a last lease changes
	versions []*gpuIndex // indexes that may still be read
	closed   bool
}

// gpuIndex is the index of one version (a generation). Its memory holds the arrays of [index], with
// the levels of separators in reverse order, and then the content record.
type gpuIndex struct {
	pool      *gpuPool
	buf       device.Buffer
	nodes     int     // capacity of the lowest level in nodes
	maxLeaves int     // upper bound on the number of leaves
	content   content // valid once the counters have been read
}

// spareIndexes is the maximum number of unused indexes to keep. A map that is repeatedly cleared,
// loaded and changed needs two. Otherwise each round would allocate an index, which takes 0.4 ms or
// a fifth of the time of a batch of 2^22 operations on an H100 (2026-11-26). After each change only
// one is kept.
const spareIndexes = 2

func newGPUPool(s *device.Stream, key, val int, wait func() error) (*gpuPool, error) {
	p := &gpuPool{dev: s.Device(), key: key, val: val, spare: core.Spare[*gpuIndex]{Dev: s.Device(), MaxKept: spareIndexes, WaitIdle: wait}}
	var err error
	if p.table, err = device.Make[uint64](p.dev, maxBlocks+1); err != nil {
		return nil, err
	}
	if p.emptyBuffer, err = p.dev.Alloc(p.layOut(1).size); err == nil {
		err = errors.Join(s.Fill(p.takenPtr(), 0, 1), s.Fill(p.emptyBuffer.Ptr, 0, p.emptyBuffer.Size/4), s.Sync(context.Background()))
	}
	if err != nil {
		return nil, errors.Join(err, p.freeAll())
	}
	return p, nil
}

// empty returns an index without leaves.
func (p *gpuPool) empty() *gpuIndex {
	x := &gpuIndex{pool: p, buf: p.emptyBuffer, nodes: 1}
	p.addVersion(x)
	return x
}

func (p *gpuPool) addVersion(x *gpuIndex) {
	p.mu.Lock()
	p.versions = append(p.versions, x)
	p.mu.Unlock()
}

// takenPtr returns the address of the device's counter of free leaves taken.
func (p *gpuPool) takenPtr() device.Ptr { return p.table.Ptr() + 8*maxBlocks }

func (p *gpuPool) leafBytes() int { return leafPairs * (p.key + p.val) }

// nBlocks is the maximum number of blocks. All later leaves lie in the address range. Tests lower
// it.
var nBlocks = 10

// capacity returns the number of leaves for which memory is allocated.
func (p *gpuPool) capacity() int { return leavesInBlocks(len(p.blocks)) + p.tailLeaves }

// memory returns the buffers of all leaves, in order.
func (p *gpuPool) memory() []device.Buffer {
	if p.tailLeaves == 0 {
		return p.blocks
	}
	return append(slices.Clip(p.blocks), device.Buffer{Ptr: p.tail.Ptr(), Size: p.tailLeaves * p.leafBytes()})
}

// leavesInBlocks returns the total number of leaves in the given number of blocks, counted from the
// first block.
func leavesInBlocks(blocks int) int {
	if blocks == 0 {
		return 0
	}
	return firstBlock << (blocks - 1)
}

// grow allocates memory for at least the given number of leaves. New leaves become free once a
// search finds them. After an error the memory may have grown.
func (p *gpuPool) grow(s *device.Stream, leaves int) error {
	leaves = (leaves + firstBlock - 1) / firstBlock * firstBlock
	if leaves > maxLeaves {
		return errLeaves(leaves)
	}
	for len(p.blocks) < nBlocks && p.capacity() < leaves {
		if err := p.addBlock(s); err != nil {
			return err
		}
	}
	if p.capacity() < leaves {
		return p.extend(s, leaves-p.capacity())
	}
	return nil
}

// addBlock adds a block as large as all blocks before it.
func (p *gpuPool) addBlock(s *device.Stream) error {
	before := p.capacity()
	n := max(before, firstBlock)
	if err := p.growList(before + n); err != nil {
		return err
	}
	block, err := p.dev.Alloc(n * p.leafBytes())
	if err == nil {
		if err = p.setBases(s, len(p.blocks), 1, block.Ptr, before); err != nil {
			err = errors.Join(err, p.dev.Free(block))
		}
	}
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes: %w", n, p.leafBytes(), err)
	}
	p.blocks = append(p.blocks, block)
	p.listed, p.minFree = 0, 0
	return nil
}

// extend adds memory for n leaves to the range.
func (p *gpuPool) extend(s *device.Stream, n int) error {
	if err := p.growList(p.capacity() + n); err != nil {
		return err
	}
	bytes := (p.tailLeaves + n) * p.leafBytes()
	err := p.reserve(s)
	switch {
	case err == nil && bytes <= p.tailBytes:
		err = p.tail.Resize(bytes)
	case err == nil:
		err = fmt.Errorf("%w: the device has %d bytes", device.ErrMemory, p.tailBytes)
	}
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes more than %d: %w", n, p.leafBytes(), p.capacity(), err)
	}
	p.tailLeaves += n
	p.listed, p.minFree = 0, 0
	return nil
}

// reserve reserves an address range for as many leaves as the device's memory could hold.
func (p *gpuPool) reserve(s *device.Stream) error {
	if p.tail != nil {
		return nil
	}
	memory, err := p.dev.Memory()
	if err != nil {
		return err
	}
	first := leavesInBlocks(nBlocks)
	bytes := int(min(memory.Total, uint64(maxLeaves-first)*uint64(p.leafBytes())))
	tail, err := p.dev.Reserve(bytes)
	if err != nil {
		return err
	}
	if err := p.setBases(s, nBlocks, maxBlocks-nBlocks, tail.Ptr(), first); err != nil {
		return errors.Join(err, tail.Free())
	}
	p.tail, p.tailBytes = tail, bytes
	return nil
}

// setBases writes the base addresses of n adjacent blocks, from block b on, to the table that
// kernels read. first is the number of the first leaf in these blocks, and at is the address of
// this leaf.
func (p *gpuPool) setBases(s *device.Stream, b, n int, at device.Ptr, first int) error {
	bases := slices.Repeat([]uint64{uint64(at) - uint64(first)*uint64(p.leafBytes())}, n)
	return errors.Join(s.CopyIn(p.table.Ptr()+device.Ptr(8*b), device.Bytes(bases)), s.Sync(context.Background()))
}

// growList allocates memory for a list of the given number of free leaves.
func (p *gpuPool) growList(leaves int) error {
	if 4*leaves <= p.free.Size {
		return nil
	}
	free, err := p.dev.Alloc(4 * leaves)
	if err != nil {
		return fmt.Errorf("numbers of %d leaves: %w", leaves, err)
	}
	oldList := p.free
	p.free, p.listed, p.minFree = free, 0, 0
	if oldList.Size > 0 {
		return p.dev.Free(oldList)
	}
	return nil
}

// levels returns the number of levels of an index with n nodes at the lowest.
func levels(n int) int {
	l := 1
	for ; n > 1; n = nodes(n) {
		l++
	}
	return l
}

// indexAt has the offsets in bytes of the arrays of an index, and the size of the index.
type indexAt struct{ ids, sizes, ranks, content, size int }

func (p *gpuPool) layOut(n int) (at indexAt) {
	size := 0
	carve := func(bytes int) int {
		from := size
		size += (bytes + 255) &^ 255
		return from
	}
	all := n
	for level := n; level > 1; {
		level = nodes(level)
		all += level
	}
	carve(all * fanout * p.key)
	at.ids, at.sizes = carve(n*fanout*4), carve(n*fanout)
	at.ranks, at.content = carve((n+1)*8), carve(int(unsafe.Sizeof(content{})))
	at.size = size
	return at
}

func (x *gpuIndex) ref(order uint64) indexRef {
	l := x.pool.layOut(x.nodes)
	at := func(offset int) device.Ptr { return x.buf.Ptr + device.Ptr(offset) }
	return indexRef{
		seps: x.buf.Ptr, ids: at(l.ids), sizes: at(l.sizes), ranks: at(l.ranks), content: at(l.content),
		blocks: x.pool.table.Ptr(), flip: order, levels: uint32(levels(x.nodes)), nodes: uint32(x.nodes),
	}
}

// nodeBounds returns the minimum and maximum capacity, in nodes, of unused memory that may serve
// for an index with the given number of leaves.
func nodeBounds(leaves, spare int) (lo, hi int) {
	n := max(1, nodes(leaves))
	return n, n + 2*(n/spare) + 64
}

// fits reports whether allocIndex would reuse the memory of an unused index.
func (p *gpuPool) fits(leaves, spare int) bool { return p.spare.Has(nodeBounds(leaves, spare)) }

// allocIndex returns memory for an index with the given number of leaves. The contents are
// undefined. New memory has 1/spare more nodes than needed, since maps grow.
func (p *gpuPool) allocIndex(leaves, spare int) (*gpuIndex, error) {
	n, maxNodes := nodeBounds(leaves, spare)
	x, ok := p.spare.Acquire(n, maxNodes)
	if !ok {
		if err := p.spare.Trim(); err != nil {
			return nil, err
		}
		capacity := n + n/spare
		buf, err := p.spare.Alloc(p.layOut(capacity).size)
		if errors.Is(err, device.ErrMemory) && capacity > n {
			capacity = n
			buf, err = p.spare.Alloc(p.layOut(capacity).size)
		}
		if err != nil {
			return nil, fmt.Errorf("the index of %d leaves: %w", leaves, err)
		}
		x = &gpuIndex{pool: p, buf: buf, nodes: capacity}
	}
	x.maxLeaves = leaves
	p.addVersion(x)
	return x, nil
}

// Memory returns the memory of the index. core.Spare calls it.
func (x *gpuIndex) Memory() device.Buffer { return x.buf }

// Capacity returns the capacity in nodes. core.Spare calls it.
func (x *gpuIndex) Capacity() int { return x.nodes }

// Free implements core.Parts. It also frees the index of a failed change. The memory is kept for
// the next index, which the device writes after all work submitted before. The last version of a
// closed pool frees the pool.
func (x *gpuIndex) Free() error {
	p := x.pool
	p.mu.Lock()
	p.versions = slices.DeleteFunc(p.versions, func(v *gpuIndex) bool { return v == x })
	end, shared := p.closed && len(p.versions) == 0, x.buf.Ptr == p.emptyBuffer.Ptr
	p.mu.Unlock()
	var err error
	if !shared {
		err = p.spare.Release(x)
	}
	if end {
		err = errors.Join(err, p.freeAll())
	}
	return err
}

// close frees the pool at once if no version of it is held. Otherwise the pool is freed with its
// last version. No change may be running.
func (p *gpuPool) close() error {
	p.mu.Lock()
	p.closed = true
	end := len(p.versions) == 0
	p.mu.Unlock()
	err := p.spare.Close()
	if end {
		err = errors.Join(err, p.freeAll())
	}
	return err
}

func (p *gpuPool) freeAll() (err error) {
	for _, b := range p.blocks {
		err = errors.Join(err, p.dev.Free(b))
	}
	for _, b := range []device.Buffer{p.free, p.emptyBuffer} {
		if b.Size > 0 {
			err = errors.Join(err, p.dev.Free(b))
		}
	}
	if p.tail != nil {
		err = errors.Join(err, p.tail.Free())
	}
	p.blocks, p.tail, p.free, p.emptyBuffer = nil, nil, device.Buffer{}, device.Buffer{}
	return errors.Join(err, p.table.Free())
}

func (p *gpuPool) bytes() int {
	_, size := p.spare.Bytes()
	for _, b := range p.blocks {
		size += b.Size
	}
	if p.tail != nil {
		size += p.tail.Mapped()
	}
	return size + p.free.Size + p.emptyBuffer.Size
}

// minUnused returns a lower bound on the number of leaves that no version uses.
func (p *gpuPool) minUnused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.capacity()
	for _, x := range p.versions {
		free -= x.maxLeaves
	}
	return free
}

// layOutCollect lays out the memory for the search for free leaves, from an address on.
func (p *gpuPool) layOutCollect(at device.Ptr) (q collectParams, scan prim.Scan, scratch device.Ptr) {
	c := prim.Carve(at)
	scan = prim.Scan{N: p.capacity() / fanout, Width: 4}
	q = collectParams{used: c.Alloc(p.capacity()), free: p.free.Ptr, taken: p.takenPtr(), n: uint64(scan.N)}
	scan.Counts, scan.Offsets = c.Alloc(4*scan.N), c.Alloc(4*(scan.N+1))
	q.counts, q.at = scan.Counts, scan.Offsets
	return q, scan, device.Ptr(c)
}
