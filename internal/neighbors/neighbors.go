// Package neighbors has kernels of a user that read graphs of package graph by its Ref, for experiments that measure how fast
// all neighbors are gone through, and for the tests of the Ref.
package neighbors

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_0,32_32,32_64 -type graph::Ref=graph.Ref neighbors.cu

// Kernels are those of a device, for graphs with weights of one width.
type Kernels struct {
	dev             device.Device
	sum, ask, tiles device.Kernel
}

// Open loads them. weight is the size of a weight in bytes, 0 for none.
func Open(dev device.Device, weight int) (*Kernels, error) {
	k := &Kernels{dev: dev}
	err := gpu.Load(dev, neighborsImages[gpu.Pair(batch.Widths{Key: 4, Val: weight})], []gpu.Entry{
		{Name: "sum", To: &k.sum}, {Name: "ask", To: &k.ask}, {Name: "tiles", To: &k.tiles},
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// residentBlocks is of sum, on a multiprocessor (neighbors.cu).
const residentBlocks = 8

// Sum launches a kernel that goes through a whole graph and adds the numbers of all neighbors to sums[0], and their weights to sums[1], so many times.
func (k *Kernels) Sum(ctx context.Context, s *device.Stream, g *graph.Graph, sums device.Slice[uint64], times int) (err error) {
	const lanes = 2 // for each vertex
	return g.View(ctx, s, func(r graph.Ref) error {
		p := sumParams{ref: r, neighbors: sums.Ptr(), weights: sums.Ptr() + 8}
		for range times {
			err = errors.Join(err, device.Launch(s, k.sum, gpu.Resident(k.dev, lanes*g.Vertices(), residentBlocks), gpu.Block, &p))
		}
		return err
	})
}
