package graph

import (
	"context"
	"errors"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../cmd/weftgen -target 80,90+ptx83 -struct weft::graph::Control -struct weft::graph::Stack -struct weft::graph::Ghost -struct weft::graph::Move -struct weft::graph::Pile -struct weft::graph::Grant -struct weft::graph::Granted -struct weft::graph::Segment -struct weft::graph::Chunk -type graph::Control=control -type graph::Stack=stack -type graph::Ghost=retiredBlock -type graph::Move=move -type graph::Pile=pile -type graph::Grant=grant -type graph::Granted=granted -type graph::Segment=binnedSegment -type graph::Chunk=rowChunk ../kernels/include/weft/graph_bins.cuh
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_0,32_32,32_64 -type graph::Graph=.Ref -type graph::Arcs=arcsRef -type graph::Rows=rowsRef -type graph::Sorted=sortedRef -type graph::Scan=scanRef -type graph::Bins=binsRef -type graph::Binned=binnedRef graph.cu

// gpuEngine runs the kernels of graph.cu. Changes run one after the other, even on different
// streams. A lookup makes its own stream wait for the changes.
type gpuEngine struct {
	gpu.Queue
	kernels
	*store
	prims *prim.Kernels

	work    gpu.Work      // memory for intermediate results of the running change
	extra   gpu.Work      // memory for intermediate results of vertex deletions and compactions
	words   device.Buffer // words at fixed offsets up to wordBytes
	stacks  [classes]device.Buffer
	retired []retiredList
	// pinned is page-locked memory for the results of a change, followed by its stacks. Changes run
	// one at a time.
	pinned   []byte
	deferred []device.Buffer // buffers that the last change may read, freed after it

	resultsReady *device.Event // recorded when the results of a binned batch are copied
	// arcsPerTile is the number of arcs per tile of a thread block of kernel settle. The default
	// keeps the device busy.
	arcsPerTile int
	zeroed      bool // whether the words that binned batches add to are zero
	// whether the device has a current copy of the piles, the stacks for binned batches
	pilesCurrent bool
	pending      bool           // whether work has been submitted whose outcome is unknown
	share        int            // sweepShare, or another value in tests
	overflows    [2]binOverflow // for batches of edges, and for arcs of deleted vertices
}

// retiredList is a list in device memory of n blocks that only snapshots use.
type retiredList struct {
	buf device.Buffer
	n   int
}

// kernels holds the kernels for weights of one width.
type kernels struct {
	findKernel, degreesKernel, rowsKernel       device.Kernel
	arcs, tally, settle, plan, place            device.Kernel
	few, placeFew, writeFew, writeChunks        device.Kernel
	write, commit                               device.Kernel
	mark, doomed, bury, measure, lead, relocate device.Kernel
	sweep, sweepWrite                           device.Kernel
}

// Offsets of the parts of gpuEngine.words, in bytes.
const (
	firstsAt  = 0    // index of the first block of each class among the blocks sorted by class
	stacksAt  = 1280 // a stack of free blocks per class
	presentAt = stacksAt + stackBytes
	// piles, which are the stacks for binned batches, followed by grants
	pilesAt   = (presentAt + 8 + 255) &^ 255
	grantsAt  = pilesAt + pileBytes
	grantedAt = (grantsAt + grantBytes + 255) &^ 255
	smallAt   = grantedAt + 256
	wordBytes = smallAt + smallBytes

	stackBytes = classes * int(unsafe.Sizeof(stack{}))
	pileBytes  = classes * int(unsafe.Sizeof(pile{}))
	grantBytes = classes * int(unsafe.Sizeof(grant{}))
)

func (e *gpuEngine) word(at int) device.Ptr { return e.words.Ptr + device.Ptr(at) }

func newGPUEngine(g *store) (engine, error) {
	e := &gpuEngine{store: g, arcsPerTile: 512 * scanTile, share: sweepShare}
	if err := e.openDevice(g.dev); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *gpuEngine) openDevice(dev device.Device) (err error) {
	w := batch.Widths{Key: 4, Val: e.weight}
	if err = e.Open(dev, w); err != nil {
		return err
	}
	if e.prims, err = prim.Load(dev); err != nil {
		return err
	}
	k := &e.kernels
	err = gpu.Load(dev, graphImages[gpu.Variant(w)], []gpu.Entry{
		{Name: "find", To: &k.findKernel}, {Name: "degrees", To: &k.degreesKernel}, {Name: "rows", To: &k.rowsKernel},
		{Name: "arcs", To: &k.arcs}, {Name: "tally", To: &k.tally}, {Name: "settle", To: &k.settle}, {Name: "plan", To: &k.plan}, {Name: "place", To: &k.place},
		{Name: "few", To: &k.few}, {Name: "place_few", To: &k.placeFew},
		{Name: "write_few", To: &k.writeFew}, {Name: "write_chunks", To: &k.writeChunks},
		{Name: "write", To: &k.write}, {Name: "commit", To: &k.commit},
		{Name: "mark", To: &k.mark}, {Name: "doomed", To: &k.doomed}, {Name: "bury", To: &k.bury},
		{Name: "sweep", To: &k.sweep}, {Name: "sweep_write", To: &k.sweepWrite},
		{Name: "measure", To: &k.measure}, {Name: "lead", To: &k.lead}, {Name: "relocate", To: &k.relocate},
	})
	if err != nil {
		return err
	}
	if e.words, err = dev.Alloc(wordBytes); err != nil {
		return err
	}
	if e.pinned, err = dev.AllocHost(headBytes + stackBytes); err != nil {
		return err
	}
	if e.resultsReady, err = dev.NewEvent(); err != nil {
		return err
	}
	return e.Submit(e.Stream, func() error { return e.Stream.Fill(e.words.Ptr, 0, wordBytes/4) })
}

func (e *gpuEngine) close() error {
	err := errors.Join(e.work.Free(&e.Queue), e.extra.Free(&e.Queue), e.freeLists())
	err = errors.Join(err, free(e.Dev, e.words))
	if e.pinned != nil {
		err = errors.Join(err, e.Dev.FreeHost(e.pinned))
	}
	if e.resultsReady != nil {
		err = errors.Join(err, e.resultsReady.Close())
	}
	return errors.Join(err, e.Queue.Close())
}

func free(dev device.Device, b device.Buffer) error {
	if b.Size == 0 {
		return nil
	}
	return dev.Free(b)
}

// addCount implements engine.
func (e *gpuEngine) addCount(s *device.Stream, to device.Slice[uint64], n uint64) error {
	return e.AddCount(s, to.Ptr(), n)
}

// freeLists waits for the last change and frees the stacks and the retired lists.
func (e *gpuEngine) freeLists() (err error) {
	if changed := e.LastChange(); changed != nil {
		err = changed.Sync(context.Background())
	}
	for i, b := range e.stacks {
		err = errors.Join(err, free(e.Dev, b))
		e.stacks[i] = device.Buffer{}
	}
	for _, x := range e.retired {
		err = errors.Join(err, free(e.Dev, x.buf))
	}
	e.retired, e.pilesCurrent = nil, false
	return errors.Join(err, e.freeDeferred())
}

// sendStacks copies stacks to the device. The caller has waited for the results of the last change,
// so pinned is no longer in use.
func (e *gpuEngine) sendStacks(s *device.Stream, stacks *[classes]stack) error {
	e.pilesCurrent = false
	bytes := e.pinned[headBytes:]
	copy(bytes, unsafe.Slice((*byte)(unsafe.Pointer(stacks)), stackBytes))
	return s.CopyInAsync(e.word(stacksAt), bytes)
}

// freeDeferred frees the deferred buffers. The caller has waited for the last change.
func (e *gpuEngine) freeDeferred() (err error) {
	for _, b := range e.deferred {
		err = errors.Join(err, free(e.Dev, b))
	}
	e.deferred = nil
	return err
}

func (e *gpuEngine) overheadBytes() int {
	n := e.work.Buf.Size + e.extra.Buf.Size + e.words.Size
	for _, b := range e.stacks {
		n += b.Size
	}
	for _, x := range e.retired {
		n += x.buf.Size
	}
	return n
}

func refOf(v *view) Ref {
	return Ref{Records: v.records.Ptr, Pool: v.pool.Ptr, Alive: v.alive.Ptr, Vertices: uint32(v.vertices), Unit: uint32(v.unit())}
}

// countPresent implements engine.
func (e *gpuEngine) countPresent(ctx context.Context) (uint64, error) {
	return e.readWord(ctx, presentAt)
}

// readWord reads the 64-bit word at an offset, after all changes.
func (e *gpuEngine) readWord(ctx context.Context, at int) (uint64, error) {
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return 0, err
	}
	var n [1]uint64
	err := e.Stream.CopyOut(ctx, device.Bytes(n[:]), e.word(at))
	return n[0], err
}

// copyView implements engine.
func (e *gpuEngine) copyView(ctx context.Context, v *view) (*view, error) {
	c := *v
	c.records, c.alive = device.Buffer{}, device.Buffer{}
	if v.vertices == 0 {
		return &c, nil
	}
	var err error
	if c.records, err = e.Dev.Alloc(v.vertices * recordBytes); err == nil {
		c.alive, err = e.Dev.Alloc(bitmapBytes(v.vertices))
	}
	if err == nil {
		err = e.Submit(e.Stream, func() error {
			return errors.Join(e.Stream.Copy(c.records.Ptr, v.records.Ptr, c.records.Size), e.Stream.Copy(c.alive.Ptr, v.alive.Ptr, c.alive.Size))
		})
	}
	// The caller may close the snapshot at once, which frees its memory.
	err = errors.Join(err, e.Stream.Sync(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, errors.Join(err, freeCopy(e.Dev, &c))
	}
	return &c, nil
}

// clear implements engine.
func (e *gpuEngine) clear(context.Context, *memory) error {
	e.pending = false
	err := e.submitFinal(e.Submit, e.Stream, func() error { return e.Stream.Fill(e.word(presentAt), 0, 2) })
	if err != nil {
		return err
	}
	return e.freeLists()
}

// outcomeUnknown implements engine.
func (e *gpuEngine) outcomeUnknown() bool { return e.pending }

// submitFinal submits work that cannot be undone. It ignores an error that only concerns recording
// the end of the work, since the queue has then waited for the work.
func (e *gpuEngine) submitFinal(submit func(*device.Stream, func() error) error, s *device.Stream, launch func() error) error {
	launched := false
	err := submit(s, func() error {
		e.pending = true
		err := launch()
		launched = err == nil
		return err
	})
	if launched && !errors.Is(err, device.ErrLost) {
		return nil
	}
	return err
}

// zero clears a buffer, beginning at byte offset from.
func (e *gpuEngine) zero(b device.Buffer, from int) error {
	return e.Submit(e.Stream, func() error { return e.Stream.Fill(b.Ptr+device.Ptr(from), 0, (b.Size-from)/4) })
}

// download copies the given number of bytes at the start of a buffer to host memory.
func (e *gpuEngine) download(ctx context.Context, b device.Buffer, bytes int) (device.Buffer, error) {
	host := batch.Aligned(make([]byte, bytes))
	if bytes == 0 {
		return device.Buffer{}, nil
	}
	err := e.Stream.CopyOut(ctx, host, b.Ptr)
	return device.Buffer{Host: host, Size: bytes}, err
}

// readAlive implements engine.
func (e *gpuEngine) readAlive(ctx context.Context, v *view) (words []uint32, err error) {
	words = make([]uint32, bitmapBytes(v.vertices)/4)
	if v.vertices == 0 {
		return words, nil
	}
	return words, e.WithTransfer(func(_ *gpu.Transfer, s *device.Stream) error {
		if err := s.Wait(e.LastChange()); err != nil {
			return err
		}
		return s.CopyOut(ctx, device.Bytes(words), v.alive.Ptr)
	})
}

// image implements engine.
func (e *gpuEngine) image(ctx context.Context, v *view) (*view, [classes][]uint32, []retiredBlock, error) {
	var stacks [classes][]uint32
	c := *v
	err := e.Stream.Wait(e.LastChange())
	for _, b := range []struct {
		to, from *device.Buffer
		bytes    int
	}{{&c.records, &v.records, v.vertices * recordBytes}, {&c.alive, &v.alive, bitmapBytes(v.vertices)}, {&c.pool, &v.pool, e.units * e.unit()}} {
		if err == nil {
			*b.to, err = e.download(ctx, *b.from, b.bytes)
		}
	}
	for class, n := range e.free {
		if err == nil && n > 0 {
			var b device.Buffer
			b, err = e.download(ctx, e.stacks[class], 4*n)
			stacks[class] = batch.View[uint32](b.Host)
		}
	}
	if err != nil {
		return nil, stacks, nil, err
	}
	all, err := e.readRetired(ctx)
	return &c, stacks, all, err
}

func (e *gpuEngine) readRetired(ctx context.Context) (all []retiredBlock, err error) {
	for _, x := range e.retired {
		b, err := e.download(ctx, x.buf, x.n*int(unsafe.Sizeof(retiredBlock{})))
		if err != nil {
			return nil, err
		}
		all = append(all, batch.View[retiredBlock](b.Host)...)
	}
	return all, nil
}

// reclaim implements engine.
func (e *gpuEngine) reclaim(ctx context.Context, isHeld func(retiredBlock) bool) error {
	if len(e.retired) == 0 {
		return nil
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return err
	}
	all, err := e.readRetired(ctx)
	if err != nil {
		return err
	}
	var freed [classes][]uint32
	var held []retiredBlock
	for _, x := range all {
		if isHeld(x) {
			held = append(held, x)
		} else {
			freed[x.size] = append(freed[x.size], x.block)
		}
	}
	// If the lists cannot be allocated and written, no count changes and all blocks stay retired.
	kept, err := e.uploadRetired(held)
	if err == nil {
		err = e.pushFree(&freed)
	}
	if err != nil {
		return errors.Join(err, e.Stream.Sync(context.Background()), free(e.Dev, kept.buf))
	}
	for class, list := range freed {
		for range list {
			e.releaseRetired(uint32(class))
		}
	}
	for _, x := range e.retired {
		e.deferred = append(e.deferred, x.buf)
	}
	e.retired = nil
	if kept.n > 0 {
		e.retired = []retiredList{kept}
	}
	return nil
}

// pushFree pushes blocks on the stacks of free blocks.
func (e *gpuEngine) pushFree(freed *[classes][]uint32) error {
	e.pilesCurrent = false
	for class, list := range freed {
		if len(list) == 0 {
			continue
		}
		n := e.free[class]
		if err := e.growStack(e.Stream, class, n, n+len(list)); err != nil {
			return err
		}
		if err := e.Stream.CopyIn(e.stacks[class].Ptr+device.Ptr(4*n), device.Bytes(list)); err != nil {
			return err
		}
	}
	return e.submitFinal(e.Submit, e.Stream, func() error { return nil })
}

// uploadRetired copies retired blocks to a new list on the device.
func (e *gpuEngine) uploadRetired(entries []retiredBlock) (list retiredList, err error) {
	if len(entries) == 0 {
		return list, nil
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(entries))), len(entries)*int(unsafe.Sizeof(retiredBlock{})))
	list.n = len(entries)
	if list.buf, err = e.Dev.Alloc(len(bytes)); err != nil {
		return list, err
	}
	return list, e.Stream.CopyIn(list.buf.Ptr, bytes)
}

// growStack grows the stack of a class to at least size entries. It keeps the entries with indexes
// below used.
func (e *gpuEngine) growStack(s *device.Stream, class, used, size int) error {
	old := e.stacks[class]
	if 4*size <= old.Size {
		return nil
	}
	const minSize = 64
	buf, err := e.Dev.Alloc(4 * max(size+size/2, minSize))
	if err != nil {
		return err
	}
	if used > 0 {
		if err := e.Submit(s, func() error { return s.Copy(buf.Ptr, old.Ptr, 4*used) }); err != nil {
			return errors.Join(err, e.Dev.Free(buf))
		}
	}
	e.stacks[class], e.pilesCurrent = buf, false
	if old.Size > 0 {
		e.deferred = append(e.deferred, old)
	}
	return nil
}
