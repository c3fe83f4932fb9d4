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

	// spillParts is the number of partitions in the temporary file. A partition whose groups exceed
	// Memory is partitioned again with another seed, up to maxDepth times.
	spillParts = spill.MaxParts
	maxDepth   = 6
)

// readShare divides Options.Memory to give the bytes of rows read from the file at a time.
const readShare = 32

// spillState holds the groups in a temporary file, and the division of Options.Memory.
type spillState struct {
	file       *spill.File
	shared     bool // the file belongs to other groups, which close it
	wrapDisk   func(spill.Disk) spill.Disk
	parts      *spill.Parts // nil: all groups are in memory
	seed       uint64
	depth      int
	nStates    int // states and rows in the file; a group counts once per write
	nAdded     int // rows added to the groups in memory
	directLeft int // number of next rows that go to the file without a table

	// maxGroups is the maximum number of groups, 0 if unknown.
	maxGroups int

	growingBytes int64 // bytes of tables that grow
	fixedBytes   int64 // bytes of tables that do not grow
	textBytes    int64 // bytes of keys and byte strings outside the Go heap; 0: none
	maxRows      int   // maximum rows of a piece
	maxPage      int   // maximum groups of a page
	bufferBytes  int64 // bytes of the file's buffers
}

// divideMemory divides Options.Memory. Five eighths are for groups, their keys and byte strings,
// and one eighth is for buffers of the file. The rest is for buffered and distributed rows, pages,
// cached strings, and memory that the collector has not freed yet.
func (g *Groups) divideMemory() {
	m, s := g.opts.Memory, &g.spilled
	if m == 0 {
		return
	}
	s.growingBytes, s.bufferBytes = m/8, max(min(m/8, 64<<20), spillParts*16<<10)
	g.splitGroupMemory(defaultTextBytes)
	row := 40 + 8*min(len(g.mergeLayout.sources), maxMoved)
	if g.storesKeys() {
		row += internRowBytes
	}
	limit := s.fixedBytes / int64(8*g.mainTable().groupBytes())
	s.maxRows = int(max(1, min(m/8/int64(row), limit, maxPiece)))
	s.maxPage = int(max(1<<12, min(m>>10, 1<<18)))
}

const (
	// defaultTextBytes is the assumed number of bytes of a group's keys and byte strings before the
	// first group. internRowBytes is the working memory of package intern per row.
	defaultTextBytes, internRowBytes = 64, 48
)

// splitGroupMemory divides the memory of groups between tables on one side, and keys and byte
// strings on the other. texts is the average number of bytes of keys and byte strings per group.
func (g *Groups) splitGroupMemory(texts int64) {
	s := &g.spilled
	s.fixedBytes, s.textBytes = g.opts.Memory/8*5, 0
	if g.storesKeys() || g.l.texts > 0 {
		group := int64(g.mainTable().groupBytes())
		all := s.fixedBytes
		s.fixedBytes = all / (group + texts) * group
		s.fixedBytes = max(all/8, min(s.fixedBytes, all/8*7))
		s.textBytes = all - s.fixedBytes
	}
}

// resplitGroupMemory divides the memory of groups anew, by the average size of the keys and byte
// strings in memory.
func (g *Groups) resplitGroupMemory() {
	if g.resident > 0 {
		g.splitGroupMemory(g.textBytes() / int64(g.resident))
	}
}

// memoryShare returns the bytes of Options.Memory for a table that does not grow.
func (g *Groups) memoryShare(t *table) int64 {
	switch {
	case g.mainTable() != t:
		return g.spilled.fixedBytes / 8
	case g.coder.packable && g.needsInterning():
		return g.spilled.fixedBytes / 8 * 7
	}
	return g.spilled.fixedBytes
}

// ensureCapacity makes the groups of a piece fit Options.Memory. It shortens the piece, or moves
// groups to the temporary file. A single row or group may exceed the bound.
func (g *Groups) ensureCapacity(ctx context.Context, p *piece) error {
	if g.opts.Memory == 0 {
		return nil
	}
	s := &g.spilled
	p.slice(min(p.n, s.maxRows))
	for p.n > 1 && s.textBytes > 0 && 8*p.textBytes() > s.textBytes {
		p.slice((p.n + 1) / 2)
	}
	for s.directLeft == 0 {
		full, err := g.mayOverflow(p)
		switch {
		case err != nil || !full:
			return err
		case g.spillable():
			if err := g.flushFull(ctx); err != nil {
				return err
			}
		case p.n > 1:
			p.slice((p.n + 1) / 2)
		default:
			return nil
		}
	}
	p.slice(min(p.n, s.directLeft, g.directRows(p)))
	return nil
}

// unordered reports whether groups need not keep their order of arrival.
func (s *spillState) unordered() bool { return s.depth > 0 || s.parts != nil }

// spillable reports whether the groups in memory can go to the file and come back in partitions.
func (g *Groups) spillable() bool {
	switch {
	case len(g.l.keys) == 0 || g.spilled.depth == maxDepth:
		return false
	case g.spilled.depth > 0:
		return g.resident > 1
	}
	return g.resident > 0
}

// mayOverflow reports whether memory may not hold the groups of a piece. It replaces a large
// growing table by a table of fixed capacity, because growth needs memory for the old and the new
// size at once.
func (g *Groups) mayOverflow(p *piece) (bool, error) {
	s := &g.spilled
	for _, t := range []*table{g.packed, g.numbered} {
		n := g.maxRowsFor(t, p)
		if n == 0 {
			continue
		}
		before := t.bytes()
		if t.store == nil && before+int64(n)*int64(t.groupBytes()) > min(s.growingBytes, g.memoryShare(t)/2) {
			g.resplitGroupMemory()
			if err := t.fixCapacity(g.dev, g.memoryShare(t)); err != nil {
				return false, err
			}
			if before > s.growingBytes/2 {
				debug.FreeOSMemory() // the memory of the replaced table
			}
		}
		if t.store != nil && t.mayOverflow(n) {
			return true, nil
		}
	}
	return s.textBytes > 0 && g.textBytes()+p.textBytes() > s.textBytes, nil
}

// maxRowsFor returns the maximum number of rows of a piece that go to a table.
func (g *Groups) maxRowsFor(t *table, p *piece) int {
	switch {
	case g.mainTable() == t:
		return p.n
	case t == g.packed || g.coder.nullBits || g.opts.SkipNulls:
		return 0
	case !g.needsInterning():
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

// textBytes returns the memory of keys and byte strings outside records.
func (g *Groups) textBytes() int64 {
	n := g.interner.bytes()
	for _, part := range g.parts() {
		n += part.texts.bytes
	}
	return n
}

// keyBytes is the maximum overhead of a key: a word, and an index entry of 12 bytes at a load
// factor of at least 0.47.
const keyBytes = 34

// textBytes returns the maximum memory of keys and byte strings that the piece may add.
func (p *piece) textBytes() int64 {
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

// newTable makes a table for the groups' layout. Options.Memory also bounds its local parts.
func (g *Groups) newTable() *table {
	maxLocal := localBytes
	if m := g.opts.Memory; m > 0 {
		maxLocal = int(min(int64(maxLocal), m/32/int64(g.dev.Properties().Units)))
	}
	return newTable(g.l, g.opts.Memory > 0, maxLocal)
}

// groupsPerPage returns the number of groups, at most n, whose state or result is made at a time.
func (g *Groups) groupsPerPage(n int) int {
	if g.opts.Memory == 0 || g.resident == 0 {
		return n
	}
	groupBytes := g.textBytes()/int64(g.resident) + int64(g.mainTable().groupBytes())
	return int(max(1, min(int64(n), g.opts.Memory/64/groupBytes)))
}

// flush moves all groups in memory to the temporary file. Once begun, it ignores the context,
// because states must not be both in the file and in memory. After an error, all later calls fail.
func (g *Groups) flush(ctx context.Context) error {
	s := &g.spilled
	if err := s.open(g.opts.TempDir); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	write := func(page []column.Column) error {
		_, err := g.writeRows(kindStates, page)
		return err
	}
	if g.failed = g.visitResidentStates(ctx, g.groupsPerPage(s.maxPage), write); g.failed == nil {
		s.nStates += g.resident
		g.failed = g.reset()
	}
	return g.failed
}

// open makes the temporary file if there is none yet.
func (s *spillState) open(dir string) (err error) {
	if s.parts != nil {
		return nil
	}
	if s.file == nil {
		s.file, err = spill.Create(dir, &spill.Options{Memory: 2 * s.bufferBytes,
			Chains: 2 * spillParts, Wrap: s.wrapDisk})
		if err != nil {
			return err
		}
	}
	s.seed, s.parts = rand.Uint64(), &spill.Parts{}
	return nil
}

// writeRows appends rows of a kind to the chains of their partitions. It returns the number of
// rows.
func (g *Groups) writeRows(kind uint8, page []column.Column) (rows int, err error) {
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

// reset removes the groups in memory.
func (g *Groups) reset() error {
	fixed, keys := g.mainTable().store != nil, g.interner.len()
	g.resplitGroupMemory()
	g.packed.free()
	g.numbered.free()
	if err := g.interner.close(); err != nil {
		return err
	}
	var err error
	if g.interner, err = g.newInterner(keys); err != nil {
		return err
	}
	g.packed, g.numbered, g.resident, g.spilled.nAdded = g.newTable(), g.newTable(), 0, 0
	if fixed {
		return g.mainTable().fixCapacity(g.dev, g.memoryShare(g.mainTable()))
	}
	return nil
}

// visit calls f with Groups in memory that together hold all groups: g itself, or one for each
// partition of the temporary file.
func (g *Groups) visit(ctx context.Context, f func(*Groups) error) error {
	s := &g.spilled
	if s.parts == nil {
		return f(g)
	}
	if g.resident > 0 {
		if err := g.flush(ctx); err != nil {
			return err
		}
	}
	g.packed.free() // memory suffices for one table
	g.numbered.free()
	g.packed, g.numbered = g.newTable(), g.newTable()
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

// visitPart calls f with the groups of partition p, which may be partitioned again.
func (g *Groups) visitPart(ctx context.Context, p int, f func(*Groups) error) (err error) {
	sub := newGroups(g.dev, g.aggs, g.opts)
	defer func() { err = errors.Join(err, sub.Close()) }()
	sub.spilled.file, sub.spilled.shared, sub.spilled.depth = g.spilled.file, true, g.spilled.depth+1
	sub.spilled.maxGroups, sub.scratch = g.spilled.parts.Rows[p], g.scratch
	if err := sub.bindTypes(g.l.keys, g.l.values, g.l.ordered); err != nil {
		return err
	}
	if bytes := int64(g.spilled.parts.Rows[p]) * 5 / 4 * int64(sub.mainTable().groupBytes()); bytes > sub.spilled.growingBytes {
		if err := sub.mainTable().fixCapacity(sub.dev, min(bytes, sub.memoryShare(sub.mainTable()))); err != nil {
			return err
		}
	}
	if err := sub.addChain(ctx, g.spilled.parts.Chains[p]); err != nil {
		return op.Cause(err)
	}
	return sub.visit(ctx, f)
}

// addChain adds the pages of a chain. It joins pages of one kind, because cores share large pages
// better.
func (g *Groups) addChain(ctx context.Context, c *spill.Chain) (err error) {
	defer func() {
		if err != nil { // the next call must not add rows that this one has read
			g.scratch.readStores[kindStates].Reset()
			g.scratch.readStores[kindRows].Reset()
		}
	}()
	var decoder spill.Decoder
	kind, limit := uint8(kindStates), g.opts.Memory/readShare
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
		if k != kind || g.scratch.readStores[k].Bytes()+spill.Bytes(page) > limit {
			if err := g.addReadRows(ctx, kind); err != nil {
				return err
			}
		}
		if kind = k; g.scratch.readStores[k] == nil {
			g.scratch.openStore(k, typesOf(page))
		}
		if err := g.scratch.readStores[k].Append(g.dev, page); err != nil {
			return err
		}
	}
	return g.addReadRows(ctx, kind)
}

// addReadRows adds the rows of a kind that were read from the file.
func (g *Groups) addReadRows(ctx context.Context, kind uint8) error {
	rows := g.scratch.readStores[kind]
	if rows.Len() == 0 {
		return nil
	}
	defer rows.Reset()
	l, keys, all := g.l, len(g.l.keys), rows.View()
	if kind == kindStates {
		l = g.mergeLayout
	}
	return g.addAll(ctx, l, all[:keys], l.restoreColumns(all[keys:], rows.Len()), rows.Len())
}

// close closes the file, or frees only the chains if the file is shared.
func (s *spillState) close() error {
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
