package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// submit submits a change: gpu.Queue.SubmitVisible or SubmitWaiting.
type submit func(s *device.Stream, launch func() error) error

// Change implements core.Engine. It runs all of a batch, or nothing.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.N == 0 {
		return 0, nil, nil
	}
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	switch {
	case s == nil:
		err = e.Whole(ctx, &e.work, b, e.needs(b.N, ranges), func(there *batch.Batch, at int) error {
			if ranges {
				return e.deleteRanges(ctx, e.Stream, there, at, e.SubmitWaiting)
			}
			return e.change(e.Stream, there, at, e.SubmitWaiting)
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

// needs returns the size of the memory of a change of n rows. For ranges it excludes their pairs,
// which are not counted yet.
func (e *gpuEngine) needs(n int, ranges bool) int {
	if ranges {
		return n * gpu.GapBytes
	}
	return e.plan(n).bytes(e, e.sorting(n, 0).end)
}

// sorting is the memory of a batch that becomes a run.
type sorting struct {
	sort  prim.Sort
	group prim.Group
	scan  prim.Scan

	vals, deltas device.Ptr // of entries
	scratch, end device.Ptr
}

// sorting lays out the memory of a batch of n rows from an address on.
func (e *gpuEngine) sorting(n int, at device.Ptr) (m sorting) {
	c := prim.Carve(at)
	w := prim.Widths{Key: e.Widths.Key, Val: 4}
	m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.flip != 0, To: prim.Rows{Keys: c.Take(n * w.Key), Vals: c.Take(4 * n)}}
	m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Take(4 * (n + 1)), Count: c.Take(4)}
	m.scan = prim.Scan{N: n, Width: 4, Counts: c.Take(4 * n), Offsets: c.Take(4 * (n + 1))}
	m.vals, m.deltas = c.Take(n*e.Widths.Val), c.Take(n)
	m.scratch = c.Take(m.scratchBytes())
	m.end = device.Ptr(c)
	return m
}

func (m *sorting) scratchBytes() int {
	return max(m.sort.ScratchBytes(), m.group.ScratchBytes(), m.scan.ScratchBytes())
}

// change submits making a run of a batch on the device, and merging it. Its memory is the work
// memory from offset at on.
func (e *gpuEngine) change(s *device.Stream, b *batch.Batch, at int, how submit) error {
	p := e.plan(b.N)
	end := e.sorting(b.N, device.Ptr(at)).end
	if err := e.work.Room(&e.Queue, p.bytes(e, end)); err != nil {
		return err
	}
	m := e.sorting(b.N, e.work.Buf.Ptr+device.Ptr(at))
	return e.push(s, p, e.work.Buf.Ptr+end, how, func(run levelRef) error { return e.settle(s, b, &m, run) })
}

// settle submits the launches that make a run of a batch.
func (e *gpuEngine) settle(s *device.Stream, b *batch.Batch, m *sorting, run levelRef) error {
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
		levels: e.levelsOf(e.now()), keys: m.sort.To.Keys, order: m.sort.To.Vals, starts: m.group.Offsets, count: m.group.Count,
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

// deleteRanges removes the pairs of ranges on the device.
func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, at int, how submit) error {
	if err := e.work.Room(&e.Queue, at+b.N*gpu.GapBytes); err != nil {
		return err
	}
	gaps, err := e.Gaps(ctx, s, e.now(), b, e.work.Buf.Ptr+device.Ptr(at), e)
	if err != nil || len(gaps) == 0 {
		return err
	}
	last := gaps[len(gaps)-1]
	return e.bury(s, gaps, int(last.Before+last.To-last.From), how)
}
