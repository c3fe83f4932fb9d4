package join

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/spill"
)

// indexBytes is the memory in bytes of the index per right row during the build. hashBytes is the
// memory for the row's hash on the Go heap meanwhile, if keys are hashed.
const indexBytes, hashBytes = 28, 12

// hybrid joins one partition of both sides. It holds some right rows in memory. Other right rows
// are in the file, in partitions of their own.
type hybrid struct {
	*job
	depth int
	// right rows: keys, then columns; successive partitions share one store
	store *spill.Store
	index *indexedRows // index of store; nil before finishBuild

	seed         uint64
	spilled      [spillParts]bool // partitions in the file
	nSpilled     int
	build, probe spill.Parts
	deduplicated bool // Semi and Anti: dropping rows with equal keys would free little memory
}

func newHybrid(j *job, depth int) *hybrid {
	return &hybrid{job: j, depth: depth, store: j.rows, seed: rand.Uint64()}
}

func (h *hybrid) close() error {
	return errors.Join(h.index.close(), h.build.Free(), h.probe.Free())
}

// batchRows returns the number of rows of columns to process at a time.
func (j *job) batchRows(columns []column.Column) int {
	n := columns[0].Len()
	if n == 0 {
		return 1
	}
	rowBytes := spill.Bytes(columns)/int64(n) + 1
	return int(max(1, min(j.batchBytes/rowBytes, pieceRows)))
}

// add adds right rows, except rows with a null in a key, which match nothing.
func (h *hybrid) add(ctx context.Context, columns []column.Column) error {
	size := h.batchRows(columns)
	for lo := 0; lo == 0 || lo < columns[0].Len(); lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := spill.Slice(columns, lo, min(lo+size, columns[0].Len()))
		if rows, all := h.matchable(batch[:h.keys]); !all {
			batch = spill.Take(h.dev, batch, rows)
		}
		if err := h.addBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (h *hybrid) addBatch(ctx context.Context, batch []column.Column) (err error) {
	for {
		if h.nSpilled > 0 {
			if batch, err = h.spillRows(batch); err != nil {
				return err
			}
		}
		if !h.mayOverflow(batch) || h.store.Len() == 0 {
			return h.store.Append(h.dev, batch)
		}
		if err := h.freeMemory(ctx); err != nil {
			return err
		}
	}
}

// mayOverflow reports whether the store may lack capacity for more rows.
func (h *hybrid) mayOverflow(rows []column.Column) bool { return h.job.mayOverflow(h.store, rows) }

func (j *job) mayOverflow(s *spill.Store, rows []column.Column) bool {
	n := s.Len() + rows[0].Len()
	if n > maxRows-1 { // a row of nulls may follow
		return true
	}
	perRow := int64(indexBytes)
	if !j.plan.packed {
		perRow += hashBytes
	}
	return j.rightBytes > 0 && s.Bytes()+spill.Bytes(rows)+int64(n)*perRow > j.rightBytes
}

// freeMemory frees memory of right rows. If the join yields no right columns, it drops rows whose
// key an earlier row has. Otherwise, or if that frees little, it evicts the largest partitions.
func (h *hybrid) freeMemory(ctx context.Context) error {
	if limit := h.store.Len() / 4 * 3; !h.kind.pairs() && !h.deduplicated {
		x, err := h.newIndexedRows(ctx, h.store)
		if err != nil {
			return err
		}
		if x.distinct() <= limit {
			err = h.dropDuplicates(ctx, x)
		} else {
			err = x.close()
		}
		if h.deduplicated = h.store.Len() > limit; err != nil || !h.deduplicated {
			return err
		}
	}
	return h.evict(ctx)
}

// countParts counts the rows of each partition in memory.
func (h *hybrid) countParts() (rows [spillParts]int, err error) {
	err = h.store.ForEachChunk(h.batchBytes, func(chunk []column.Column) error {
		parts, err := h.partition(chunk)
		if err != nil {
			return err
		}
		for p := range h.nParts {
			rows[p] += len(parts.Part(p))
		}
		return nil
	})
	return rows, err
}

// partition distributes rows by their keys.
func (h *hybrid) partition(columns []column.Column) (column.Parts, error) {
	return column.Partition(h.dev, columns[:h.keys], column.PartitionOptions{Parts: h.nParts,
		Seed: h.seed})
}

// evict moves the largest partitions to the file. They have at least a quarter of the rows in
// memory.
func (h *hybrid) evict(ctx context.Context) error {
	rows, err := h.countParts()
	if err != nil {
		return err
	}
	order := make([]int, h.nParts)
	for p := range order {
		order[p] = p
	}
	slices.SortFunc(order, func(a, b int) int { return rows[b] - rows[a] })
	evicted := 0
	for _, p := range order {
		if evicted > 0 && evicted >= h.store.Len()/4 {
			break
		}
		evicted += rows[p]
		if !h.spilled[p] {
			h.spilled[p] = true
			h.nSpilled++
		}
	}
	return h.store.Rewrite(h.dev, h.batchBytes, func(chunk []column.Column) ([]column.Column, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return h.spillRows(chunk)
	})
}

// spillRows writes right rows of spilled partitions to the file, and returns the other rows.
func (h *hybrid) spillRows(columns []column.Column) ([]column.Column, error) {
	parts, err := h.partition(columns)
	if err != nil {
		return nil, err
	}
	kept, spilled := h.splitRows(parts)
	if len(spilled) == 0 {
		return columns, nil
	}
	if err := h.writeParts(&h.build, h.spillTaker.Take(h.dev, columns, spilled), parts); err != nil {
		return nil, err
	}
	return spill.Take(h.dev, columns, kept), nil
}

// splitRows returns the rows of partitions in memory, ascending, and the rows of partitions in the
// file, one partition after another. If no row is of a partition in the file, both are nil.
func (h *hybrid) splitRows(parts column.Parts) (kept, spilled []uint32) {
	n := 0
	for p, out := range h.spilled {
		if out {
			n += len(parts.Part(p))
		}
	}
	if n == 0 {
		return nil, nil
	}
	keep := make([]uint8, len(parts.Rows)) // 0 or 1
	for i := range keep {
		keep[i] = 1
	}
	spilled = make([]uint32, 0, n)
	for p, out := range h.spilled {
		if !out {
			continue
		}
		rows := parts.Part(p)
		spilled = append(spilled, rows...)
		for _, r := range rows {
			keep[r] = 0
		}
	}
	kept, n = make([]uint32, len(keep)), 0
	for r, bit := range keep { // without branches, which would be mispredicted
		kept[n] = uint32(r)
		n += int(bit)
	}
	return kept[:n], spilled
}

// writeParts appends rows, ordered by partition, to the chains of their partitions.
func (h *hybrid) writeParts(to *spill.Parts, columns []column.Column, parts column.Parts) error {
	file, err := h.spillFile()
	if err != nil {
		return err
	}
	var counts [spillParts]int
	for p, out := range h.spilled {
		if out {
			counts[p] = len(parts.Part(p))
		}
	}
	return to.Write(h.dev, file, columns, &counts)
}

// dropDuplicates keeps one row of each key. x is the index of the rows, which it closes.
func (h *hybrid) dropDuplicates(ctx context.Context, x *indexedRows) error {
	firsts, err := x.firstRows(ctx)
	if err = errors.Join(err, x.close()); err != nil {
		return err
	}
	at, lo := 0, 0
	return h.store.Rewrite(h.dev, h.batchBytes, func(chunk []column.Column) ([]column.Column, error) {
		var rows []uint32
		for ; at < len(firsts) && int(firsts[at]) < lo+chunk[0].Len(); at++ {
			rows = append(rows, firsts[at]-uint32(lo))
		}
		lo += chunk[0].Len()
		return spill.Take(h.dev, chunk, rows), nil
	})
}

// finishBuild completes the right side. Semi and Anti joins drop duplicates of wide keys.
func (h *hybrid) finishBuild(ctx context.Context) (err error) {
	if err := h.build.Flush(); err != nil {
		return err
	}
	h.index, err = h.newIndexedRows(ctx, h.store)
	if err != nil || h.kind.pairs() || h.plan.packed || h.index.distinct() == h.store.Len() {
		return err
	}
	// Otherwise each left row would be compared with all right rows of its key.
	x := h.index
	h.index = nil
	if err := h.dropDuplicates(ctx, x); err != nil {
		return err
	}
	h.index, err = h.newIndexedRows(ctx, h.store)
	return err
}

// largeTable is a number of right rows whose index exceeds a core's cache. A small batch of left
// rows then misses the cache at each step: 2*10^7 left rows took 4.7 s of CPU time in batches of
// 2^17, and 1.8 s in batches of 2^21, with 2*10^7 right rows.
const largeTable = 1 << 17

// probeOrBuffer joins left rows. It buffers a small batch, to join it together with later ones.
func (h *hybrid) probeOrBuffer(ctx context.Context, columns []column.Column, emit emitter) error {
	n, buffered := columns[0].Len(), h.buffered
	small := h.store.Len() > largeTable && n < pieceRows && spill.Bytes(columns) < h.batchBytes
	if buffered != nil && (!small || buffered.Len()+n > pieceRows || buffered.Bytes()+spill.Bytes(columns) > h.batchBytes) {
		if err := h.probeBuffered(ctx, emit); err != nil {
			return err
		}
	}
	if !small {
		return h.probeAll(ctx, columns, emit)
	}
	if buffered == nil {
		h.buffered = spill.NewStore(h.budget, rowkey.TypesOf(columns))
	}
	return h.buffered.Append(h.dev, columns)
}

// probeBuffered joins the rows that probeOrBuffer has buffered.
func (h *hybrid) probeBuffered(ctx context.Context, emit emitter) error {
	if h.buffered == nil || h.buffered.Len() == 0 {
		return nil
	}
	err := h.probeAll(ctx, h.buffered.View(), emit)
	h.buffered.Reset()
	return err
}

// probeAll joins left rows, or writes them to the file.
func (h *hybrid) probeAll(ctx context.Context, columns []column.Column, emit emitter) error {
	size := h.batchRows(columns)
	for lo := 0; lo < columns[0].Len(); lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := spill.Slice(columns, lo, min(lo+size, columns[0].Len()))
		if err := h.probeBatch(ctx, batch, emit); err != nil {
			return err
		}
	}
	return nil
}

func (h *hybrid) probeBatch(ctx context.Context, batch []column.Column, emit emitter) error {
	b := &leftBatch{n: batch[0].Len(), columns: batch[h.keys:], keys: batch[:h.keys]}
	rows, all := h.matchable(b.keys)
	if !all {
		b.rows, b.keys = rows, spill.Take(h.dev, b.keys, rows)
	}
	if h.nSpilled == 0 {
		return h.index.joinBatch(ctx, b, emit)
	}
	parts, err := h.partition(b.keys)
	if err != nil {
		return err
	}
	kept, spilled := h.splitRows(parts)
	if len(spilled) > 0 {
		spilledRows := b.toRows(spilled)
		if err := h.writeParts(&h.probe, h.spillTaker.Take(h.dev, batch, spilledRows), parts); err != nil {
			return err
		}
		b.markSkipped(spilledRows)
		b.keys, b.rows = h.keptTaker.Take(h.dev, b.keys, kept), b.toRows(kept)
	}
	return h.index.joinBatch(ctx, b, emit)
}

// joinSpilled joins the partitions in the file.
func (h *hybrid) joinSpilled(ctx context.Context, emit emitter) error {
	if err := h.probe.Flush(); err != nil {
		return err
	}
	err := h.index.close()
	h.index = nil
	if err != nil {
		return err
	}
	total := h.build.Total()
	for p := range spillParts {
		if h.probe.Rows[p] == 0 {
			if err := h.build.Drop(p); err != nil {
				return err
			}
			continue
		}
		if err := h.joinSpilledPart(ctx, p, h.build.Rows[p] > total/8, emit); err != nil {
			return err
		}
	}
	return nil
}

// joinSpilledPart joins partition p in the file. It joins the partition in pieces, without
// partitioning it again, if it has few keys (skewed) or if the depth is maxDepth.
func (h *hybrid) joinSpilledPart(ctx context.Context, p int, skewed bool, emit emitter) (err error) {
	if skewed || h.depth == maxDepth {
		err := h.joinInPieces(ctx, h.build.Chains[p], h.probe.Chains[p], emit)
		return errors.Join(err, h.build.Drop(p), h.probe.Drop(p))
	}
	h.store.Reset()
	sub := newHybrid(h.job, h.depth+1)
	defer func() { err = errors.Join(err, sub.close(), h.probe.Drop(p)) }()
	return h.joinRepartitioned(ctx, sub, p, emit)
}

func (h *hybrid) joinRepartitioned(ctx context.Context, sub *hybrid, p int, emit emitter) error {
	err := h.visitBatches(ctx, h.build.Chains[p], &h.rightBatchRows,
		func(columns []column.Column) error {
			return sub.add(ctx, columns)
		})
	if err = errors.Join(err, h.build.Drop(p)); err != nil {
		return err
	}
	if err := sub.finishBuild(ctx); err != nil {
		return err
	}
	err = h.visitBatches(ctx, h.probe.Chains[p], &h.leftBatchRows,
		func(columns []column.Column) error {
			return sub.probeAll(ctx, columns, emit)
		})
	if err != nil {
		return err
	}
	return sub.joinSpilled(ctx, emit)
}
