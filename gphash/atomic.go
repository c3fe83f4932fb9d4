package gphash

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Atomic batches. First all cores compute the new state of each key of the batch, without changing
// any. They reserve slots, which then count as being written, and memory for values, and write the
// values at once. From here on nothing can fail. The new state of the slots goes to the redo log
// and is published: the batch is durable. Then one store to the control word changes each key, in
// any order, since recovery repeats these stores from the log. When they are durable the log is
// emptied, and the call returns.
//
// So a batch takes five fences, whatever its size, where a single insertion takes three.

// atomic runs a batch that fits the log. If capacity for its inserts is lacking, all its operations
// fail and nothing changes.
func (e *engine) atomic(r *rows, tally *core.Tally) (failed []uint32) {
	bits := e.bits()
	shares := e.deal(r, bits)
	if len(e.images) < len(shares) {
		e.images = make([]images, len(shares))
	}
	images := e.images[:len(shares)]
	e.Device.Parallel(len(shares), 1, func(i, _ int) {
		images[i].begin(e, r, shares[i].Ops, bits)
		images[i].err = images[i].reserve()
	})
	if e.noSpace = e.refused(images); e.noSpace != nil {
		for i := range images {
			images[i].release()
		}
		if errors.Is(e.noSpace, errCrowded) {
			e.noSpace = nil // a larger index has slots
		}
		for i := range r.N {
			r.flag(uint32(i), false)
		}
		return core.All(r.N)
	}
	if e.log(images) {
		e.Device.Parallel(len(shares), 1, func(i, _ int) { images[i].apply() })
		e.redo.retire()
	}
	for i := range images {
		m := &images[i]
		tally.Live += uint64(m.live)
		tally.Used += uint64(m.live + m.dead)
		m.answer()
	}
	return nil
}

// refused returns why capacity is lacking. Lack of memory takes precedence, since more slots would
// not help then.
func (e *engine) refused(images []images) (err error) {
	for i := range images {
		if is := images[i].err; err == nil || is != nil && !errors.Is(is, errCrowded) {
			err = is
		}
	}
	return err
}

// log makes the reservations and the records of all cores durable, and publishes them. The records
// are contiguous in the log. It returns false without any.
func (e *engine) log(images []images) bool {
	count := uint64(0)
	firsts := make([]uint64, len(images))
	for i := range images {
		firsts[i] = count
		count += uint64(len(images[i].changed))
	}
	if count == 0 {
		return false
	}
	b, sum := e.redo.next(count, 0), atomic.Uint64{}
	e.Device.Parallel(len(images), 1, func(i, _ int) {
		e.mem.Write(b.records()+firsts[i]*recordWords, device.Bytes(images[i].records))
		e.mem.Fence()
		sum.Add(digestsOf(firsts[i], images[i].records))
	})
	e.redo.publish(b, sum.Load())
	return true
}

// images are the results of a core's share of a batch, by key. The next batch reuses their memory.
type images struct {
	writer
	rows *rows
	ops  []uint32
	bits uint

	changed []change // by key, in the order of first use in the batch
	data    []byte   // their values, if of one length
	records []uint64 // redo records of their slots
	named   naming   // index of their keys while operations run
	// results of operations, for a column that may be that of the values
	results []byte
	found   found // results that are byte strings
	err     error // lack of capacity
}

// change is the new state of a key.
type change struct {
	item
	at       place   // its slot
	control  control // of that slot, before
	becomes  control
	there    bool // the key existed before
	present  bool // it will exist after
	written  bool // with a value of the batch
	fetched  bool // its value is the one from before the batch
	reserved bool
	value    []byte
	block    uint64 // of the value or record
}

// begin runs the operations in their order on the images of their keys.
func (m *images) begin(e *engine, r *rows, ops []uint32, bits uint) {
	m.writer, m.rows, m.ops, m.bits = e.newWriter(nil, e.moves), r, ops, bits
	m.named.begin(len(ops))
	m.changed = slices.Grow(m.changed[:0], len(ops))
	m.data = slices.Grow(m.data[:0], len(ops)*int(e.valueSize))
	m.results, m.found = m.results[:0], found{}
	cpu.Ahead(cpu.NoWatch(), ops, cpu.Group, r.ask, m.run)
	m.keepChanged()
}

// naming numbers keys in the order of their first use. The next batch reuses its memory.
type naming struct {
	index []uint32 // by hash: number + 1; 0: none
	n     int
}

// begin allocates for the keys of that many operations.
func (k *naming) begin(ops int) {
	size := 16
	for size < 2*ops {
		size *= 2
	}
	k.index, k.n = slices.Grow(k.index[:0], size)[:size], 0
	clear(k.index)
}

// number returns the number of the key with this hash for which is returns true, or a new one.
// again reports whether the key has one already.
func (k *naming) number(hash uint64, is func(i int) bool) (i int, again bool) {
	mask := uint64(len(k.index) - 1)
	at := hash & mask
	for ; k.index[at] != 0; at = (at + 1) & mask {
		if i := int(k.index[at]) - 1; is(i) {
			return i, true
		}
	}
	k.n++
	k.index[at] = uint32(k.n)
	return k.n - 1, false
}

// of returns the image of a key, which is looked up at its first use in the batch.
func (m *images) of(it *item) *change {
	i, again := m.named.number(it.hash, func(i int) bool { c := &m.changed[i]; return c.hash == it.hash && bytes.Equal(c.key, it.key) })
	if again {
		return &m.changed[i]
	}
	m.changed = append(m.changed, change{item: *it})
	c := &m.changed[i]
	if !m.table.records() {
		m.data = m.data[:(i+1)*int(m.valueSize)]
		c.value = row(m.data, i, m.valueSize)
	}
	c.at, c.control, c.there = m.table.find(it)
	c.present = c.there
	return c
}

// fetch reads the value that a key had before the batch. A record stays in place while the batch
// runs.
func (m *images) fetch(c *change) {
	c.fetched = true
	if !m.table.records() {
		m.values.read(c.control.block(), c.value)
	} else if m.rows.Columns[batch.Out].Given() {
		c.value = m.values.appendValue(c.control.block(), nil)
	}
}

// run runs an operation.
func (m *images) run(i uint32, it item) {
	kind, given := m.rows.kind(i), m.rows.value(batch.Vals, i)
	c := m.of(&it)
	if c.present && !c.written && !c.fetched && kind != op.Put && kind != op.Update && kind != op.Delete {
		m.fetch(c)
	}
	ok, had := false, false
	switch {
	case kind == op.Delete:
		ok, c.present = c.present, false
	case kind == op.Get || kind == op.PutNew && c.present:
		ok, had = kind == op.Get && c.present, c.present
	case kind == op.Update:
		if ok = c.present; ok {
			m.give(c, given)
		}
	case kind.Reduces() && c.present:
		cpu.Reduce(m.rows.Flags, kind, c.value, given)
		c.written = true
	default:
		ok = !c.present
		m.give(c, given)
	}
	m.rows.flag(i, ok)
	m.result(i, c.value, had)
}

// give sets the value of a key to one of the batch. Rows of byte strings stay valid while the batch
// runs.
func (m *images) give(c *change, given []byte) {
	c.present, c.written = true, true
	if m.table.records() {
		c.value = given
		return
	}
	copy(c.value, given)
}

// result stores what an operation returns.
func (m *images) result(i uint32, value []byte, had bool) {
	switch out := &m.rows.Columns[batch.Out]; {
	case !out.Given():
	case out.Data != nil && had:
		m.found.add(out, i, value)
	case out.Data == nil:
		m.results = append(m.results, value...)
		if !had {
			clear(m.results[len(m.results)-len(value):])
		}
	}
}

// keepChanged removes keys that have not changed.
func (m *images) keepChanged() {
	n := 0
	for i := range m.changed {
		c := &m.changed[i]
		if !c.present && !c.there || c.present && c.there && !c.written {
			continue
		}
		m.changed[n] = *c
		n++
	}
	m.changed = m.changed[:n]
}

// reserve allocates all that the changes need, writes the parts that no reader sees before they are
// applied, and makes the records.
func (m *images) reserve() error {
	moved := false
	for i := range m.changed {
		c := &m.changed[i]
		if !c.present {
			continue
		}
		m.region = m.values.region(c.hash, m.bits)
		made, err := m.room(c)
		if err != nil {
			return err
		}
		moved = moved || made
	}
	m.records = m.records[:0]
	for i := range m.changed {
		c := &m.changed[i]
		if moved && c.there { // keys that were moved away may be of this batch
			c.at, c.control, _ = m.table.find(&c.item)
		}
		if c.becomes = c.control.next(tomb, 0); c.present {
			c.becomes = c.control.next(full, c.block)
		}
		m.records = append(m.records, m.control(c.at), uint64(c.becomes), c.tag)
	}
	return nil
}

// room takes memory for a value and, for a new key, a slot. moved reports that another key was
// moved away.
func (m *images) room(c *change) (moved bool, err error) {
	if c.block, err = m.write(&c.item, c.value); err != nil {
		return false, err
	}
	if !c.there {
		var ok bool
		if c.at, c.control, ok = m.vacant(&c.item); !ok {
			if moved = m.makeWay(c); !moved {
				m.region.free(c.block)
				return false, errCrowded
			}
		}
		m.claim(c)
	}
	c.reserved = true
	return moved, nil
}

// makeWay moves another key away and gives its slot to the new one.
func (m *images) makeWay(c *change) bool {
	var d detour
	if !m.alone || !m.movable(&c.item, &d) {
		return false
	}
	m.publish(d.to, d.was, &d.item, d.is.block())
	c.at, c.control = d.from, d.is
	return true
}

// claim takes a slot for a new key and writes the key.
func (m *images) claim(c *change) {
	full := c.control.state() == full
	c.control = c.control.next(writing, 0)
	m.mem.Store(m.control(c.at), uint64(c.control))
	if full {
		// the key moved away must be gone before it is overwritten
		m.mem.Fence()
	}
	m.mem.Store(m.tag(c.at), c.tag)
	if m.keyWords > 0 {
		m.mem.Write(m.key(c.at), c.key)
	}
}

// release undoes the reservations.
func (m *images) release() {
	for i := range m.changed {
		c := &m.changed[i]
		if !c.reserved {
			continue
		}
		if !c.there {
			m.mem.Store(m.control(c.at), uint64(c.control.next(empty, 0)))
		}
		m.values.region(c.hash, m.bits).free(c.block)
	}
}

// apply stores the changes and makes them durable.
func (m *images) apply() {
	for i := range m.changed {
		c := &m.changed[i]
		at := m.control(c.at)
		r := m.values.region(c.hash, m.bits)
		if c.there {
			r.replaced(c.control.block())
		} else {
			m.live++
		}
		if !c.present {
			r.buried(at)
			m.live--
			m.dead++
		}
		m.mem.Store(at, uint64(c.becomes))
	}
	m.mem.Fence()
}

// answer writes the results of operations to their column.
func (m *images) answer() {
	if m.found.deliver(&m.rows.Columns[batch.Out]); len(m.results) == 0 {
		return
	}
	for j, i := range m.ops {
		copy(m.rows.value(batch.Out, i), row(m.results, j, m.valueSize))
	}
}
