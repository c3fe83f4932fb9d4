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

// An atomic batch runs in three steps. First all cores compute the new state of each key in the
// batch, without changing any key. They reserve slots, in state writing, and memory for values, and
// write the values at once. After this step nothing can fail. Then the new states of the slots go
// to the redo log. Publishing the log makes the batch durable. Finally one store per key changes
// the key's control word. The order of these stores does not matter, since recovery repeats them
// from the log. When the stores are durable, the log is emptied and the call returns.
//
// A batch takes five fences, whatever its size. A single insertion without the log takes three.

// changeAtomic runs a batch that fits the log. If capacity for one of the inserts is lacking, all
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
			e.noSpace = nil // the index grows, and the batch runs again
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

// capacityErr returns the error of a core that lacked capacity. If some cores lacked memory and
// others slots, it returns the error for memory, since more slots would not help.
func (e *engine) capacityErr(images []images) (err error) {
	for i := range images {
		if imageErr := images[i].err; err == nil || imageErr != nil && !errors.Is(imageErr, errCrowded) {
			err = imageErr
		}
	}
	return err
}

// publishLog makes the reservations and records of all cores durable and publishes the batch. The
// records are contiguous in the log. It returns false if no key changes.
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

// images holds the new states of the keys in one core's share of an atomic batch. The next batch
// reuses its memory.
type images struct {
	writer
	rows *rows
	ops  []uint32
	bits uint

	changes   []keyChange  // by number, in the order of first use in the batch
	data      []byte       // values of changes, if values have one length
	records   []uint64     // redo records of changes
	numbering keyNumbering // numbers of the keys while operations run
	// results of the operations; writeResults copies them later, since input values may be in the
	// same column
	results []byte
	found   foundValues // results in pools with records
	err     error       // lack of capacity
}

// keyChange is the state of one key before and after the batch.
type keyChange struct {
	item
	at         slotRef // slot of the key
	oldControl control // control word of that slot before the batch
	newControl control
	existed    bool // the key existed before the batch
	exists     bool // the key exists after the batch
	written    bool // the batch sets the value
	fetched    bool // the value before the batch has been read
	reserved   bool
	value      []byte
	block      uint64 // first word of the reserved value or record
}

// runOps runs operations in order on the images of their keys, without changing the table.
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
	index []uint32 // hash table of number + 1; 0 marks a free entry
	n     int
}

func (k *keyNumbering) reset(ops int) {
	size := 16
	for size < 2*ops {
		size *= 2
	}
	k.index, k.n = slices.Grow(k.index[:0], size)[:size], 0
	clear(k.index)
}

// number returns the number of the key with this hash for which equal returns true. If the key has
// no number yet, it gets the next one, and known is false.
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

// changeOf returns the change of a key. At the key's first use in the batch, it looks up the key.
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

// readExisting reads the value that a key had before the batch. It skips records if the batch
// returns no values.
func (m *images) readExisting(c *keyChange) {
	c.fetched = true
	if !m.table.records() {
		m.values.read(c.oldControl.block(), c.value)
	} else if m.rows.Columns[batch.Out].Given() {
		c.value = m.values.appendValue(c.oldControl.block(), nil)
	}
}

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

// setValue sets the value of a key to a value from the batch. In pools with records it keeps a
// reference, since the rows stay valid while the batch runs.
func (m *images) setValue(c *keyChange, value []byte) {
	c.exists, c.written = true, true
	if m.table.records() {
		c.value = value
		return
	}
	copy(c.value, value)
}

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

// dropUnchanged removes the changes of keys that end in the state they began in.
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

// reserve allocates memory and slots for all changes and makes the redo records. It writes the data
// that no reader sees before the changes are applied.
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
		if moved && c.existed { // the key may be one that was moved away
			c.at, c.oldControl, _ = m.table.find(&c.item)
		}
		if c.newControl = c.oldControl.next(tomb, 0); c.exists {
			c.newControl = c.oldControl.next(full, c.block)
		}
		m.records = append(m.records, m.control(c.at), uint64(c.newControl), c.tag)
	}
	return nil
}

// reserveKey allocates memory for a value and, for a new key, a slot. moved reports that another
// key was moved away from that slot.
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

// displaceKey moves another key to a free slot and uses that key's old slot for the new key.
func (m *images) displaceKey(c *keyChange) bool {
	var d relocation
	if !m.exclusive || !m.findRelocation(&c.item, &d) {
		return false
	}
	m.publish(d.to, d.toControl, &d.item, d.fromControl.block())
	c.at, c.oldControl = d.from, d.fromControl
	return true
}

// claimSlot marks the slot of a new key as being written and writes the key.
func (m *images) claimSlot(c *keyChange) {
	full := c.oldControl.state() == full
	c.oldControl = c.oldControl.next(writing, 0)
	m.mem.Store(m.control(c.at), uint64(c.oldControl))
	if full {
		// The copy of the moved key must be durably invalid before it is overwritten.
		m.mem.Fence()
	}
	m.mem.Store(m.tag(c.at), c.tag)
	if m.keyWords > 0 {
		m.mem.Write(m.key(c.at), c.key)
	}
}

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

// apply durably stores the new control words and records the memory that the next batch may reuse.
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

func (m *images) writeResults() {
	if m.found.appendTo(&m.rows.Columns[batch.Out]); len(m.results) == 0 {
		return
	}
	for j, i := range m.ops {
		copy(m.rows.value(batch.Out, i), row(m.results, j, m.valueSize))
	}
}
