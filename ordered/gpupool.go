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

// gpuPool is the memory of leaves on a GPU, and of the indexes of all versions. Leaves never change once they are in an index: a
// change takes others. Which are free is found out when there are too few: those that no version has.
//
// The first leaves lie in blocks as [pool] has them. All behind mostBlocks of these lie in one range of addresses, which grows by as
// many as are needed, and not to twice as many. A range has 2 MiB at least on a GPU, so small maps have none.
type gpuPool struct {
	dev      device.Device
	key, val int // bytes
	spare    core.Spare[*gpuIndex]

	blocks []device.Buffer
	rest   device.Range         // of leaves behind those of all blocks; nil: there are none yet
	behind int                  // how many these are
	most   int                  // bytes of addresses that the range has
	table  device.Slice[uint64] // where leaf 0 of each block would be; behind them how many of the free leaves have been taken
	none   device.Buffer        // the index of no leaves, which all versions share that have none before any change
	free   device.Buffer        // numbers of free leaves
	listed int                  // how many these are, at least; 0: nobody knows which are free
	left   int                  // of these, that nobody can have taken, at least
	tapped bool                 // a batch has been submitted since they were listed

	mu       sync.Mutex  // of whoever ends a last lease
	versions []*gpuIndex // that somebody may read
	closed   bool
}

// gpuIndex is the index of a version: a generation. It has the arrays of [index], in memory for so
// many leaves, with the levels of separators in the other order, and how much it has.
type gpuIndex struct {
	pool    *gpuPool
	buf     device.Buffer
	nodes   int     // of the lowest level, that there is memory for
	most    int     // leaves that it has at most, as far as that is known
	content content // once that has been read
}

// spareIndexes is how many indexes are kept that no version has: two while a map is cleared, loaded and changed, which else would
// allocate one, 0.4 ms or a fifth of a batch of 2^22 on an H100 (2026-11-26); one behind each change.
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

// empty is the index of no leaves.
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

// taken is where the device counts the free leaves that have been taken.
func (p *gpuPool) taken() device.Ptr { return p.table.Ptr() + 8*maxBlocks }

func (p *gpuPool) leafBytes() int { return leafPairs * (p.key + p.val) }

// mostBlocks is how many blocks there are before the range; tests have fewer.
var mostBlocks = 10

// room is the number of leaves that there is memory for.
func (p *gpuPool) room() int { return blocksRoom(len(p.blocks)) + p.behind }

// memory is that of all leaves, in order.
func (p *gpuPool) memory() []device.Buffer {
	if p.behind == 0 {
		return p.blocks
	}
	return append(slices.Clip(p.blocks), device.Buffer{Ptr: p.rest.Ptr(), Size: p.behind * p.leafBytes()})
}

// blocksRoom is the number of leaves of so many blocks.
func blocksRoom(blocks int) int {
	if blocks == 0 {
		return 0
	}
	return firstBlock << (blocks - 1)
}

// grow takes memory for so many leaves at least. Those that are new are not free before that has been found out. After an error
// there may be more than before.
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

// reserve sets addresses aside for the range, of as many leaves as the device could have.
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

// lead has kernels find n blocks from number b on, side by side, of which the first leaf has a number.
func (p *gpuPool) lead(s *device.Stream, b, n int, at device.Ptr, first int) error {
	bases := slices.Repeat([]uint64{uint64(at) - uint64(first)*uint64(p.leafBytes())}, n)
	return errors.Join(s.CopyIn(p.table.Ptr()+device.Ptr(8*b), device.Bytes(bases)), s.Sync(context.Background()))
}

// listRoom takes memory for the numbers of so many free leaves.
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

// levels is the number of levels of an index of so many nodes.
func levels(n int) int {
	l := 1
	for ; n > 1; n = nodes(n) {
		l++
	}
	return l
}

// indexAt is where the arrays of an index of so many nodes begin.
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

// ref is an index as kernels take it.
func (x *gpuIndex) ref(order uint64) indexRef {
	l := x.pool.layOut(x.nodes)
	at := func(offset int) device.Ptr { return x.buf.Ptr + device.Ptr(offset) }
	return indexRef{
		seps: x.buf.Ptr, ids: at(l.ids), sizes: at(l.sizes), ranks: at(l.ranks), content: at(l.content),
		blocks: x.pool.table.Ptr(), flip: order, levels: uint32(levels(x.nodes)), nodes: uint32(x.nodes),
	}
}

// rooms are the numbers of nodes, at least and at most, in whose memory the index of so many leaves is put.
func rooms(leaves, spare int) (least, most int) {
	n := max(1, nodes(leaves))
	return n, n + 2*(n/spare) + 64
}

// fits tells whether take would allocate nothing.
func (p *gpuPool) fits(leaves, spare int) bool { return p.spare.Has(rooms(leaves, spare)) }

// take is memory for the index of so many leaves, whose content is undefined; new memory has one part in spare more, for
// maps that grow.
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

// Memory is for [core.Spare], as is Room.
func (x *gpuIndex) Memory() device.Buffer { return x.buf }

// Room is in nodes.
func (x *gpuIndex) Room() int { return x.nodes }

// Free is for [core.Parts], and for changes that end before their index is one. Its memory is kept for the next one, which
// comes behind all that has been submitted. The last version of a pool that is closed frees that.
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

// close frees the pool as soon as nobody reads a version of it. No change is under way any more.
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

// bytes is the size of all memory.
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

// unused is how many leaves no version has, at least.
func (p *gpuPool) unused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.room()
	for _, x := range p.versions {
		free -= x.most
	}
	return free
}

// layOutCollect gives finding free leaves its memory, from a place on.
func (p *gpuPool) layOutCollect(at device.Ptr) (q collectParams, scan prim.Scan, scratch device.Ptr) {
	c := prim.Carve(at)
	scan = prim.Scan{N: p.room() / fanout, Width: 4}
	q = collectParams{used: c.Take(p.room()), free: p.free.Ptr, taken: p.taken(), n: uint64(scan.N)}
	scan.Counts, scan.Offsets = c.Take(4*scan.N), c.Take(4*(scan.N+1))
	q.counts, q.at = scan.Counts, scan.Offsets
	return q, scan, device.Ptr(c)
}
