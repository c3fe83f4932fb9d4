package linear

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
)

// SpreadKeys is the maximum size of a lookup that assigns a tile to each key.
const SpreadKeys = gpu.MaxTiledKeys

// Images holds the kernels, and MixedImages the kernels of mixed batches and reductions.
var Images, MixedImages = conformance.Images(linearImages), conformance.Images(linearMixedImages)

// Reduce the pages, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// CheckInvariants returns the first violation of the layout in the map's memory; see image.check.
// The suites call it after each test.
func (m *Map[K, V]) CheckInvariants() error { return m.table.checkInvariants() }

// CheckInvariants returns the first violation of the layout in the set's memory.
func (s *Set[K]) CheckInvariants() error { return s.table.checkInvariants() }

// Memory returns a copy of the map's memory on any device.
func (m *Map[K, V]) Memory() ([]byte, error) {
	image, err := m.table.image()
	return image.Mem, err
}

// SmallLaunches makes a rehash in place use as many launches as possible.
func (m *Map[K, V]) SmallLaunches() { smallLaunches(m.policy.engine) }

// SmallLaunches makes a rehash in place use as many launches as possible.
func (s *Set[K]) SmallLaunches() { smallLaunches(s.policy.engine) }

func smallLaunches(e engine) {
	if e, ok := e.(*gpuEngine); ok {
		e.kernel.segments = 1
	}
}

func (t *table) checkInvariants() error {
	return conformance.CheckMemory(t.core, func(p core.Parts, m conformance.Memory) error {
		return image{p.(*generation).geometry, m}.check(t.policy.opts.Tombstones == Keep)
	})
}

// image copies the current generation to host memory.
func (t *table) image() (image, error) {
	p, m, err := conformance.ReadMemory(t.core)
	if err != nil {
		return image{}, err
	}
	return image{p.(*generation).geometry, m}, nil
}

// restore replaces the content of the current generation by im and counts the slots again.
func (t *table) restore(im image) error {
	ctx := context.Background()
	lease, err := t.core.Leases.Read(ctx, nil)
	if err != nil {
		return err
	}
	to := lease.Parts.(*generation).Buf
	if e, ok := t.policy.engine.(*gpuEngine); ok {
		err = e.RunSync(ctx, func(s *device.Stream) error { return s.CopyIn(to.Ptr, im.Mem) })
	} else {
		err = copyIn(t.core.Device, to, im.Mem)
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

// image is a copy of a table's memory. Its methods share no code with the engines.
type image struct {
	geometry
	conformance.Memory
}

func (im image) slots() int { return int(im.lines+1) * lineBytes / im.Slot }

func (im *image) slot(i int) (key, val uint64) { return im.In(im.Mem, i) }

// put stores a pair of 64-bit numbers in slot i.
func (im image) put(i int, key, val uint64) {
	b := im.Mem[i*im.Slot:]
	binary.LittleEndian.PutUint64(b[8:], key)
	binary.LittleEndian.PutUint64(b, val)
}

func (im image) setCounters(live, used uint64) {
	last := im.Mem[(int(im.lines)+1)*lineBytes:]
	binary.LittleEndian.PutUint64(last, live)
	binary.LittleEndian.PutUint64(last[8:], used)
}

func (im image) home(extra bool, key uint64) uint32 {
	switch {
	case extra:
		return im.lines * lineSectors
	case im.KeyBits() == 32:
		return hash.Reduce32(hash.Uint32(uint32(key), im.seed), im.lines*lineSectors)
	}
	return uint32(hash.Reduce64(hash.Uint64(key, im.seed), uint64(im.lines)*lineSectors))
}

// path yields the slots that a search for a stored key reads, in order.
func (im image) path(extra bool, key uint64) func(yield func(int) bool) {
	home, per := im.home(extra, key), sectorBytes/im.Slot
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

func (im image) pathSectors(extra bool) uint32 {
	if extra {
		return lineSectors
	}
	return min(im.lines, maxPath) * lineSectors
}

// sector returns the index of sector number step on the path that begins at home.
func (im image) sector(extra bool, home, step uint32) uint32 {
	line, x := home/lineSectors, step%lineSectors
	if !extra {
		line = (line + step/lineSectors) % im.lines
	}
	return line*lineSectors + (home%lineSectors ^ x)
}

// check returns an error unless all of these conditions hold:
//
//   - No slot is pending.
//   - A search for each key finds it, in one slot only.
//   - The extra line holds only the stored forms of sentinels.
//   - No bits beyond the widths of keys and values are set.
//   - The counters equal the numbers of live and of used slots.
//   - If keep is set, a dead slot lies on the path of its key, and no other slot holds that key.
func (im image) check(keep bool) error {
	var live, used uint64
	empty, dead, pending := im.Sentinel(cpu.Empty), im.Sentinel(cpu.Dead), im.Sentinel(cpu.Pending)
	for i := range im.slots() {
		key, val := im.slot(i)
		extra := i*im.Slot >= int(im.lines)*lineBytes
		switch key {
		case empty:
			continue
		case pending:
			return fmt.Errorf("slot %d is pending", i)
		case dead:
			if keep && im.Val != 0 {
				if err := im.checkUnique(extra, val, i); err != nil {
					return err
				}
			}
		default:
			live++
			if extra && key > lastSentinel {
				return fmt.Errorf("key %#x is in the extra line", key)
			}
			if im.Key == 4 && key>>32 != 0 || im.Val == 4 && val>>32 != 0 {
				return fmt.Errorf("slot %d holds %#x: %#x, wider than its types", i, key, val)
			}
			if err := im.checkUnique(extra, key, i); err != nil {
				return err
			}
		}
		used++
	}
	return im.CheckCounters(live, used)
}

// checkUnique walks the path of a key. The given slot must be on the path, and no earlier slot may
// hold the key. If a key has two slots, the check of the later slot fails. The check of a slot
// after an empty slot fails, too.
func (im *image) checkUnique(extra bool, key uint64, slot int) error {
	seen, home, per := false, im.home(extra, key), sectorBytes/im.Slot
	empty, dead, pairs := im.Sentinel(cpu.Empty), im.Sentinel(cpu.Dead), im.Val != 0
	for step := range im.pathSectors(extra) {
		first := int(im.sector(extra, home, step)) * per
		for i := first; i < first+per; i++ {
			switch k, v := im.slot(i); {
			case i == slot:
				seen = true
				if k == key {
					return nil // the checks of later slots would fail
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
