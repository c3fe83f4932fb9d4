package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// submitter is SubmitVisible or SubmitSync of gpu.Queue.
type submitter func(s *device.Stream, launch func() error) error

// Change implements core.Engine. After an error nothing of the batch has run.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.N == 0 {
		return 0, nil, nil
	}
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	switch {
	case s == nil:
		err = e.RunWhole(ctx, &e.work, b, e.workBytes(b.N, ranges), func(devBatch *batch.Batch, at int) error {
			if ranges {
				return e.deleteRanges(ctx, e.Stream, devBatch, at, e.SubmitSync)
			}
			return e.change(e.Stream, devBatch, at, e.SubmitSync)
		})
	case ranges:
		err = e.deleteRanges(ctx, s, b, 0, e.SubmitVisible)
	default:
		err = e.change(s, b, 0, e.SubmitVisible)
	}
	if err != nil {
		return 0, nil, err
	}
	return b.N, nil, nil
}

// workBytes returns the size of the work memory for a change of n rows. For ranges it excludes the
// tombstones, since the pairs in ranges are not counted yet.
func (e *gpuEngine) workBytes(n int, ranges bool) int {
	if ranges {
		return n * gpu.GapBytes
	}
	return e.planFor(n).bytes(e, e.layOutRun(n, 0).end)
}

// runMemory is the layout of the work memory in which a batch becomes a run.
type runMemory struct {
	sort  prim.Sort
	group prim.Group
	scan  prim.Scan

	vals, deltas device.Ptr // by entry
	scratch, end device.Ptr
}

// layOutRun lays out the work memory for a batch of n rows, from an address on.
func (e *gpuEngine) layOutRun(n int, at device.Ptr) (m runMemory) {
	c := prim.Carve(at)
	w := prim.Widths{Key: e.Widths.Key, Val: 4}
	m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.flip != 0, To: prim.Rows{Keys: c.Alloc(n * w.Key), Vals: c.Alloc(4 * n)}}
	m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4)}
	m.scan = prim.Scan{N: n, Width: 4, Counts: c.Alloc(4 * n), Offsets: c.Alloc(4 * (n + 1))}
	m.vals, m.deltas = c.Alloc(n*e.Widths.Val), c.Alloc(n)
	m.scratch = c.Alloc(m.scratchBytes())
	m.end = device.Ptr(c)
	return m
}

func (m *runMemory) scratchBytes() int {
	return max(m.sort.ScratchBytes(), m.group.ScratchBytes(), m.scan.ScratchBytes())
}

// change submits the kernels that make a run from a batch on the device and merge the run. It uses
// work memory from offset at on.
func (e *gpuEngine) change(s *device.Stream, b *batch.Batch, at int, submit submitter) error {
	p := e.planFor(b.N)
	end := e.layOutRun(b.N, device.Ptr(at)).end
	if err := e.work.Grow(&e.Queue, p.bytes(e, end)); err != nil {
		return err
	}
	m := e.layOutRun(b.N, e.work.Buf.Ptr+device.Ptr(at))
	return e.push(s, p, e.work.Buf.Ptr+end, submit, func(run levelRef) error { return e.submitRun(s, b, &m, run) })
}

// submitRun submits the kernels that make a run from a batch.
func (e *gpuEngine) submitRun(s *device.Stream, b *batch.Batch, m *runMemory, run levelRef) error {
	c := &b.Columns
	scratch := device.Buffer{Ptr: m.scratch, Size: m.scratchBytes()}
	m.sort.From.Keys = c[batch.Keys].Ptr
	if err := e.prims.Sort(s, &m.sort, scratch); err != nil {
		return err
	}
	if err := e.prims.Group(s, &m.group, scratch); err != nil {
		return err
	}
	settle := settleParams{
		levels: e.levelsOf(e.current()), keys: m.sort.To.Keys, order: m.sort.To.Vals, starts: m.group.Offsets, count: m.group.Count,
		vals: c[batch.Vals].Ptr, kinds: c[batch.Kinds].Ptr, out: c[batch.Out].Ptr, ok: c[batch.OK].Ptr,
		entryVals: m.vals, deltas: m.deltas, kept: m.scan.Counts,
		n: uint32(b.N), kind: uint32(b.Kind), flags: uint32(b.Flags),
	}
	if err := device.Launch(s, e.kernels.settle, gpu.Wave(e.Dev, b.N), gpu.Block, &settle); err != nil {
		return err
	}
	if err := e.prims.Scan(s, &m.scan, scratch); err != nil {
		return err
	}
	enter := enterParams{
		to: run, keys: m.sort.To.Keys, starts: m.group.Offsets, count: m.group.Count, entryVals: m.vals,
		deltas: m.deltas, kept: m.scan.Counts, places: m.scan.Offsets, flip: e.flip, n: uint32(b.N),
	}
	return device.Launch(s, e.enter, gpu.Wave(e.Dev, b.N), gpu.Block, &enter)
}

func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, at int, submit submitter) error {
	if err := e.work.Grow(&e.Queue, at+b.N*gpu.GapBytes); err != nil {
		return err
	}
	gaps, err := e.FindGaps(ctx, s, e.current(), b, e.work.Buf.Ptr+device.Ptr(at), e)
	if err != nil || len(gaps) == 0 {
		return err
	}
	last := gaps[len(gaps)-1]
	return e.pushTombstones(s, gaps, int(last.Before+last.To-last.From), submit)
}
