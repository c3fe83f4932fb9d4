package gphash

import (
	"cmp"
	"context"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/pm"
)

// Compaction. Units may have free memory for records of one size while records of other sizes find
// none. Compaction empties runs of units: it moves their records to free places of the same classes
// elsewhere. A record contains its key, so the slot that refers to the record can be found. The
// move is an update: it writes the copy and then the control word.

// unitRun is a run of n consecutive units. Its first unit is a multiple of n.
type unitRun struct {
	first, n int
	words    uint64 // number of words in use by records
}

// freeRuns frees runs of at least n units until it has freed the given number of units. It starts
// with the runs that have the fewest words in use per unit. No other thread may be at work, and
// replaced records must be free already.
func (e *engine) freeRuns(n int, units uint64) (freed uint64, err error) {
	v := e.values
	v.singleWriter = true
	moved := false
	for _, r := range v.sparseRuns(n) {
		if freed >= units {
			break
		}
		r, ok := v.runAt(r.first, r.n, r.n > n, v.freeSupply())
		if !ok {
			continue
		}
		moved = true
		if e.vacateRun(r) {
			freed += uint64(r.n)
		}
	}
	if moved && e.accel != nil {
		err = e.accel.refreshSlots()
	}
	return freed, err
}

// sparseRuns returns the runs of at least n units that can be freed, those with least use first.
func (v *values) sparseRuns(n int) (runs []unitRun) {
	free := v.freeSupply()
	for size := n; size <= maxRunUnits; size *= 2 {
		for first := 0; first+size <= len(v.space.owner); first += size {
			if r, ok := v.runAt(first, size, size > n, free); ok {
				runs = append(runs, r)
			}
		}
	}
	slices.SortStableFunc(runs, func(a, b unitRun) int { return cmp.Compare(a.words*uint64(b.n), b.words*uint64(a.n)) })
	return runs
}

type freeSupply struct {
	places []uint64 // by class: number of free places in units of that class
	units  uint64
}

func (v *values) freeSupply() freeSupply {
	s := freeSupply{make([]uint64, len(v.classes)), v.space.freeUnits()}
	for i := range v.regions {
		for class, list := range v.regions[i].extents {
			for _, x := range list {
				s.places[class] += x.nFree
			}
		}
	}
	return s
}

// runAt returns the run of n units at index first. ok is true if all its records fit elsewhere, in
// units of their classes or in free units. If mustGain is true, the records must also take fewer
// free units than the run frees. A single unit is never freed at the cost of another unit.
func (v *values) runAt(first, n int, mustGain bool, avail freeSupply) (r unitRun, ok bool) {
	r = unitRun{first: first, n: n}
	inRun := [128]uint64{} // by class: number of places in the run, used or not
	free, needed := 0, uint64(0)
	for i := first; i < first+n; i++ {
		x := v.space.owner[i].extent.Load()
		switch {
		case v.space.owner[i].isLevel || x != nil && v.unitsOf(x.layout) > uint64(n):
			return r, false
		case x == nil:
			free++
		case x.unit == uint64(i):
			r.words += (x.layout.perUnit - x.nFree) * x.layout.words
			if inRun[x.class] += x.layout.perUnit; inRun[x.class] > avail.places[x.class] {
				needed += v.unitsOf(x.layout)
			}
		}
	}
	gains := needed < uint64(n-free)
	return r, r.words > 0 && needed <= avail.units-uint64(free) && (gains || !mustGain && n > 1)
}

// vacateRun moves the records of a run elsewhere. It reports whether all records moved.
func (e *engine) vacateRun(r unitRun) (freed bool) {
	v := e.values
	detached := region{values: v}
	reserved := v.withdraw(r.first, r.n, &detached)
	freed = true
	for i := r.first; i < r.first+r.n && freed; i++ {
		if x := v.space.owner[i].extent.Load(); x != nil && x.unit == uint64(i) {
			freed = e.moveRecords(x, &detached)
		}
	}
	for _, i := range reserved {
		v.space.releaseUnits(uint64(i), 1)
	}
	for _, list := range detached.extents {
		for _, x := range list {
			v.regions[0].addExtent(x)
		}
	}
	for _, block := range detached.stale {
		v.regions[0].free(block)
	}
	return freed
}

// withdraw prevents allocations from n consecutive units. It marks free units as units of a level
// and returns them, and moves partly free extents to the region detached.
func (v *values) withdraw(first, n int, detached *region) (reserved []int) {
	for i := first; i < first+n; i++ {
		x := v.space.owner[i].extent.Load()
		switch {
		case x == nil:
			v.space.markLevel(uint64(i), 1)
			reserved = append(reserved, i)
		case x.unit == uint64(i) && x.region != nil:
			list := x.region.extentsOf(x.class)
			*list = slices.DeleteFunc(*list, func(other *extent) bool { return other == x })
			detached.addExtent(x)
		}
	}
	return reserved
}

// moveRecords moves the records of an extent elsewhere until memory runs out. Their old memory is
// freed once no slot refers to it.
func (e *engine) moveRecords(x *extent, detached *region) bool {
	v := e.values
	for i := range x.layout.perUnit {
		if x.used[i/64]>>(i%64)&1 == 0 {
			continue
		}
		block := v.first + x.unit*v.unit + i*x.layout.words
		if !e.moveRecord(block, x.class) {
			return false
		}
		detached.addStale(block)
	}
	return true
}

// moveRecord moves the record at a block. It adjusts the checksum to the new place without
// verifying it, so a damaged record stays detectable.
func (e *engine) moveRecord(block uint64, class int) bool {
	v := e.values
	it := e.item(v.appendKey(block, nil))
	at, c, ok := e.find(&it)
	if !ok || c.block() != block {
		return false
	}
	h, ok := v.record(block)
	if !ok || classOf(h.words()) != class {
		return false
	}
	to, err := v.regions[0].alloc(class)
	if err != nil {
		return false
	}
	e.mem.Write(to+1, v.appendBytes(block+1, int(h.words()-1)*pm.Word, nil))
	e.mem.Store(to, uint64(h)^uint64(placeSum(block, it.hash)^placeSum(to, it.hash)))
	e.mem.Fence()
	e.mem.Store(e.control(at), uint64(c.next(full, to)))
	e.mem.Fence()
	return true
}

// compactFor compacts records to make room for those records of a batch that found no memory.
func (e *engine) compactFor(b *batch.Batch) error {
	v := e.values
	n, words := 1, uint64(0)
	for i := range b.N {
		class, _ := v.class(len(b.Columns[batch.Keys].Row(i)), len(b.Columns[batch.Vals].Row(i)))
		n, words = max(n, int(v.unitsOf(&v.classes[class]))), words+v.classes[class].words
	}
	if err := e.recycle(); err != nil {
		return err
	}
	for units := words/v.unit + uint64(n); n > 0; n /= 2 {
		if freed, err := e.freeRuns(n, units); err != nil || freed > 0 {
			return err
		}
	}
	return nil
}

func (e *engine) compactAll(ctx context.Context) error {
	for ctx.Err() == nil {
		if freed, err := e.freeRuns(1, maxRunUnits); err != nil || freed == 0 {
			return err
		}
	}
	return ctx.Err()
}
