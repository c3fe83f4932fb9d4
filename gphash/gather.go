package gphash

import (
	"cmp"
	"context"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/pm"
)

// Records of some sizes may leave much of their units free that others need. So when there
// is no memory for a record, records make way: those of a row of units go to free places
// of their classes elsewhere. Since a record has its key, the slot that names it is found,
// and to move one is what an update is: the copy is written, and then the word.

// run is units in a row, the first of which has a multiple of their number for its own.
type run struct {
	first, n int
	words    uint64 // that records take
}

// gather frees runs of n units or more, those first in which records take the least, until
// these are so many units. Nobody else is at work, and what has been replaced is free.
func (e *engine) gather(n int, units uint64) (freed uint64, err error) {
	v := e.values
	v.alone = true
	moved := false
	for _, r := range v.sparse(n) {
		if freed >= units {
			break
		}
		r, ok := v.run(r.first, r.n, r.n > n, v.supply())
		if !ok {
			continue
		}
		moved = true
		if e.vacateRun(r) {
			freed += uint64(r.n)
		}
	}
	if moved && e.far != nil {
		err = e.far.refresh()
	}
	return freed, err
}

// sparse are runs of n units or more that can be made free, with the least taken first.
func (v *values) sparse(n int) (runs []run) {
	there := v.supply()
	for size := n; size <= mostUnits; size *= 2 {
		for first := 0; first+size <= len(v.space.owner); first += size {
			if r, ok := v.run(first, size, size > n, there); ok {
				runs = append(runs, r)
			}
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.words*uint64(b.n), b.words*uint64(a.n)) })
	return runs
}

// supply is the memory that there is for records.
type supply struct {
	places []uint64 // by class, in units that have some
	units  uint64
}

func (v *values) supply() supply {
	s := supply{make([]uint64, len(v.classes)), v.space.left()}
	for i := range v.parts {
		for class, list := range v.parts[i].extents {
			for _, x := range list {
				s.places[class] += x.left
			}
		}
	}
	return s
}

// run is a run of units that has records, all of which have places elsewhere: in units of
// their classes, or in free ones. These are fewer, if there is to be a gain; a single unit
// is never given for another one.
func (v *values) run(first, n int, gain bool, there supply) (r run, ok bool) {
	r = run{first: first, n: n}
	within := [128]uint64{} // by class, places of the run, taken or not
	free, needed := 0, uint64(0)
	for i := first; i < first+n; i++ {
		x := v.space.owner[i].values.Load()
		switch {
		case v.space.owner[i].level || x != nil && v.unitsOf(x.layout) > uint64(n):
			return r, false
		case x == nil:
			free++
		case x.unit == uint64(i):
			r.words += (x.layout.per - x.left) * x.layout.words
			if within[x.class] += x.layout.per; within[x.class] > there.places[x.class] {
				needed += v.unitsOf(x.layout)
			}
		}
	}
	gains := needed < uint64(n-free)
	return r, r.words > 0 && needed <= there.units-uint64(free) && (gains || !gain && n > 1)
}

// vacateRun moves what is in a run elsewhere.
func (e *engine) vacateRun(r run) (freed bool) {
	v := e.values
	away := region{values: v}
	reserved := v.withdraw(r.first, r.n, &away)
	freed = true
	for i := r.first; i < r.first+r.n && freed; i++ {
		if x := v.space.owner[i].values.Load(); x != nil && x.unit == uint64(i) {
			freed = e.evacuate(x, &away)
		}
	}
	for _, i := range reserved {
		v.space.giveBack(uint64(i), 1)
	}
	for _, list := range away.extents {
		for _, x := range list {
			v.parts[0].adopt(x)
		}
	}
	for _, block := range away.stale {
		v.parts[0].free(block)
	}
	return freed
}

// withdraw lets nobody take memory from n units in a row: those that are free pass for
// those of a level, and others with free memory go to a region that nobody has.
func (v *values) withdraw(first, n int, away *region) (reserved []int) {
	for i := first; i < first+n; i++ {
		x := v.space.owner[i].values.Load()
		switch {
		case x == nil:
			v.space.level(uint64(i), 1)
			reserved = append(reserved, i)
		case x.unit == uint64(i) && x.of != nil:
			list := x.of.list(x.class)
			*list = slices.DeleteFunc(*list, func(other *extent) bool { return other == x })
			away.adopt(x)
		}
	}
	return reserved
}

// evacuate moves the records of an extent elsewhere, as long as there is memory. Where they
// have been is free when nothing names them any more.
func (e *engine) evacuate(x *extent, away *region) bool {
	v := e.values
	for i := range x.layout.per {
		if x.used[i/64]>>(i%64)&1 == 0 {
			continue
		}
		block := v.first + x.unit*v.unit + i*x.layout.words
		if !e.moveRecord(block, x.class) {
			return false
		}
		away.replaced(block)
	}
	return true
}

// moveRecord gives the record at a block another place. Its checksum goes with it, right
// or wrong.
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
	to, err := v.parts[0].take(class)
	if err != nil {
		return false
	}
	e.mem.Write(to+1, v.append(block+1, int(h.words()-1)*pm.Word, nil))
	e.mem.Store(to, uint64(h)^uint64(mixed(block, it.hash)^mixed(to, it.hash)))
	e.mem.Fence()
	e.mem.Store(e.control(at), uint64(c.next(full, to)))
	e.mem.Fence()
	return true
}

// gatherFor makes room for records that have found none.
func (e *engine) gatherFor(b *batch.Batch) error {
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
		if freed, err := e.gather(n, units); err != nil || freed > 0 {
			return err
		}
	}
	return nil
}

// gatherAll makes as many units free as it can.
func (e *engine) gatherAll(ctx context.Context) error {
	for ctx.Err() == nil {
		if freed, err := e.gather(1, mostUnits); err != nil || freed == 0 {
			return err
		}
	}
	return ctx.Err()
}
