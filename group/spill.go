package group

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/spill"
)

const (
	// MinMemory is the least Options.Memory, in bytes.
	MinMemory = 16 << 20

	// spillParts is the number of partitions of groups in the temporary file. A partition that
	// exceeds Memory is partitioned again, with another seed, up to maxDepth times.
	spillParts = spill.MaxParts
	maxDepth   = 6
)

// readShare of Memory holds rows that have been read from the file.
const readShare = 32

// spilled holds the groups in a temporary file, and the division of Options.Memory.
type spilled struct {
	file   *spill.File
	shared bool // the file belongs to other groups, which close it
	wrap   func(spill.Disk) spill.Disk
	parts  *spill.Parts // nil: all groups are in memory
	seed   uint64
	depth  int
	states int // of groups, and rows; a group counts once for each write
	added  int // rows in the groups in memory
	direct int // rows left to write to the file without a table

	// expected is the maximum number of groups. 0: unknown.
	expected int

	small   int64 // bytes of tables that grow
	table   int64 // bytes of tables that do not grow
	keys    int64 // bytes of keys and byte strings outside the Go heap; 0: none
	rows    int   // of a piece
	page    int   // groups of a page
	buffers int64 // bytes of the file's buffers
}

// divide divides Options.Memory. Five eighths are for groups, their keys and byte strings, and an
// eighth is for buffers of the file. The others are for rows that wait or are dealt out, pages,
// strings that cores remember, and what the collector has not freed yet.
func (g *Groups) divide() {
	m, s := g.opts.Memory, &g.spilled
	if m == 0 {
		return
	}
	s.small, s.buffers = m/8, max(min(m/8, 64<<20), spillParts*16<<10)
	g.shareOut(textGuess)
	row := 40 + 8*min(len(g.merging.sources), mostMoved)
	if g.keepsKeys() {
		row += internRow
	}
	most := s.table / int64(8*g.main().groupBytes())
	s.rows = int(max(1, min(m/8/int64(row), most, maxPiece)))
	s.page = int(max(1<<12, min(m>>10, 1<<18)))
}

const (
	// textGuess is the assumed size of the key and the byte strings of a group as long as there are
	// none, in bytes. internRow is the working memory of package intern for a row.
	textGuess, internRow = 64, 48
)

// shareOut divides the memory of groups between tables on one side and keys and byte strings on the
// other. A group has some bytes of texts on average.
func (g *Groups) shareOut(texts int64) {
	s := &g.spilled
	s.table, s.keys = g.opts.Memory/8*5, 0
	if g.keepsKeys() || g.l.texts > 0 {
		group := int64(g.main().groupBytes())
		all := s.table
		s.table = all / (group + texts) * group
		s.table = max(all/8, min(s.table, all/8*7))
		s.keys = all - s.table
	}
}

// shareAgain is shareOut by the groups there are.
func (g *Groups) shareAgain() {
	if g.held > 0 {
		g.shareOut(g.texts() / int64(g.held))
	}
}

// share returns the part of Options.Memory for a table that does not grow.
func (g *Groups) share(t *table) int64 {
	switch {
	case g.main() != t:
		return g.spilled.table / 8
	case g.coder.packs && g.interns():
		return g.spilled.table / 8 * 7
	}
	return g.spilled.table
}

// makeRoom shortens a piece, and moves groups to the temporary file, until those of the piece fit
// Options.Memory. A single row or group of any size is held.
func (g *Groups) makeRoom(ctx context.Context, p *piece) error {
	if g.opts.Memory == 0 {
		return nil
	}
	s := &g.spilled
	p.slice(min(p.n, s.rows))
	for p.n > 1 && s.keys > 0 && 8*p.texts() > s.keys {
		p.slice((p.n + 1) / 2)
	}
	for s.direct == 0 {
		crowded, err := g.crowded(p)
		switch {
		case err != nil || !crowded:
			return err
		case g.divisible():
			if err := g.flushFull(ctx); err != nil {
				return err
			}
		case p.n > 1:
			p.slice((p.n + 1) / 2)
		default:
			return nil
		}
	}
	p.slice(min(p.n, s.direct, g.directRows(p)))
	return nil
}

// disordered reports whether groups need not have the order in which they came.
func (s *spilled) disordered() bool { return s.depth > 0 || s.parts != nil }

// divisible reports whether the groups in memory can go to the file and come back in parts.
func (g *Groups) divisible() bool {
	switch {
	case len(g.l.keys) == 0 || g.spilled.depth == maxDepth:
		return false
	case g.spilled.depth > 0:
		return g.held > 1
	}
	return g.held > 0
}

// crowded reports whether memory may not hold the groups of a piece. It replaces large tables that
// grow by tables that do not: the former need memory for both sizes while they grow.
func (g *Groups) crowded(p *piece) (bool, error) {
	s := &g.spilled
	for _, t := range []*table{g.packed, g.other} {
		n := g.rowsTo(t, p)
		if n == 0 {
			continue
		}
		before := t.bytes()
		if t.store == nil && before+int64(n)*int64(t.groupBytes()) > min(s.small, g.share(t)/2) {
			g.shareAgain()
			if err := t.fix(g.dev, g.share(t)); err != nil {
				return false, err
			}
			if before > s.small/2 {
				debug.FreeOSMemory() // the memory of the table before
			}
		}
		if t.store != nil && t.crowded(n) {
			return true, nil
		}
	}
	return s.keys > 0 && g.texts()+p.texts() > s.keys, nil
}

// rowsTo returns the maximum number of rows of a piece that go to a table.
func (g *Groups) rowsTo(t *table, p *piece) int {
	switch {
	case g.main() == t:
		return p.n
	case t == g.packed || g.coder.nulls || g.opts.SkipNulls:
		return 0
	case !g.interns():
		return 1
	}
	n := 0
	if anyNulls(p.keys) {
		for i := range p.n {
			if slices.ContainsFunc(p.keys, func(c column.Column) bool { return c.Null(i) }) {
				n++
			}
		}
	}
	return n
}

// texts returns the memory of keys and byte strings outside records.
func (g *Groups) texts() int64 {
	n := g.rest.bytes()
	for _, part := range g.parts() {
		n += part.texts.bytes
	}
	return n
}

// keyBytes is the maximum overhead of a key: a word, and a slot of 12 bytes in an index with a load
// factor of at least 0.47.
const keyBytes = 34

// texts returns the maximum memory that the rows of a piece add to texts of groups.
func (p *piece) texts() int64 {
	n := keyBytes * int64(p.n)
	for _, c := range p.keys {
		n += spill.TextBytes(c)
	}
	for _, x := range p.l.sources {
		if x.typ == column.Bytes {
			n += spill.TextBytes(p.values[x.col]) * int64(len(x.slots))
		}
	}
	return n
}

// newTable makes a table of the groups' layout. Memory bounds the parts of cores, too.
func (g *Groups) newTable() *table {
	own := ownBytes
	if m := g.opts.Memory; m > 0 {
		own = int(min(int64(own), m/32/int64(g.dev.Properties().Units)))
	}
	return newTable(g.l, g.opts.Memory > 0, own)
}

// atOnce returns the number of groups, at most n, with a state or result made at a time.
func (g *Groups) atOnce(n int) int {
	if g.opts.Memory == 0 || g.held == 0 {
		return n
	}
	each := g.texts()/int64(g.held) + int64(g.main().groupBytes())
	return int(max(1, min(int64(n), g.opts.Memory/64/each)))
}

// flush moves all groups in memory to the temporary file. It ignores the context once it has begun,
// because states must not be in the file and in memory. After an error no call can go on.
func (g *Groups) flush(ctx context.Context) error {
	s := &g.spilled
	if err := s.open(g.opts.TempDir); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	write := func(page []column.Column) error {
		_, err := g.write(kindStates, page)
		return err
	}
	if g.failed = g.pages(ctx, g.atOnce(s.page), write); g.failed == nil {
		s.states += g.held
		g.failed = g.reset()
	}
	return g.failed
}

// open makes the temporary file.
func (s *spilled) open(dir string) (err error) {
	if s.parts != nil {
		return nil
	}
	if s.file == nil {
		s.file, err = spill.Create(dir, &spill.Options{Memory: 2 * s.buffers,
			Chains: 2 * spillParts, Wrap: s.wrap})
		if err != nil {
			return err
		}
	}
	s.seed, s.parts = rand.Uint64(), &spill.Parts{}
	return nil
}

// write appends rows of a kind to the chains of their partitions.
func (g *Groups) write(kind uint8, page []column.Column) (rows int, err error) {
	s, nulls := &g.spilled, column.HashNulls
	if g.opts.SkipNulls {
		nulls = column.DropNulls
	}
	parts, err := column.Partition(g.dev, page[:len(g.l.keys)], column.PartitionOptions{
		Parts: spillParts, Seed: s.seed, Nulls: nulls})
	if err != nil || len(parts.Rows) == 0 {
		return 0, err
	}
	var counts [spillParts]int
	for p := range counts {
		counts[p] = len(parts.Part(p))
	}
	page = append(g.scratch.taker.Take(g.dev, page, parts.Rows), kindColumn(kind, len(parts.Rows)))
	return len(parts.Rows), s.parts.Write(g.dev, s.file, page, &counts)
}

// reset forgets the groups in memory.
func (g *Groups) reset() error {
	fixed, keys := g.main().store != nil, g.rest.len()
	g.shareAgain()
	g.packed.free()
	g.other.free()
	if err := g.rest.close(); err != nil {
		return err
	}
	var err error
	if g.rest, err = g.newRest(keys); err != nil {
		return err
	}
	g.packed, g.other, g.held, g.spilled.added = g.newTable(), g.newTable(), 0, 0
	if fixed {
		return g.main().fix(g.dev, g.share(g.main()))
	}
	return nil
}

// visit calls f with groups in memory that together are all groups: these, or those of each
// partition of the temporary file.
func (g *Groups) visit(ctx context.Context, f func(*Groups) error) error {
	s := &g.spilled
	if s.parts == nil {
		return f(g)
	}
	if g.held > 0 {
		if err := g.flush(ctx); err != nil {
			return err
		}
	}
	g.packed.free() // memory suffices for one table
	g.other.free()
	g.packed, g.other = g.newTable(), g.newTable()
	if err := s.parts.Flush(); err != nil {
		return err
	}
	for p, n := range s.parts.Rows {
		if n > 0 {
			if err := g.visitPart(ctx, p, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// visitPart is visit of a partition.
func (g *Groups) visitPart(ctx context.Context, p int, f func(*Groups) error) (err error) {
	sub := newGroups(g.dev, g.aggs, g.opts)
	defer func() { err = errors.Join(err, sub.Close()) }()
	sub.spilled.file, sub.spilled.shared, sub.spilled.depth = g.spilled.file, true, g.spilled.depth+1
	sub.spilled.expected, sub.scratch = g.spilled.parts.Rows[p], g.scratch
	if err := sub.bind(g.l.keys, g.l.values, g.l.ordered); err != nil {
		return err
	}
	if need := int64(g.spilled.parts.Rows[p]) * 5 / 4 * int64(sub.main().groupBytes()); need > sub.spilled.small {
		if err := sub.main().fix(sub.dev, min(need, sub.share(sub.main()))); err != nil {
			return err
		}
	}
	if err := sub.addChain(ctx, g.spilled.parts.Chains[p]); err != nil {
		return op.Cause(err)
	}
	return sub.visit(ctx, f)
}

// addChain adds the pages of a chain, several of one kind at a time, because cores share large ones
// better.
func (g *Groups) addChain(ctx context.Context, c *spill.Chain) (err error) {
	defer func() {
		if err != nil { // rows that have been read must not be added by the next call
			g.scratch.read[kindStates].Reset()
			g.scratch.read[kindRows].Reset()
		}
	}()
	var decoder spill.Decoder
	kind, most := uint8(kindStates), g.opts.Memory/readShare
	for b, err := range c.Pages() {
		if err != nil {
			return err
		}
		page, err := decoder.Decode(b)
		if err != nil {
			return err
		}
		k := pageKind(page)
		page = page[:len(page)-1]
		if k != kind || g.scratch.read[k].Bytes()+spill.Bytes(page) > most {
			if err := g.addRead(ctx, kind); err != nil {
				return err
			}
		}
		if kind = k; g.scratch.read[k] == nil {
			g.scratch.newRead(k, typesOf(page))
		}
		if err := g.scratch.read[k].Append(g.dev, page); err != nil {
			return err
		}
	}
	return g.addRead(ctx, kind)
}

// addRead adds the rows of a kind that have been read.
func (g *Groups) addRead(ctx context.Context, kind uint8) error {
	rows := g.scratch.read[kind]
	if rows.Len() == 0 {
		return nil
	}
	defer rows.Reset()
	l, keys, all := g.l, len(g.l.keys), rows.View()
	if kind == kindStates {
		l = g.merging
	}
	return g.addAll(ctx, l, all[:keys], l.unused(all[keys:], rows.Len()), rows.Len())
}

// close frees the chains, and the file with them unless others share it.
func (s *spilled) close() error {
	if s.file == nil {
		return nil
	}
	if !s.shared {
		return s.file.Close()
	}
	if s.parts == nil {
		return nil
	}
	return s.parts.Free()
}
