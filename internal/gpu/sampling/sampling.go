// Package sampling implements kernels that draw neighbors of vertices on a GPU.
//
// Random numbers are a function of the seed and the row in the batch. Warps can therefore draw rows
// independently, and the results equal those of a CPU. A warp draws few neighbors by Floyd's
// algorithm, with the draws in its lanes. It draws many neighbors in one pass over all of them.
package sampling

import (
	"context"
	"errors"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 sampling.cu

// Kernels holds the kernels loaded on a device. They are safe for concurrent use.
type Kernels struct {
	dev         device.Device
	check, draw device.Kernel
}

// Load loads the kernels onto a device. It returns device.ErrNoKernels if the device runs no
// kernels.
func Load(dev device.Device) (*Kernels, error) {
	k := &Kernels{dev: dev}
	return k, gpu.Load(dev, &samplingImage, []gpu.Entry{{Name: "check", To: &k.check}, {Name: "draw", To: &k.draw}})
}

// Sample draws Fanout neighbors for each vertex in Vertices, and writes them to one row of Out per
// vertex. If a vertex has fewer neighbors, the rest of its row is 2^32-1.
type Sample struct {
	Offsets   device.Slice[uint64]
	Neighbors device.Slice[uint32]
	Vertices  device.Slice[uint32]
	Fanout    int
	Out       device.Slice[uint32]
	Seed      uint64
	Replace   bool
}

// Draw runs the sample and waits for it. It returns the number of neighbors drawn. If a vertex does
// not exist, bad is its first index in Vertices; otherwise bad is -1.
func (k *Kernels) Draw(ctx context.Context, s *device.Stream, o *Sample) (drawn, bad int, err error) {
	if o.Vertices.Len() == 0 || o.Fanout == 0 {
		return 0, -1, ctx.Err()
	}
	var at prim.Carve
	words := at.Alloc(16)
	buf, err := k.dev.Alloc(int(at))
	if err != nil {
		return 0, -1, err
	}
	if drawn, bad, err = k.run(ctx, s, o, buf.Ptr+words); err != nil {
		err = errors.Join(err, s.Sync(context.Background()))
	}
	return drawn, bad, errors.Join(err, k.dev.Free(buf))
}

func (k *Kernels) run(ctx context.Context, s *device.Stream, o *Sample, words device.Ptr) (drawn, bad int, err error) {
	n := o.Vertices.Len()
	c := checkParams{vertices: o.Vertices.Ptr(), bad: words, n: uint64(n), limit: uint32(o.Offsets.Len() - 1)}
	if err := s.CopyIn(words, device.Bytes([]uint64{math.MaxUint64, 0})); err != nil {
		return 0, -1, err
	}
	if err := device.Launch(s, k.check, gpu.Wave(k.dev, n), gpu.Block, &c); err != nil {
		return 0, -1, err
	}
	var word [1]uint64
	if err := s.CopyOut(ctx, device.Bytes(word[:]), words); err != nil {
		return 0, -1, err
	}
	if word[0] != math.MaxUint64 {
		return 0, int(word[0]), nil
	}
	p := drawParams{
		offsets: o.Offsets.Ptr(), neighbors: o.Neighbors.Ptr(), vertices: o.Vertices.Ptr(), out: o.Out.Ptr(), drawn: words + 8,
		seed: o.Seed, n: uint64(n), fanout: uint32(o.Fanout),
	}
	if o.Replace {
		p.replace = 1
	}
	if err := device.Launch(s, k.draw, gpu.Wave(k.dev, 32*n), gpu.Block, &p); err != nil {
		return 0, -1, err
	}
	err = s.CopyOut(ctx, device.Bytes(word[:]), p.drawn)
	return int(word[0]), -1, err
}
