// Package mixedtree has users' kernels that change and read trees of package btree in one launch,
// for experiments. Some blocks insert or erase, and others look up keys or read ranges, as in
// section 4.5.2 of Awad's thesis. In a tree with versions, ranges are read at snapshots. In a tree
// without versions, ranges are not linearizable.
package mixedtree

import (
	"context"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type btree::Ref=btree.Ref -type btree::VersionedRef=btree.VersionedRef -type Load=load mixedtree.cu

// Load describes the work of a launch.
type Load struct {
	Kind    op.Kind              // kind of the updates: PutNew or Delete
	Updates device.Slice[uint32] // keys to update
	Vals    device.Slice[uint32] // values of PutNew
	Queries device.Slice[uint32] // keys to look up, or the beginnings of ranges
	Span    int                  // length of a range in keys; 0: lookups
	Counts  device.Slice[uint32] // receives the number of pairs per query
	Sum     device.Slice[uint64] // receives the sum of the values read
}

// Kernels are the kernels loaded on a device.
type Kernels struct {
	dev              device.Device
	plain, versioned device.Kernel
}

// Open loads the kernels onto a device.
func Open(dev device.Device) (*Kernels, error) {
	k := &Kernels{dev: dev}
	err := gpu.Load(dev, &mixedtreeImage, []gpu.Entry{{Name: "plain", To: &k.plain}, {Name: "versioned", To: &k.versioned}})
	if err != nil {
		return nil, err
	}
	return k, nil
}

const (
	tileLanes      = 4
	residentBlocks = 2 // per multiprocessor (mixedtree.cu)
)

// Run submits a launch on a map of 32-bit keys and values that has the given versions. Blocks are
// divided between updates and queries in proportion to their numbers.
func (k *Kernels) Run(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], versions btree.Versions, l Load) error {
	n, asked := l.Updates.Len(), l.Queries.Len()
	blocks := max(2, gpu.Resident(k.dev, (n+asked)*tileLanes, residentBlocks).X)
	p := load{
		updates: l.Updates.Ptr(), vals: l.Vals.Ptr(), queries: l.Queries.Ptr(), counts: l.Counts.Ptr(), sum: l.Sum.Ptr(),
		n: uint32(n), asked: uint32(asked), span: uint32(l.Span), kind: uint32(l.Kind),
		changing: uint32(min(blocks-1, max(1, blocks*n/max(1, n+asked)))),
	}
	inserts := n
	if l.Kind == op.Delete {
		inserts = 0
	}
	return m.Update(ctx, s, inserts, func(r btree.Ref) error {
		if versions == btree.Whole {
			return device.Launch(s, k.plain, device.Dim{X: blocks}, gpu.Block, &plainParams{ref: r, load: p})
		}
		return device.Launch(s, k.versioned, device.Dim{X: blocks}, gpu.Block, &versionedParams{ref: r.Versioned(), load: p})
	})
}
