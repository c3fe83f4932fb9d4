package gphash

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../cmd/weftgen -target 80,90+ptx85 -struct weft::gphash::Level -type gphash::Level=levelRef ../kernels/include/weft/gphash_table.cuh
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83 -type gphash::Table=tableRef -type gphash::Space=spaceRef -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::List=internal/gpu.List -type weft::Export=internal/gpu.Export gphash.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83 -type gphash::Strings=stringsRef -type gphash::Table=.tableRef -type gphash::BucketsParams=.bucketsParams -type gphash::ChangeParams=.changeParams -type gphash::RedoParams=.redoParams gphash_strings.cu

// minSortedOps is the minimum number of lookups that are sorted by region. A sorted batch reads
// neighboring parts of the pool together, and the data of a repeated key once. For fewer lookups,
// sorting costs more than repeated reads.
const minSortedOps = 1 << 10

// maxRankedOps is the maximum number of operations that are sorted by counting. Each operation
// counts those that come before it, which takes one launch instead of six.
const maxRankedOps = 1 << 12

// warp is the number of threads that work on a key.
const warp = 32

// Each warp of a large batch of changes runs several operations, which are called a round. The
// round is chosen so that each multiprocessor gets warpWaves times as many warps as it runs at
// once. More warps keep the wait for the last ones short.
const (
	warpWaves = 4
	// warps that a multiprocessor runs at once, as kChangeBlocks in tuning.cuh determines
	changeWarps = 4 * gpu.BlockThreads / warp
)

// launcher launches the kernels of gphash.cu for a [gpu.Engine]. The kernels work on a pool that
// the device has mapped.
type launcher struct {
	host *engine // host engine of the same pool
	dev  device.Device
	prim *prim.Kernels

	tick, hash, rank, get, repeat, recycle, reserve device.Kernel
	change, crowded                                 device.Kernel
	strings                                         stringKernels // for pools with records
	// for atomic batches
	findMoved, log, apply, writeBack, undo                                  device.Kernel
	moveUp, export, wipe, survey, verify, fillMirror, cacheEmpty, cacheFill device.Kernel

	pool     device.Buffer // the mapped pool
	unmap    func() error
	mirror   bool
	cache    cache
	unsorted bool // lookups run in the given order
	// minimum number of warps of a launch before a warp gets several operations; 0 means the
	// default of opsPerWarp
	minWarps int
	shape    shape                // how kernels are launched
	state    device.Slice[uint32] // words of the state; see the constants
	table    atomic.Pointer[levels]
	space    spaceRef
	buffers  bufferPool

	// mu serializes the submission of changes and exports, so that nothing changes during an
	// export.
	mu                sync.Mutex
	changed, exported *device.Event
	sequence          uint32 // number of the last change
	// lists of values and slots that the last change left for reuse; nil if none
	freedLists  *pooledBuffer
	countsDirty bool         // the counts of used lists have not been reset to zero yet
	pending     pendingBatch // new slot states of the running batch, if batches are atomic
	batch       stringsBatch // further data of the running batch, if the pool has records
	tail        logTail      // atomic batches that are not yet in the pool's slots
}

// levels are the levels that kernels use: the kernel parameter and the memory it refers to.
type levels struct {
	ref  tableRef
	live []level
	buf  device.Buffer
	// by first word of a level: the mirror of the level, or the cache's index of its buckets
	buffers map[uint64]device.Buffer
}

// Indexes of words in launcher.state.
const (
	// number of the last begun change; this and the next three words are Clocks in CUDA
	wordBegun   = iota
	wordEnded   // number of the last ended change
	_           // number of begun moves of keys to make room for others
	_           // number of ended moves
	wordStale   // number of values that the last change left for reuse
	wordTombs   // number of tombstones that the last change left
	wordCrowded // 1 if a key of a drained level found no slot
	wordLagging // number of buckets in the pool that lag the mirror
	// numbers of buckets that lookups read, and of those found in the cache; 64 bits each
	wordReads
	_ //
	_ //
	_ //
	// sum of the digests of an atomic batch's records, and the number of records; 64 bits each
	wordRecords
	_            //
	_            //
	_            //
	wordNoMemory // not 0 if a value found no memory
	// bitmap over the first bits of hashes, set for keys with operations to rerun
	wordFailed

	failedWords = 1 << 16 / 32
	stateWords  = wordFailed + failedWords
)

func (k *launcher) word(i int) device.Ptr { return k.state.Ptr() + device.Ptr(4*i) }

// attach maps the pool and loads the kernels, which may take long. close undoes attach, even after
// an error.
func (k *launcher) attach(ctx context.Context, t *Times) error {
	err := timed(&t.Map, func() (err error) {
		k.pool, k.unmap, err = mapTo(ctx, k.dev, k.host.mem.Bytes())
		return err
	})
	if err == nil {
		err = timed(&t.Kernels, k.load)
	}
	return err
}

// alloc allocates the device memory and events that launches need, except for the levels.
func (k *launcher) alloc() (err error) {
	k.buffers.dev = k.dev
	if k.state, err = device.Make[uint32](k.dev, stateWords); err != nil {
		return err
	}
	for _, e := range []**device.Event{&k.changed, &k.exported} {
		if *e, err = k.dev.NewEvent(); err != nil {
			return err
		}
	}
	v := k.host.values
	if v.records { // the host tracks the free memory of records
		return k.allocTail()
	}
	k.space.units, k.space.words = uint32(len(v.space.owner)), uint32((v.perUnit+63)/64)
	for _, b := range []struct {
		to    *device.Ptr
		bytes uint64
	}{{&k.space.used, uint64(k.space.units) * uint64(k.space.words) * 8}, {&k.space.owners, uint64(k.space.units) * 4}} {
		buf, err := k.dev.Alloc(int(b.bytes))
		if err != nil {
			return err
		}
		*b.to = buf.Ptr
		k.buffers.freeOnClose(buf)
	}
	return k.allocTail()
}

func (k *launcher) load() (err error) {
	if k.prim, err = prim.Load(k.dev); err != nil {
		return err
	}
	err = gpu.Load(k.dev, &gphashImage, []gpu.Entry{
		{Name: "tick", To: &k.tick}, {Name: "hash", To: &k.hash}, {Name: "rank", To: &k.rank}, {Name: "get", To: &k.get}, {Name: "repeat", To: &k.repeat}, {Name: "recycle", To: &k.recycle}, {Name: "reserve", To: &k.reserve},
		{Name: "change", To: &k.change}, {Name: "change_crowded", To: &k.crowded}, {Name: "follow", To: &k.findMoved},
		{Name: "log", To: &k.log}, {Name: "settle", To: &k.apply}, {Name: "home", To: &k.writeBack}, {Name: "undo", To: &k.undo}, {Name: "move_up", To: &k.moveUp},
		{Name: "export", To: &k.export}, {Name: "wipe", To: &k.wipe},
		{Name: "survey", To: &k.survey}, {Name: "verify", To: &k.verify}, {Name: "mirror", To: &k.fillMirror},
		{Name: "cache_empty", To: &k.cacheEmpty}, {Name: "cache_fill", To: &k.cacheFill},
	})
	switch {
	case err == nil && k.host.records():
		err = k.loadStrings()
	case err == nil:
		err = k.loadVariant()
	}
	return err
}

// close frees all device memory and unmaps the pool. No work may be in flight.
func (k *launcher) close() (err error) {
	err = errors.Join(k.table.Load().free(k.dev, &levels{}), k.buffers.close(), k.state.Free())
	for _, b := range []device.Buffer{k.cache.buf, k.cache.index} {
		if b.Size > 0 {
			err = errors.Join(err, k.dev.Free(b))
		}
	}
	for _, e := range []*device.Event{k.changed, k.exported} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	if k.unmap != nil {
		err = errors.Join(err, k.unmap())
	}
	return err
}

// newLevels allocates device memory for the host's levels. Existing levels keep their buffers.
func (k *launcher) newLevels(before *levels) (now *levels, err error) {
	t := k.host.table
	now = &levels{live: slices.Clone(t.live), buffers: map[uint64]device.Buffer{}}
	if now.buf, err = k.dev.Alloc(len(t.live) * int(unsafe.Sizeof(levelRef{}))); err != nil {
		return now, err
	}
	v := t.values
	now.ref = tableRef{
		pool: k.pool.Ptr, counters: k.host.Parts().(*parts).TallyPtr(), clocks: k.word(wordBegun),
		seed0: t.seed[0], seed1: t.seed[1], first: v.first, span: v.span,
		keySize: uint32(t.keySize), valueSize: uint32(t.valueSize), keyWords: uint32(t.keyWords), valueWords: uint32(v.words),
		slots: uint32(t.slots), hashes: uint32(t.hashes), bucketWords: uint32(t.bucketWords),
		unit: uint32(v.unit), per: uint32(v.perUnit), at: uint32(v.offset),
		live: uint32(len(t.live)), closed: uint32(t.closed), levels: now.buf.Ptr,
		fast: bit(t.hasher.id == Fast), unfenced: bit(k.shape.Unfenced),
	}
	if k.cache.share > 0 {
		now.ref.cache, now.ref.cacheRead = k.cache.buf.Ptr, k.word(wordReads)
		now.ref.policy, now.ref.now = uint32(k.cache.policy), k.cache.loads
		if k.cache.values > 0 {
			now.ref.cached, now.ref.heat = k.cache.index.Ptr, k.cache.heat()
		}
	}
	return now, k.allocBuffers(now, before)
}

func bit(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

// allocBuffers allocates a mirror for each new level, or the cache's index of its buckets.
func (k *launcher) allocBuffers(now, before *levels) (err error) {
	size := 8 // per bucket: its index in the cache, and its heat
	if k.mirror {
		size = k.host.bucketBytes()
	} else if k.cache.share == 0 {
		return nil
	}
	for _, l := range now.live {
		b, ok := before.buffers[l.base]
		if !ok {
			if b, err = k.dev.Alloc(size << l.bits); err != nil {
				return err
			}
		}
		now.buffers[l.base] = b
	}
	return nil
}

// writeLevels submits writes of the levels' parameters and of the buffers of new levels.
func (k *launcher) writeLevels(s *device.Stream, now, before *levels) (err error) {
	refs := make([]levelRef, len(now.live))
	for i, l := range now.live {
		refs[i] = levelRef{base: l.base, bits: uint32(l.bits), regions: uint32(l.regions())}
		if b := now.buffers[l.base]; k.mirror {
			refs[i].mirror = b.Ptr
		} else if b.Size > 0 {
			refs[i].cached, refs[i].heat = b.Ptr, b.Ptr+device.Ptr(4<<l.bits)
		}
	}
	if err := s.CopyIn(now.buf.Ptr, unsafe.Slice((*byte)(unsafe.Pointer(&refs[0])), now.buf.Size)); err != nil {
		return err
	}
	for i, r := range refs {
		_, existed := before.buffers[r.base]
		switch {
		case existed:
		// the level has been zeroed in advance
		case k.mirror && k.host.next != nil && r.base == k.host.next.base:
			err = s.Fill(r.mirror, 0, now.buffers[r.base].Size/4)
		case k.mirror:
			p := bucketsParams{table: now.ref, hi: 1 << r.bits, level: uint32(i)}
			err = device.Launch(s, k.fillMirror, gpu.Wave(k.dev, int(p.hi)*2*int(k.host.slots)), gpu.Block, &p)
		case r.cached != 0:
			if err = s.Fill(r.cached, notCached, 1<<r.bits); err == nil {
				err = s.Fill(r.heat, 0, 1<<r.bits)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// free frees the memory of l that keep does not use.
func (l *levels) free(dev device.Device, keep *levels) (err error) {
	if l.buf.Size > 0 {
		err = dev.Free(l.buf)
	}
	for base, b := range l.buffers {
		if _, ok := keep.buffers[base]; !ok {
			err = errors.Join(err, dev.Free(b))
		}
	}
	return err
}

func (k *launcher) opsPerWarp(n int) uint32 {
	minWarps := k.minWarps
	if minWarps == 0 {
		minWarps = warpWaves * changeWarps * k.dev.Properties().Units
	}
	if n < 2*minWarps {
		return 1
	}
	return uint32(min(k.shape.MaxRound, 1<<(bits.Len(uint(n/minWarps))-1)))
}

// roundGrid returns the grid for n operations, if round is the number of operations per warp.
func (k *launcher) roundGrid(n int, round uint32) device.Dim {
	return gpu.Grid(k.shape.Lanes * ((n + int(round) - 1) / int(round)))
}

// ---- lookups --------------------------------------------------------------------

// Lookup implements [gpu.Structure].
func (k *launcher) Lookup(s *device.Stream, _ core.Parts, b *batch.Batch, hits device.Ptr) error {
	p := getParams{table: k.table.Load().ref}
	p.lookup, _ = gpu.LookupOf(b, hits, warp)
	if b.N >= minSortedOps && !k.unsorted {
		l, err := k.buffers.acquire(sortBytes(b.N))
		// without memory for the sort, lookups run unsorted
		if err != nil && !errors.Is(err, device.ErrMemory) {
			return err
		}
		if err == nil {
			defer l.releaseAfter(s)
			o, err := k.sort(s, &p.table, p.lookup.Keys, b.N, l.buf.Ptr)
			if err != nil {
				return err
			}
			p.hashes, p.prefixes, p.rows = o.hashes, o.To.Keys, o.To.Vals
			if p.lookup.Found == 0 {
				p.lookup.Found = o.From.Keys // the sort's input is no longer needed
			}
		}
	}
	if err := device.Launch(s, k.get, k.roundGrid(b.N, 1), gpu.Block, &p); err != nil || p.rows == 0 {
		return err
	}
	return device.Launch(s, k.repeat, gpu.Grid(b.N), gpu.Block, &p)
}

// sorting is a sort of 32-bit numbers that also returns the original row of each number. It
// includes the memory for the sort.
type sorting struct {
	prim.Sort
	scratch device.Buffer
}

func newSorting(c *prim.Carve, n int) (o sorting) {
	o.Sort = prim.Sort{
		Widths: prim.Widths{Key: 4, Val: 4}, N: n, Hi: 32,
		From: prim.Rows{Keys: c.Alloc(4 * n)}, To: prim.Rows{Keys: c.Alloc(4 * n), Vals: c.Alloc(4 * n)},
	}
	o.scratch.Size = o.ScratchBytes()
	o.scratch.Ptr = c.Alloc(o.scratch.Size)
	return o
}

// order is a batch sorted by the first bits of its keys' hashes.
type order struct {
	hashes device.Ptr // by row
	sorting
}

func newOrder(at device.Ptr, n int) (o order, end device.Ptr) {
	c := prim.Carve(at)
	o.hashes, o.sorting = c.Alloc(8*n), newSorting(&c, n)
	return o, device.Ptr(c)
}

func sortBytes(n int) int {
	_, end := newOrder(0, n)
	return int(end)
}

// sort submits kernels that hash the keys of n operations and sort the hashes. Its temporary memory
// begins at the address work.
func (k *launcher) sort(s *device.Stream, t *tableRef, keys device.Ptr, n int, work device.Ptr) (o order, err error) {
	o, _ = newOrder(work, n)
	p := hashParams{table: *t, keys: keys, hashes: o.hashes, prefixes: o.From.Keys, n: uint64(n)}
	if err := device.Launch(s, k.hash, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
		return o, err
	}
	return o, k.sortHashes(s, &o)
}

func (k *launcher) sortHashes(s *device.Stream, o *order) error {
	if o.N <= maxRankedOps {
		r := rankParams{prefixes: o.From.Keys, sorted: o.To.Keys, rows: o.To.Vals, n: uint64(o.N)}
		return device.Launch(s, k.rank, gpu.Grid(warp*o.N), gpu.Block, &r)
	}
	return k.prim.Sort(s, &o.Sort, o.scratch)
}

// ---- changes ---------------------------------------------------------------------

func runSteps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// submitExclusive submits work that changes the pool. The work runs after exports in flight and
// before later exports. If only a part could be submitted, the event after that part is still
// recorded, so exports wait for it.
func (k *launcher) submitExclusive(s *device.Stream, submit func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sequence++
	if err := s.Wait(k.exported); err != nil {
		return err
	}
	if err := k.setClock(s, wordBegun); err != nil {
		return err
	}
	return errors.Join(submit(), k.setClock(s, wordEnded), s.Record(k.changed))
}

// setClock submits a kernel that stores the number of the current change in a word of the state:
// wordBegun or wordEnded.
func (k *launcher) setClock(s *device.Stream, clock int) error {
	return device.Launch(s, k.tick, gpu.Grid(1), gpu.Block, &tickParams{clock: k.word(clock), now: k.sequence, unfenced: bit(k.shape.Unfenced)})
}

// Change implements [gpu.Structure]. It takes two launches. Keys that find no slot in the first
// launch run in the second one, which moves other keys to free slots.
func (k *launcher) Change(s *device.Stream, _ core.Parts, c *gpu.Change) (contended bool, err error) {
	freshBytes := 0
	if c.Inserts() && !k.host.records() {
		freshBytes = 8 * c.N
	}
	work, err := k.buffers.acquire(sortBytes(c.N) + freshBytes)
	if err != nil {
		return false, err
	}
	defer work.releaseAfter(s)
	if k.host.redo != nil {
		if err := k.allocEntries(s, c); err != nil {
			return false, err
		}
	}
	return false, k.submitExclusive(s, func() error { return k.submit(s, c, work.buf, freshBytes) })
}

func (k *launcher) submit(s *device.Stream, c *gpu.Change, work device.Buffer, freshBytes int) error {
	t := k.host.table
	if err := k.submitRecycle(s); err != nil {
		return err
	}
	if err := k.allocLists(c.N); err != nil {
		return err
	}
	if c.Args.First == 0 {
		if err := s.Fill(k.word(wordRecords), 0, stateWords-wordRecords); err != nil {
			return err
		}
	}
	table := k.table.Load().ref
	sort := func() (order, error) { return k.sort(s, &table, c.Args.Keys, c.N, work.Ptr) }
	if k.host.records() {
		sort = func() (order, error) { return k.sortStrings(s, &table, k.batch.keys, c.N, work.Ptr) }
	}
	o, err := sort()
	if err != nil {
		return err
	}
	p := changeParams{
		table: table, space: k.space, changes: c.Args, spilled: c.Spilled, late: k.word(wordFailed), lacked: k.word(wordNoMemory),
		sorted:  sorted{hashes: o.hashes, prefixes: o.To.Keys, rows: o.To.Vals},
		fullest: uint64(maxLoad * float64(t.slotsIn(t.openLevels()))), regions: uint32(t.bits()), entries: k.pending.ptr(), round: 1,
	}
	if p.entries == 0 { // an atomic batch publishes nothing here, so rounds would not help
		p.round = k.opsPerWarp(c.N)
	}
	// A move of another key would change the pool's slots before the log is applied.
	if c.NoMoves || k.tail.nOps > 0 {
		p.still = 1
	}
	if k.host.records() {
		return k.submitStrings(s, c, &p)
	}
	if freshBytes > 0 {
		p.sorted.fresh = work.Ptr + device.Ptr(work.Size-freshBytes)
		r := reserveParams{table: p.table, space: k.space, prefixes: o.To.Keys, fresh: p.sorted.fresh, n: uint32(c.N), regions: p.regions}
		if k.host.anyRegion {
			r.regions = 0 // values may use memory of any region
		}
		if err := device.Launch(s, k.reserve, device.Dim{X: 1 << r.regions}, gpu.Block, &r); err != nil {
			return err
		}
	}
	err = device.Launch(s, k.change, k.roundGrid(c.N, p.round), gpu.Block, &p)
	if err == nil && freshBytes > 0 {
		err = device.Launch(s, k.crowded, gpu.Grid(warp<<p.regions), gpu.Block, &p)
	}
	if err == nil && p.entries != 0 {
		err = writeLog(k, s, k.findMoved, &p)
	}
	return err
}

// submitRecycle submits a kernel that frees values and slots in the lists of the previous change.
func (k *launcher) submitRecycle(s *device.Stream) error {
	if k.freedLists != nil {
		p := recycleParams{table: k.table.Load().ref, space: k.space}
		if err := device.Launch(s, k.recycle, gpu.Wave(k.dev, k.freedLists.buf.Size/16), gpu.Block, &p); err != nil {
			return err
		}
	}
	return k.clearLists(s)
}

// clearLists drops the lists of the previous change and submits a reset of their counts.
func (k *launcher) clearLists(s *device.Stream) error {
	if k.freedLists != nil {
		k.freedLists.releaseAfter(s)
		k.freedLists, k.countsDirty = nil, true
	}
	if !k.countsDirty {
		return nil
	}
	err := s.Fill(k.word(wordStale), 0, 2)
	k.countsDirty = err != nil
	return err
}

// allocLists allocates lists for the values and slots that n operations leave for reuse.
func (k *launcher) allocLists(n int) (err error) {
	if k.freedLists, err = k.buffers.acquire(16 * n); err != nil {
		return err
	}
	at, half := k.freedLists.buf.Ptr, device.Ptr(k.freedLists.buf.Size/16*8)
	k.space.lists = lists{stale: at, tombs: at + half, counts: k.word(wordStale)}
	return nil
}

// ResolveWinners implements [gpu.Structure]. It does nothing, since a change resolves operations on
// a key in their order.
func (k *launcher) ResolveWinners(*device.Stream, core.Parts, *gpu.Change, *gpu.Winners) error {
	return nil
}

// Export implements [gpu.Structure]. Buckets have the same numbers as on the host.
func (k *launcher) Export(s *device.Stream, _ core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := runSteps(
		func() error { return s.Wait(k.changed) },
		func() error { return s.Wait(k.exported) },
		func() error { return k.convert(s, k.shape.plain) })
	if err != nil {
		return err
	}
	p := bucketsParams{to: gpu.Export{
		Keys: out.Columns[batch.Keys].Ptr, Vals: out.Columns[batch.Vals].Ptr, Count: count, Rows: uint64(out.N),
	}}
	return errors.Join(k.launchOnUnits(s, k.export, p, lo, hi), s.Record(k.exported))
}

// launchOnUnits launches a kernel on the buckets that units [lo,hi) contain, level by level.
func (k *launcher) launchOnUnits(s *device.Stream, kernel device.Kernel, p bucketsParams, lo, hi uint32) error {
	t := k.table.Load()
	p.table = t.ref
	for i, l := range t.live {
		p.level = uint32(i)
		if p.lo, p.hi = l.bucketsOf(lo, hi); p.lo >= p.hi {
			continue
		}
		if err := device.Launch(s, kernel, gpu.Wave(k.dev, warp*int(p.hi-p.lo)), gpu.Block, &p); err != nil {
			return err
		}
	}
	return nil
}

func (k *launcher) launchOnAll(s *device.Stream, kernel device.Kernel) error {
	t := k.table.Load()
	for i, l := range t.live {
		p := bucketsParams{table: t.ref, hi: 1 << l.bits, level: uint32(i), crowded: k.word(wordCrowded)}
		if err := device.Launch(s, kernel, gpu.Wave(k.dev, warp<<l.bits), gpu.Block, &p); err != nil {
			return err
		}
	}
	return nil
}

// ---- memory for launches -----------------------------------------------------------

// bufferPool is a pool of device buffers. The caller of acquire submits its work to a stream and
// then calls releaseAfter, so the buffer is reused after that work.
type bufferPool struct {
	dev device.Device

	mu    sync.Mutex
	all   []*pooledBuffer
	owned []device.Buffer // buffers to free on close
}

type pooledBuffer struct {
	pool  *bufferPool
	buf   device.Buffer
	done  *device.Event
	inUse bool
}

// acquire returns an unused buffer of at least the given size.
func (l *bufferPool) acquire(bytes int) (*pooledBuffer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var best *pooledBuffer
	for _, o := range l.all {
		if !o.inUse && o.buf.Size >= bytes && (best == nil || o.buf.Size < best.buf.Size) && o.done.Sync(core.EndedContext) == nil {
			best = o
		}
	}
	if best == nil {
		if err := l.freeSmaller(bytes); err != nil {
			return nil, err
		}
		buf, err := l.dev.Alloc(max(bytes, minPooledBytes))
		if err != nil {
			return nil, err
		}
		done, err := l.dev.NewEvent()
		if err != nil {
			return nil, errors.Join(err, l.dev.Free(buf))
		}
		best = &pooledBuffer{pool: l, buf: buf, done: done}
		l.all = append(l.all, best)
	}
	best.inUse = true
	return best, nil
}

const minPooledBytes = 1 << 12

func (l *bufferPool) freeSmaller(bytes int) (err error) {
	kept := l.all[:0]
	for _, o := range l.all {
		if o.inUse || o.buf.Size >= bytes || o.done.Sync(core.EndedContext) != nil {
			kept = append(kept, o)
			continue
		}
		err = errors.Join(err, o.free())
	}
	l.all = kept
	return err
}

func (o *pooledBuffer) free() error { return errors.Join(o.pool.dev.Free(o.buf), o.done.Close()) }

// releaseAfter releases the buffer once the work submitted to the stream is done. If the event
// cannot be recorded, releaseAfter waits for the stream.
func (o *pooledBuffer) releaseAfter(s *device.Stream) {
	recorded := s.Record(o.done) == nil || s.Sync(uncancelled) == nil
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	o.inUse = !recorded
}

func (l *bufferPool) freeOnClose(b device.Buffer) { l.owned = append(l.owned, b) }

func (l *bufferPool) close() (err error) {
	for _, o := range l.all {
		err = errors.Join(err, o.done.Sync(context.Background()), o.free())
	}
	for _, b := range l.owned {
		err = errors.Join(err, l.dev.Free(b))
	}
	l.all, l.owned = nil, nil
	return err
}
