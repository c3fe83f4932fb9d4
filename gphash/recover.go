package gphash

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pool"
)

// Report is the result of opening or checking a pool.
type Report struct {
	Keys  uint64 `json:"keys"`
	Slots uint64 `json:"slots"` // number of slots in all levels
	// Traces of a crash that were repaired.
	Unfinished uint64 `json:"unfinished"` // insertions that were not acknowledged
	Tombs      uint64 `json:"tombs"`      // deleted slots that no batch had reused
	// keys found in two slots, because the crash interrupted a move
	Moved   uint64 `json:"moved"`
	Resumed bool   `json:"resumed"` // the crash interrupted a resize
	// Replayed is the number of atomic batches that had been published but not applied, and are
	// applied now. Torn reports that an unpublished batch was found, which has no effect.
	Replayed uint64 `json:"replayed,omitempty"`
	Torn     bool   `json:"torn,omitempty"`
	// PowerLost reports that the pool was open when the machine stopped, and has been repaired. All
	// its pairs have valid checksums. Acknowledged data may be missing, or older than acknowledged.
	PowerLost bool `json:"power_lost,omitempty"`
	// Compared reports that the pool was compared with the number of keys and the sums that Close
	// had stored. They are missing if the pool was not closed, or was closed by a version before
	// 1.1 of the format.
	Compared bool `json:"compared"`
	// Damaged counts damage that no crash leaves: another program has written to the pool.
	Damaged uint64   `json:"damaged"`
	Damage  []string `json:"damage,omitempty"` // descriptions of the first findings
	// Times has the duration of each step of opening.
	Times Times `json:"times"`
}

// Times are the durations of the steps of opening a pool, in their order. In JSON they are
// nanoseconds.
type Times struct {
	// These steps do not depend on the pool's contents. In File the process opens and maps the
	// file.
	File time.Duration `json:"file_ns"`
	Map  time.Duration `json:"map_ns"` // a GPU maps the pool, which locks its pages
	// a GPU loads kernels, which its driver may have to compile
	Kernels time.Duration `json:"kernels_ns"`
	// The other steps are recovery. Replay applies published atomic batches.
	Replay time.Duration `json:"replay_ns"`
	// a GPU reads the control words and tags of all slots to its memory
	Mirror  time.Duration `json:"mirror_ns"`
	Inspect time.Duration `json:"inspect_ns"` // all slots are inspected
	// free memory is assigned to regions; a GPU does so while it inspects slots
	Space time.Duration `json:"space_ns"`
	// in mode Stop, the move of the keys that an interrupted resize left in the lowest level
	Resize time.Duration `json:"resize_ns"`
}

// Recovery returns the total time, except for opening the file, mapping, and loading kernels.
func (t *Times) Recovery() time.Duration { return t.Replay + t.Mirror + t.Inspect + t.Space + t.Resize }

func timed(t *time.Duration, step func() error) error {
	start := time.Now()
	err := step()
	*t += time.Since(start)
	return err
}

// damageListed is the maximum number of findings that a Report describes.
const damageListed = 16

// inspection scans all slots of a table. It marks the memory of values in use, and finds damage. If
// cleanUp is set, it repairs what a crash left half done. If repair is set, it empties damaged
// slots. Its writes are idempotent, so it may run again after a crash.
type inspection struct {
	*table
	cleanUp, repair bool
	verify          bool // also verify the checksums of values

	mu sync.Mutex // guards the fields below
	Report
	sums pool.Contents
}

// run inspects all levels. parallel is the method Parallel of a [device.Host].
func (in *inspection) run(ctx context.Context, parallel func(n, grain int, body func(lo, hi int))) error {
	for _, l := range in.live {
		parallel(1<<l.bits, inspectPiece, func(lo, hi int) {
			if ctx.Err() != nil {
				return
			}
			s := survey{inspection: in, level: l, key: make([]byte, in.keySize)}
			for b := lo; b < hi; b++ {
				s.inspectBucket(l.base + uint64(b)*in.bucketWords)
			}
			in.add(&s)
		})
	}
	in.mem.Fence()
	in.Slots = in.slotsIn(in.live)
	return ctx.Err()
}

// inspectPiece is the number of buckets that a core inspects at a time.
const inspectPiece = 1 << 12

func (in *inspection) add(s *survey) {
	in.mu.Lock()
	defer in.mu.Unlock()
	found := &s.found
	in.sums.Slots += s.slotSums
	in.sums.Values += s.valueSums
	in.Keys += found.Keys
	in.Unfinished += found.Unfinished
	in.Tombs += found.Tombs
	in.Moved += found.Moved
	in.Damaged += found.Damaged
	in.Damage = append(in.Damage, found.Damage[:min(len(found.Damage), damageListed-len(in.Damage))]...)
}

// survey is one core's share of an inspection.
type survey struct {
	*inspection
	level      level
	key, value []byte
	found      Report

	slotSums, valueSums uint64
}

func (s *survey) inspectBucket(bucket uint64) {
	for slot := range s.slots {
		at := slotRef{bucket, slot}
		switch c := control(s.mem.Load(s.control(at))); {
		case c.state() == full:
			s.inspectFull(at, c)
		// no operation writes this state; a flipped bit does
		case c.block() != 0:
			s.addDamage(at, c, "it has a value but is marked as empty")
		case c.state() == writing:
			s.found.Unfinished++
			s.clearSlot(at, c)
		case c.state() == tomb:
			s.found.Tombs++
			s.clearSlot(at, c)
		}
	}
}

func (s *survey) clearSlot(at slotRef, c control) {
	if s.cleanUp {
		s.mem.Store(s.control(at), uint64(c.next(empty, 0)))
	}
}

func (s *survey) inspectFull(at slotRef, c control) {
	damage := s.placeDamage(c)
	var it item
	if damage == "" {
		s.key = s.keyAt(at, c, s.key)
		it = s.item(s.key)
		damage = s.slotDamage(at, c, &it)
	}
	if damage != "" {
		s.addDamage(at, c, damage)
		return
	}
	if valid, _, _ := s.find(&it); valid != at {
		switch first, control := s.firstValid(&it); {
		case first == at: // the valid slot is damaged
		case control.block() == c.block():
			s.found.Moved++ // the key was moving from one slot to the other
			s.clearSlot(at, c)
			return
		default:
			s.addDamage(at, c, "its key is in another slot, too")
			return
		}
	}
	if damage := s.markUsed(c.block()); damage != "" {
		s.addDamage(at, c, damage)
		return
	}
	s.found.Keys++
	s.slotSums += s.slotSum(at, c)
	if word, ok := s.values.checksumAt(c.block()); ok && s.verify {
		s.valueSums += s.valueSum(c.block(), word)
	}
}

// firstValid returns the first undamaged slot that holds the key. At least one slot must be
// undamaged. If damage turned another slot's key into this key, firstValid skips the other slot.
func (s *survey) firstValid(it *item) (at slotRef, c control) {
	s.eachBucket(it.hash, func(bucket uint64, _ bool) bool {
		for slot := range s.slots {
			at = slotRef{bucket, slot}
			c = control(s.mem.Load(s.control(at)))
			if c.state() == full && s.holds(at, c, it) && s.placeDamage(c) == "" && s.valueDamage(c, it) == "" {
				return false
			}
		}
		return true
	})
	return at, c
}

// slotDamage returns a description of damage that the slot alone shows, or "".
func (s *survey) slotDamage(at slotRef, c control, it *item) string {
	if s.mem.Load(s.tag(at)) != it.tag {
		return "its tag does not match its key"
	}
	var memory [maxHashes]uint64
	home := false
	for _, b := range s.buckets(s.level, it.hash, memory[:]) {
		home = home || b == at.bucket
	}
	if !home {
		return "its key does not belong there"
	}
	return s.valueDamage(c, it)
}

// placeDamage returns a description of damage to the place of a slot's value, or "".
func (s *survey) placeDamage(c control) string {
	v := s.values
	unit, _, ok := v.locate(c.block())
	if ok = ok && (!s.records() || s.hasLegalLengths(c.block())); ok {
		class, _ := v.classAt(c.block())
		for i := range v.unitsOf(&v.classes[class]) {
			ok = ok && !v.space.owner[unit+i].isLevel
		}
	}
	if !ok {
		return fmt.Sprintf("no value begins at word %#x", c.block())
	}
	return ""
}

func (s *survey) hasLegalLengths(block uint64) bool {
	h, _ := s.values.record(block)
	return s.keyLength().contains(h.keyLen()) && s.valueLength().contains(h.valueLen())
}

// valueDamage returns a description of damage to a slot's value, or "". Unless verify is set, it
// checks nothing and returns "".
func (s *survey) valueDamage(c control, it *item) string {
	if s.verify && !s.values.intact(c.block(), it.hash, &s.value) {
		return "the checksum of its value does not match"
	}
	return ""
}

func (s *survey) addDamage(at slotRef, c control, finding string) {
	s.found.Damaged++
	if len(s.found.Damage) < damageListed {
		s.found.Damage = append(s.found.Damage, fmt.Sprintf("slot %d of bucket %d of level %d: %s",
			at.slot, (at.bucket-s.level.base)/s.bucketWords, s.level.bits, finding))
	}
	if s.repair {
		s.clearSlot(at, c)
	}
}

// markUsed marks the memory of a value as in use. It returns a description of the conflict if other
// values use that memory, or "".
func (s *survey) markUsed(block uint64) string {
	v := s.values
	unit, i, _ := v.locate(block)
	class, _ := v.classAt(block)
	e := v.space.extentAt(unit, v.unitsOf(&v.classes[class]), func() *extent { return v.newExtent(class) })
	switch {
	case e.class != class:
		return fmt.Sprintf("its record, at word %#x, takes %d words, but others of its unit take %d", block, v.classes[class].words, e.layout.words)
	case !e.mark(i):
		return fmt.Sprintf("its value, at word %#x, belongs to another key", block)
	}
	return ""
}

func (in *inspection) err() error {
	if in.Damaged == 0 || in.repair {
		return nil
	}
	return fmt.Errorf("%w: %d of %d slots are damaged, the first: %s", op.ErrCorrupt, in.Damaged, in.Slots, in.Damage[0])
}
