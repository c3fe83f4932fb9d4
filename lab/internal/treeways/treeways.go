// Package treeways has kernels that change trees of package btree in other ways than that package,
// and kernels that look up keys. Experiments after chapter 3 of Awad's thesis use them. Each
// variant is a few lines of treeways.cu around the code of package btree. Trees have 32-bit keys
// and values and no versions.
package treeways

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type btree::Ref=btree.Ref treeways.cu

// A Way is a way in which tiles change a tree.
type Way int

// The ways. Each differs from PerTile in one respect.
const (
	PerTile Way = iota // like package btree, but the tiles of a warp do not cooperate
	Restart            // a tile that finds a latch taken starts over immediately
	Spin               // a tile that finds a latch taken polls until the latch is free
	BackOff            // Spin with pauses, each twice as long as the previous one
	Fences             // device fences instead of acquire and release
	// a tile takes the latch of a child before it releases that of the parent, from the root on
	Coupled
	Erase   // does not merge nodes that have few pairs left
	EraseL1 // Erase, but reads inner nodes through the L1 cache
)

var names = [...]string{"alone", "restart", "spin", "backoff", "fences", "coupled", "erase", "erase_l1"}

// String returns the name of the way.
func (w Way) String() string { return names[w] }

// Inserts are the ways to insert. Erases are the ways to delete.
var (
	Inserts = []Way{PerTile, Restart, Spin, BackOff, Fences, Coupled}
	Erases  = []Way{Erase, EraseL1}
)

// Kernels are the kernels loaded on a device.
type Kernels struct {
	dev          device.Device
	change       [len(names)]device.Kernel
	find, findL1 device.Kernel
}

// Open loads the kernels onto a device.
func Open(dev device.Device) (*Kernels, error) {
	k := &Kernels{dev: dev}
	entries := []gpu.Entry{{Name: "find", To: &k.find}, {Name: "find_l1", To: &k.findL1}}
	for w, name := range names {
		entries = append(entries, gpu.Entry{Name: name, To: &k.change[w]})
	}
	if err := gpu.Load(dev, &treewaysImage, entries); err != nil {
		return nil, err
	}
	return k, nil
}

const residentBlocks = 2 // per multiprocessor (treeways.cu)

// Insert submits inserting distinct keys that are absent.
func (k *Kernels) Insert(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], way Way, keys, vals device.Slice[uint32]) error {
	if way >= Erase {
		return fmt.Errorf("treeways: %w: %v is no way to insert", device.ErrInvalid, way)
	}
	return m.Update(ctx, s, keys.Len(), func(r btree.Ref) error {
		return launch(k, s, k.change[way], &changeParams{ref: r, keys: keys.Ptr(), vals: vals.Ptr(), n: uint32(keys.Len()), kind: uint32(op.PutNew)}, keys.Len())
	})
}

// Erase submits deleting distinct keys.
func (k *Kernels) Erase(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], way Way, keys device.Slice[uint32]) error {
	if way < Erase {
		return fmt.Errorf("treeways: %w: %v is no way of deletions", device.ErrInvalid, way)
	}
	return m.Update(ctx, s, 0, func(r btree.Ref) error {
		return launch(k, s, k.change[way], &changeParams{ref: r, keys: keys.Ptr(), n: uint32(keys.Len()), kind: uint32(op.Delete)}, keys.Len())
	})
}

// Find submits a lookup of keys. throughL1 makes it read inner nodes through the L1 cache. The tree
// must not change during the lookup.
func (k *Kernels) Find(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], throughL1 bool, keys, vals device.Slice[uint32], found device.Slice[bool]) error {
	kernel := k.find
	if throughL1 {
		kernel = k.findL1
	}
	return m.View(ctx, s, func(r btree.Ref) error {
		return launch(k, s, kernel, &findParams{ref: r, keys: keys.Ptr(), vals: vals.Ptr(), found: found.Ptr(), n: uint64(keys.Len())}, keys.Len())
	})
}

func launch[P any](k *Kernels, s *device.Stream, kernel device.Kernel, params *P, n int) error {
	return device.Launch(s, kernel, gpu.Resident(k.dev, n, residentBlocks), gpu.Block, params)
}
