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

// spillState holds the groups in a temporary file, and the division of Options.Memory.
type spillState struct {
	file       *spill.File
	shared     bool // the file belongs to other groups, which close it
	wrapDisk   func(spill.Disk) spill.Disk
	parts      *spill.Parts // nil: all groups are in memory
	seed       uint64
	depth      int
	nStates    int // of groups, and rows; a group counts once for each write
	nAdded     int // rows in the groups in memory
	directLeft int // rows to write to the file without a table

	// maxGroups is the maximum number of groups. 0: unknown.
	maxGroups int

	growingBytes int64 // bytes of tables that grow
	fixedBytes   int64 // bytes of tables that do not grow
	textBytes    int64 // bytes of keys and byte strings outside the Go heap; 0: none
	maxRows      int   // of a piece
	maxPage      int   // groups of a page
	bufferBytes  int64 // bytes of the file's buffers
}

// divideMemory divides Options.Memory. Five eighths are for groups, their keys and byte strings,
// and an eighth is for buffers of the file. The rest is for buffered and distributed rows, pages,
// strings that cores cache, and memory that the collector has not freed yet.
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
	// defaultTextBytes is the assumed size of the key and the byte strings of a group as long as
	// there are none, in bytes. internRowBytes is the working memory of package intern for a row.
	defaultTextBytes, internRowBytes = 64, 48
)

// splitGroupMemory divides the memory of groups between tables on one side and keys and byte
// strings on the other. texts is the average number of bytes of texts of a group.
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

// resplitGroupMemory is splitGroupMemory by the average of the groups in memory.
func (g *Groups) resplitGroupMemory() {
	if g.resident > 0 {
		g.splitGroupMemory(g.textBytes() / int64(g.resident))
	}
}

// memoryShare returns the part of Options.Memory for a table that does not grow.
func (g *Groups) memoryShare(t *table) int64 {
	switch {
	case g.mainTable() != t:
		return g.spilled.fixedBytes / 8
	case g.coder.packable && g.needsInterning():
		return g.spilled.fixedBytes / 8 * 7
	}
	return g.spilled.fixedBytes
}

// ensureCapacity shortens a piece, and moves groups to the temporary file, until those of the piece
// fit Options.Memory. A single row or group of any size is held.
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

// unordered reports whether groups need not have the order in which they came.
func (s *spillState) unordered() bool { return s.depth > 0 || s.parts != nil }

// spillable reports whether the groups in memory can go to the file and come back in parts.
func (g *Groups) spillable() bool {
	switch {
	case len(g.l.keys) == 0 || g.spilled.depth == maxDepth:
		return false
	case g.spilled.depth > 0:
		return g.resident > 1
	}
	return g.resident > 0
}

// mayOverflow reports whether memory may not hold the groups of a piece. It replaces large tables
// that grow by tables that do not: the former need memory for both sizes while they grow.
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
				debug.FreeOSMemory() // the memory of the table before
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

// keyBytes is the maximum overhead of a key: a word, and a slot of 12 bytes in an index with a load
// factor of at least 0.47.
const keyBytes = 34

// textBytes returns the maximum memory that the rows of a piece add to texts of groups.
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

// newTable makes a table of the groups' layout. Memory bounds the parts of cores, too.
func (g *Groups) newTable() *table {
	maxLocal := localBytes
	if m := g.opts.Memory; m > 0 {
		maxLocal = int(min(int64(maxLocal), m/32/int64(g.dev.Properties().Units)))
	}
	return newTable(g.l, g.opts.Memory > 0, maxLocal)
}

// groupsPerPage returns the number of groups, at most n, with a state or result made at a time.
func (g *Groups) groupsPerPage(n int) int {
	if g.opts.Memory == 0 || g.resident == 0 {
		return n
	}
	groupBytes := g.textBytes()/int64(g.resident) + int64(g.mainTable().groupBytes())
	return int(max(1, min(int64(n), g.opts.Memory/64/groupBytes)))
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
		_, err := g.writeRows(kindStates, page)
		return err
	}
	if g.failed = g.visitResidentStates(ctx, g.groupsPerPage(s.maxPage), write); g.failed == nil {
		s.nStates += g.resident
		g.failed = g.reset()
	}
	return g.failed
}

// open makes the temporary file.
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

// writeRows appends rows of a kind to the chains of their partitions.
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

// reset drops the groups in memory.
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

// visit calls f with groups in memory that together are all groups: these, or those of each
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

// visitPart is visit of a partition.
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

// addChain adds the pages of a chain, several of one kind at a time, because cores share large ones
// better.
func (g *Groups) addChain(ctx context.Context, c *spill.Chain) (err error) {
	defer func() {
		if err != nil { // rows that have been read must not be added by the next call
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

// addReadRows adds the rows of a kind that have been read.
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

// close frees the chains, and the file with them unless others share it.
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
