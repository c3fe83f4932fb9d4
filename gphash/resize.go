package gphash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Growth (section 3.2.3). A new top level is zeroed, durably, before the superblock refers to it.
// The same write of the superblock closes the bottom level. Then the keys of the bottom level move
// up: each is inserted above and then marked as a tombstone below. The next write of the superblock
// drops the bottom level. A crash may come between any two stores. Before the first write of the
// superblock it leaves nothing to do. After that write, the closed level must be drained from its
// beginning.
//
// In mode Beside earlier batches zero the new level before it is needed (nextlevel.go).
//
// Keys do not move during an iteration. The bottom level then stays closed, with its keys, and one
// more level is added for new keys.

func (t *table) unitsOf(l level) uint64 {
	words := t.bucketWords << l.bits
	return (words + t.values.unit - 1) / t.values.unit
}

// grow adds a level because a key found no slot. keys is the number of keys in the index.
func (e *engine) grow(keys uint64) error {
	t := e.table
	if slots := t.slotsIn(t.live); float64(keys) < t.minGrowLoad()*float64(slots) {
		return fmt.Errorf("%w: all candidate buckets of some key are full, with %d keys in %d slots", ErrSkewed, keys, slots)
	}
	return e.addLevel()
}

func (e *engine) addLevel() error {
	t := e.table
	top := level{bits: t.live[0].bits + 1}
	if top.bits >= maxLevels {
		return fmt.Errorf("%w: the largest level has 2^%d buckets", errNoSpace, maxLevels-1)
	}
	if e.next == nil {
		if err := e.allocNext(top); err != nil {
			return err
		}
	} else if err := e.fetchSpace(); err != nil {
		return err
	}
	next, open := e.next, t.openLevels()
	closing := open[len(open)-1]
	// commitTwice makes the zeros durable before the superblock refers to them
	err := e.zeroNext(math.MaxUint64)
	if err == nil {
		err = e.sendSpace() // so that no change takes the level's units for values
	}
	if err == nil {
		err = e.setLevels(append([]level{next.level}, t.live...), t.closed+1, func(s *pool.Superblock) {
			s.Levels[next.bits] = pool.Level{Offset: next.base * pm.Word, Length: next.units * t.values.unit * pm.Word, State: pool.Live}
			s.Levels[closing.bits].State = pool.Draining
			s.Top = uint32(next.bits)
		})
	}
	e.next = nil
	if err != nil {
		t.values.space.releaseUnits(next.first, next.units)
		return errors.Join(err, e.sendSpace())
	}
	return nil
}

// setLevels replaces the levels. closed is the number of levels at the end of live that accept no
// new keys. A GPU that works on the pool gets the levels before the superblock is written, since it
// may lack the memory. On an error the old levels stay. Lookups find every key with the old and
// with the new levels, and no change runs in between.
func (e *engine) setLevels(live []level, closed int, update func(*pool.Superblock)) (err error) {
	t := e.table
	liveBefore, closedBefore := t.live, t.closed
	t.live, t.closed = live, closed
	if e.accel != nil {
		err = e.accel.installLevels()
	}
	if err == nil {
		err = e.commitTwice(update)
	}
	if err != nil {
		t.live, t.closed = liveBefore, closedBefore
	}
	return err
}

// fetchSpace and sendSpace call the methods of the accelerator, if the engine has one.
func (e *engine) fetchSpace() error {
	if e.accel == nil {
		return nil
	}
	return e.accel.fetchSpace()
}

func (e *engine) sendSpace() error {
	if e.accel == nil {
		return nil
	}
	return e.accel.sendSpace()
}

// commitTwice updates both copies of the superblock. If one copy stayed unchanged, damage to the
// other copy would bring back dropped levels, or lose a level with its keys.
func (e *engine) commitTwice(change func(*pool.Superblock)) error {
	if err := e.pool.Commit(change); err != nil {
		return err
	}
	return e.pool.Commit(func(*pool.Superblock) {})
}

// minGrowLoad returns the load below which random keys always find slots. It is a half for keys
// with at least 16 candidate slots, which reach loads of .9 and more, and otherwise a quarter.
func (t *table) minGrowLoad() float64 {
	if uint64(t.hashes*(len(t.live)-t.closed))*t.slots < 16 {
		return 1. / 4
	}
	return 1. / 2
}

func (e *engine) clearWords(lo, hi uint64) error {
	if e.accel != nil {
		return e.accel.clearWords(lo, hi)
	}
	e.Device.Parallel(int(hi-lo), 1<<17, func(from, to int) {
		e.mem.Clear(lo+uint64(from), lo+uint64(to))
	})
	return nil
}

func (t *table) slotsIn(levels []level) (slots uint64) {
	for _, l := range levels {
		slots += t.slots << l.bits
	}
	return slots
}

// drain moves up the keys of the given number of buckets of the closed levels, or of all buckets
// that are left. It drops levels that become empty. crowded reports that a key found no slot above.
// During an iteration drain does nothing.
func (e *engine) drain(ctx context.Context, buckets uint64) (crowded bool, err error) {
	t := e.table
	if t.closed > 0 {
		e.changed.Store(true)
		if err := e.recycle(); err != nil {
			return false, err
		}
	}
	for t.closed > 0 && buckets > 0 && !e.Leases.Held() {
		bottom := t.live[len(t.live)-1]
		n := min(buckets, 1<<bottom.bits-e.drained, drainPiece)
		switch ok, err := e.moveUp(bottom, e.drained, e.drained+n); {
		case err == errHeld:
			return false, nil
		case err != nil || !ok:
			return err == nil, err
		}
		buckets -= n
		e.nDrained += n
		if e.drained += n; e.drained == 1<<bottom.bits {
			if err := e.dropLevel(bottom); err != nil {
				return false, err
			}
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// drainPiece is the number of buckets drained between two checks of the context.
const drainPiece = 1 << 16

// errHeld reports that an iteration began during a move of keys, which only a GPU permits.
var errHeld = errors.New("levels are read")

// moveUp moves the keys of buckets [lo,hi) of the lowest level to levels above. Keys stay in their
// region, so threads in different regions do not conflict. ok is false if a key found no slot.
func (e *engine) moveUp(bottom level, lo, hi uint64) (ok bool, err error) {
	if e.accel != nil {
		return e.accel.moveUp(lo, hi)
	}
	per := uint64(1) << (bottom.bits - bottom.regions()) // number of buckets per region
	first, end := lo/per, (hi+per-1)/per
	var crowded atomic.Bool
	e.Device.Parallel(int(end-first), 1, func(from, to int) {
		key := make([]byte, e.table.keySize)
		for r := first + uint64(from); r < first+uint64(to); r++ {
			for b := max(lo, r*per); b < min(hi, (r+1)*per); b++ {
				if !e.table.moveBucket(bottom.base+b*e.table.bucketWords, key) {
					crowded.Store(true)
					return
				}
			}
		}
	})
	return !crowded.Load(), nil
}

// moveBucket moves the keys of a bucket to open levels. It returns false if a key finds no slot
// there.
func (t *table) moveBucket(bucket uint64, key []byte) bool {
	for slot := range t.slots {
		at := slotRef{bucket, slot}
		c := control(t.mem.Load(t.control(at)))
		if c.state() != full {
			continue
		}
		it := t.itemToMove(at, key)
		to, old, ok := t.vacantSlot(&it)
		if !ok {
			return false
		}
		t.publish(to, old, &it, c.block())
		t.mem.Store(t.control(at), uint64(c.next(tomb, 0)))
		t.mem.Fence()
	}
	return true
}

// vacantSlot returns a free slot for a key, in the open candidate bucket with the most free slots.
func (t *table) vacantSlot(it *item) (at slotRef, old control, ok bool) {
	maxFree := 0
	t.eachBucket(it.hash, func(bucket uint64, open bool) bool {
		if free, first, c := t.freeSlots(bucket); open && free > maxFree {
			maxFree, at, old, ok = free, first, c, true
		}
		return true
	})
	return at, old, ok
}

// freeSlots returns the number of free slots in a bucket, and the first one with its control word.
func (t *table) freeSlots(bucket uint64) (n int, first slotRef, old control) {
	for slot := range t.slots {
		at := slotRef{bucket, slot}
		if c := control(t.mem.Load(t.control(at))); c.state() == empty {
			if n == 0 {
				first, old = at, c
			}
			n++
		}
	}
	return n, first, old
}

// dropLevel removes the empty bottom level from the pool.
func (e *engine) dropLevel(l level) error {
	t := e.table
	if err := e.fetchSpace(); err != nil {
		return err
	}
	if err := e.setLevels(t.live[:len(t.live)-1], t.closed-1, func(s *pool.Superblock) {
		s.Levels[l.bits] = pool.Level{}
		s.Bottom++
	}); err != nil {
		return err
	}
	e.drained = 0
	t.values.space.releaseUnits((l.base-t.values.first)/t.values.unit, t.unitsOf(l))
	e.nResizes++
	return e.sendSpace()
}
