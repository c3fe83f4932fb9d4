package gphash

import "github.com/weftgo/weft/internal/op"

// writer changes a table. What one batch deletes or replaces, the next may use again
// (recycle), and not earlier: whoever still reads it would find something else there.
type writer struct {
	*table
	region *region // whose values it takes memory for
	alone  bool    // nobody else changes or iterates over the buckets of its keys: it may move others
	buffer []byte  // for a key that is moved
	live   int     // change of the number of keys
	dead   int     // slots that were full and are tombs now
}

// newWriter is a writer that has the buckets of its keys to itself, or shares them with
// others.
func (t *table) newWriter(r *region, alone bool) writer {
	return writer{table: t, region: r, alone: alone, buffer: make([]byte, t.keySize)}
}

// outcome is what has become of an operation.
type outcome struct {
	ok    bool   // Get found it, PutNew or Put inserted it, Update replaced it, Delete removed it
	had   bool   // the value that was there has been read
	value []byte // then, where it has been read to
	full  error
}

// combine makes the value that is to be stored of the one that is there and the one
// that has been given.
type combine func(there, given []byte)

// change runs an operation. given is the value that it brings; there receives the one
// that it finds, if it is not nil. by is for operations that combine values.
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

// answer reads the value that a probe has found, if it has found one.
func (w *writer) answer(p *probe, kind op.Kind, there []byte) (o outcome, done bool) {
	if !p.ok {
		return outcome{}, true
	}
	value := w.values.get(p.found.block(), there)
	return outcome{ok: kind == op.Get, had: true, value: value}, control(w.mem.Load(w.control(p.at))) == p.found
}

// insert gives a key a free slot or, if there is none, that of another key which has one
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
		p.free, p.was = d.from, d.is // its key is in two slots now, as after a crash here
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

// movable finds a key in the candidate buckets of another one that has a free slot in a
// bucket of its own. The paper moves nothing; but of four buckets of eight all are full
// for some key at a load of .9, and one step takes an index to .95.
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

// publish writes a key to a free slot, unless somebody else has taken it: the key is
// durable, as its value is already, before the control word says that they are there.
// What a crash leaves of it before has no value and is free again.
func (t *table) publish(at place, was control, it *item, block uint64) bool {
	claimed := was.next(writing, 0)
	if !t.mem.CompareAndSwap(t.control(at), uint64(was), uint64(claimed)) {
		return false
	}
	if was.state() == full {
		t.mem.Fence() // its key has moved, and must be gone before it is written over
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

// reuse makes free what this batch has deleted and replaced, if it is needed already, and
// reports whether that was anything. Only lookups beside changes would have to be waited
// for, which an engine on the host has none of.
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

// store writes a value, or a record, to memory of its own, durably.
func (w *writer) store(it *item, given []byte) (block uint64, err error) {
	if block, err = w.write(it, given); err == nil {
		w.mem.Fence()
	}
	return block, err
}

// write writes a value, or a record, to memory of its own.
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

// update gives a key another value: before a crash and behind it, the key has one of
// the two.
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

// remove makes a slot a tomb. The slot and the value's memory are used again by the
// next batch.
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
