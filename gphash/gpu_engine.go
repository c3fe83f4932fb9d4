package gphash

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/variant"
)

// gpuEngine runs batches on a GPU that has mapped the pool. The engine of the host, which opened
// the pool, decides when the index grows. If the GPU is lost, the host's engine recovers the pool,
// which is host memory, and runs the batches.
type gpuEngine struct {
	gpu.Engine
	k         launcher
	host      *engine
	dev       device.Device
	owners    []uint32 // owner of each unit at the last fetchSpace
	failover           // state after the loss of the GPU
	converted bool     // slots have another encoding; see convertSlots
	mapping   *mapping // nil unless OpenOptions.HostFirst is set
}

// uncancelled is the context for work that must not stop halfway.
var uncancelled = context.Background()

// newGPUEngine returns an engine that runs on a GPU and works on the pool of host. It inspects the
// pool, which host must not have done yet.
func newGPUEngine(ctx context.Context, dev device.Device, host *engine, o OpenOptions) (*gpuEngine, *Report, error) {
	g := &gpuEngine{host: host, dev: dev, k: launcher{host: host, dev: dev, unsorted: o.Unsorted, shape: newShape(variant.Of(ctx))}, failover: failover{options: o}}
	g.MovesPairs, g.Leases = true, host.Leases
	if host.redo != nil { // the pool's slots may lag the log by that much
		g.k.tail.maxOps = min(o.AtomicTail, host.redo.capacity())
	}
	g.k.table.Store(&levels{})
	begin := g.begin
	if o.HostFirst {
		begin = g.beginOnHost
	}
	report, err := begin(ctx, o)
	if err == nil {
		err = g.convertSlots(o)
	}
	if err != nil {
		return nil, report, errors.Join(err, g.Close())
	}
	return g, report, nil
}

// begin maps and inspects the pool. Close undoes begin, even after an error.
func (g *gpuEngine) begin(ctx context.Context, o OpenOptions) (*Report, error) {
	var times Times
	err := g.prepare()
	if err == nil {
		err = g.k.attach(ctx, &times)
	}
	if err == nil {
		err = g.k.alloc()
	}
	if err != nil {
		return nil, err
	}
	g.host.accel = g
	if err := g.start(&core.Tally{}); err != nil {
		return nil, err
	}
	report, err := g.inspectPool(ctx, &times, o)
	if err == nil {
		err = timed(&times.Mirror, func() error { return g.setUpCaches(o) })
	}
	if err == nil {
		err = timed(&times.Resize, func() error { return g.host.resume(ctx, o) })
	}
	if report != nil {
		report.Times = times
	}
	return report, err
}

func (g *gpuEngine) prepare() error {
	if err := g.OpenEngine(g.dev, g.host.widths(), int(g.host.slots), &g.k); err != nil {
		return err
	}
	buf, err := g.dev.Alloc(core.LinesBytes(0))
	if err == nil {
		g.host.Parts().(*parts).Lines = core.Lines{Device: g.dev, Buf: buf}
	}
	return err
}

// start initializes the state words on the device and sets the counters to the given values.
func (g *gpuEngine) start(now *core.Tally) error {
	tally := g.host.Parts().(*parts).TallyPtr()
	return g.RunSync(uncancelled, func(s *device.Stream) error {
		return errors.Join(s.Fill(g.k.state.Ptr(), 0, stateWords), s.CopyIn(tally, device.Bytes([]uint64{now.Live, now.Used})))
	})
}

// buildMirrors creates mirrors of all levels for an inspection, so that the device reads slots only
// once. If memory is lacking and mirrors are not required, the device reads the pool each time.
func (g *gpuEngine) buildMirrors(required bool) error {
	g.k.mirror = true
	err := g.installLevels()
	if !required && errors.Is(err, device.ErrMemory) {
		g.k.mirror = false
		err = g.installLevels()
	}
	return err
}

// setUpCaches sets up the mirrors and the cache that the options request. It keeps the mirrors of
// the inspection, unless the host has changed slots since then.
func (g *gpuEngine) setUpCaches(o OpenOptions) error {
	g.k.cache = cache{policy: o.CachePolicy, share: o.Cache, loads: 1}
	if o.Mirror && o.Cache > 0 {
		if err := g.RunSync(uncancelled, func(s *device.Stream) error { return g.k.cache.initValues(s, g.dev, g.host.values) }); err != nil {
			return err
		}
	}
	g.k.mirror = o.Mirror
	return g.installLevels()
}

// freeLevels frees the device's levels. No other thread may be at work.
func (g *gpuEngine) freeLevels() error {
	return g.k.table.Swap(&levels{}).free(g.dev, &levels{})
}

// inspectPool inspects the slots of a newly opened pool. The host repeats the inspection if the
// device finds a state that no operation writes, or a value with a wrong checksum.
func (g *gpuEngine) inspectPool(ctx context.Context, times *Times, o OpenOptions) (*Report, error) {
	log := &Report{}
	if err := timed(&times.Replay, func() error { return g.host.replay(log, o.Repair) }); err != nil {
		return nil, err
	}
	report := &Report{Resumed: g.host.closed > 0}
	suspect := o.Repair || g.host.records() // the host must track the free memory of records
	if !suspect {
		var err error
		if suspect, err = g.inspectOnDevice(ctx, times, report, o); err != nil {
			return nil, err
		}
	}
	// with Verify, the host computes the sums, which the device does not
	if saved, ok := g.host.savedContents(); ok && !suspect {
		suspect = report.Keys != saved.Keys
		if !suspect && o.Verify {
			found := g.host.contents()
			suspect = found.Slots != saved.Slots || found.Values != saved.Values
		}
		report.Compared = true
	}
	if suspect || !o.Mirror {
		if err := g.freeLevels(); err != nil {
			return nil, err
		}
	}
	if suspect {
		if err := g.inspectOnHost(ctx, times, report, o); err != nil {
			return report, err
		}
	}
	report.Replayed, report.Torn = log.Replayed, log.Torn
	report.Damaged, report.Damage = report.Damaged+log.Damaged, append(log.Damage, report.Damage...)
	tally := g.host.Parts().(*parts).TallyPtr()
	return report, g.RunSync(uncancelled, func(s *device.Stream) error {
		return s.CopyIn(tally, device.Bytes([]uint64{report.Keys, report.Keys}))
	})
}

// inspectOnDevice inspects the slots on the device. suspect reports that the host must inspect the
// pool. If a checksum is wrong, the device has not repaired anything.
func (g *gpuEngine) inspectOnDevice(ctx context.Context, times *Times, r *Report, o OpenOptions) (suspect bool, err error) {
	err = timed(&times.Mirror, func() error { return g.buildMirrors(o.Mirror) })
	if err == nil && o.Verify {
		err = timed(&times.Inspect, func() (err error) {
			found, err := g.countSlots(ctx, g.k.verify, warp)
			suspect = found.suspect()
			return err
		})
	}
	if err != nil || suspect {
		return suspect, err
	}
	// no value is marked as in use yet
	if err = timed(&times.Space, g.sendSpace); err == nil {
		err = timed(&times.Inspect, func() (err error) { suspect, err = g.surveySlots(ctx, r); return err })
	}
	return suspect, err
}

// slotCounts holds the counts of kernels that inspect all slots. It has the layout of the CUDA
// struct Found in survey.cuh.
type slotCounts [5]uint64

func (f *slotCounts) suspect() bool { return f[4] > 0 }

// countSlots runs a kernel on all levels, with the given number of threads per bucket.
func (g *gpuEngine) countSlots(ctx context.Context, kernel device.Kernel, threads int) (f slotCounts, err error) {
	t := g.k.table.Load()
	err = g.Report(ctx, f[:], func(to device.Ptr) error {
		for i, l := range t.live {
			p := surveyParams{table: t.ref, space: g.k.space, found: to, level: uint32(i)}
			if err := device.Launch(g.Stream, kernel, gpu.Wave(g.dev, threads<<l.bits), gpu.Block, &p); err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// surveySlots inspects all slots on the device and repairs what a crash left half done. suspect
// reports other damage.
func (g *gpuEngine) surveySlots(ctx context.Context, r *Report) (suspect bool, err error) {
	found, err := g.countSlots(ctx, g.k.survey, int(g.host.slots))
	t := g.k.table.Load()
	r.Keys, r.Slots, r.Unfinished, r.Tombs, r.Moved = found[0], g.host.slotsIn(t.live), found[1], found[2], found[3]
	return found.suspect(), err
}

// inspectOnHost inspects all slots on the host and sends the result to the device. The device may
// already have repaired slots.
func (g *gpuEngine) inspectOnHost(ctx context.Context, times *Times, r *Report, o OpenOptions) error {
	mended := *r
	g.host.values = g.host.values.emptyCopy()
	found, err := g.host.inspect(ctx, o)
	*r = *found
	r.Unfinished, r.Tombs, r.Moved = r.Unfinished+mended.Unfinished, r.Tombs+mended.Tombs, r.Moved+mended.Moved
	times.Inspect, times.Space = times.Inspect+r.Times.Inspect, times.Space+r.Times.Space
	if err == nil {
		err = timed(&times.Space, g.sendSpace)
	}
	return err
}

// Close implements [core.Engine].
func (g *gpuEngine) Close() error {
	g.cancelMapping()
	err := errors.Join(g.checkLoss(), g.restoreSlots())
	if err == nil && g.table != nil {
		err = g.host.saveContents()
	}
	g.host.accel = nil
	err = errors.Join(err, g.Engine.Close(), g.k.close())
	if p := g.host.Parts().(*parts); p.Buf.Size > 0 {
		err = errors.Join(err, g.dev.Free(p.Buf))
	}
	return errors.Join(err, g.host.Device.Close())
}

// ---- operations --------------------------------------------------------------------

// Change implements [core.Engine].
func (g *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if g.onHost.Load() {
		return g.host.Change(ctx, s, b)
	}
	if err := g.host.checkWritable(); err != nil {
		return 0, nil, err
	}
	switch {
	case g.host.records():
		done, failed, err = g.changeStrings(ctx, b)
	case g.host.redo != nil:
		done, failed, err = g.changeAtomic(ctx, s, b)
	default:
		g.submitted = g.submitted || s != nil
		done, failed, err = g.Engine.Change(ctx, s, b)
	}
	g.host.noSpace = nil
	if err == nil && len(failed) > 0 {
		lacked := [1]uint32{}
		if err = g.copyOut(device.Bytes(lacked[:]), g.k.word(wordNoMemory)); lacked[0]&refused != 0 {
			err = errors.Join(err, g.k.shape.Refused)
		} else if lacked[0] != 0 {
			g.host.noSpace = errNoSpace
		}
	}
	if errors.Is(g.noteLoss(err), device.ErrLost) {
		return 0, nil, err // the results of the operations are unknown
	}
	return done, failed, err
}

// Extent implements [core.Engine].
func (g *gpuEngine) Extent(l *core.Lease) (units uint32, rows int) {
	if g.onHost.Load() {
		return g.host.Extent(l)
	}
	t := g.k.table.Load()
	return 2 << t.live[0].bits, int(t.ref.slots)
}

// Clear implements [core.Engine].
func (g *gpuEngine) Clear(ctx context.Context) error {
	if g.onHost.Load() {
		return g.host.Clear(ctx)
	}
	if err := g.host.checkWritable(); err != nil {
		return err
	}
	if err := g.publishClear(); err != nil {
		return err
	}
	err := g.RunSync(ctx, func(s *device.Stream) error {
		return g.k.submitExclusive(s, func() error {
			return runSteps(
				func() error { return g.k.launchOnAll(s, g.k.wipe) },
				func() error { return g.k.convert(s, g.k.shape.form) },
				func() error { return s.Fill(g.host.Parts().(*parts).TallyPtr(), 0, 4) },
				func() error { return g.k.clearLists(s) })
		})
	})
	if err == nil {
		g.retireClear()
		g.host.values = g.host.values.emptyCopy() // no value is in use now
		err = g.sendSpace()
	}
	return err
}

// Check implements [core.Checker].
func (g *gpuEngine) Check(ctx context.Context, l *core.Lease) error {
	if g.onHost.Load() {
		return g.host.Check(ctx, l)
	}
	now, err := g.Engine.ReadCounters(ctx)
	if err == nil {
		err = g.writeBackTail()
	}
	if err == nil {
		err = g.restoreSlots()
	}
	if err == nil {
		err = errors.Join(g.checkMirrors(ctx), g.checkValues(ctx))
	}
	if err != nil {
		return g.noteLoss(err)
	}
	return g.host.check(ctx, now.Live)
}

// checkMirrors compares the device's copies of slots with the slots in the pool.
func (g *gpuEngine) checkMirrors(ctx context.Context) error {
	t, k := g.host.table, &g.k
	cached, err := g.cachedWords(ctx)
	if err != nil {
		return err
	}
	for _, l := range t.live {
		buf, ok := k.table.Load().buffers[l.base]
		if !ok {
			continue
		}
		places, words := make([]uint32, 1<<l.bits), cached
		if k.mirror {
			words = make([]uint64, buf.Size/pm.Word)
			for b := range places {
				places[b] = uint32(b)
			}
		}
		to := device.Bytes(places)
		if k.mirror {
			to = device.Bytes(words)
		}
		if err := g.Stream.CopyOut(ctx, to, buf.Ptr); err != nil {
			return err
		}
		for b, y := range places {
			if y == notCached {
				continue
			}
			if at, ok := t.compareBucket(words[uint64(y)*2*t.slots:][:2*t.slots], l.base+uint64(b)*t.bucketWords); !ok {
				return fmt.Errorf("%w: word %d of bucket %d of level %d on the device has a value that it never had in the pool", op.ErrCorrupt, at, b, l.bits)
			}
		}
	}
	return nil
}

func (g *gpuEngine) checkValues(ctx context.Context) error {
	v, c, space := g.host.values, &g.k.cache, &g.k.space
	if c.values == 0 {
		return nil
	}
	words, err := g.cachedWords(ctx)
	places, used := make([]uint32, c.values), make([]uint64, uint64(space.units)*uint64(space.words))
	err = errors.Join(err, g.Stream.CopyOut(ctx, device.Bytes(places), c.index.Ptr), g.Stream.CopyOut(ctx, device.Bytes(used), space.used))
	if err != nil {
		return err
	}
	for n, y := range places {
		unit, i := uint64(n)/v.perUnit, uint64(n)%v.perUnit
		if y == notCached || used[unit*uint64(space.words)+i/64]>>(i%64)&1 == 0 {
			continue
		}
		block := v.first + unit*v.unit + v.offset + i*v.words
		for at, w := range words[uint64(y)*v.words:][:v.words] {
			if w != v.mem.Load(block+uint64(at)) {
				return fmt.Errorf("%w: word %d of value %d of unit %d in the cache differs from the pool", op.ErrCorrupt, at, i, unit)
			}
		}
	}
	return nil
}

func (g *gpuEngine) cachedWords(ctx context.Context) ([]uint64, error) {
	words := make([]uint64, g.k.cache.buf.Size/pm.Word)
	if len(words) == 0 {
		return nil, nil
	}
	return words, g.Stream.CopyOut(ctx, device.Bytes(words), g.k.cache.buf.Ptr)
}

// cache index of a bucket or value outside the cache; kNotCached in CUDA
const notCached = ^uint32(0)

// compareBucket compares a copy of a bucket with the pool: all control words, and the tags of full
// slots. If they differ, at is the index of the first different word.
func (t *table) compareBucket(words []uint64, bucket uint64) (at uint64, ok bool) {
	for i, w := range words {
		at = uint64(i)
		tagged := at < t.slots || control(words[at-t.slots]).state() == full
		if tagged && w != t.mem.Load(bucket+at) {
			return at, false
		}
	}
	return 0, true
}

// ---- growth -------------------------------------------------------------------------

// fetchSpace and the methods below implement [accelerator].
func (g *gpuEngine) fetchSpace() error {
	if err := g.writeBackTail(); err != nil {
		return err
	}
	if g.host.records() {
		return nil
	}
	owners, used := make([]uint32, g.k.space.units), make([]uint64, uint64(g.k.space.units)*uint64(g.k.space.words))
	if _, err := g.Engine.ReadCounters(uncancelled); err != nil { // waits for all changes
		return g.noteLoss(err)
	}
	if err := errors.Join(g.copyOut(device.Bytes(owners), g.k.space.owners), g.copyOut(device.Bytes(used), g.k.space.used)); err != nil {
		return err
	}
	g.owners = owners
	v := g.host.values.emptyCopy()
	for unit, owner := range owners {
		bits := used[uint64(unit)*uint64(g.k.space.words):][:g.k.space.words]
		if owner < ownerRegion || !v.restore(uint64(unit), bits) {
			continue
		}
		e := v.space.owner[unit].extent.Load()
		if e.nFree > 0 {
			v.regions[owner-ownerRegion].addExtent(e)
		}
	}
	g.host.values = v
	return nil
}

// Owners of units, as the enumeration Owner in space.cuh numbers them.
const (
	ownerLevel = iota + 1
	ownerRegion
)

// restore marks those values of a unit as in use that have a bit in used. It returns false if no
// bit is set.
func (v *values) restore(unit uint64, used []uint64) bool {
	e := v.newExtent(0)
	for i, w := range used {
		e.used[i] |= w
		e.nFree -= uint64(bits.OnesCount64(w))
	}
	if e.nFree == v.perUnit {
		return false
	}
	e.unit = unit
	v.space.owner[unit].extent.Store(e)
	return true
}

func (g *gpuEngine) sendSpace() error {
	v := g.host.values
	if v.records {
		return nil
	}
	owners, used := make([]uint32, g.k.space.units), make([]uint64, uint64(g.k.space.units)*uint64(g.k.space.words))
	regionOf := map[*region]uint32{}
	for i := range v.regions {
		regionOf[&v.regions[i]] = uint32(i)
	}
	for unit := range owners {
		switch e := v.space.owner[unit].extent.Load(); {
		case v.space.owner[unit].isLevel:
			owners[unit] = ownerLevel
		case e != nil:
			owners[unit] = g.ownerOf(unit, e, regionOf)
			copy(used[uint64(unit)*uint64(g.k.space.words):], e.used)
		}
	}
	return g.RunSync(uncancelled, func(s *device.Stream) error {
		return errors.Join(s.CopyIn(g.k.space.owners, device.Bytes(owners)), s.CopyIn(g.k.space.used, device.Bytes(used)))
	})
}

// installLevels implements [accelerator]. It also sends the address of the cache.
func (g *gpuEngine) installLevels() error {
	if g.converted {
		return errForm
	}
	before := g.k.table.Load()
	now, err := g.k.newLevels(before)
	if err == nil {
		err = g.RunSync(uncancelled, func(s *device.Stream) error { return g.k.writeLevels(s, now, before) })
	}
	if err == nil {
		err = g.Leases.BeginExclusive(uncancelled)
	}
	if err != nil {
		return errors.Join(err, now.free(g.dev, before))
	}
	g.k.table.Store(now)
	g.Leases.EndExclusive()
	return before.free(g.dev, now)
}

// ownerOf returns the owner of a unit with values. For full units, which the host's regions do not
// list, it returns the owner of the last fetch.
func (g *gpuEngine) ownerOf(unit int, e *extent, regionOf map[*region]uint32) uint32 {
	switch {
	case e.region != nil:
		return ownerRegion + regionOf[e.region]
	case g.owners != nil && g.owners[unit] >= ownerRegion:
		return g.owners[unit]
	}
	bits := g.host.bits()
	return ownerRegion + uint32(unit)%(1<<bits)<<(maxRegionBits-bits)
}

func (g *gpuEngine) recycle() error {
	if err := g.writeBackTail(); err != nil {
		return err
	}
	err := g.RunSync(uncancelled, func(s *device.Stream) error {
		return g.k.submitExclusive(s, func() error { return g.k.submitRecycle(s) })
	})
	if err == nil && g.host.records() {
		g.host.values.recycle()
	}
	return err
}

func (g *gpuEngine) clearWords(lo, hi uint64) error {
	return g.RunSync(uncancelled, func(s *device.Stream) error {
		return s.Fill(g.k.pool.Ptr+device.Ptr(8*lo), 0, int(2*(hi-lo)))
	})
}

func (g *gpuEngine) moveUp(lo, hi uint64) (ok bool, err error) {
	t := g.k.table.Load()
	p := bucketsParams{table: t.ref, lo: lo, hi: hi, level: uint32(len(t.live) - 1), crowded: g.k.word(wordCrowded)}
	done, err := g.Rearrange(uncancelled, func(s *device.Stream) error {
		return g.k.submitExclusive(s, func() error {
			if err := s.Fill(p.crowded, 0, 1); err != nil {
				return err
			}
			return device.Launch(s, g.k.moveUp, gpu.Wave(g.dev, warp*int(hi-lo)), gpu.Block, &p)
		})
	})
	if g.noteLoss(err) == nil && !done {
		err = errHeld
	}
	var crowded [1]uint32
	if err == nil {
		err = g.copyOut(device.Bytes(crowded[:]), p.crowded)
	}
	return crowded[0] == 0, err
}
