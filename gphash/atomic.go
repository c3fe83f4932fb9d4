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

// changeAtomic runs a batch that fits the log. If capacity for its inserts is lacking, all its
// operations fail and nothing changes.
func (e *engine) changeAtomic(r *rows, tally *core.Tally) (failed []uint32) {
	bits := e.bits()
	shares := e.distribute(r, bits)
	if len(e.images) < len(shares) {
		e.images = make([]images, len(shares))
	}
	images := e.images[:len(shares)]
	e.Device.Parallel(len(shares), 1, func(i, _ int) {
		images[i].runOps(e, r, shares[i].Ops, bits)
		images[i].err = images[i].reserve()
	})
	if e.noSpace = e.capacityErr(images); e.noSpace != nil {
		for i := range images {
			images[i].releaseReserved()
		}
		if errors.Is(e.noSpace, errCrowded) {
			e.noSpace = nil // a larger index has slots
		}
		for i := range r.N {
			r.setOK(uint32(i), false)
		}
		return core.AllRows(r.N)
	}
	if e.publishLog(images) {
		e.Device.Parallel(len(shares), 1, func(i, _ int) { images[i].apply() })
		e.redo.truncate()
	}
	for i := range images {
		m := &images[i]
		tally.Live += uint64(m.live)
		tally.Used += uint64(m.live + m.dead)
		m.writeResults()
	}
	return nil
}

// capacityErr returns why capacity is lacking. Lack of memory takes precedence, since more slots
// would not help then.
func (e *engine) capacityErr(images []images) (err error) {
	for i := range images {
		if imageErr := images[i].err; err == nil || imageErr != nil && !errors.Is(imageErr, errCrowded) {
			err = imageErr
		}
	}
	return err
}

// publishLog makes the reservations and the records of all cores durable, and publishes them. The
// records are contiguous in the log. It returns false without any.
func (e *engine) publishLog(images []images) bool {
	count := uint64(0)
	firsts := make([]uint64, len(images))
	for i := range images {
		firsts[i] = count
		count += uint64(len(images[i].changes))
	}
	if count == 0 {
		return false
	}
	b, sum := e.redo.firstBatch(count, 0), atomic.Uint64{}
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

	changes   []keyChange  // by key, in the order of first use in the batch
	data      []byte       // their values, if of one length
	records   []uint64     // redo records of their slots
	numbering keyNumbering // index of their keys while operations run
	// results of operations, for a column that may be that of the values
	results []byte
	found   foundValues // results that are byte strings
	err     error       // lack of capacity
}

// keyChange is the new state of a key.
type keyChange struct {
	item
	at         slotRef // its slot
	oldControl control // of that slot, before
	newControl control
	existed    bool // the key existed before
	exists     bool // it will exist after
	written    bool // with a value of the batch
	fetched    bool // its value is the one from before the batch
	reserved   bool
	value      []byte
	block      uint64 // of the value or record
}

// runOps runs the operations in their order on the images of their keys.
func (m *images) runOps(e *engine, r *rows, ops []uint32, bits uint) {
	m.writer, m.rows, m.ops, m.bits = e.newWriter(nil, e.mayMove), r, ops, bits
	m.numbering.reset(len(ops))
	m.changes = slices.Grow(m.changes[:0], len(ops))
	m.data = slices.Grow(m.data[:0], len(ops)*int(e.valueSize))
	m.results, m.found = m.results[:0], foundValues{}
	cpu.RunPrefetched(cpu.NoWatch(), ops, cpu.Group, r.prefetchBuckets, m.runOp)
	m.dropUnchanged()
}

// keyNumbering numbers keys in the order of their first use. The next batch reuses its memory.
type keyNumbering struct {
	index []uint32 // by hash: number + 1; 0: none
	n     int
}

// reset allocates for the keys of that many operations.
func (k *keyNumbering) reset(ops int) {
	size := 16
	for size < 2*ops {
		size *= 2
	}
	k.index, k.n = slices.Grow(k.index[:0], size)[:size], 0
	clear(k.index)
}

// number returns the number of the key with this hash for which equal returns true, or a new one.
// known reports whether the key has one already.
func (k *keyNumbering) number(hash uint64, equal func(i int) bool) (i int, known bool) {
	mask := uint64(len(k.index) - 1)
	at := hash & mask
	for ; k.index[at] != 0; at = (at + 1) & mask {
		if i := int(k.index[at]) - 1; equal(i) {
			return i, true
		}
	}
	k.n++
	k.index[at] = uint32(k.n)
	return k.n - 1, false
}

// changeOf returns the image of a key, which is looked up at its first use in the batch.
func (m *images) changeOf(it *item) *keyChange {
	i, known := m.numbering.number(it.hash, func(i int) bool { c := &m.changes[i]; return c.hash == it.hash && bytes.Equal(c.key, it.key) })
	if known {
		return &m.changes[i]
	}
	m.changes = append(m.changes, keyChange{item: *it})
	c := &m.changes[i]
	if !m.table.records() {
		m.data = m.data[:(i+1)*int(m.valueSize)]
		c.value = row(m.data, i, m.valueSize)
	}
	c.at, c.oldControl, c.existed = m.table.find(it)
	c.exists = c.existed
	return c
}

// readExisting reads the value that a key had before the batch. A record stays in place while the
// batch runs.
func (m *images) readExisting(c *keyChange) {
	c.fetched = true
	if !m.table.records() {
		m.values.read(c.oldControl.block(), c.value)
	} else if m.rows.Columns[batch.Out].Given() {
		c.value = m.values.appendValue(c.oldControl.block(), nil)
	}
}

// runOp runs an operation.
func (m *images) runOp(i uint32, it item) {
	kind, value := m.rows.kind(i), m.rows.value(batch.Vals, i)
	c := m.changeOf(&it)
	if c.exists && !c.written && !c.fetched && kind != op.Put && kind != op.Update && kind != op.Delete {
		m.readExisting(c)
	}
	ok, hasValue := false, false
	switch {
	case kind == op.Delete:
		ok, c.exists = c.exists, false
	case kind == op.Get || kind == op.PutNew && c.exists:
		ok, hasValue = kind == op.Get && c.exists, c.exists
	case kind == op.Update:
		if ok = c.exists; ok {
			m.setValue(c, value)
		}
	case kind.Reduces() && c.exists:
		cpu.Reduce(m.rows.Flags, kind, c.value, value)
		c.written = true
	default:
		ok = !c.exists
		m.setValue(c, value)
	}
	m.rows.setOK(i, ok)
	m.addResult(i, c.value, hasValue)
}

// setValue sets the value of a key to one of the batch. Rows of byte strings stay valid while the
// batch runs.
func (m *images) setValue(c *keyChange, value []byte) {
	c.exists, c.written = true, true
	if m.table.records() {
		c.value = value
		return
	}
	copy(c.value, value)
}

// addResult stores what an operation returns.
func (m *images) addResult(i uint32, value []byte, hasValue bool) {
	switch out := &m.rows.Columns[batch.Out]; {
	case !out.Given():
	case out.Data != nil && hasValue:
		m.found.add(out, i, value)
	case out.Data == nil:
		m.results = append(m.results, value...)
		if !hasValue {
			clear(m.results[len(m.results)-len(value):])
		}
	}
}

// dropUnchanged removes keys that have not changed.
func (m *images) dropUnchanged() {
	n := 0
	for i := range m.changes {
		c := &m.changes[i]
		if !c.exists && !c.existed || c.exists && c.existed && !c.written {
			continue
		}
		m.changes[n] = *c
		n++
	}
	m.changes = m.changes[:n]
}

// reserve allocates all that the changes need, writes the parts that no reader sees before they are
// applied, and makes the records.
func (m *images) reserve() error {
	moved := false
	for i := range m.changes {
		c := &m.changes[i]
		if !c.exists {
			continue
		}
		m.region = m.values.regionOf(c.hash, m.bits)
		movedKey, err := m.reserveKey(c)
		if err != nil {
			return err
		}
		moved = moved || movedKey
	}
	m.records = m.records[:0]
	for i := range m.changes {
		c := &m.changes[i]
		if moved && c.existed { // keys that were moved away may be of this batch
			c.at, c.oldControl, _ = m.table.find(&c.item)
		}
		if c.newControl = c.oldControl.next(tomb, 0); c.exists {
			c.newControl = c.oldControl.next(full, c.block)
		}
		m.records = append(m.records, m.control(c.at), uint64(c.newControl), c.tag)
	}
	return nil
}

// reserveKey takes memory for a value and, for a new key, a slot. moved reports that another key
// was moved away.
func (m *images) reserveKey(c *keyChange) (moved bool, err error) {
	if c.block, err = m.writeValue(&c.item, c.value); err != nil {
		return false, err
	}
	if !c.existed {
		var ok bool
		if c.at, c.oldControl, ok = m.vacantSlot(&c.item); !ok {
			if moved = m.displaceKey(c); !moved {
				m.region.free(c.block)
				return false, errCrowded
			}
		}
		m.claimSlot(c)
	}
	c.reserved = true
	return moved, nil
}

// displaceKey moves another key away and gives its slot to the new one.
func (m *images) displaceKey(c *keyChange) bool {
	var d relocation
	if !m.exclusive || !m.findRelocation(&c.item, &d) {
		return false
	}
	m.publish(d.to, d.toControl, &d.item, d.fromControl.block())
	c.at, c.oldControl = d.from, d.fromControl
	return true
}

// claimSlot takes a slot for a new key and writes the key.
func (m *images) claimSlot(c *keyChange) {
	full := c.oldControl.state() == full
	c.oldControl = c.oldControl.next(writing, 0)
	m.mem.Store(m.control(c.at), uint64(c.oldControl))
	if full {
		// the key moved away must be gone before it is overwritten
		m.mem.Fence()
	}
	m.mem.Store(m.tag(c.at), c.tag)
	if m.keyWords > 0 {
		m.mem.Write(m.key(c.at), c.key)
	}
}

// releaseReserved undoes the reservations.
func (m *images) releaseReserved() {
	for i := range m.changes {
		c := &m.changes[i]
		if !c.reserved {
			continue
		}
		if !c.existed {
			m.mem.Store(m.control(c.at), uint64(c.oldControl.next(empty, 0)))
		}
		m.values.regionOf(c.hash, m.bits).free(c.block)
	}
}

// apply stores the changes and makes them durable.
func (m *images) apply() {
	for i := range m.changes {
		c := &m.changes[i]
		at := m.control(c.at)
		r := m.values.regionOf(c.hash, m.bits)
		if c.existed {
			r.addStale(c.oldControl.block())
		} else {
			m.live++
		}
		if !c.exists {
			r.addTomb(at)
			m.live--
			m.dead++
		}
		m.mem.Store(at, uint64(c.newControl))
	}
	m.mem.Fence()
}

// writeResults writes the results of operations to their column.
func (m *images) writeResults() {
	if m.found.appendTo(&m.rows.Columns[batch.Out]); len(m.results) == 0 {
		return
	}
	for j, i := range m.ops {
		copy(m.rows.value(batch.Out, i), row(m.results, j, m.valueSize))
	}
}
