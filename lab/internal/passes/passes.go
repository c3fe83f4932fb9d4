// Package passes looks up keys in tables of package horton in three ways that an experiment
// compares. The paper on Horton tables (section 5.2) leaves the choice open. Few lookups continue
// in a secondary bucket, so most lanes of a warp would wait for a few. In package horton, warps
// read the secondary buckets of 32 keys at once, however few continue, while other warps work. The
// paper buffers keys that continue until they fill a warp. The third way uses two launches.
package passes

import (
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type horton::Table=Table passes.cu

// A Way is a way to look up keys.
type Way int

const (
	// AtOnce reads the secondary buckets of 32 keys directly after their primary buckets.
	AtOnce Way = iota
	// Buffered makes each warp collect the keys that continue. A warp reads the secondary buckets
	// of 32 such keys at a time.
	Buffered
	// TwoLaunches reads all primary buckets in one launch and secondary buckets in another.
	TwoLaunches
)

// Ways lists all ways.
var Ways = []Way{AtOnce, Buffered, TwoLaunches}

// String returns the name of a way.
func (w Way) String() string { return [...]string{"at-once", "buffered", "two-launches"}[w] }

// TableOf describes a horton.Map of 32-bit keys and values on a GPU that has buckets of eight
// slots. memory is the address of its table.
func TableOf(memory device.Ptr, slots int, seed uint64) Table {
	const shift, perLine = 3, 16
	return Table{lines: memory, seed: seed, nlines: uint32(slots / perLine), buckets: uint32(slots >> shift), shift: shift}
}

// Lookups are the kernels loaded on a device, and their working memory.
type Lookups struct {
	dev                             device.Device
	atOnce, buffered, first, second device.Kernel
	work                            device.Slice[uint64]
	listed                          device.Slice[uint32]
}

// New loads the kernels for batches of up to n keys. The caller must call Close.
func New(dev device.Device, n int) (l *Lookups, err error) {
	l = &Lookups{dev: dev}
	if err = gpu.Load(dev, &passesImage, []gpu.Entry{
		{Name: "at_once", To: &l.atOnce}, {Name: "buffered", To: &l.buffered}, {Name: "first", To: &l.first}, {Name: "second", To: &l.second},
	}); err != nil {
		return nil, err
	}
	if l.work, err = device.Make[uint64](dev, n); err != nil {
		return nil, err
	}
	if l.listed, err = device.Make[uint32](dev, 1); err != nil {
		return nil, errors.Join(err, l.work.Free())
	}
	return l, nil
}

// Close frees the memory. Submitted work must have ended.
func (l *Lookups) Close() error { return errors.Join(l.work.Free(), l.listed.Free()) }

// strideBlocks is the number of blocks per multiprocessor above which threads stride, as in package
// horton.
const strideBlocks = 8

// Get submits a lookup. vals receives the value of each key, or 0, and found whether the key is
// present.
func (l *Lookups) Get(s *device.Stream, w Way, t Table, keys, vals device.Slice[uint32], found device.Slice[bool]) error {
	n := keys.Len()
	p := lookParams{
		table: t, keys: keys.Ptr(), vals: vals.Ptr(), found: found.Ptr(), work: l.work.Ptr(), listed: l.listed.Ptr(), n: uint32(n),
	}
	grid := gpu.Strides(l.dev, gpu.Grid(n), strideBlocks)
	launch := func(k device.Kernel) error { return device.Launch(s, k, grid, gpu.Block, &p) }
	switch w {
	case AtOnce:
		return launch(l.atOnce)
	case Buffered:
		return launch(l.buffered)
	}
	if err := s.Fill(l.listed.Ptr(), 0, 1); err != nil {
		return err
	}
	if err := launch(l.first); err != nil {
		return err
	}
	return launch(l.second)
}
