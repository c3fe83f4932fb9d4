package cuckoo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Images are the kernels, MixedImages those of mixed batches and reductions.
var Images, MixedImages = conformance.Images(cuckooImages), conformance.Images(cuckooMixedImages)

// Small pages, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// KeysOf are n keys from some on that have two buckets, in that order.
func (m *Map[K, V]) KeysOf(first, second uint32, from K, n int) (keys []K) {
	for k := from; len(keys) < n; k++ {
		if pathOf(m.engine.geometry(), uint32(k)) == (path{first, second}) {
			keys = append(keys, k)
		}
	}
	return keys
}

// CheckInvariants reads all of a map's memory and reports what breaks the rules of
// the layout; see image.check. Conformance calls it after each test.
func (m *Map[K, V]) CheckInvariants() error { return m.table.checkInvariants() }

// CheckInvariants is that of Map.
func (s *Set[K]) CheckInvariants() error { return s.table.checkInvariants() }

func (t *table) checkInvariants() error {
	im, err := t.image()
	switch {
	case errors.Is(err, op.ErrClosed):
		return nil
	case err != nil:
		return err
	}
	return im.check()
}

// image copies the memory in use to the host.
func (t *table) image() (image, error) {
	ctx := context.Background()
	lease, err := t.core.Leases.Read(ctx, nil)
	if err != nil {
		return image{}, err
	}
	gen := lease.Parts.(*generation)
	im := image{geometry: gen.geometry, mode: t.mode, widths: t.core.Widths, mem: make([]byte, gen.bytes())}
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

// image is the memory of a table as bytes, read by the description in layout.go
// alone: it shares no code with the engines but the hash functions.
type image struct {
	geometry
	mode
	widths batch.Widths
	mem    []byte
}

// keyBits is the width of stored keys.
func (im *image) keyBits() int {
	if im.widths.Val == 0 {
		return im.widths.Slot * 8
	}
	return im.widths.Slot * 4
}

// key is that of a slot.
func (im *image) key(i int) uint64 {
	b := im.mem[i*im.widths.Slot:]
	switch {
	case im.widths.Slot == 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case im.widths.Slot == 8 && im.widths.Val == 0:
		return binary.LittleEndian.Uint64(b)
	case im.widths.Slot == 8:
		return uint64(binary.LittleEndian.Uint32(b[4:]))
	}
	return binary.LittleEndian.Uint64(b[8:])
}

// sentinel is one as a key.
func (im *image) sentinel(m uint64) uint64 { return ^m << (64 - im.keyBits()) >> (64 - im.keyBits()) }

// path is that of a stored key.
func (im *image) path(key uint64) path {
	if im.keyBits() == 32 {
		return pathOf(im.geometry, uint32(key))
	}
	return pathOf(im.geometry, key)
}

// check wants every key once, in one of its buckets or in its line of the stash, or, if
// it looks like a sentinel, in the slot of its own; keys beyond their first bucket only
// where those before have no slot that was never used, unless the table balances; no
// slot that is being written; and counters that say what is there.
func (im *image) check() error {
	per := lineBytes / im.widths.Slot
	buckets := int(im.buckets) << im.shift
	if buckets != int(im.bucketLines())*per {
		return fmt.Errorf("%d buckets in %d lines", im.buckets, im.bucketLines())
	}
	seen := map[uint64]int{}
	var live, used uint64
	for i := range (int(im.lines) + 1) * per {
		key := im.key(i)
		switch key {
		case im.sentinel(0):
			continue
		case im.sentinel(1):
			used++
			continue
		case im.sentinel(2), im.sentinel(absent):
			return fmt.Errorf("slot %d holds sentinel %#x", i, key)
		}
		live, used = live+1, used+1
		if err := im.place(i, key, i/per >= int(im.lines), i >= buckets); err != nil {
			return err
		}
		name := key
		if i/per >= int(im.lines) {
			name = im.sentinel(key)
		}
		if at, twice := seen[name]; twice {
			return fmt.Errorf("key %#x is in slots %d and %d", name, at, i)
		}
		seen[name] = i
	}
	tally := im.mem[(int(im.lines)+1)*lineBytes:]
	if l, u := binary.LittleEndian.Uint64(tally), binary.LittleEndian.Uint64(tally[8:]); l != live || u != used {
		return fmt.Errorf("the counters say %d live, %d used; it is %d, %d", l, u, live, used)
	}
	return nil
}

// place reports a key that may not be in slot i.
func (im *image) place(i int, key uint64, extra, stashed bool) error {
	per := lineBytes / im.widths.Slot
	if extra {
		if key > lastSentinel || int(key) != i%per {
			return fmt.Errorf("slot %d of the extra line holds %#x", i%per, key)
		}
		return nil
	}
	p, last := im.path(key), im.functions
	at := uint32(0)
	for at < last && (stashed || p.bucket(im.geometry, at) != uint32(i>>im.shift)) {
		at++
	}
	if at == last && (im.stash == 0 || !stashed || p.stashLine(im.geometry) != uint32(i/per)) {
		return fmt.Errorf("key %#x is in slot %d: its buckets are those of %+v", key, i, p)
	}
	for b := range at {
		for s := range 1 << im.shift {
			if im.key(int(p.bucket(im.geometry, b))<<im.shift+s) == im.sentinel(0) && !im.balances {
				return fmt.Errorf("key %#x is in slot %d though its bucket %d has an empty one", key, i, b)
			}
		}
	}
	return nil
}
