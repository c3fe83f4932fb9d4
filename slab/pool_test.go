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

// A pool has the units it is asked for, and if it may grow, room for sixty
// times as many.
func TestPoolSizes(t *testing.T) {
	dev := devicetest.Open(t)
	for _, units := range []int{0, 1, 1024, 1025, 5000, 100_000} {
		for _, fixed := range []bool{false, true} {
			gen, err := newGeneration(dev, geometry{buckets: 1}, units, fixed)
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
			if err := gen.free(dev); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := newGeneration(dev, geometry{buckets: 1}, maxUnits+1, true); !errors.Is(err, weft.ErrFull) {
		t.Errorf("a pool of 2^32 units: %v", err)
	}
}

// supersOf are the addresses of the super blocks of a pool, by what kernels are
// told of them.
func supersOf(s *device.Stream, ref alloc.Ref) (supers []device.Ptr, err error) {
	var table [alloc.MaxSupers]uint64
	err = s.CopyOut(context.Background(), device.Bytes(table[:]), ref.Supers)
	for _, at := range table {
		if at != 0 {
			supers = append(supers, device.Ptr(at))
		}
	}
	return supers, err
}

// superBytes is the size of a super block: bitmaps of 128 bytes, then units.
func superBytes(ref alloc.Ref) int { return int(ref.Blocks) * (128 + alloc.BlockUnits*int(ref.Unit)) }

// hide marks free units of a pool as taken, all but the first ones. show
// undoes that.
func hide(dev device.Device, o *alloc.Owner, left int) (show func() error, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	ref := o.Ref(false)
	supers, err := supersOf(s, ref)
	hidden := make([][]byte, len(supers))
	for i, at := range supers {
		have := min(int(ref.Blocks), int(ref.Count)-i*int(ref.Blocks))
		if have <= 0 || err != nil {
			break
		}
		bitmap := make([]byte, have*128)
		err = s.CopyOut(context.Background(), bitmap, at)
		hidden[i] = make([]byte, len(bitmap))
		for bit := range 8 * len(bitmap) {
			free := bitmap[bit/8]>>(bit%8)&1 == 0
			if free && left > 0 {
				left--
			} else if free {
				hidden[i][bit/8] |= 1 << (bit % 8)
			}
		}
		err = errors.Join(err, merge(s, at, hidden[i], func(now, mask uint64) uint64 { return now | mask }))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return func() (err error) {
		for i, at := range supers {
			err = errors.Join(err, merge(s, at, hidden[i], func(now, mask uint64) uint64 { return now &^ mask }))
		}
		return errors.Join(err, s.Close())
	}, nil
}

// merge changes words of a device's memory.
func merge(s *device.Stream, at device.Ptr, mask []byte, f func(now, mask uint64) uint64) error {
	if len(mask) == 0 {
		return nil
	}
	now := make([]byte, len(mask))
	if err := s.CopyOut(context.Background(), now, at); err != nil {
		return err
	}
	for i := 0; i < len(now); i += 8 {
		binary.LittleEndian.PutUint64(now[i:], f(binary.LittleEndian.Uint64(now[i:]), binary.LittleEndian.Uint64(mask[i:])))
	}
	return errors.Join(s.CopyIn(at, now), s.Sync(context.Background()))
}
