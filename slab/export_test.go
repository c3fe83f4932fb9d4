package slab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// GraphImages contains the kernels of graphs.
var GraphImages = append(conformance.Images(slabGraphImages), &slabColumnsImage)

// Images contains the kernels without those of mixed batches and reductions, which MixedImages
// contains.
var Images, MixedImages = append(conformance.Images(slabImages), conformance.Images(slabMultiImages)...), conformance.Images(slabMixedImages)

// init makes pages small, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// CheckInvariants reads all memory of a table and reports violations of the layout (see
// image.check). The conformance tests call it after each test.
func (t *table) CheckInvariants() error {
	if err := t.core.Leases.LockWriter(context.Background()); err != nil {
		if errors.Is(err, weft.ErrClosed) {
			return nil
		}
		return err
	}
	defer t.core.Leases.UnlockWriter()
	im, err := t.image()
	if err != nil {
		return err
	}
	return im.check()
}

func (t *table) Bucket(key uint64) int { return int(bucketOf(t.policy.engine.geometry(), key)) }

func (t *table) gen() *generation { return t.core.Leases.Current().Parts.(*generation) }

// run replaces the engine that runs batches.
func (t *table) run(e engine) { t.policy.engine, t.core.Engine = e, e }

// image copies the current generation to the host.
func (t *table) image() (*image, error) {
	ctx := context.Background()
	if _, err := t.core.Engine.ReadCounters(ctx); err != nil { // waits for changes
		return nil, err
	}
	s, err := t.core.Device.NewStream()
	if err != nil {
		return nil, err
	}
	gen := t.gen()
	im := &image{
		geometry: gen.geometry, Slots: conformance.Slots{Widths: t.core.Widths}, multi: t.policy.multi,
		base: make([]byte, gen.bytes()), blocks: make(map[uint32]memoryBlock),
	}
	blocks, err := blocksOf(s, gen.units.Ref(false))
	err = errors.Join(err, s.CopyOut(ctx, im.base, gen.Buf.Ptr))
	for _, b := range blocks {
		bitmap, units := make([]byte, 128), make([]byte, alloc.BlockUnits*128)
		err = errors.Join(err, s.CopyOut(ctx, bitmap, b.bitmap), s.CopyOut(ctx, units, b.units))
		im.blocks[b.first>>10] = memoryBlock{bitmap, units}
	}
	return im, errors.Join(err, s.Close())
}

// image is the memory of a table as bytes. It follows the description in layout.go and package
// alloc, and shares only the hash with the engines.
type image struct {
	geometry
	conformance.Slots
	multi  bool
	base   []byte
	blocks map[uint32]memoryBlock // keyed by the upper bits of their addresses
}

// memoryBlock is a block of the pool.
type memoryBlock struct{ bitmap, units []byte }

// unit returns the memory of a unit, and whether its bit marks the unit as taken.
func (im *image) unit(address uint32) (slab []byte, taken bool, err error) {
	b, ok := im.blocks[address>>10]
	if !ok {
		return nil, false, fmt.Errorf("there is no unit %#x", address)
	}
	unit := address & (1<<10 - 1)
	word := binary.LittleEndian.Uint32(b.bitmap[unit/32*4:])
	return b.units[unit*128:][:128], word>>(unit%32)&1 == 1, nil
}

// bucket returns the bucket of a stored key that is not a sentinel.
func (im *image) bucket(key uint64) uint32 {
	if im.KeyBits() == 32 {
		return hash.Reduce32(hash.Uint32(uint32(key), im.seed), im.buckets)
	}
	return uint32(hash.Reduce64(hash.Uint64(key, im.seed), uint64(im.buckets)))
}

var emptySlab = bytes.Repeat([]byte{0xff}, 128)

// check reports the first violation of these rules:
//
//   - the rules of chain.check,
//   - each taken unit is in exactly one chain,
//   - each free unit is all ones,
//   - the counters equal the numbers of live and used slots.
func (im *image) check() error {
	c := im.chains()
	for b := range im.buckets + 1 {
		if err := c.check(b); err != nil {
			return fmt.Errorf("bucket %d of %d: %w", b, im.buckets, err)
		}
	}
	for block := range im.blocks {
		linked := c.units[block]
		for u, chained := range linked {
			address := block<<10 | uint32(u)
			slab, taken, err := im.unit(address)
			switch {
			case err != nil:
				return err
			case taken != chained:
				return fmt.Errorf("unit %#x: taken is %v, in a chain is %v", address, taken, chained)
			case !taken && !bytes.Equal(slab, emptySlab):
				return fmt.Errorf("unit %#x is free and not all ones", address)
			}
		}
	}
	last := im.base[(int(im.buckets)+1)*128:]
	if l, u := binary.LittleEndian.Uint64(last), binary.LittleEndian.Uint64(last[8:]); l != c.live || u != c.used {
		return fmt.Errorf("the counters say %d live of %d used slots; there are %d of %d", l, u, c.live, c.used)
	}
	return nil
}

// chain holds the slabs of one bucket. It is reused for all buckets.
type chain struct {
	*image
	empty, dead, pending, none uint64 // sentinels

	bucket uint32
	keys   map[uint64]bool // false if a dead slot remembers the key
	ended  bool            // whether an empty slot has been read

	units      map[uint32]*[1024]bool // units of all chains, keyed by block
	live, used uint64                 // numbers of slots in all chains
}

// chains returns a chain for reading the first bucket.
func (im *image) chains() *chain {
	c := &chain{
		image: im, keys: make(map[uint64]bool), units: make(map[uint32]*[1024]bool),
		empty: im.Sentinel(cpu.Empty), dead: im.Sentinel(cpu.Dead), pending: im.Sentinel(cpu.Pending), none: im.Sentinel(lastSentinel),
	}
	for block := range im.blocks {
		c.units[block] = new([1024]bool)
	}
	return c
}

// check reports the first violation of these rules:
//
//   - no slot after an empty slot is in use, and no slab follows an empty slot,
//   - no slot is pending, and none holds the sentinel for "not a slot",
//   - each key is in its bucket, and the extra bucket has only complements of sentinels,
//   - a map has each key once, and no earlier dead slot remembers the key,
//   - bits beyond the widths of keys and values are zero, and bytes outside slots are all ones,
//   - the tail hint is a slab of the bucket, and all slabs before it are full,
//   - a chained slab has no hint, but may have its number.
func (c *chain) check(bucket uint32) error {
	c.bucket, c.ended = bucket, false
	if len(c.keys) > 64 { // a cleared Go map keeps its size
		c.keys = make(map[uint64]bool)
	}
	clear(c.keys)
	slab := c.base[int(c.bucket)*128:][:128]
	hint := binary.LittleEndian.Uint32(slab[120:])
	for at, number := noUnit, uint32(0); ; number++ {
		if err := c.slab(slab); err != nil {
			return fmt.Errorf("slab %#x: %w", at, err)
		}
		if own := binary.LittleEndian.Uint32(slab[120:]); at != noUnit && own != noUnit && own != number {
			return fmt.Errorf("slab %#x is number %d of the chain, not %d", at, number, own)
		}
		next := binary.LittleEndian.Uint32(slab[124:])
		if next == noUnit {
			break
		}
		if c.ended {
			return fmt.Errorf("slab %#x has room, and %#x is linked behind it", at, next)
		}
		var taken bool
		var err error
		if slab, taken, err = c.unit(next); err != nil || !taken {
			return fmt.Errorf("slab %#x is linked; taken is %v: %w", next, taken, err)
		}
		linked := &c.units[next>>10][next&(1<<10-1)]
		if *linked {
			return fmt.Errorf("slab %#x is linked twice", next)
		}
		*linked = true
		if at = next; at == hint {
			hint = noUnit
		}
	}
	if hint != noUnit {
		return fmt.Errorf("the tail is said to be %#x, which is not in the chain", hint)
	}
	return nil
}

func (c *chain) slab(slab []byte) error {
	slots := 120 / c.Slot
	if rest := slab[slots*c.Slot : 120]; !bytes.Equal(rest, emptySlab[:len(rest)]) {
		return fmt.Errorf("%x where no slot is", rest)
	}
	for i := range slots {
		key, val := c.In(slab, i)
		switch key {
		case c.empty:
			c.ended = true
			continue
		case c.pending, c.none:
			return fmt.Errorf("slot %d has the mark %#x", i, key)
		}
		if c.ended {
			return fmt.Errorf("slot %d is in use behind an empty one", i)
		}
		c.used++
		if key == c.dead {
			if c.Val != 0 && !c.keys[val] {
				c.keys[val] = false
			}
			continue
		}
		c.live++
		if err := c.pair(key, val); err != nil {
			return fmt.Errorf("slot %d: %w", i, err)
		}
	}
	return nil
}

func (c *chain) pair(key, val uint64) error {
	extra := c.bucket == c.buckets
	if extra && key > lastSentinel {
		return fmt.Errorf("key %#x is in the extra bucket", key)
	}
	if home := c.image.bucket(key); !extra && home != c.bucket {
		return fmt.Errorf("key %#x belongs in bucket %d", key, home)
	}
	if c.Key == 4 && key>>32 != 0 || c.Val == 4 && val>>32 != 0 {
		return fmt.Errorf("%#x: %#x is wider than its types", key, val)
	}
	if live, known := c.keys[key]; known && !c.multi {
		return fmt.Errorf("key %#x has a slot before this one; live: %v", key, live)
	}
	c.keys[key] = true
	return nil
}
