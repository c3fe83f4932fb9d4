// Package neighbors has users' kernels that read graphs of package graph through a Ref, and of
// package slab through a GraphRef. Experiments measure iterations over all neighbors with them, and
// the tests of both packages use them.
package neighbors

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/slab"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_0,32_32,32_64 -type graph::Ref=graph.Ref neighbors.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_0,32_32 -type slab::GraphRef=slab.GraphRef -type neighbors::SumParams=tableSumParams -type neighbors::AskParams=tableAskParams tables.cu

// Kernels are the kernels loaded on a device for graphs that have weights of one width.
type Kernels struct {
	dev             device.Device
	sum, ask, tiles device.Kernel
}

// Open loads the kernels for package graph. weight is the size of a weight in bytes, or 0 if there
// are no weights.
func Open(dev device.Device, weight int) (*Kernels, error) {
	k := &Kernels{dev: dev}
	if err := k.load(neighborsImages, weight); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Kernels) load(images map[string]*device.Image, weight int, more ...gpu.Entry) error {
	return gpu.Load(k.dev, images[gpu.Variant(batch.Widths{Key: 4, Val: weight})], append(more,
		gpu.Entry{Name: "sum", To: &k.sum}, gpu.Entry{Name: "ask", To: &k.ask}, gpu.Entry{Name: "tiles", To: &k.tiles}))
}

// residentBlocks is the number of blocks of kernel sum per multiprocessor (neighbors.cu).
const residentBlocks = 8

// Sum launches a kernel that iterates over a whole graph, the given number of times. Each launch
// adds the numbers of all neighbors to sums[0] and their weights to sums[1].
func (k *Kernels) Sum(ctx context.Context, s *device.Stream, g *graph.Graph, sums device.Slice[uint64], times int) error {
	const lanes = 2 // per vertex
	return g.View(ctx, s, func(r graph.Ref) error {
		p := sumParams{ref: r, neighbors: sums.Ptr(), weights: sums.Ptr() + 8}
		return launches(s, k.sum, gpu.Resident(k.dev, lanes*g.Vertices(), residentBlocks), &p, times)
	})
}

func launches[P any](s *device.Stream, k device.Kernel, grid device.Dim, p *P, times int) (err error) {
	for range times {
		err = errors.Join(err, device.Launch(s, k, grid, gpu.Block, p))
	}
	return err
}

// TableKernels are the kernels for package slab loaded on a device.
type TableKernels struct {
	Kernels
	joint device.Kernel
}

// OpenTables loads the kernels for package slab. weight is 0 or 4.
func OpenTables(dev device.Device, weight int) (*TableKernels, error) {
	k := &TableKernels{Kernels: Kernels{dev: dev}}
	if err := k.load(tablesImages, weight, gpu.Entry{Name: "together", To: &k.joint}); err != nil {
		return nil, err
	}
	return k, nil
}

// tableBlocks is the number of blocks of kernel sum per multiprocessor (tables.cu).
const tableBlocks = 4

// Sum launches the kernel on a graph of tables. See [Kernels.Sum] for the arguments.
func (k *TableKernels) Sum(ctx context.Context, s *device.Stream, g *slab.Graph, sums device.Slice[uint64], times int) error {
	return g.View(ctx, s, func(r slab.GraphRef) error {
		p := tableSumParams{ref: r, neighbors: sums.Ptr(), weights: sums.Ptr() + 8}
		return launches(s, k.sum, gpu.Resident(k.dev, g.Arcs(), tableBlocks), &p, times)
	})
}
