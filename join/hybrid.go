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

// indexBytes is the memory of the index for a right row while it is built. hashBytes is the memory
// of the row's hash on the Go heap meanwhile, if keys are hashed.
const indexBytes, hashBytes = 28, 12

// hybrid joins one partition of both sides. It holds some right rows in memory, and the other
// partitions of them in the file.
type hybrid struct {
	*job
	depth int
	// right rows: keys, then columns; all partitions share one, one after another
	store *spill.Store
	index *built // of the store; nil before seal

	seed         uint64
	out          [spillParts]bool // partitions in the file
	nOut         int
	build, probe spill.Parts
	deduplicated bool // Semi and Anti: dropping rows with the same key would free little
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
	each := spill.Bytes(columns)/int64(n) + 1
	return int(max(1, min(j.batch/each, pieceRows)))
}

// add adds right rows. Those with a null in a key match nothing and are left out.
func (h *hybrid) add(ctx context.Context, columns []column.Column) error {
	size := h.batchRows(columns)
	for lo := 0; lo == 0 || lo < columns[0].Len(); lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		some := spill.Slice(columns, lo, min(lo+size, columns[0].Len()))
		if rows, all := h.matchable(some[:h.keys]); !all {
			some = spill.Take(h.dev, some, rows)
		}
		if err := h.addBatch(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (h *hybrid) addBatch(ctx context.Context, some []column.Column) (err error) {
	for {
		if h.nOut > 0 {
			if some, err = h.dealOut(some); err != nil {
				return err
			}
		}
		if !h.crowded(some) || h.store.Len() == 0 {
			return h.store.Append(h.dev, some)
		}
		if err := h.makeRoom(ctx); err != nil {
			return err
		}
	}
}

// crowded reports whether a store may lack capacity for more rows.
func (h *hybrid) crowded(more []column.Column) bool { return h.job.crowded(h.store, more) }

func (j *job) crowded(s *spill.Store, more []column.Column) bool {
	n := s.Len() + more[0].Len()
	if n > maxRows-1 { // a row of nulls may follow
		return true
	}
	each := int64(indexBytes)
	if !j.plan.packed {
		each += hashBytes
	}
	return j.share > 0 && s.Bytes()+spill.Bytes(more)+int64(n)*each > j.share
}

// makeRoom frees memory of right rows. If the join yields no right rows, it drops rows with the key
// of an earlier row. Otherwise it evicts the largest partitions.
func (h *hybrid) makeRoom(ctx context.Context) error {
	if most := h.store.Len() / 4 * 3; !h.kind.pairs() && !h.deduplicated {
		x, err := h.newBuilt(ctx, h.store)
		if err != nil {
			return err
		}
		if x.distinct() <= most {
			err = h.dropDuplicates(ctx, x)
		} else {
			err = x.close()
		}
		if h.deduplicated = h.store.Len() > most; err != nil || !h.deduplicated {
			return err
		}
	}
	return h.evict(ctx)
}

// countParts counts the rows of each partition in memory.
func (h *hybrid) countParts() (rows [spillParts]int, err error) {
	err = h.store.EachChunk(h.batch, func(chunk []column.Column) error {
		parts, err := h.partition(chunk)
		if err != nil {
			return err
		}
		for p := range h.parts {
			rows[p] += len(parts.Part(p))
		}
		return nil
	})
	return rows, err
}

// partition distributes rows by their keys.
func (h *hybrid) partition(columns []column.Column) (column.Parts, error) {
	return column.Partition(h.dev, columns[:h.keys], column.PartitionOptions{Parts: h.parts,
		Seed: h.seed})
}

// evict moves the largest partitions to the file, a quarter of the rows in memory at least.
func (h *hybrid) evict(ctx context.Context) error {
	rows, err := h.countParts()
	if err != nil {
		return err
	}
	order := make([]int, h.parts)
	for p := range order {
		order[p] = p
	}
	slices.SortFunc(order, func(a, b int) int { return rows[b] - rows[a] })
	gone := 0
	for _, p := range order {
		if gone > 0 && gone >= h.store.Len()/4 {
			break
		}
		gone += rows[p]
		if !h.out[p] {
			h.out[p] = true
			h.nOut++
		}
	}
	return h.store.Rewrite(h.dev, h.batch, func(chunk []column.Column) ([]column.Column, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return h.dealOut(chunk)
	})
}

// dealOut writes right rows of partitions in the file there, and returns the others.
func (h *hybrid) dealOut(columns []column.Column) ([]column.Column, error) {
	parts, err := h.partition(columns)
	if err != nil {
		return nil, err
	}
	here, there := h.separate(parts)
	if len(there) == 0 {
		return columns, nil
	}
	if err := h.write(&h.build, h.there.Take(h.dev, columns, there), parts); err != nil {
		return nil, err
	}
	return spill.Take(h.dev, columns, here), nil
}

// separate returns the rows of partitions in memory, ascending, and those of partitions in the
// file, one partition after another.
func (h *hybrid) separate(parts column.Parts) (here, there []uint32) {
	n := 0
	for p, is := range h.out {
		if is {
			n += len(parts.Part(p))
		}
	}
	if n == 0 {
		return nil, nil
	}
	stays := make([]uint8, len(parts.Rows)) // 0 or 1
	for i := range stays {
		stays[i] = 1
	}
	there = make([]uint32, 0, n)
	for p, is := range h.out {
		if !is {
			continue
		}
		rows := parts.Part(p)
		there = append(there, rows...)
		for _, r := range rows {
			stays[r] = 0
		}
	}
	here, n = make([]uint32, len(stays)), 0
	for r, is := range stays { // without branches, which would be mispredicted
		here[n] = uint32(r)
		n += int(is)
	}
	return here[:n], there
}

// write appends rows, ordered by partition, to the chains of their partitions.
func (h *hybrid) write(to *spill.Parts, columns []column.Column, parts column.Parts) error {
	file, err := h.spillFile()
	if err != nil {
		return err
	}
	var counts [spillParts]int
	for p, out := range h.out {
		if out {
			counts[p] = len(parts.Part(p))
		}
	}
	return to.Write(h.dev, file, columns, &counts)
}

// dropDuplicates keeps one row of each key, by their index x, which it closes.
func (h *hybrid) dropDuplicates(ctx context.Context, x *built) error {
	firsts, err := x.firstRows(ctx)
	if err = errors.Join(err, x.close()); err != nil {
		return err
	}
	at, lo := 0, 0
	return h.store.Rewrite(h.dev, h.batch, func(chunk []column.Column) ([]column.Column, error) {
		var rows []uint32
		for ; at < len(firsts) && int(firsts[at]) < lo+chunk[0].Len(); at++ {
			rows = append(rows, firsts[at]-uint32(lo))
		}
		lo += chunk[0].Len()
		return spill.Take(h.dev, chunk, rows), nil
	})
}

// seal ends the right side.
func (h *hybrid) seal(ctx context.Context) (err error) {
	if err := h.build.Flush(); err != nil {
		return err
	}
	h.index, err = h.newBuilt(ctx, h.store)
	if err != nil || h.kind.pairs() || h.plan.packed || h.index.distinct() == h.store.Len() {
		return err
	}
	// Otherwise each left row is compared with all right rows of its key.
	x := h.index
	h.index = nil
	if err := h.dropDuplicates(ctx, x); err != nil {
		return err
	}
	h.index, err = h.newBuilt(ctx, h.store)
	return err
}

// largeTable is the number of right rows whose index exceeds a core's cache. Few left rows at a
// time then miss the cache at each step: 2*10^7 left rows in batches of 2^17 took 4.7 s of CPU time
// with 2*10^7 right rows, and in batches of 2^21 1.8 s.
const largeTable = 1 << 17

// collect joins left rows, together with those of batches before and after if they are few.
func (h *hybrid) collect(ctx context.Context, columns []column.Column, emit emitter) error {
	n, held := columns[0].Len(), h.collected
	few := h.store.Len() > largeTable && n < pieceRows && spill.Bytes(columns) < h.batch
	if held != nil && (!few || held.Len()+n > pieceRows || held.Bytes()+spill.Bytes(columns) > h.batch) {
		if err := h.probeCollected(ctx, emit); err != nil {
			return err
		}
	}
	if !few {
		return h.probeAll(ctx, columns, emit)
	}
	if held == nil {
		h.collected = spill.NewStore(h.budget, rowkey.TypesOf(columns))
	}
	return h.collected.Append(h.dev, columns)
}

// probeCollected joins the rows that collect has kept.
func (h *hybrid) probeCollected(ctx context.Context, emit emitter) error {
	if h.collected == nil || h.collected.Len() == 0 {
		return nil
	}
	err := h.probeAll(ctx, h.collected.View(), emit)
	h.collected.Reset()
	return err
}

// probeAll joins left rows, or writes them to the file.
func (h *hybrid) probeAll(ctx context.Context, columns []column.Column, emit emitter) error {
	size := h.batchRows(columns)
	for lo := 0; lo < columns[0].Len(); lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		some := spill.Slice(columns, lo, min(lo+size, columns[0].Len()))
		if err := h.probeBatch(ctx, some, emit); err != nil {
			return err
		}
	}
	return nil
}

func (h *hybrid) probeBatch(ctx context.Context, some []column.Column, emit emitter) error {
	b := &leftBatch{n: some[0].Len(), columns: some[h.keys:], keys: some[:h.keys]}
	rows, all := h.matchable(b.keys)
	if !all {
		b.rows, b.keys = rows, spill.Take(h.dev, b.keys, rows)
	}
	if h.nOut == 0 {
		return h.index.join(ctx, b, emit)
	}
	parts, err := h.partition(b.keys)
	if err != nil {
		return err
	}
	here, there := h.separate(parts)
	if len(there) > 0 {
		later := b.rowsOf(there)
		if err := h.write(&h.probe, h.there.Take(h.dev, some, later), parts); err != nil {
			return err
		}
		b.skip(later)
		b.keys, b.rows = h.here.Take(h.dev, b.keys, here), b.rowsOf(here)
	}
	return h.index.join(ctx, b, emit)
}

// rest joins the partitions in the file.
func (h *hybrid) rest(ctx context.Context, emit emitter) error {
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
		if err := h.restPart(ctx, p, h.build.Rows[p] > total/8, emit); err != nil {
			return err
		}
	}
	return nil
}

// restPart joins one partition in the file. If it has few keys, or was partitioned several times,
// partitioning does not help.
func (h *hybrid) restPart(ctx context.Context, p int, fewKeys bool, emit emitter) (err error) {
	if fewKeys || h.depth == maxDepth {
		err := h.pieces(ctx, h.build.Chains[p], h.probe.Chains[p], emit)
		return errors.Join(err, h.build.Drop(p), h.probe.Drop(p))
	}
	h.store.Reset()
	sub := newHybrid(h.job, h.depth+1)
	defer func() { err = errors.Join(err, sub.close(), h.probe.Drop(p)) }()
	return h.restSub(ctx, sub, p, emit)
}

func (h *hybrid) restSub(ctx context.Context, sub *hybrid, p int, emit emitter) error {
	err := h.eachBatch(ctx, h.build.Chains[p], &h.rightBatchRows,
		func(columns []column.Column) error {
			return sub.add(ctx, columns)
		})
	if err = errors.Join(err, h.build.Drop(p)); err != nil {
		return err
	}
	if err := sub.seal(ctx); err != nil {
		return err
	}
	err = h.eachBatch(ctx, h.probe.Chains[p], &h.leftBatchRows,
		func(columns []column.Column) error {
			return sub.probeAll(ctx, columns, emit)
		})
	if err != nil {
		return err
	}
	return sub.rest(ctx, emit)
}
