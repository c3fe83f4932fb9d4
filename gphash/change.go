package gphash

import "github.com/weftgo/weft/internal/op"

// writer changes a table. Memory that a batch deletes or replaces is reused by the next batch at
// the earliest, since concurrent readers may still read it; see recycle.
type writer struct {
	*table
	region *region // memory for new values
	// exclusive is true if no other thread uses the candidate buckets of the writer's keys, so that
	// the writer may move other keys.
	exclusive bool
	buffer    []byte // key that is being moved
	live      int    // change of the number of keys
	dead      int    // number of full slots that became tombstones
}

// newWriter returns a writer. See [writer] for exclusive.
func (t *table) newWriter(r *region, exclusive bool) writer {
	return writer{table: t, region: r, exclusive: exclusive, buffer: make([]byte, t.keySize)}
}

type outcome struct {
	// true if Get found the key, PutNew or Put inserted it, Update replaced its value, or Delete
	// removed it
	ok       bool
	hasValue bool   // the existing value was read
	value    []byte // existing value
	err      error
}

// reducer combines the existing value with an operation's value and stores the result in existing.
type reducer func(existing, value []byte)

// change runs one operation. buf, if not nil, receives the existing value. reduce, if not nil,
// combines the existing value with value. change searches again if another thread changes the slot
// meanwhile.
func (w *writer) change(kind op.Kind, it *item, value, buf []byte, reduce reducer) outcome {
	for {
		p := w.probe(it)
		var o outcome
		done := true
		switch {
		case kind == op.Delete && p.ok:
			done = w.remove(p.at, p.control)
			o.ok = done
		case kind == op.Get || kind == op.Delete || p.ok && kind == op.PutNew || !p.ok && kind == op.Update:
			o, done = w.readFound(&p, kind, buf)
		case p.ok:
			o, done = w.update(&p, it, value, buf, reduce)
			o.ok = kind == op.Update && o.err == nil
		default:
			o, done = w.insert(&p, it, value)
		}
		if done {
			return o
		}
	}
}

// readFound reads the value that a probe found. done is false if the slot has changed.
func (w *writer) readFound(p *probe, kind op.Kind, buf []byte) (o outcome, done bool) {
	if !p.ok {
		return outcome{}, true
	}
	value := w.values.get(p.control.block(), buf)
	return outcome{ok: kind == op.Get, hasValue: true, value: value}, control(w.mem.Load(w.control(p.at))) == p.control
}

// insert publishes a key in a free slot. If no candidate slot is free, it moves another key
// elsewhere and uses that key's slot.
func (w *writer) insert(p *probe, it *item, value []byte) (o outcome, done bool) {
	var d relocation
	if !p.hasFree && (!w.exclusive || !w.findRelocation(it, &d)) {
		return outcome{err: errCrowded}, true
	}
	block, err := w.storeValue(it, value)
	if err != nil {
		return outcome{err: err}, true
	}
	if !p.hasFree {
		w.publish(d.to, d.toControl, &d.item, d.fromControl.block())
		// Two slots hold the moved key now. A crash here leaves the same state.
		p.free, p.freeControl = d.from, d.fromControl
	}
	if !w.publish(p.free, p.freeControl, it, block) {
		w.region.free(block)
		return outcome{}, false
	}
	w.live++
	return outcome{ok: true}, true
}

// relocation is a key that can move to a free slot.
type relocation struct {
	item
	from, to               slotRef
	fromControl, toControl control
}

// findRelocation searches the candidate buckets of a key for another key that can move to a free
// slot. The paper moves no keys on insertion. Without moves, at a load of .9 some keys find all
// four buckets of eight slots full. One step of moves raises the load to .95.
func (w *writer) findRelocation(it *item, d *relocation) (ok bool) {
	w.eachBucket(it.hash, func(bucket uint64, open bool) bool {
		for slot := uint64(0); open && slot < w.slots; slot++ {
			d.from = slotRef{bucket, slot}
			if d.fromControl = control(w.mem.Load(w.control(d.from))); d.fromControl.state() != full {
				continue
			}
			d.item = w.itemToMove(d.from, w.buffer)
			if d.to, d.toControl, ok = w.vacantSlot(&d.item); ok {
				return false
			}
		}
		return true
	})
	return ok
}

// publish writes a key to a free slot. It returns false if another thread has taken the slot. The
// key and its value are durable before the control word publishes them. After a crash before that
// store, recovery frees the slot.
func (t *table) publish(at slotRef, old control, it *item, block uint64) bool {
	claimed := old.next(writing, 0)
	if !t.mem.CompareAndSwap(t.control(at), uint64(old), uint64(claimed)) {
		return false
	}
	if old.state() == full {
		// The old copy of a moved key must be durably invalid before it is overwritten.
		t.mem.Fence()
	}
	t.mem.Store(t.tag(at), it.tag)
	if t.keyWords > 0 {
		t.mem.Write(t.key(at), it.key)
	}
	t.mem.Fence()
	t.mem.Store(t.control(at), uint64(claimed.next(full, block)))
	t.mem.Fence()
	return true
}

// freeStale frees memory and slots that this batch itself has deleted or replaced. It reports
// whether it freed anything. On the host no lookup can be reading them.
func (w *writer) freeStale() bool {
	r, v := w.region, w.values
	if v.singleWriter && len(r.stale) > 0 {
		w.dead -= v.recycle()
		return true
	}
	n := r.freeTombs()
	w.dead -= n
	return n > 0
}

// storeValue writes a value or a record to new memory and makes it durable.
func (w *writer) storeValue(it *item, value []byte) (block uint64, err error) {
	if block, err = w.writeValue(it, value); err == nil {
		w.mem.Fence()
	}
	return block, err
}

func (w *writer) writeValue(it *item, value []byte) (block uint64, err error) {
	v := w.values
	if !v.records {
		if block, err = w.region.alloc(0); err == nil {
			v.write(block, it.hash, value)
		}
		return block, err
	}
	class, _ := v.class(len(it.key), len(value))
	if block, err = w.region.alloc(class); err == nil {
		v.writeRecord(block, it, value)
	}
	return block, err
}

// update replaces the value of a key. After a crash, the key has the old value or the new one.
func (w *writer) update(p *probe, it *item, value, buf []byte, reduce reducer) (o outcome, done bool) {
	if reduce != nil {
		w.values.read(p.control.block(), buf)
		if control(w.mem.Load(w.control(p.at))) != p.control {
			return o, false
		}
		reduce(buf, value)
		value = buf
	}
	block, err := w.storeValue(it, value)
	if err != nil {
		return outcome{err: err}, true
	}
	if !w.mem.CompareAndSwap(w.control(p.at), uint64(p.control), uint64(p.control.next(full, block))) {
		w.region.free(block)
		return o, false
	}
	w.mem.Fence()
	w.region.addStale(p.control.block())
	return o, true
}

// remove marks a slot as a tombstone. The next batch may reuse the slot and its value's memory.
func (w *writer) remove(at slotRef, c control) bool {
	if !w.mem.CompareAndSwap(w.control(at), uint64(c), uint64(c.next(tomb, 0))) {
		return false
	}
	w.mem.Fence()
	w.region.addTomb(w.control(at))
	w.region.addStale(c.block())
	w.live--
	w.dead++
	return true
}
