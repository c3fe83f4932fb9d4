package group

import (
	"context"
	"math"
	"sort"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

const (
	// taskGroups is the minimum number of groups that a core writes at a time. It writes stepGroups
	// places per step, which fit a second-level cache. In each step, all parts write their groups.
	taskGroups = 1 << 17
	stepGroups = 1 << 14
	// prefetchParts is the number of parts by which prefetching is ahead of reading.
	prefetchParts = 2
)

// run is a range of at most blockRows consecutive records of a part.
type run struct {
	p      *part
	packed bool
	lo, n  int
	places []uint64 // places of the records
	base   uint64   // the first place of the column to write
}

// readBuffer is the memory to which a core reads runs.
type readBuffer struct {
	codes, words [blockRows]uint64
	null         [blockRows]bool
	rows         [blockRows]uint32
	texts        [blockRows][]byte
}

// reader reads the values of a run as words or byte strings. It sets null for null values, and
// reports whether any may be null.
type reader struct {
	words func(r *run, b *readBuffer) (nulls bool)
	texts func(r *run, b *readBuffer, to [][]byte) (nulls bool) // writes strings to to[place-base]
}

// writeColumns writes columns of the groups at the n places from base on.
func (g *Groups) writeColumns(ctx context.Context, writers []*writer, base, n int) error {
	parts := g.parts()
	task := max(taskGroups, (n/(8*g.dev.Properties().Units)+stepGroups)&^(stepGroups-1))
	g.dev.Parallel(n, task, func(lo, hi int) {
		lo, hi = base+lo, base+hi
		b := new(readBuffer)
		next := make([]int, len(parts))
		for i, p := range parts {
			next[i] = sort.Search(p.n, func(j int) bool { return p.orders[j] >= uint64(lo) })
		}
		for end := lo; end < hi && ctx.Err() == nil; {
			end = min(end+stepGroups, hi)
			for i, p := range parts {
				if target := i + prefetchParts; target < len(parts) {
					parts[target].prefetch(next[target])
				}
				for next[i] < p.n && p.orders[next[i]] < uint64(end) {
					r := run{p: p, packed: i < len(g.packed.parts), lo: next[i], base: uint64(base)}
					next[i] += r.extendTo(uint64(end))
					for _, w := range writers {
						w.write(&r, b)
					}
				}
			}
		}
	})
	return ctx.Err()
}

// fetchLines holds the offsets, in words, of the cache lines to prefetch in a part. They cover the
// records that a step reads from the part if there are many groups.
var fetchLines = [...]uint32{0, 8, 16, 24, 32, 40}

// prefetch prefetches the records from i on. A step reads records of many parts, which lie far
// apart, so the hardware does not prefetch them.
func (p *part) prefetch(i int) {
	if i < p.n {
		cpu.Prefetch(unsafe.Pointer(&p.recs[p.rec(i)]), fetchLines[:], 3)
		cpu.Prefetch(unsafe.Pointer(&p.orders[i]), fetchLines[:2], 3)
	}
}

// extendTo extends the run by the records whose places come before end, up to blockRows records. It
// returns the number of records.
func (r *run) extendTo(end uint64) int {
	orders := r.p.orders[r.lo:min(r.lo+blockRows, r.p.n)]
	for r.n < len(orders) && orders[r.n] < end {
		r.n++
	}
	r.places = orders[:r.n]
	return r.n
}

// keyReader returns a reader of key column i. interned holds the interned keys by number.
func (g *Groups) keyReader(i int, interned column.Column) reader {
	codes := func(r *run, b *readBuffer) []uint64 {
		for j := range r.n {
			b.codes[j] = hash.Unmix64(r.p.recs[r.p.rec(r.lo+j)+wordCode], g.seed)
		}
		return b.codes[:r.n]
	}
	numbers := func(r *run, b *readBuffer) []uint32 {
		for j := range r.n {
			b.rows[j] = numberOf(r.p.recs[r.p.rec(r.lo+j)+wordCode])
			b.null[j] = interned.Null(int(b.rows[j]))
		}
		return b.rows[:r.n]
	}
	return reader{
		words: func(r *run, b *readBuffer) bool {
			if r.packed {
				g.coder.decode(codes(r, b), b.words[:r.n], b.null[:r.n], i, g.l.keys[i])
				return g.coder.nullBits
			}
			load(b.words[:r.n], interned, numbers(r, b), 0)
			return true
		},
		texts: func(r *run, b *readBuffer, to [][]byte) bool {
			if d := g.interner.dictionaries[i]; d != nil {
				if r.packed {
					g.coder.decode(codes(r, b), b.words[:r.n], b.null[:r.n], i, column.Uint32)
				} else {
					load(b.words[:r.n], interned, numbers(r, b), 0)
				}
				for j, number := range b.words[:r.n] {
					// no key has the largest number
					b.null[j], b.rows[j] = number == 0, uint32(number)-1
				}
				d.table.Gather(b.rows[:r.n], b.texts[:r.n])
				for j, at := range r.places {
					to[at-r.base] = b.texts[j]
				}
				return true
			}
			if r.packed { // a packed single string can only be null
				for j := range r.n {
					b.null[j] = true
				}
				return true
			}
			for j, id := range numbers(r, b) {
				to[r.places[j]-r.base] = interned.Bytes(int(id))
			}
			return true
		},
	}
}

// valueReader returns a reader of an aggregate.
func (g *Groups) valueReader(a reading) reader {
	word := func(at int) func(r *run, b *readBuffer) bool {
		return func(r *run, b *readBuffer) bool {
			for j := range r.n {
				b.words[j] = r.p.recs[r.p.rec(r.lo+j)+at]
			}
			return r.nulls(a.source, b)
		}
	}
	switch {
	case a.fn == Rows:
		return reader{words: func(r *run, b *readBuffer) bool {
			for j := range r.n {
				b.words[j] = r.p.rows(r.lo + j)
			}
			return false
		}}
	case a.fn == Count:
		return reader{words: func(r *run, b *readBuffer) bool {
			for j := range r.n {
				b.words[j] = r.p.rows(r.lo+j) - r.p.nullCount(a.source, r.lo+j)
			}
			return false
		}}
	case a.fn == Mean:
		return reader{words: func(r *run, b *readBuffer) bool {
			for j := range r.n {
				b.words[j] = math.Float64bits(r.p.mean(a, r.lo+j))
			}
			return r.nulls(a.source, b)
		}}
	case a.fn.isSpread():
		return spreadReader(a)
	case a.slot.kind.isText():
		return textReader(a.source, a.slot.offset)
	}
	return reader{words: word(a.slot.offset)}
}

// textReader returns a reader of a slot of byte strings.
func textReader(source, at int) reader {
	return reader{texts: func(r *run, b *readBuffer, to [][]byte) bool {
		for j := range r.n {
			to[r.places[j]-r.base] = r.p.texts.get((r.lo+j)*r.p.l.texts + at)
		}
		return r.nulls(source, b)
	}}
}

// nulls sets null for the groups of a run whose values of a source are all null. It reports whether
// any may be null.
func (r *run) nulls(source int, b *readBuffer) bool {
	if len(r.p.nulls[source]) <= r.lo {
		return false
	}
	for j := range r.n {
		b.null[j] = r.p.nullCount(source, r.lo+j) == r.p.rows(r.lo+j)
	}
	return true
}

func (p *part) mean(a reading, i int) float64 {
	word := p.rec(i) + a.slot.offset
	n := float64(p.rows(i) - p.nullCount(a.source, i))
	carry := math.Ldexp(float64(p.carry[uint32(word)]), 64)
	switch a.slot.kind {
	case sumSigned:
		return (carry + float64(int64(p.recs[word]))) / n
	case sumUnsigned:
		return (carry + float64(p.recs[word])) / n
	}
	return math.Float64frombits(p.recs[word]) / n
}
