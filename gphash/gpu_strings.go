package gphash

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// Byte strings of any length on a GPU. Batches and the pool both lie in host memory. So the host
// copies the long data, and the GPU finds and changes slots.
//
// For a change the host first writes, durably, the records that the batch may store: at most two
// per key. No slot refers to these records yet. The host allocates their memory as for its own
// batches. Then the keys go to the GPU. It hashes and sorts them, compares them with the keys of
// records over the bus, and resolves the operations on each key. The control word that publishes a
// slot refers to a record that already exists. For each row the GPU returns the fate of its record.
// Records without a reference are freed at once, and replaced records from the next batch on.
// Operations return places of records or numbers of rows, and the host copies the values.
//
// So a crash leaves the same states as with keys in slots. Each record is durable before a slot
// refers to it. It is overwritten only after the control word that refers to its successor is
// durable. No change runs alongside lookups, so the host can read a found record after the GPU is
// done. Only the host tracks free memory.

// stringsBytes is the maximum size of the keys in a launch with several keys. Tests reduce it.
var stringsBytes = 64 << 20

// stringKernels are the kernels of gphash_strings.cu that take other parameters than their
// counterparts in gphash.cu.
type stringKernels struct{ hash, find, list, change, crowded, follow device.Kernel }

// loadStrings loads the kernels of gphash_strings.cu. Those with the parameters of gphash.cu
// replace kernels of gphash.cu.
func (k *launcher) loadStrings() error {
	x := &k.strings
	return gpu.Load(k.dev, &gphashStringsImage, []gpu.Entry{
		{Name: "hash", To: &x.hash}, {Name: "find", To: &x.find}, {Name: "list", To: &x.list}, {Name: "change", To: &x.change},
		{Name: "change_crowded", To: &x.crowded}, {Name: "follow", To: &x.follow},
		{Name: "log", To: &k.log}, {Name: "settle", To: &k.apply}, {Name: "move_up", To: &k.moveUp},
	})
}

// ---- keys ---------------------------------------------------------------------------

// packKeys returns the keys of a batch in the form that kernels read: first a span per key, in
// words, and then the keys' words, padded with zero bytes.
func (g *gpuEngine) packKeys(b *batch.Batch) []uint64 {
	at := uint64(0)
	all := make([]uint64, b.N, 3*b.N)
	for i := range all {
		n := len(b.Columns[batch.Keys].Row(i))
		all[i] = uint64(batch.SpanOf(at, uint64(n)))
		at += pm.WordsOf(n)
	}
	all = append(all, make([]uint64, at)...)
	words := device.Bytes(all[b.N:])
	g.host.Device.Parallel(b.N, packPiece, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(words[all[i]>>spanBits*pm.Word:], b.Columns[batch.Keys].Row(i))
		}
	})
	return all
}

const (
	packPiece = 1 << 12 // keys that a core copies at a time
	spanBits  = 20      // bits for the length in a span, as in package batch
)

// launchSize returns the number of operations, beginning with row from, that are launched together.
// Atomic batches do not use it.
func launchSize(b *batch.Batch, from int) (n int) {
	for bytes := 0; from+n < b.N && n < core.ChunkOps; n++ {
		if bytes += len(b.Columns[batch.Keys].Row(from + n)); bytes > stringsBytes && n > 0 {
			break
		}
	}
	return n
}

func carveKeys(c *prim.Carve, n int, packed []uint64) stringsRef {
	at := c.Alloc(len(packed) * pm.Word)
	return stringsRef{spans: at, words: at + device.Ptr(n*pm.Word)}
}

// sortStrings submits kernels that hash and sort packed keys. See sort for fixed-length keys.
func (k *launcher) sortStrings(s *device.Stream, t *tableRef, keys stringsRef, n int, work device.Ptr) (o order, err error) {
	o, _ = newOrder(work, n)
	p := stringsHashParams{table: *t, keys: keys, hashes: o.hashes, prefixes: o.From.Keys, n: uint64(n)}
	if err := device.Launch(s, k.strings.hash, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
		return o, err
	}
	return o, k.sortHashes(s, &o)
}

// ---- lookups -------------------------------------------------------------------------

// lookStrings looks up keys, one launch after the other.
func (g *gpuEngine) lookStrings(ctx context.Context, b *batch.Batch) (done, hits int, err error) {
	for done < b.N {
		part := b.Part(done, done+launchSize(b, done))
		found, err := g.findStrings(ctx, part)
		if err != nil {
			return done, hits, err
		}
		done, hits = done+part.N, hits+found
	}
	return done, hits, nil
}

// foundBytes is the size of a lookup's answer: the record's place and the value's length.
const foundBytes = pm.Word + 4

// findStrings finds the records of keys and writes the answers to the batch's columns.
func (g *gpuEngine) findStrings(ctx context.Context, b *batch.Batch) (hits int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	packed := g.packKeys(b)
	lay := func(at device.Ptr) (keys stringsRef, found, sorting, end device.Ptr) {
		c := prim.Carve(at)
		keys, found = carveKeys(&c, b.N, packed), c.Alloc(foundBytes*b.N)
		_, end = newOrder(device.Ptr(c), b.N)
		return keys, found, device.Ptr(c), end
	}
	_, _, _, size := lay(0)
	answers := make([]byte, foundBytes*b.N)
	err = g.withBuffer(int(size), func(s *device.Stream, at device.Ptr) error {
		keys, found, sorting, _ := lay(at)
		return runSteps(
			func() error { return s.Wait(g.Visible) },
			func() error { return s.CopyIn(keys.spans, device.Bytes(packed)) },
			func() error { return g.k.findStrings(s, keys, b.N, found, sorting) },
			func() error { return s.CopyOut(ctx, answers, found) })
	})
	if err != nil {
		return 0, err
	}
	return writeAnswers(b, batch.View[uint64](answers)[:b.N], answers[pm.Word*b.N:]), nil
}

// withBuffer calls run with a separate stream and the address of a temporary buffer in device
// memory.
func (g *gpuEngine) withBuffer(bytes int, run func(s *device.Stream, at device.Ptr) error) error {
	return g.WithTransfer(func(_ *gpu.Transfer, s *device.Stream) error {
		work, err := g.k.buffers.acquire(bytes)
		if err != nil {
			return err
		}
		defer work.releaseAfter(s)
		return run(s, work.buf.Ptr)
	})
}

// findStrings submits a lookup of packed keys.
func (k *launcher) findStrings(s *device.Stream, keys stringsRef, n int, found, sorting device.Ptr) error {
	t := k.table.Load().ref
	o, err := k.sortStrings(s, &t, keys, n, sorting)
	if err != nil {
		return err
	}
	p := stringsFindParams{table: t, keys: keys, hashes: o.hashes, rows: o.To.Vals, records: found, lengths: found + device.Ptr(pm.Word*n), n: uint64(n)}
	if k.unsorted {
		p.rows = 0
	}
	return device.Launch(s, k.strings.find, gpu.Grid(warp*n), gpu.Block, &p)
}

// writeAnswers writes the answers to the columns of a lookup and returns the number of hits.
func writeAnswers(b *batch.Batch, records []uint64, lengths []byte) (hits int) {
	ok := batch.View[bool](b.Columns[batch.OK].Host)
	for i, record := range records {
		if record != 0 {
			hits++
		}
		if ok != nil {
			ok[i] = record != 0
		}
	}
	copy(b.Columns[batch.Out].Host, device.Bytes(records))
	copy(b.Columns[batch.Counts].Host, lengths)
	return hits
}

// Expand implements [core.Expander]. The host reads the records, since no change runs meanwhile.
func (g *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	return g.host.Expand(ctx, s, l, b)
}

// PairBytes implements [core.Measurer].
func (g *gpuEngine) PairBytes(*core.Lease) int { return g.host.values.recordBytes(g.table.Len()) }

// exportStrings exports the pairs of units [lo,hi). The GPU lists the places of the records, and
// the host reads the records.
func (g *gpuEngine) exportStrings(ctx context.Context, lo, hi uint32, out *batch.Batch) (n int, err error) {
	records := make([]uint64, out.N+1)
	err = g.withBuffer(pm.Word*len(records), func(s *device.Stream, at device.Ptr) error {
		p := bucketsParams{to: gpu.Export{Count: at, Vals: at + pm.Word, Rows: uint64(out.N)}}
		return runSteps(
			func() error { return s.Wait(g.LastChange()) },
			func() error { return s.Fill(p.to.Count, 0, 2) },
			func() error { return g.k.launchOnUnits(s, g.k.strings.list, p, lo, hi) },
			func() error { return s.CopyOut(ctx, device.Bytes(records), p.to.Count) })
	})
	if err != nil {
		return 0, err
	}
	n = int(records[0])
	rows := g.host.rows(out)
	for i, block := range records[1:][:min(n, out.N)] {
		rows.exportRecord(i, block)
	}
	return n, nil
}

// ---- records of a batch ------------------------------------------------------------------

// placedRecords holds the places of the records that the host has written for a batch.
type placedRecords struct {
	blocks  []uint64 // by row; 0 if none
	regions []uint8  // by row: region of the key
}

// scenario is the state of a key after the operations of a batch so far. It assumes that the key
// existed before the batch, or that it did not. Kernels compute the same scenarios by apply_op in
// strings.cuh.
type scenario struct {
	exists bool
	hasRow bool // a row of the batch has the value
	row    uint32
}

func (s *scenario) applyOp(kind op.Kind, row uint32) {
	switch {
	case kind == op.Put, kind == op.PutNew && !s.exists, kind == op.Update && s.exists:
		*s = scenario{true, true, row}
	case kind == op.Delete:
		*s = scenario{}
	}
}

// placer writes the records for one core's share of a batch. The next batch reuses its memory.
type placer struct {
	writer
	numbering keyNumbering
	keys      []placedKey
}

type placedKey struct {
	item
	ifAbsent, ifPresent scenario
}

// writeRecords durably writes a record for each row that may hold the final value of its key, until
// memory runs out. The final row depends only on whether the key exists before the batch, so each
// key has at most two such rows.
func (e *engine) writeRecords(r *rows) *placedRecords {
	p := &placedRecords{blocks: make([]uint64, r.N), regions: make([]uint8, r.N)}
	bits := e.bits()
	shares := e.distribute(r, bits)
	for len(e.placers) < len(shares) {
		e.placers = append(e.placers, placer{})
	}
	e.Device.Parallel(len(shares), 1, func(i, _ int) { e.placers[i].placeRecords(e, r, shares[i].Ops, bits, p) })
	return p
}

func (w *placer) placeRecords(e *engine, r *rows, ops []uint32, bits uint, p *placedRecords) {
	w.writer = e.newWriter(nil, false)
	w.numbering.reset(len(ops))
	w.keys = w.keys[:0]
	for _, i := range ops {
		it := r.item(r.key(i))
		p.regions[i] = uint8(w.values.regionIndex(it.hash, bits))
		n, known := w.numbering.number(it.hash, func(n int) bool { return w.keys[n].hash == it.hash && bytes.Equal(w.keys[n].key, it.key) })
		if !known {
			w.keys = append(w.keys, placedKey{item: it, ifPresent: scenario{exists: true}})
		}
		k := &w.keys[n]
		k.ifAbsent.applyOp(r.kind(i), i)
		k.ifPresent.applyOp(r.kind(i), i)
	}
	for i := range w.keys {
		k := &w.keys[i]
		for _, s := range [...]scenario{k.ifAbsent, k.ifPresent} {
			if !s.hasRow || p.blocks[s.row] != 0 {
				continue
			}
			w.region = &w.values.regions[p.regions[s.row]]
			if block, err := w.writeValue(&k.item, r.value(batch.Vals, s.row)); err == nil {
				p.blocks[s.row] = block
			}
		}
	}
	w.mem.Fence()
}

// referenced is set in the fate of a row if a slot now refers to the row's record. The other bits
// are the place of the key's record that lost its reference, or 0. In CUDA the bit is kReferenced.
const referenced = 1 << 63

// freeUnreferenced frees records without references: new records at once, and replaced ones from
// the next batch on. If fates is nil, the batch had no effect.
func (v *values) freeUnreferenced(p *placedRecords, fates []uint64) {
	for i, block := range p.blocks {
		r, fate := &v.regions[p.regions[i]], uint64(0)
		if fates != nil {
			fate = fates[i]
		}
		if block != 0 && fate&referenced == 0 {
			r.free(block)
		}
		if old := fate &^ referenced; old != 0 {
			r.addStale(old)
		}
	}
}

// ---- changes ---------------------------------------------------------------------------

// stringsBatch describes the device data of a change, except for its columns.
type stringsBatch struct {
	n          int
	keys       stringsRef
	fates      device.Ptr
	referenced bool // slots or the redo log may refer to the batch's records
}

// changeStrings runs the first operations of a host batch: as many as are launched together.
func (g *gpuEngine) changeStrings(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := runSteps(ctx.Err, g.finishPending); err != nil {
		return 0, nil, err
	}
	n, err := g.batchSize(ctx, b)
	if err != nil || n == 0 {
		return 0, nil, err
	}
	b = b.Part(0, n)
	g.host.values.recycle()
	p := g.host.writeRecords(g.host.rows(b))
	on, answers, work, err := g.uploadStrings(b, p)
	if err == nil {
		defer work.releaseAfter(g.Stream)
		failed, err = g.runStrings(on)
	}
	if err == nil && g.host.redo != nil && len(failed) > 0 {
		g.host.values.freeUnreferenced(p, nil)
		clear(b.Columns[batch.OK].Host)
		return n, failed, nil
	}
	if err == nil {
		err = g.readAnswers(b, p, answers)
	}
	if err != nil {
		return 0, nil, errors.Join(err, g.freeAfterError(p, err))
	}
	return n, failed, nil
}

// freeAfterError frees the records of a batch after an error. If slots may refer to its records, it
// first reads the fates. After a loss, or if the fates cannot be read, the next inspection of the
// pool finds the free memory.
func (g *gpuEngine) freeAfterError(p *placedRecords, err error) error {
	if errors.Is(err, device.ErrLost) {
		return nil
	}
	var fates []uint64
	if g.k.batch.referenced {
		fates = make([]uint64, len(p.blocks))
		if err := g.copyOut(device.Bytes(fates), g.k.batch.fates); err != nil {
			return err
		}
	}
	g.host.values.freeUnreferenced(p, fates)
	return nil
}

func (g *gpuEngine) batchSize(ctx context.Context, b *batch.Batch) (n int, err error) {
	if l := g.host.redo; l != nil {
		return min(b.N, l.capacity(), core.ChunkOps), nil
	}
	n = launchSize(b, 0)
	x, err := g.AcquireScratch(ctx, n)
	if err != nil {
		return 0, err
	}
	defer g.ReleaseScratch(x)
	return min(n, x.Ops), nil
}

func (g *gpuEngine) runStrings(on *batch.Batch) (failed []uint32, err error) {
	if g.host.redo != nil {
		return g.changeAllOrNone(g.Stream, on)
	}
	on.Flags |= batch.Report
	_, failed, err = g.Engine.Change(uncancelled, g.Stream, on)
	return failed, err
}

// answerBytes is the size of a change's answer per row: a fate, a result and a flag.
const answerBytes = 2*pm.Word + 1

// uploadStrings copies a host batch to the device. It also returns the address at which the kernels
// write the answers: all fates, then the results and the flags if the batch requests them.
func (g *gpuEngine) uploadStrings(b *batch.Batch, p *placedRecords) (on *batch.Batch, answers device.Ptr, work *pooledBuffer, err error) {
	packed := g.packKeys(b)
	on = &batch.Batch{N: b.N, Kind: b.Kind, Flags: b.Flags}
	lay := func(at device.Ptr) (keys stringsRef, end device.Ptr) {
		c := prim.Carve(at)
		keys = carveKeys(&c, b.N, packed)
		on.Columns[batch.Keys] = batch.Column{Ptr: keys.spans, Width: pm.Word}
		on.Columns[batch.Vals] = batch.Column{Ptr: c.Alloc(pm.Word * b.N), Width: pm.Word}
		if b.Columns[batch.Kinds].Given() {
			on.Columns[batch.Kinds] = batch.Column{Ptr: c.Alloc(b.N), Width: 1}
		}
		answers = c.Alloc(answerBytes * b.N)
		if b.Columns[batch.Out].Given() {
			on.Columns[batch.Out] = batch.Column{Ptr: answers + device.Ptr(pm.Word*b.N), Width: pm.Word}
		}
		if b.Columns[batch.OK].Given() {
			on.Columns[batch.OK] = batch.Column{Ptr: answers + device.Ptr(2*pm.Word*b.N), Width: 1}
		}
		return keys, device.Ptr(c)
	}
	g.k.batch = stringsBatch{}
	_, size := lay(0)
	if work, err = g.k.buffers.acquire(int(size)); err != nil {
		return nil, 0, nil, err
	}
	keys, _ := lay(work.buf.Ptr)
	g.k.batch = stringsBatch{n: b.N, keys: keys, fates: answers}
	s := g.Stream
	err = s.CopyIn(keys.spans, device.Bytes(packed))
	if err == nil {
		err = s.CopyIn(on.Columns[batch.Vals].Ptr, device.Bytes(p.blocks))
	}
	if kinds := &on.Columns[batch.Kinds]; err == nil && kinds.Given() {
		err = s.CopyIn(kinds.Ptr, b.Columns[batch.Kinds].Host)
	}
	if err != nil {
		work.releaseAfter(s)
	}
	return on, answers, work, g.noteLoss(err)
}

func (k *launcher) submitStrings(s *device.Stream, c *gpu.Change, p *changeParams) error {
	if c.N != k.batch.n {
		return fmt.Errorf("%w: a batch of byte strings must be launched in one piece",
			device.ErrMemory)
	}
	x := stringsChangeParams{change: *p, keys: k.batch.keys, fates: k.batch.fates}
	err := s.Fill(x.fates, 0, (answerBytes*c.N+3)/4)
	if err == nil {
		k.batch.referenced = p.entries == 0
		err = device.Launch(s, k.strings.change, gpu.Grid(warp*c.N), gpu.Block, &x)
	}
	if err == nil && c.Inserts() {
		err = device.Launch(s, k.strings.crowded, gpu.Grid(warp<<p.regions), gpu.Block, &x)
	}
	if err != nil || p.entries == 0 {
		return err
	}
	return writeLog(k, s, k.strings.follow, &x)
}

func (g *gpuEngine) readAnswers(b *batch.Batch, p *placedRecords, from device.Ptr) error {
	answers := make([]byte, answerBytes*b.N)
	if err := g.copyOut(answers, from); err != nil {
		return err
	}
	words := batch.View[uint64](answers)
	if b.Columns[batch.Out].Given() {
		g.appendResults(b, words[b.N:2*b.N])
	}
	copy(b.Columns[batch.OK].Host, answers[2*pm.Word*b.N:])
	g.host.values.freeUnreferenced(p, words[:b.N])
	return nil
}

// isRow is set in a result that refers to the value of a row; the other bits are the row's number.
// Without isRow, the result is the place of a record, or 0. In CUDA the bit is kIsRow.
const isRow = 1 << 63

func (g *gpuEngine) appendResults(b *batch.Batch, results []uint64) {
	out, v := &b.Columns[batch.Out], g.host.values
	rowValue := func(r uint64) []byte { return b.Columns[batch.Vals].Row(int(r &^ isRow)) }
	for i, r := range results {
		switch {
		case r&isRow != 0:
			out.Extend(i, len(rowValue(r)))
		case r != 0:
			if h, ok := v.record(r); ok {
				out.Extend(i, h.valueLen())
			}
		}
	}
	g.host.Device.Parallel(b.N, packPiece, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			switch r := results[i]; {
			case r&isRow != 0:
				copy(out.Row(i), rowValue(r))
			case r != 0:
				// the length differs only if another program writes to the pool
				if h, ok := v.record(r); ok && h.valueLen() == len(out.Row(i)) {
					v.mem.Read(r+h.valueOffset(), out.Row(i))
				}
			}
		}
	})
}

// ---- growth ------------------------------------------------------------------------------

// refreshSlots rebuilds the device's copies of slots after the host has changed slots. No other
// thread may be at work.
func (g *gpuEngine) refreshSlots() error {
	t := g.k.table.Load()
	return g.RunSync(uncancelled, func(s *device.Stream) error { return g.k.writeLevels(s, t, &levels{}) })
}
