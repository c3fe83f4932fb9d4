package group

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/internal/op"
)

// interner numbers the keys that codes cannot hold: all keys, or only those with a null.
type interner struct {
	table *intern.Table // nil if codes hold all keys except the null of a single key column
	// dictionaries holds, by key column, the dictionaries of packed byte strings; nil for other
	// types.
	dictionaries []*dictionary
	// single wraps table as a dictionary if the only key column has byte strings.
	single *dictionary
}

func (g *Groups) newInterner(capacity int) (*interner, error) {
	r := &interner{dictionaries: make([]*dictionary, len(g.l.keys))}
	var errs []error
	for i, isText := range g.coder.texts {
		if isText {
			t, err := g.newTableOf(0)
			r.dictionaries[i], errs = g.newDictionary(t), append(errs, err)
		}
	}
	if g.needsInterning() {
		t, err := g.newTableOf(capacity)
		r.table, errs = t, append(errs, err)
		if len(g.l.keys) == 1 {
			r.single = g.newDictionary(t)
		}
	}
	return r, errors.Join(errs...)
}

func (g *Groups) newTableOf(capacity int) (*intern.Table, error) {
	return intern.New(g.dev, &intern.Options{Capacity: capacity, OffHeap: g.opts.Memory > 0})
}

// numberTexts replaces packed byte strings by their numbers. If it stops early, it cuts the piece
// and sets p.stop.
func (g *Groups) numberTexts(ctx context.Context, p *piece) {
	for i, d := range g.interner.dictionaries {
		if d == nil {
			continue
		}
		c := p.keys[i]
		ids, done, err := d.assignNumbers(ctx, g.dev, c)
		if err != nil {
			p.stop = err
			p.slice(done)
		}
		p.keys[i] = column.Of(ids[:p.n])
		if g.opts.SkipNulls && c.HasNulls() {
			p.keys[i] = p.keys[i].WithValid(c.Valid().Slice(0, p.n))
		}
	}
}

// len returns the number of interned keys.
func (r *interner) len() int {
	if r.table == nil {
		return 0
	}
	return r.table.Len()
}

// needsInterning reports whether codes cannot hold some keys. A single column's null does not
// count.
func (g *Groups) needsInterning() bool {
	return !g.coder.packable || g.coder.Columns() > 1 && !g.coder.nullBits && !g.opts.SkipNulls &&
		slices.ContainsFunc(g.l.keys, func(t column.Type) bool { return t != column.Bytes })
}

// storesKeys reports whether interned keys or dictionaries hold keys.
func (g *Groups) storesKeys() bool { return g.needsInterning() || len(g.coder.texts) > 0 }

// intern returns a batch of rows whose codes are the numbers of their keys. rows lists n rows of
// the piece, or is nil for the first n. If intern stops early, it cuts the piece and sets p.stop.
func (g *Groups) intern(ctx context.Context, p *piece, rows []uint32, n int) batch {
	if g.interner.table == nil {
		return g.nullBatch(p, rows)
	}
	if n == 0 {
		return batch{l: p.l, values: p.values}
	}
	numbered := batch{l: p.l, n: n, codes: allocScratch[uint64](g.scratch, n), rows: rows, values: p.values}
	keys := p.keys
	if rows != nil {
		keys = make([]column.Column, len(p.keys))
		for i, c := range p.keys {
			keys[i] = column.Take(g.dev, c, rows)
		}
	}
	ids := allocScratch[uint32](g.scratch, n)
	if err := g.interner.lookupIDs(ctx, g.dev, keys, ids); err != nil {
		var partial *op.PartialError
		if p.stop = err; errors.As(err, &partial) {
			p.stop, n = partial.Err, partial.Done
		}
		if n < len(ids) {
			p.n, numbered = rowOf(rows, 0, n), numbered.slice(0, n)
		}
	}
	g.dev.Parallel(n, encodeRows, func(lo, hi int) {
		for i, id := range ids[lo:hi] {
			numbered.codes[lo+i] = codeOf(id)
		}
	})
	return numbered
}

// codeOf returns the code for the number of a key, and numberOf is its inverse. Numbers are dense,
// so a product with an odd constant spreads them better than a hash: no two collide while the index
// has an entry for each.
func codeOf(number uint32) uint64 { return uint64(number) * 0x9e3779b97f4a7c15 }
func numberOf(code uint64) uint32 { return uint32(code * 0xf1de83e19937733d) }

// lookupIDs writes the numbers of keys to its parameter lookupIDs. A single text column must not
// have nulls.
func (r *interner) lookupIDs(ctx context.Context, dev device.Host, keys []column.Column, lookupIDs []uint32) error {
	if r.single == nil {
		_, err := r.table.Rows(ctx, keys, lookupIDs)
		return err
	}
	numbers, done, err := r.single.assignNumbers(ctx, dev, keys[0])
	for i, number := range numbers[:done] {
		lookupIDs[i] = number - 1
	}
	if err != nil {
		return &op.PartialError{Done: done, Err: err}
	}
	return nil
}

// columns returns the interned keys by number. If no key is interned, it returns a single null key.
func (r *interner) columns(types []column.Type) []column.Column {
	if r.table != nil && r.table.Len() > 0 {
		return r.table.Columns(0, r.table.Len())
	}
	columns := make([]column.Column, len(types))
	for i, t := range types {
		w := newWriter(t, 1, reader{})
		w.nullBits[0] = 1
		w.hasNulls.Store(true)
		columns[i] = w.column()
	}
	return columns
}

// internedKeys holds the interned keys while groups are read.
type internedKeys struct {
	table *intern.Table   // holds the keys of all groups in their order; nil: see all
	all   []column.Column // keys by number
}

// interned returns the keys for reading. If each group has one interned key, they are later read
// range by range, and never all at once.
func (g *Groups) interned() internedKeys {
	if !g.coder.packable && g.interner.table != nil && g.packed.groups() == 0 && g.resident == g.interner.table.Len() && g.resident > 0 {
		return internedKeys{table: g.interner.table}
	}
	return internedKeys{all: g.interner.columns(g.l.keys)}
}

// keys returns the key columns of the groups at places lo to hi-1, or writers that will make them.
func (g *Groups) keys(k internedKeys, lo, hi int) (columns []column.Column, writers []*writer) {
	if k.table != nil {
		return k.table.Columns(lo, hi), nil
	}
	for i, t := range g.l.keys {
		writers = append(writers, newWriter(t, hi-lo, g.keyReader(i, k.all[i])))
	}
	return nil, writers
}

// tables returns all tables of interned keys and strings.
func (r *interner) tables() (all []*intern.Table) {
	if r == nil {
		return nil
	}
	for _, d := range r.dictionaries {
		if d != nil {
			all = append(all, d.table)
		}
	}
	if r.table != nil {
		all = append(all, r.table)
	}
	return all
}

// bytes returns the memory in bytes of interned keys and dictionaries.
func (r *interner) bytes() (bytes int64) {
	for _, t := range r.tables() {
		n, err := t.Memory(context.Background())
		// otherwise the table is closed or failed, and later calls return that error
		if err == nil {
			bytes += n
		}
	}
	return bytes
}

func (r *interner) close() error {
	var errs []error
	for _, t := range r.tables() {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
