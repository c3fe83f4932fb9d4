package slab

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestPoolSizes checks that a pool has the requested units and, if it may grow, can grow to sixty
// times as many.
func TestPoolSizes(t *testing.T) {
	dev := devicetest.Open(t)
	for _, units := range []int{0, 1, 1024, 1025, 5000, 100_000} {
		for _, fixed := range []bool{false, true} {
			gen, err := allocate(dev, geometry{buckets: 1}, units, fixed)
			if err != nil {
				t.Fatal(err)
			}
			s := gen.pool.Stats()
			most := s.MaxSuperBlocks * s.Blocks * alloc.BlockUnits
			switch {
			case s.Owned < units || s.Owned > units+alloc.BlockUnits || s.Units > units+5*alloc.BlockUnits:
				t.Errorf("a pool for %d units: %v", units, s)
			case fixed && (s.SuperBlocks != 1 || s.MaxSuperBlocks != 1 || gen.units.Ref(false).Light == 0):
				t.Errorf("a fixed pool for %d units: %v", units, s)
			case !fixed && most < 50*units:
				t.Errorf("a pool for %d units grows to %d", units, most)
			}
			if err := gen.Free(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := allocate(dev, geometry{buckets: 1}, maxUnits+1, true); !errors.Is(err, weft.ErrFull) {
		t.Errorf("a pool of 2^32 units: %v", err)
	}
}

// block is a memory block of an owner: the address of its first unit, and the addresses of its
// bitmap and its units.
type block struct {
	first         uint32
	bitmap, units device.Ptr
}

// blocksOf returns an owner's memory blocks, read from the parameters of kernels.
func blocksOf(s *device.Stream, ref alloc.Ref) (all []block, err error) {
	var table [alloc.MaxSupers]uint64
	list := make([]uint32, ref.Count)
	for i := range list {
		list[i] = uint32(i)/ref.Blocks<<24 | uint32(i)%ref.Blocks<<10
	}
	if ref.List != 0 {
		err = s.CopyOut(context.Background(), device.Bytes(list), ref.List)
	}
	err = errors.Join(err, s.CopyOut(context.Background(), device.Bytes(table[:]), ref.Supers))
	for _, first := range list {
		super, i := device.Ptr(table[first>>24]), first>>10&(1<<14-1)
		all = append(all, block{first, super + device.Ptr(i*128), super + device.Ptr(ref.Blocks*128+i*alloc.BlockUnits*ref.Unit)})
	}
	return all, err
}

// hide marks all free units of an owner as taken, except for the given number. show undoes this.
func hide(dev device.Device, o *alloc.Owner, left int) (show func() error, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	blocks, err := blocksOf(s, o.Ref(false))
	hidden := make([][]byte, len(blocks))
	for i, b := range blocks {
		bitmap := make([]byte, 128)
		err = errors.Join(err, s.CopyOut(context.Background(), bitmap, b.bitmap))
		hidden[i] = make([]byte, len(bitmap))
		for bit := range 8 * len(bitmap) {
			free := bitmap[bit/8]>>(bit%8)&1 == 0
			if free && left > 0 {
				left--
			} else if free {
				hidden[i][bit/8] |= 1 << (bit % 8)
			}
		}
		err = errors.Join(err, merge(s, b.bitmap, hidden[i], func(now, mask uint64) uint64 { return now | mask }))
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return func() error {
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		for i, b := range blocks {
			err = errors.Join(err, merge(s, b.bitmap, hidden[i], func(now, mask uint64) uint64 { return now &^ mask }))
		}
		return errors.Join(err, s.Close())
	}, nil
}

// merge applies f to words of device memory.
func merge(s *device.Stream, at device.Ptr, mask []byte, f func(now, mask uint64) uint64) error {
	now := make([]byte, len(mask))
	if err := s.CopyOut(context.Background(), now, at); err != nil {
		return err
	}
	for i := 0; i < len(now); i += 8 {
		binary.LittleEndian.PutUint64(now[i:], f(binary.LittleEndian.Uint64(now[i:]), binary.LittleEndian.Uint64(mask[i:])))
	}
	return errors.Join(s.CopyIn(at, now), s.Sync(context.Background()))
}
