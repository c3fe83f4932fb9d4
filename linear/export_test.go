package linear

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// SpreadKeys is the size of the largest lookup that gives each key a tile.
const SpreadKeys = gpu.SpreadKeys

// Images are the kernels, MixedImages those of mixed batches and reductions.
var Images, MixedImages = conformance.Images(linearImages), conformance.Images(linearMixedImages)

// Small pages, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// CheckInvariants reads all of a map's memory and reports what breaks the
// rules of the layout; see image.check. Conformance calls it after each test.
func (m *Map[K, V]) CheckInvariants() error { return m.table.checkInvariants() }

// CheckInvariants is that of Map.
func (s *Set[K]) CheckInvariants() error { return s.table.checkInvariants() }

// Memory is a copy of the map's memory, on whatever device.
func (m *Map[K, V]) Memory() ([]byte, error) {
	image, err := m.table.image()
	return image.mem, err
}

// SmallLaunches has a rehash in place take as many launches as it can.
func (m *Map[K, V]) SmallLaunches() { smallLaunches(m.policy.engine) }

// SmallLaunches is that of Map.
func (s *Set[K]) SmallLaunches() { smallLaunches(s.policy.engine) }

func smallLaunches(e engine) {
	if e, ok := e.(*gpuEngine); ok {
		e.kernel.segments = 1
	}
}

func (t *table) checkInvariants() error {
	image, err := t.image()
	switch {
	case errors.Is(err, op.ErrClosed):
		return nil
	case err != nil:
		return err
	}
	return image.check(t.policy.opts.Tombstones == Keep)
}

// image copies the memory in use to the host.
func (t *table) image() (image, error) {
	ctx := context.Background()
	lease, err := t.core.Leases.Read(ctx, nil)
	if err != nil {
		return image{}, err
	}
	gen := lease.Parts.(*generation)
	im := image{geometry: gen.geometry, widths: t.core.Widths, mem: make([]byte, gen.bytes())}
	_, err = t.core.Engine.Counters(ctx) // waits for changes
	return im, errors.Join(err, copyOut(t.core.Device, gen.Buf, im.mem), lease.End())
}

func copyOut(dev device.Device, from device.Buffer, to []byte) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	return errors.Join(s.CopyOut(context.Background(), to, from.Ptr), s.Close())
}

// restore replaces the memory in use, and counts what is there.
func (t *table) restore(im image) error {
	ctx := context.Background()
	lease, err := t.core.Leases.Read(ctx, nil)
	if err != nil {
		return err
	}
	to := lease.Parts.(*generation).Buf
	if e, ok := t.policy.engine.(*gpuEngine); ok {
		err = e.Do(ctx, func(s *device.Stream) error { return s.CopyIn(to.Ptr, im.mem) })
	} else {
		err = copyIn(t.core.Device, to, im.mem)
	}
	return errors.Join(err, lease.End(), t.core.Sync(ctx))
}

func copyIn(dev device.Device, to device.Buffer, from []byte) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	return errors.Join(s.CopyIn(to.Ptr, from), s.Sync(context.Background()), s.Close())
}

// image is the memory of a table as bytes, read by the description in
// layout.go alone: it shares no code with the engines but the hash.
type image struct {
	geometry
	widths batch.Widths
	mem    []byte
}

// keyBits is the width of stored keys.
func (im image) keyBits() int {
	if im.widths.Val == 0 {
		return im.widths.Slot * 8
	}
	return im.widths.Slot * 4
}

func (im image) slots() int { return int(im.lines+1) * lineBytes / im.widths.Slot }

// slot is the key and the value of a slot.
func (im *image) slot(i int) (key, val uint64) {
	b := im.mem[i*im.widths.Slot:]
	switch {
	case im.widths.Slot == 4:
		return uint64(binary.LittleEndian.Uint32(b)), 0
	case im.widths.Slot == 8 && im.widths.Val == 0:
		return binary.LittleEndian.Uint64(b), 0
	case im.widths.Slot == 8:
		return uint64(binary.LittleEndian.Uint32(b[4:])), uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)
}

// put writes a slot of a pair of 64-bit halves.
func (im image) put(i int, key, val uint64) {
	b := im.mem[i*im.widths.Slot:]
	binary.LittleEndian.PutUint64(b[8:], key)
	binary.LittleEndian.PutUint64(b, val)
}

func (im image) setCounters(live, used uint64) {
	last := im.mem[(int(im.lines)+1)*lineBytes:]
	binary.LittleEndian.PutUint64(last, live)
	binary.LittleEndian.PutUint64(last[8:], used)
}

// sentinel is one as a key: 0 empty, 1 dead, 2 pending.
func (im image) sentinel(m uint64) uint64 { return ^m << (64 - im.keyBits()) >> (64 - im.keyBits()) }

// home is the sector where the path of a key begins.
func (im image) home(extra bool, key uint64) uint32 {
	switch {
	case extra:
		return im.lines * lineSectors
	case im.keyBits() == 32:
		return hash.Reduce32(hash.Uint32(uint32(key), im.seed), im.lines*lineSectors)
	}
	return uint32(hash.Reduce64(hash.Uint64(key, im.seed), uint64(im.lines)*lineSectors))
}

// path is the slots that a search for a stored key looks at, in order.
func (im image) path(extra bool, key uint64) func(yield func(int) bool) {
	home, per := im.home(extra, key), sectorBytes/im.widths.Slot
	return func(yield func(int) bool) {
		for step := range im.pathSectors(extra) {
			first := int(im.sector(extra, home, step)) * per
			for i := first; i < first+per; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// pathSectors is the length of a path.
func (im image) pathSectors(extra bool) uint32 {
	if extra {
		return lineSectors
	}
	return min(im.lines, maxPath) * lineSectors
}

// sector is the one at a step of the path that begins at home.
func (im image) sector(extra bool, home, step uint32) uint32 {
	line, x := home/lineSectors, step%lineSectors
	if !extra {
		line = (line + step/lineSectors) % im.lines
	}
	return line*lineSectors + (home%lineSectors ^ x)
}

// check reports the first thing that is wrong:
//
//   - no slot is pending while nothing runs,
//   - a search for each key finds it, in one slot only,
//   - the extra line holds the names of sentinels only,
//   - no bits beyond the widths of keys and values are set,
//   - the counters tell the number of live and of used slots,
//   - if deletion keeps slots for their keys, a dead slot's key is on its path
//     and in no other slot.
func (im image) check(keep bool) error {
	var live, used uint64
	empty, dead, pending := im.sentinel(cpu.Empty), im.sentinel(cpu.Dead), im.sentinel(cpu.Pending)
	for i := range im.slots() {
		key, val := im.slot(i)
		extra := i*im.widths.Slot >= int(im.lines)*lineBytes
		switch key {
		case empty:
			continue
		case pending:
			return fmt.Errorf("slot %d is pending", i)
		case dead:
			if keep && im.widths.Val != 0 {
				if err := im.alone(extra, val, i); err != nil {
					return err
				}
			}
		default:
			live++
			if extra && key > lastSentinel {
				return fmt.Errorf("key %#x is in the extra line", key)
			}
			if im.widths.Key == 4 && key>>32 != 0 || im.widths.Val == 4 && val>>32 != 0 {
				return fmt.Errorf("slot %d holds %#x: %#x, wider than its types", i, key, val)
			}
			if err := im.alone(extra, key, i); err != nil {
				return err
			}
		}
		used++
	}
	return im.checkCounters(live, used)
}

// alone follows the path of a key to its end: slot is on it, and no other slot
// before the first empty one is the key's. Two slots of one key would betray
// the later one, and so would one beyond an empty slot.
func (im *image) alone(extra bool, key uint64, slot int) error {
	seen, home, per := false, im.home(extra, key), sectorBytes/im.widths.Slot
	empty, dead, pairs := im.sentinel(cpu.Empty), im.sentinel(cpu.Dead), im.widths.Val != 0
	for step := range im.pathSectors(extra) {
		first := int(im.sector(extra, home, step)) * per
		for i := first; i < first+per; i++ {
			switch k, v := im.slot(i); {
			case i == slot:
				seen = true
				if k == key {
					return nil // what comes later is found out from there
				}
			case k == empty:
				if seen {
					return nil
				}
				return fmt.Errorf("slot %d of key %#x lies behind the empty slot %d of its path", slot, key, i)
			case k == key, k == dead && pairs && v == key && seen:
				return fmt.Errorf("slots %d and %d are both for key %#x", slot, i, key)
			}
		}
	}
	if !seen {
		return fmt.Errorf("slot %d of key %#x is not on its path", slot, key)
	}
	return nil
}

func (im image) checkCounters(live, used uint64) error {
	last := im.mem[(int(im.lines)+1)*lineBytes:]
	if l, u := binary.LittleEndian.Uint64(last), binary.LittleEndian.Uint64(last[8:]); l != live || u != used {
		return fmt.Errorf("the counters say %d live of %d used slots; there are %d of %d", l, u, live, used)
	}
	return nil
}
