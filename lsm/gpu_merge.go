package lsm

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/inorder"
)

// plan describes the merges of a change.
type plan struct {
	n        int      // max entries of the new run; 0 if no run is made
	levels   []*level // levels to merge, from the newest on
	slot     int      // slot of the resulting level
	total    int      // max entries of the result
	replaced int      // number of levels that the result replaces
}

func (e *gpuEngine) planFor(n int) *plan {
	p := &plan{n: n}
	levels := e.current().levels
	p.slot, p.replaced, p.total = e.pool.target(levels, n)
	p.levels = levels[:p.replaced]
	return p
}

// merges returns the number of merges. Each merges two levels.
func (p *plan) merges() int {
	if p.n == 0 {
		return len(p.levels) - 1
	}
	return len(p.levels)
}

// newer returns the maximum number of entries of the run and all levels except the oldest.
func (p *plan) newer() int {
	n := p.n
	for _, l := range p.levels[:len(p.levels)-1] {
		n += l.n
	}
	return n
}

func (p *plan) bytes(e *gpuEngine, at device.Ptr) int { return int(e.layOutMerge(p, at).end) }

// mergeMemory is the layout of the work memory for merges.
type mergeMemory struct {
	run   levelRef    // the new run
	temps [2]levelRef // results of all merges except the last, used in turn

	places, deltas, states device.Ptr // by entry of the newer level
	changes                prim.Scan
	sums                   prim.Scan     // sums of the resulting level
	prim                   device.Buffer // scratch memory of e.prims
	end                    device.Ptr
}

// layOutMerge lays out the work memory for merges, from an address on.
func (e *gpuEngine) layOutMerge(p *plan, at device.Ptr) (m mergeMemory) {
	c := prim.Carve(at)
	if merges := p.merges(); merges > 0 {
		newer := p.newer()
		if p.n > 0 {
			m.run = e.runAt(&c, p.n)
		}
		for i := range min(merges-1, len(m.temps)) {
			m.temps[i] = e.runAt(&c, newer)
		}
		m.places, m.deltas, m.states = c.Alloc(4*newer), c.Alloc(newer), c.Alloc(newer)
		m.changes = prim.Scan{N: newer, Width: 4, Counts: c.Alloc(4 * newer), Offsets: c.Alloc(4 * (newer + 1))}
	}
	m.sums = prim.Scan{N: nodes(p.total), Width: 4, Counts: c.Alloc(4 * nodes(p.total))}
	m.prim.Size = m.sums.ScratchBytes()
	if m.changes.Width > 0 {
		m.prim.Size = max(m.prim.Size, m.changes.ScratchBytes())
	}
	m.prim.Ptr = c.Alloc(m.prim.Size)
	m.end = device.Ptr(c)
	return m
}

// runAt allocates a level of at most n entries, without index and sums.
func (e *gpuEngine) runAt(c *prim.Carve, n int) levelRef {
	a := arrayRef{keys: c.Alloc(n * e.Widths.Key), vals: c.Alloc(n * e.Widths.Val), room: uint64(n), flip: e.flip}
	deltas := c.Alloc(n)
	a.counters = c.Alloc(inorder.TallyBytes)
	return levelRef{array: a, deltas: deltas}
}

// push submits the merges of a plan, and makes the next generation with the result. After an error
// the current generation is unchanged. write submits the kernels that make the run, if the plan has
// one. The work memory for the merges begins at work.
func (e *gpuEngine) push(s *device.Stream, p *plan, work device.Ptr, submit submitter, write func(run levelRef) error) error {
	if p.total > maxEntries {
		return errLarge(p.total)
	}
	to, err := e.pool.alloc(p.slot, p.total)
	if err != nil {
		return err
	}
	m := e.layOutMerge(p, work)
	err = submit(s, func() error { return e.merge(s, p, &m, e.refOf(to), write) })
	if err != nil {
		return errors.Join(err, s.Sync(context.Background()), e.pool.spare.Free(to))
	}
	e.stale = true
	return e.leases.Replace(e.current().withLevel(to, p.replaced))
}

func (e *gpuEngine) merge(s *device.Stream, p *plan, m *mergeMemory, to levelRef, write func(run levelRef) error) error {
	older := p.levels
	var newer levelRef
	size := p.n
	if p.n > 0 {
		if newer = m.run; len(older) == 0 {
			newer = to
		}
		if err := write(newer); err != nil {
			return err
		}
	} else {
		newer, size, older = e.refOf(older[0]), older[0].n, older[1:]
	}
	for i, l := range older {
		into := m.temps[i%2]
		if i == len(older)-1 {
			into = to
		}
		if err := e.mergeTwo(s, m, newer, size, l, into); err != nil {
			return err
		}
		newer = into
		size += l.n
	}
	return e.fill(s, p, m, to)
}

// moves is the number of entries that a thread copies (lsm.cu).
const moves = 8

// mergeTwo submits a merge of two levels. newer has at most size entries.
func (e *gpuEngine) mergeTwo(s *device.Stream, m *mergeMemory, newer levelRef, size int, older *level, to levelRef) error {
	scan := m.changes
	scan.N = size
	p := mergeParams{
		newer: newer, older: e.refOf(older), to: to, places: m.places, deltas: m.deltas, states: m.states,
		changes: scan.Counts, shifts: scan.Offsets, n: uint32(size),
	}
	if err := device.Launch(s, e.match, gpu.Wave(e.Dev, size), gpu.Block, &p); err != nil {
		return err
	}
	if err := e.prims.Scan(s, &scan, m.prim); err != nil {
		return err
	}
	if err := device.Launch(s, e.move, gpu.Wave(e.Dev, older.n/moves), gpu.Block, &p); err != nil {
		return err
	}
	return device.Launch(s, e.join, gpu.Wave(e.Dev, size), gpu.Block, &p)
}

// fill submits the kernels that write the index and the sums of a level.
func (e *gpuEngine) fill(s *device.Stream, p *plan, m *mergeMemory, to levelRef) error {
	q := indexParams{level: to, counts: m.sums.Counts, nodes: uint64(nodes(p.total))}
	if err := device.Launch(s, e.index, gpu.Wave(e.Dev, nodes(p.total)), gpu.Block, &q); err != nil {
		return err
	}
	sums := m.sums
	sums.Offsets = to.sums
	return e.prims.Scan(s, &sums, m.prim)
}

func (e *gpuEngine) cleanup() error {
	g := e.current()
	switch live := int(e.cached.Live); {
	case live == 0 && len(g.levels) > 0:
		return e.Clear(context.Background())
	case len(g.levels) < 2:
		return nil
	default:
		p := &plan{levels: g.levels, total: live, replaced: len(g.levels)}
		p.slot, _, _ = e.pool.target(nil, live)
		if err := e.work.Grow(&e.Queue, p.bytes(e, 0)); err != nil {
			return err
		}
		if err := e.push(e.Stream, p, e.work.Buf.Ptr, e.SubmitSync, nil); err != nil {
			return err
		}
		e.current().tally = core.Tally{Live: e.cached.Live, Used: e.cached.Live}
		return nil
	}
}

// pushTombstones submits a merge of a run of tombstones for the n pairs at the ranks in gaps, and
// waits for it. It allocates separate work memory, since the batch may lie in e.work.
func (e *gpuEngine) pushTombstones(s *device.Stream, gaps []gpu.Gap, n int, submit submitter) (err error) {
	p := e.planFor(n)
	var c prim.Carve
	c.Alloc(len(gaps) * gpu.GapBytes)
	var work gpu.Work
	if err := work.Grow(&e.Queue, p.bytes(e, device.Ptr(c))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Free(&e.Queue)) }()
	copying := copyParams{levels: e.levelsOf(e.current()), gaps: work.Buf.Ptr, count: uint64(len(gaps)), n: uint64(n)}
	return e.push(s, p, work.Buf.Ptr+device.Ptr(c), submit, func(run levelRef) error {
		if err := gpu.CopyGaps(s, copying.gaps, gaps); err != nil {
			return err
		}
		copying.to = run
		return e.launchCopy(s, &copying)
	})
}
