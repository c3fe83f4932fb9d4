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

// gpuPool is the memory of leaves on a GPU, and of the indexes of all versions. Leaves never change
// once they are in an index: a change takes others. When free leaves run short, the pool searches
// for those that no version has.
//
// The first leaves lie in blocks as in [pool]. All leaves after mostBlocks blocks lie in one range
// of addresses. The range grows by what is needed instead of doubling. On a GPU a range has at
// least 2 MiB, so small maps have none.
type gpuPool struct {
	dev      device.Device
	key, val int // bytes per key and value
	spare    core.Spare[*gpuIndex]

	blocks []device.Buffer
	rest   device.Range // leaves after those of all blocks; nil: none yet
	behind int          // number of leaves in rest
	most   int          // size of the address range in bytes
	// address of leaf 0 for each block, then the number of free leaves taken
	table device.Slice[uint64]
	// index of no leaves, shared by all empty versions before any change
	none   device.Buffer
	free   device.Buffer // numbers of free leaves
	listed int           // min number of free leaves; 0: the list is invalid
	left   int           // min number of listed leaves that are certainly not taken
	tapped bool          // a batch has been submitted since the list was made

	mu       sync.Mutex  // guards what the end of a last lease changes
	versions []*gpuIndex // that may still be read
	closed   bool
}

// gpuIndex is the index of a version: a generation. It has the arrays of [index], in memory for a
// number of nodes, with the levels of separators in reverse order, and its content.
type gpuIndex struct {
	pool    *gpuPool
	buf     device.Buffer
	nodes   int     // capacity of the lowest level
	most    int     // max leaves, as far as known
	content content // once it has been read
}

// spareIndexes is the maximum number of unused indexes to keep. It is two while a map is cleared,
// loaded and changed. Otherwise such a round would allocate one, which takes 0.4 ms or a fifth of a
// batch of 2^22 on an H100 (2026-11-26). After each change one is kept.
const spareIndexes = 2

// newGPUPool makes a pool without leaves.
func newGPUPool(s *device.Stream, key, val int, idle func() error) (*gpuPool, error) {
	p := &gpuPool{dev: s.Device(), key: key, val: val, spare: core.Spare[*gpuIndex]{Dev: s.Device(), Most: spareIndexes, Idle: idle}}
	var err error
	if p.table, err = device.Make[uint64](p.dev, maxBlocks+1); err != nil {
		return nil, err
	}
	if p.none, err = p.dev.Alloc(p.layOut(1).size); err == nil {
		err = errors.Join(s.Fill(p.taken(), 0, 1), s.Fill(p.none.Ptr, 0, p.none.Size/4), s.Sync(context.Background()))
	}
	if err != nil {
		return nil, errors.Join(err, p.freeAll())
	}
	return p, nil
}

// empty returns the index of no leaves.
func (p *gpuPool) empty() *gpuIndex {
	x := &gpuIndex{pool: p, buf: p.none, nodes: 1}
	p.hold(x)
	return x
}

// hold makes an index a version.
func (p *gpuPool) hold(x *gpuIndex) {
	p.mu.Lock()
	p.versions = append(p.versions, x)
	p.mu.Unlock()
}

// taken returns the address at which the device counts the free leaves taken.
func (p *gpuPool) taken() device.Ptr { return p.table.Ptr() + 8*maxBlocks }

func (p *gpuPool) leafBytes() int { return leafPairs * (p.key + p.val) }

// mostBlocks is the number of blocks before the range. Tests have fewer.
var mostBlocks = 10

// room returns the number of leaves that fit the memory.
func (p *gpuPool) room() int { return blocksRoom(len(p.blocks)) + p.behind }

// memory returns the memory of all leaves, in order.
func (p *gpuPool) memory() []device.Buffer {
	if p.behind == 0 {
		return p.blocks
	}
	return append(slices.Clip(p.blocks), device.Buffer{Ptr: p.rest.Ptr(), Size: p.behind * p.leafBytes()})
}

// blocksRoom returns the number of leaves in that many blocks.
func blocksRoom(blocks int) int {
	if blocks == 0 {
		return 0
	}
	return firstBlock << (blocks - 1)
}

// grow allocates memory for at least that many leaves. The new ones are not free until a search
// finds them. After an error the memory may have grown.
func (p *gpuPool) grow(s *device.Stream, leaves int) error {
	leaves = (leaves + firstBlock - 1) / firstBlock * firstBlock
	if leaves > maxLeaves {
		return errLeaves(leaves)
	}
	for len(p.blocks) < mostBlocks && p.room() < leaves {
		if err := p.addBlock(s); err != nil {
			return err
		}
	}
	if p.room() < leaves {
		return p.extend(s, leaves-p.room())
	}
	return nil
}

// addBlock adds a block, as large as all before it.
func (p *gpuPool) addBlock(s *device.Stream) error {
	before := p.room()
	n := max(before, firstBlock)
	if err := p.listRoom(before + n); err != nil {
		return err
	}
	block, err := p.dev.Alloc(n * p.leafBytes())
	if err == nil {
		if err = p.lead(s, len(p.blocks), 1, block.Ptr, before); err != nil {
			err = errors.Join(err, p.dev.Free(block))
		}
	}
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes: %w", n, p.leafBytes(), err)
	}
	p.blocks = append(p.blocks, block)
	p.listed, p.left = 0, 0
	return nil
}

// extend adds n leaves to the range.
func (p *gpuPool) extend(s *device.Stream, n int) error {
	if err := p.listRoom(p.room() + n); err != nil {
		return err
	}
	bytes := (p.behind + n) * p.leafBytes()
	err := p.reserve(s)
	switch {
	case err == nil && bytes <= p.most:
		err = p.rest.Resize(bytes)
	case err == nil:
		err = fmt.Errorf("%w: the device has %d bytes", device.ErrMemory, p.most)
	}
	if err != nil {
		return fmt.Errorf("%d leaves of %d bytes more than %d: %w", n, p.leafBytes(), p.room(), err)
	}
	p.behind += n
	p.listed, p.left = 0, 0
	return nil
}

// reserve reserves the addresses of the range, for as many leaves as the device could have.
func (p *gpuPool) reserve(s *device.Stream) error {
	if p.rest != nil {
		return nil
	}
	memory, err := p.dev.Memory()
	if err != nil {
		return err
	}
	first := blocksRoom(mostBlocks)
	most := int(min(memory.Total, uint64(maxLeaves-first)*uint64(p.leafBytes())))
	rest, err := p.dev.Reserve(most)
	if err != nil {
		return err
	}
	if err := p.lead(s, mostBlocks, maxBlocks-mostBlocks, rest.Ptr(), first); err != nil {
		return errors.Join(err, rest.Free())
	}
	p.rest, p.most = rest, most
	return nil
}

// lead writes to the table, for kernels, the addresses of n adjacent blocks from number b on. first
// is the number of their first leaf.
func (p *gpuPool) lead(s *device.Stream, b, n int, at device.Ptr, first int) error {
	bases := slices.Repeat([]uint64{uint64(at) - uint64(first)*uint64(p.leafBytes())}, n)
	return errors.Join(s.CopyIn(p.table.Ptr()+device.Ptr(8*b), device.Bytes(bases)), s.Sync(context.Background()))
}

// listRoom allocates memory for the numbers of that many free leaves.
func (p *gpuPool) listRoom(leaves int) error {
	if 4*leaves <= p.free.Size {
		return nil
	}
	free, err := p.dev.Alloc(4 * leaves)
	if err != nil {
		return fmt.Errorf("numbers of %d leaves: %w", leaves, err)
	}
	old := p.free
	p.free, p.listed, p.left = free, 0, 0
	if old.Size > 0 {
		return p.dev.Free(old)
	}
	return nil
}

// levels returns the number of levels of an index of n nodes.
func levels(n int) int {
	l := 1
	for ; n > 1; n = nodes(n) {
		l++
	}
	return l
}

// indexAt is the offsets of the arrays of an index of some number of nodes, and its size.
type indexAt struct{ ids, sizes, ranks, content, size int }

func (p *gpuPool) layOut(n int) (at indexAt) {
	size := 0
	take := func(bytes int) int {
		from := size
		size += (bytes + 255) &^ 255
		return from
	}
	all := n
	for level := n; level > 1; {
		level = nodes(level)
		all += level
	}
	take(all * fanout * p.key)
	at.ids, at.sizes = take(n*fanout*4), take(n*fanout)
	at.ranks, at.content = take((n+1)*8), take(int(unsafe.Sizeof(content{})))
	at.size = size
	return at
}

// ref returns an index as a kernel parameter.
func (x *gpuIndex) ref(order uint64) indexRef {
	l := x.pool.layOut(x.nodes)
	at := func(offset int) device.Ptr { return x.buf.Ptr + device.Ptr(offset) }
	return indexRef{
		seps: x.buf.Ptr, ids: at(l.ids), sizes: at(l.sizes), ranks: at(l.ranks), content: at(l.content),
		blocks: x.pool.table.Ptr(), flip: order, levels: uint32(levels(x.nodes)), nodes: uint32(x.nodes),
	}
}

// rooms returns the minimum and maximum capacity in nodes of memory for the index of that many
// leaves.
func rooms(leaves, spare int) (least, most int) {
	n := max(1, nodes(leaves))
	return n, n + 2*(n/spare) + 64
}

// fits reports whether take would not allocate memory.
func (p *gpuPool) fits(leaves, spare int) bool { return p.spare.Has(rooms(leaves, spare)) }

// take returns memory for the index of that many leaves, with undefined content. New memory has one
// part in spare more, for maps that grow.
func (p *gpuPool) take(leaves, spare int) (*gpuIndex, error) {
	n, most := rooms(leaves, spare)
	x, ok := p.spare.Take(n, most)
	if !ok {
		if err := p.spare.Trim(); err != nil {
			return nil, err
		}
		room := n + n/spare
		buf, err := p.spare.Alloc(p.layOut(room).size)
		if errors.Is(err, device.ErrMemory) && room > n {
			room = n
			buf, err = p.spare.Alloc(p.layOut(room).size)
		}
		if err != nil {
			return nil, fmt.Errorf("the index of %d leaves: %w", leaves, err)
		}
		x = &gpuIndex{pool: p, buf: buf, nodes: room}
	}
	x.most = leaves
	p.hold(x)
	return x, nil
}

// Memory and Room implement what core.Spare requires.
func (x *gpuIndex) Memory() device.Buffer { return x.buf }

// Room returns the capacity in nodes.
func (x *gpuIndex) Room() int { return x.nodes }

// Free implements core.Parts. It also frees the index of a failed change. The memory is kept for
// the next index, which is written after all submitted work. The last version of a closed pool
// frees the pool.
func (x *gpuIndex) Free() error {
	p := x.pool
	p.mu.Lock()
	p.versions = slices.DeleteFunc(p.versions, func(v *gpuIndex) bool { return v == x })
	end, shared := p.closed && len(p.versions) == 0, x.buf.Ptr == p.none.Ptr
	p.mu.Unlock()
	var err error
	if !shared {
		err = p.spare.Keep(x)
	}
	if end {
		err = errors.Join(err, p.freeAll())
	}
	return err
}

// close frees the pool as soon as no reader has a version of it. No change is under way anymore.
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
	for _, b := range []device.Buffer{p.free, p.none} {
		if b.Size > 0 {
			err = errors.Join(err, p.dev.Free(b))
		}
	}
	if p.rest != nil {
		err = errors.Join(err, p.rest.Free())
	}
	p.blocks, p.rest, p.free, p.none = nil, nil, device.Buffer{}, device.Buffer{}
	return errors.Join(err, p.table.Free())
}

// bytes returns the size of all memory.
func (p *gpuPool) bytes() int {
	_, size := p.spare.Bytes()
	for _, b := range p.blocks {
		size += b.Size
	}
	if p.rest != nil {
		size += p.rest.Mapped()
	}
	return size + p.free.Size + p.none.Size
}

// unused returns a lower bound of the number of leaves that no version has.
func (p *gpuPool) unused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.room()
	for _, x := range p.versions {
		free -= x.most
	}
	return free
}

// layOutCollect lays out the memory for finding free leaves from an address on.
func (p *gpuPool) layOutCollect(at device.Ptr) (q collectParams, scan prim.Scan, scratch device.Ptr) {
	c := prim.Carve(at)
	scan = prim.Scan{N: p.room() / fanout, Width: 4}
	q = collectParams{used: c.Take(p.room()), free: p.free.Ptr, taken: p.taken(), n: uint64(scan.N)}
	scan.Counts, scan.Offsets = c.Take(4*scan.N), c.Take(4*(scan.N+1))
	q.counts, q.at = scan.Counts, scan.Offsets
	return q, scan, device.Ptr(c)
}
