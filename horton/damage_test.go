package horton

import (
	"strings"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// CheckInvariants reports damage to the memory of a table.
func TestDamageIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(d *damaged) bool
		want string // in the error
	}{
		"none":                             {func(*damaged) bool { return true }, ""},
		"an entry is cleared":              {func(d *damaged) bool { return d.entry(true, 0) }, "tags are outside of their buckets"},
		"an entry names another function":  {func(d *damaged) bool { return d.entry(true, 1) }, "the keys are in"},
		"an entry is set that no key has":  {func(d *damaged) bool { return d.entry(false, 1) }, "is of no key"},
		"a key is there twice":             {(*damaged).copyKey, "is in slots"},
		"a few primary keys are kept out":  {func(d *damaged) bool { return d.keepOut(5) }, ""},
		"many primary keys are kept out":   {func(d *damaged) bool { return d.keepOut(250) }, "not in their primary buckets"},
		"an array that is not the last":    {(*damaged).arrayInside, "which is no key"},
		"a slot that nobody finishes":      {(*damaged).pending, "holds sentinel"},
		"a secondary key nobody leads to":  {(*damaged).strayKey, "tags are outside of their buckets"},
		"a counter that is one too many":   {func(d *damaged) bool { d.tally().Live++; return true }, "the counters say"},
		"a key in the slot of another one": {func(d *damaged) bool { d.slotsAt(d.lines*d.perLine()+3, 1)[0].Key = 2; return true }, "extra line"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamaged(t)
			if !c.do(d) {
				t.Fatal("there is nothing to damage")
			}
			err := d.check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// damaged is a nearly full table on a CPU that a test damages.
type damaged struct {
	mover[uint32, uint32]
	tab table
}

func newDamaged(t *testing.T) *damaged {
	const slots, load = 1 << 13, .95
	n := slots * 94 / 100
	m, err := New[uint32, uint32](devicetest.OpenCPU(t, 1), Crowded(Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: 1}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	keys := conformance.Sequence[uint32](1, n)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	c := tableOf[uint32, uint32](m.engine.(*cpuEngine[uint32, uint32, uint32, uint32]).generation())
	return &damaged{mover[uint32, uint32]{cpuTable: &c}, m.table}
}

func (d *damaged) check() error { return d.tab.checkInvariants() }

func (d *damaged) tally() *core.Tally {
	return d.tab.engine.(*cpuEngine[uint32, uint32, uint32, uint32]).generation().Tally()
}

// entry changes the first entry that is set, or the first that is not set. It clears the entry or
// selects another function.
func (d *damaged) entry(set bool, by uint32) bool {
	for b := range d.buckets {
		s := last(d.bucket(b))
		if !isArray(s) {
			continue
		}
		for tag := range uint32(halfEntries) {
			if i := arrayOf(s).entry(tag); (i != 0) == set {
				writeArray(s, arrayOf(s).withEntry(tag, by*(i%functions+1)))
				return true
			}
		}
	}
	return false
}

// secondaries yields the slots of secondary keys that do not share their entry.
func (d *damaged) secondaries(yield func(number uint32, h home) bool) {
	for number := range d.buckets << d.shift {
		s := d.slot(number)
		if !isKey(s) || isPrimary(d.geometry, s.Key, number) {
			continue
		}
		if h := homeOf[uint32, uint32](d.geometry, s.Key, number); !d.shared(h, number) && !yield(number, h) {
			return
		}
	}
}

// keepOut moves n secondary keys to slots of primary keys. The primary keys are lost. Their buckets
// have other keys in secondary buckets.
func (d *damaged) keepOut(n int) bool {
	away := map[uint32]bool{}
	for _, h := range d.secondaries {
		away[h.bucket] = true
	}
	for number, h := range d.secondaries {
		if to := d.primaryFor(h, number>>d.shift, away); n > 0 && to != nil {
			d.move(d.slot(number), to)
			d.setEntry(h, to)
			d.tally().Live--
			d.tally().Used--
			n--
		}
	}
	return n == 0
}

// primaryFor returns the slot of a primary key to which a key of home h may move. The slot is in
// one of the buckets in.
func (d *damaged) primaryFor(h home, at uint32, in map[uint32]bool) *cpu.Slot[uint32, uint32] {
	for i := uint32(1); i <= functions; i++ {
		to := d.secondary(h, halfEntries, i)
		if to == at || d.overlaps(h, to) || !in[to] {
			continue
		}
		for j := range d.bucket(to) {
			if s := &d.bucket(to)[j]; d.hasPrimaryKey(to, s) {
				return s
			}
		}
	}
	return nil
}

// free returns a free slot of a bucket of type A.
func (d *damaged) free() *cpu.Slot[uint32, uint32] {
	for b := range d.buckets {
		if s := freeSlot(d.bucket(b)); s != nil && !isArray(last(d.bucket(b))) {
			return s
		}
	}
	return nil
}

// copyKey copies a key within its bucket.
func (d *damaged) copyKey() bool {
	for b := range d.buckets {
		free := freeSlot(d.bucket(b))
		for j := range d.bucket(b) {
			if s := &d.bucket(b)[j]; free != nil && d.hasPrimaryKey(b, s) {
				*free = *s
				return true
			}
		}
	}
	return false
}

// strayKey moves a primary key to a bucket in which no lookup searches for it.
func (d *damaged) strayKey() bool {
	to := d.free()
	for number := range d.buckets << d.shift {
		if s := d.slot(number); isKey(s) && isPrimary(d.geometry, s.Key, number) && number>>d.shift != d.number(to)>>d.shift {
			d.move(s, to)
			return true
		}
	}
	return false
}

func (d *damaged) arrayInside() bool {
	writeArray(&d.bucket(0)[0], emptyArray[uint32, uint32]())
	return true
}

func (d *damaged) pending() bool {
	d.free().Key = ^uint32(2)
	return true
}
