package sorted

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// Change implements core.Engine. After an error nothing of the batch has run.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.N == 0 {
		return 0, nil, nil
	}
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	switch {
	case s == nil:
		err = e.changeHost(ctx, b, ranges)
	case ranges:
		err = e.deleteRanges(ctx, s, b, 0)
	default:
		err = e.change(s, b, 0, e.SubmitVisible)
	}
	if err != nil {
		return 0, nil, err
	}
	return b.N, nil, nil
}

// changeHost runs a batch in host memory. It copies the batch to the device and the results back.
// Concurrent lookups read the previous generation.
func (e *gpuEngine) changeHost(ctx context.Context, b *batch.Batch, ranges bool) error {
	return e.RunWhole(ctx, &e.work, b, e.workBytes(b.N, ranges), func(devBatch *batch.Batch, at int) error {
		if ranges {
			return e.deleteRanges(ctx, e.Stream, devBatch, at)
		}
		return e.change(e.Stream, devBatch, at, e.SubmitSync)
	})
}

// changeMemory is the layout of a change's work memory.
type changeMemory struct {
	sort  prim.Sort
	group prim.Group
	scan  prim.Scan

	vals, places, states device.Ptr // by entry
	scratch, end         device.Ptr
}

// layOut lays out the work memory for a merge of n rows, from an address on.
func (e *gpuEngine) layOut(n int, at device.Ptr) (m changeMemory) {
	c := prim.Carve(at)
	w := prim.Widths{Key: e.Widths.Key, Val: 4}
	m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.flip != 0, To: prim.Rows{Keys: c.Alloc(n * w.Key), Vals: c.Alloc(4 * n)}}
	m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4)}
	m.scan = prim.Scan{N: n, Width: 4, Counts: c.Alloc(4 * n), Offsets: c.Alloc(4 * (n + 1))}
	m.vals, m.places, m.states = c.Alloc(n*e.Widths.Val), c.Alloc(4*n), c.Alloc(n)
	m.scratch = c.Alloc(m.scratchBytes())
	m.end = device.Ptr(c)
	return m
}

func (m *changeMemory) scratchBytes() int {
	return max(m.sort.ScratchBytes(), m.group.ScratchBytes(), m.scan.ScratchBytes())
}

// workBytes returns the size of the work memory for a change of n rows.
func (e *gpuEngine) workBytes(n int, ranges bool) int {
	if ranges {
		return n * gpu.GapBytes
	}
	m := e.layOut(n, 0)
	return int(m.end)
}

// allocNext returns memory for the next generation. inserts says whether the n operations of the
// change may insert. maxPairs bounds the number of pairs after the change.
func (e *gpuEngine) allocNext(inserts bool, n int) (to *generation, maxPairs uint64, err error) {
	if maxPairs = e.maxPairs; inserts {
		maxPairs += uint64(n)
	}
	if maxPairs > prim.MaxRows {
		return nil, 0, errLarge(maxPairs)
	}
	to, err = e.pool.alloc(int(maxPairs))
	return to, maxPairs, err
}

// publish makes the generation of a submitted change the current one. If the submission failed with
// err, publish frees the generation.
func (e *gpuEngine) publish(to *generation, maxPairs uint64, s *device.Stream, err error) error {
	if err != nil {
		return errors.Join(err, s.Sync(context.Background()), e.pool.spare.Free(to))
	}
	e.maxPairs, e.stale = maxPairs, true
	return e.leases.Replace(to)
}

// change submits a merge of a batch on the device with the pairs of the map. It uses work memory
// from offset at on.
func (e *gpuEngine) change(s *device.Stream, b *batch.Batch, at int, submit func(*device.Stream, func() error) error) error {
	if err := e.work.Grow(&e.Queue, at+e.workBytes(b.N, false)); err != nil {
		return err
	}
	to, maxPairs, err := e.allocNext(b.Inserts(), b.N)
	if err != nil {
		return err
	}
	m := e.layOut(b.N, e.work.Buf.Ptr+device.Ptr(at))
	err = submit(s, func() error { return e.merge(s, b, &m, to) })
	return e.publish(to, maxPairs, s, err)
}

func (e *gpuEngine) merge(s *device.Stream, b *batch.Batch, m *changeMemory, to *generation) error {
	c := &b.Columns
	scratch := device.Buffer{Ptr: m.scratch, Size: m.scratchBytes()}
	m.sort.From.Keys = c[batch.Keys].Ptr
	if err := e.prims.Sort(s, &m.sort, scratch); err != nil {
		return err
	}
	if err := e.prims.Group(s, &m.group, scratch); err != nil {
		return err
	}
	old := e.refOf(e.current())
	settle := settleParams{
		old: old, keys: m.sort.To.Keys, order: m.sort.To.Vals, starts: m.group.Offsets, count: m.group.Count,
		vals: c[batch.Vals].Ptr, kinds: c[batch.Kinds].Ptr, out: c[batch.Out].Ptr, ok: c[batch.OK].Ptr,
		entryVals: m.vals, places: m.places, deltas: m.scan.Counts, states: m.states,
		n: uint32(b.N), kind: uint32(b.Kind), flags: uint32(b.Flags),
	}
	if err := device.Launch(s, e.settle, gpu.Wave(e.Dev, b.N), gpu.Block, &settle); err != nil {
		return err
	}
	if err := e.prims.Scan(s, &m.scan, scratch); err != nil {
		return err
	}
	move := moveParams{
		old: old, to: e.refOf(to), keys: m.sort.To.Keys, starts: m.group.Offsets, count: m.group.Count,
		entryVals: m.vals, places: m.places, shifts: m.scan.Offsets, states: m.states, n: uint32(b.N),
	}
	if err := device.Launch(s, e.move, gpu.Wave(e.Dev, int(e.maxPairs)/moves), gpu.Block, &move); err != nil {
		return err
	}
	if err := device.Launch(s, e.enter, gpu.Wave(e.Dev, b.N), gpu.Block, &move); err != nil {
		return err
	}
	return e.index(s, to)
}

// moves is the number of pairs that a thread copies (sorted.cu).
const moves = 8

// index submits the kernel that writes the index of a generation.
func (e *gpuEngine) index(s *device.Stream, to *generation) error {
	p := indexParams{array: e.refOf(to)}
	return device.Launch(s, e.fill, gpu.Wave(e.Dev, to.capacity>>inorder.FanBits), gpu.Block, &p)
}

func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, at int) error {
	if err := e.work.Grow(&e.Queue, at+e.workBytes(b.N, true)); err != nil {
		return err
	}
	mem := e.work.Buf.Ptr + device.Ptr(at)
	gaps, err := e.FindGaps(ctx, s, e.current(), b, mem, e)
	if err != nil || len(gaps) == 0 {
		return err
	}
	to, maxPairs, err := e.allocNext(false, 0)
	if err != nil {
		return err
	}
	p := keepParams{old: e.refOf(e.current()), to: e.refOf(to), gaps: mem, count: uint64(len(gaps))}
	err = e.SubmitVisible(s, func() error {
		if err := gpu.CopyGaps(s, p.gaps, gaps); err != nil {
			return err
		}
		if err := device.Launch(s, e.keep, gpu.Wave(e.Dev, int(e.maxPairs)), gpu.Block, &p); err != nil {
			return err
		}
		return e.index(s, to)
	})
	return e.publish(to, maxPairs, s, err)
}
