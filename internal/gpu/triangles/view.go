package triangles

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Orient returns the oriented view of an undirected graph, which must have each edge in the rows of
// both ends. The view omits self loops and duplicate edges. Orient waits for the view. The caller
// frees it.
func (k *Kernels) Orient(ctx context.Context, s *device.Stream, g Rows) (view Rows, err error) {
	ref, err := g.ref()
	if err != nil {
		return view, err
	}
	if view.Offsets, err = device.Make[uint64](k.dev, g.Offsets.Len()); err != nil {
		return view, err
	}
	if g.arcs() == 0 {
		err = errors.Join(s.Fill(view.Offsets.Ptr(), 0, 2*view.Offsets.Len()), s.Sync(context.WithoutCancel(ctx)), ctx.Err())
	} else {
		err = k.orient(ctx, s, ref, &view)
	}
	if err != nil {
		return Rows{}, errors.Join(err, view.Free())
	}
	return view, nil
}

func (k *Kernels) orient(ctx context.Context, s *device.Stream, g rowsRef, view *Rows) error {
	words := (int(g.arcs) + 31) / 32
	scan := prim.Scan{N: words, Width: 4}
	var at prim.Carve
	kept, counts, before := at.Alloc(4*words), at.Alloc(4*words), at.Alloc(4*words+4)
	scratch := at.Alloc(scan.ScratchBytes())
	return k.withMemory(s, at, func(memory device.Ptr) error {
		p := orientParams{graph: g, kept: memory + kept, counts: memory + counts, before: memory + before, offsets: view.Offsets.Ptr()}
		if err := device.Launch(s, k.choose, gpu.Wave(k.dev, stripThreads(g)), gpu.Block, &p); err != nil {
			return err
		}
		if err := k.allocateKept(ctx, s, &scan, p.counts, p.before, device.Buffer{Ptr: memory + scratch, Size: scan.ScratchBytes()}, &view.Neighbors); err != nil {
			return err
		}
		p.neighbors = view.Neighbors.Ptr()
		if err := device.Launch(s, k.rows, gpu.Wave(k.dev, view.Offsets.Len()), gpu.Block, &p); err != nil {
			return err
		}
		if err := device.Launch(s, k.keep, gpu.Wave(k.dev, int(g.arcs)), gpu.Block, &p); err != nil {
			return err
		}
		return s.Sync(ctx)
	})
}

// Ascend returns the graph with ascending rows. If directed is set, g is directed, and Ascend
// returns its undirected form, which has each edge once in the rows of both ends. Ascend waits for
// the rows. The caller frees them.
func (k *Kernels) Ascend(ctx context.Context, s *device.Stream, g Rows, directed bool) (rows Rows, err error) {
	ref, err := g.ref()
	n := g.arcs()
	if directed {
		n *= 2
	}
	if err == nil && n > prim.MaxRows {
		err = fmt.Errorf("triangles: %w: %d arcs to be sorted; a GPU sorts up to %d", device.ErrUnsupported, n, prim.MaxRows)
	}
	if err != nil {
		return rows, err
	}
	if rows.Offsets, err = device.Make[uint64](k.dev, g.Offsets.Len()); err != nil {
		return rows, err
	}
	if n == 0 {
		err = errors.Join(s.Fill(rows.Offsets.Ptr(), 0, 2*rows.Offsets.Len()), s.Sync(context.WithoutCancel(ctx)), ctx.Err())
	} else {
		err = k.ascendRows(ctx, s, ref, n, directed, &rows)
	}
	if err != nil {
		return Rows{}, errors.Join(err, rows.Free())
	}
	return rows, nil
}

func (k *Kernels) ascendRows(ctx context.Context, s *device.Stream, g rowsRef, n int, directed bool, rows *Rows) error {
	words, width := (n+31)/32, bits.Len32(g.vertices)
	scan, sort := prim.Scan{N: words, Width: 4}, prim.Sort{Widths: prim.Widths{Key: 8}, N: n, Hi: 2 * width}
	var at prim.Carve
	keys, kept, counts, before := at.Alloc(8*n), at.Alloc(4*words), at.Alloc(4*words), at.Alloc(4*words+4)
	scratch, size := at, max(scan.ScratchBytes(), sort.ScratchBytes())
	at.Alloc(size)
	return k.withMemory(s, at, func(memory device.Ptr) error {
		p := ascendParams{
			graph: g, keys: memory + keys, kept: memory + kept, counts: memory + counts, before: memory + before, offsets: rows.Offsets.Ptr(),
			arcs: uint32(n), bits: uint32(width),
		}
		if directed {
			p.turned = 1
		}
		if err := device.Launch(s, k.ascend.keys, gpu.Wave(k.dev, stripThreads(g)), gpu.Block, &p); err != nil {
			return err
		}
		sort.From, sort.To = prim.Rows{Keys: p.keys}, prim.Rows{Keys: p.keys}
		buf := device.Buffer{Ptr: memory + device.Ptr(scratch), Size: size}
		if err := k.prim.Sort(s, &sort, buf); err != nil {
			return err
		}
		if err := device.Launch(s, k.ascend.choose, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
		if err := k.allocateKept(ctx, s, &scan, p.counts, p.before, buf, &rows.Neighbors); err != nil {
			return err
		}
		p.neighbors = rows.Neighbors.Ptr()
		if err := device.Launch(s, k.ascend.rows, gpu.Wave(k.dev, rows.Offsets.Len()), gpu.Block, &p); err != nil {
			return err
		}
		if err := device.Launch(s, k.ascend.keep, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
		return s.Sync(ctx)
	})
}

// allocateKept computes the number of kept arcs before each word of marks, which have a bit per
// arc, and allocates memory for the kept arcs.
func (k *Kernels) allocateKept(ctx context.Context, s *device.Stream, scan *prim.Scan, counts, before device.Ptr, scratch device.Buffer, to *device.Slice[uint32]) error {
	scan.Counts, scan.Offsets = counts, before
	if err := k.prim.Scan(s, scan, scratch); err != nil {
		return err
	}
	var total [1]uint32
	err := s.CopyOut(ctx, device.Bytes(total[:]), before+device.Ptr(4*scan.N))
	if err == nil {
		*to, err = device.Make[uint32](k.dev, int(total[0]))
	}
	return err
}

// stripThreads returns the number of threads that gives each strip of arcs a warp of 32.
func stripThreads(g rowsRef) int { return (int(g.arcs) + stripArcs - 1) / stripArcs * 32 }
