// Package treeways changes B-trees of package btree in other ways than that package does, and looks keys up in them, for
// experiments after chapter 3 of Awad's thesis: what is left out or done otherwise there is a few lines of treeways.cu, around the code
// that package btree runs. Trees have 32-bit keys and values and no versions.
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

// A Way is how tiles change a tree.
type Way int

// The ways. Each is Alone but for what it says.
const (
	Alone   Way = iota // as package btree, but for what the tiles of a warp do together there
	Restart            // who finds a latch taken starts over at once, without a pause
	Spin               // who finds a latch taken asks for it until it is free
	BackOff            // the same with pauses, each twice as long as the one before
	Fences             // fences of the device for acquire and release
	Coupled            // the latch of a child is taken before that of the parent is given back, from the root on
	Erase              // nodes that have few pairs left are not merged
	EraseL1            // Erase, and inner nodes come through the L1 cache
)

var names = [...]string{"alone", "restart", "spin", "backoff", "fences", "coupled", "erase", "erase_l1"}

// String is the name of the way.
func (w Way) String() string { return names[w] }

// Inserts are the ways to insert, and those for deletions only.
var (
	Inserts = []Way{Alone, Restart, Spin, BackOff, Fences, Coupled}
	Erases  = []Way{Erase, EraseL1}
)

// Kernels are those of a device.
type Kernels struct {
	dev          device.Device
	change       [len(names)]device.Kernel
	find, findL1 device.Kernel
}

// Open loads them.
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

const residentBlocks = 2 // on a multiprocessor (treeways.cu)

// Insert submits inserting different keys that are absent.
func (k *Kernels) Insert(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], way Way, keys, vals device.Slice[uint32]) error {
	if way >= Erase {
		return fmt.Errorf("treeways: %w: %v is no way to insert", device.ErrInvalid, way)
	}
	return m.Update(ctx, s, keys.Len(), func(r btree.Ref) error {
		return launch(k, s, k.change[way], &changeParams{ref: r, keys: keys.Ptr(), vals: vals.Ptr(), n: uint32(keys.Len()), kind: uint32(op.PutNew)}, keys.Len())
	})
}

// Erase submits deleting different keys.
func (k *Kernels) Erase(ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], way Way, keys device.Slice[uint32]) error {
	if way < Erase {
		return fmt.Errorf("treeways: %w: %v is no way of deletions", device.ErrInvalid, way)
	}
	return m.Update(ctx, s, 0, func(r btree.Ref) error {
		return launch(k, s, k.change[way], &changeParams{ref: r, keys: keys.Ptr(), n: uint32(keys.Len()), kind: uint32(op.Delete)}, keys.Len())
	})
}

// Find submits looking keys up, with inner nodes through the L1 cache or not. Nothing changes the tree meanwhile.
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
