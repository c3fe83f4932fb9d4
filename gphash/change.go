package gphash

import "github.com/weftgo/weft/internal/op"

// writer changes a table. Memory that a batch deletes or replaces is reused by the next batch
// (recycle), not earlier, since concurrent readers would find something else there.
type writer struct {
	*table
	region *region // region of the values it allocates
	// No other thread changes or iterates over the buckets of its keys, so it may move other keys.
	alone  bool
	buffer []byte // for a key that is moved
	live   int    // change of the number of keys
	dead   int    // slots that were full and are tombstones now
}

// newWriter returns a writer that either owns the buckets of its keys (alone) or shares them.
func (t *table) newWriter(r *region, alone bool) writer {
	return writer{table: t, region: r, alone: alone, buffer: make([]byte, t.keySize)}
}

// outcome is the result of an operation.
type outcome struct {
	ok    bool   // Get found it, PutNew or Put inserted it, Update replaced it, Delete removed it
	had   bool   // the existing value has been read
	value []byte // that value
	full  error
}

// combine computes the value to store from the existing and the given one, in there.
type combine func(there, given []byte)

// change runs an operation. given is the value that it brings. there, if not nil, receives the
// value that it finds. by combines values, for operations that do.
func (w *writer) change(kind op.Kind, it *item, given, there []byte, by combine) outcome {
	for {
		p := w.probe(it)
		var o outcome
		done := true
		switch {
		case kind == op.Delete && p.ok:
			done = w.remove(p.at, p.found)
			o.ok = done
		case kind == op.Get || kind == op.Delete || p.ok && kind == op.PutNew || !p.ok && kind == op.Update:
			o, done = w.answer(&p, kind, there)
		case p.ok:
			o, done = w.update(&p, it, given, there, by)
			o.ok = kind == op.Update && o.full == nil
		default:
			o, done = w.insert(&p, it, given)
		}
		if done {
			return o
		}
	}
}

// answer reads the value that a probe has found, if any.
func (w *writer) answer(p *probe, kind op.Kind, there []byte) (o outcome, done bool) {
	if !p.ok {
		return outcome{}, true
	}
	value := w.values.get(p.found.block(), there)
	return outcome{ok: kind == op.Get, had: true, value: value}, control(w.mem.Load(w.control(p.at))) == p.found
}

// insert gives a key a free slot. Failing that, it takes the slot of another key that can move
// elsewhere.
func (w *writer) insert(p *probe, it *item, given []byte) (o outcome, done bool) {
	var d detour
	if !p.space && (!w.alone || !w.movable(it, &d)) {
		return outcome{full: errCrowded}, true
	}
	block, err := w.store(it, given)
	if err != nil {
		return outcome{full: err}, true
	}
	if !p.space {
		w.publish(d.to, d.was, &d.item, d.is.block())
		p.free, p.was = d.from, d.is // two slots hold its key now, as after a crash here
	}
	if !w.publish(p.free, p.was, it, block) {
		w.region.free(block)
		return outcome{}, false
	}
	w.live++
	return outcome{ok: true}, true
}

// detour is a key that can move to a free slot.
type detour struct {
	item
	from, to place
	is, was  control
}

// movable finds a key in the candidate buckets of another one that can move to a free slot in a
// candidate bucket of its own. The paper moves nothing. But at a load of .9 some keys find all four
// buckets of eight full, and one step of moves takes an index to .95.
func (w *writer) movable(it *item, d *detour) (ok bool) {
	w.each(it.hash, func(bucket uint64, open bool) bool {
		for slot := uint64(0); open && slot < w.slots; slot++ {
			d.from = place{bucket, slot}
			if d.is = control(w.mem.Load(w.control(d.from))); d.is.state() != full {
				continue
			}
			d.item = w.moving(d.from, w.buffer)
			if d.to, d.was, ok = w.vacant(&d.item); ok {
				return false
			}
		}
		return true
	})
	return ok
}

// publish writes a key to a free slot, unless another thread has taken it. The key and its value
// are durable before the control word publishes them. A crash before that leaves a slot without a
// value, which is free again.
func (t *table) publish(at place, was control, it *item, block uint64) bool {
	claimed := was.next(writing, 0)
	if !t.mem.CompareAndSwap(t.control(at), uint64(was), uint64(claimed)) {
		return false
	}
	if was.state() == full {
		// its key has moved and must be gone before it is overwritten
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

// reuse frees what this batch has deleted and replaced, if that is needed already, and reports
// whether it freed anything. Only concurrent lookups would forbid that, and an engine on the host
// has none.
func (w *writer) reuse() bool {
	r, v := w.region, w.values
	if v.alone && len(r.stale) > 0 {
		w.dead -= v.recycle()
		return true
	}
	n := r.unbury()
	w.dead -= n
	return n > 0
}

// store writes a value or a record to memory of its own and makes it durable.
func (w *writer) store(it *item, given []byte) (block uint64, err error) {
	if block, err = w.write(it, given); err == nil {
		w.mem.Fence()
	}
	return block, err
}

// write writes a value or a record to memory of its own.
func (w *writer) write(it *item, given []byte) (block uint64, err error) {
	v := w.values
	if !v.records {
		if block, err = w.region.take(0); err == nil {
			v.write(block, it.hash, given)
		}
		return block, err
	}
	class, _ := v.class(len(it.key), len(given))
	if block, err = w.region.take(class); err == nil {
		v.writeRecord(block, it, given)
	}
	return block, err
}

// update gives a key another value. A crash leaves one of the two.
func (w *writer) update(p *probe, it *item, given, there []byte, by combine) (o outcome, done bool) {
	if by != nil {
		w.values.read(p.found.block(), there)
		if control(w.mem.Load(w.control(p.at))) != p.found {
			return o, false
		}
		by(there, given)
		given = there
	}
	block, err := w.store(it, given)
	if err != nil {
		return outcome{full: err}, true
	}
	if !w.mem.CompareAndSwap(w.control(p.at), uint64(p.found), uint64(p.found.next(full, block))) {
		w.region.free(block)
		return o, false
	}
	w.mem.Fence()
	w.region.replaced(p.found.block())
	return o, true
}

// remove makes a slot a tombstone. The next batch reuses the slot and the value's memory.
func (w *writer) remove(at place, c control) bool {
	if !w.mem.CompareAndSwap(w.control(at), uint64(c), uint64(c.next(tomb, 0))) {
		return false
	}
	w.mem.Fence()
	w.region.buried(w.control(at))
	w.region.replaced(c.block())
	w.live--
	w.dead++
	return true
}
