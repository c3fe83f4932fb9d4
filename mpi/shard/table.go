package shard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
)

// stored is the common interface of structures that hold shards.
type stored interface {
	Len() int
	Clear(ctx context.Context) error
	Save(ctx context.Context, w io.Writer) (n int, err error)
	Load(ctx context.Context, r io.Reader) (n int, err error)
	Check(ctx context.Context) error
	Close() error
}

// table is the common part of sharded structures.
type table[K weft.Key] struct {
	r      *Ranks
	shard  stored
	vals   column.Type // column.None for a set
	number uint32      // number of the structure
	owners owners

	// visitPages passes the keys of the shard to visit. loadPart adds those keys of a saved
	// structure that keep selects, and returns their number.
	visitPages func(ctx context.Context, visit func(keys []K) error) error
	loadPart   func(ctx context.Context, from io.Reader, keep func(K) bool) (int, error)
	// adopt, if not nil, adopts the ranges of the files in a manifest. It is called if no rank has
	// keys.
	adopt func(files []shardFile)
}

func newTable[K weft.Key](r *Ranks, shard stored, vals column.Type) table[K] {
	r.structures++
	return table[K]{r: r, shard: shard, vals: vals, number: r.structures}
}

// keyed implements lookups and deletions for maps and sets.
type keyed[K weft.Key] struct {
	table[K]
	keys shardOf[K]
}

// shardOf is a map or a set that holds a shard.
type shardOf[K weft.Key] interface {
	stored
	Contains(ctx context.Context, keys []K, found []bool) (hits int, err error)
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
}

func newKeyed[K weft.Key](r *Ranks, shard shardOf[K], vals column.Type) keyed[K] {
	return keyed[K]{newTable[K](r, shard, vals), shard}
}

func (t *table[K]) sign(m method, arg uint8) signature {
	return sign(m, arg, column.TypeOf[K](), t.vals, t.number)
}

func (t *table[K]) open(m method) *exchange { return t.r.open(t.sign(m, 0), &t.owners) }

// optional returns the length of flags, or the number of keys if flags is nil and thus omitted.
func optional(flags []bool, keys int) int {
	if flags == nil {
		return keys
	}
	return len(flags)
}

func part(flags []bool, lo, hi int) []bool {
	if flags == nil {
		return nil
	}
	return flags[lo:hi]
}

// batch is a call that may apply its rows in several rounds, in any order.
type batch[K weft.Key] struct {
	sign    signature
	keys    []K
	combine combining
	flags   bool  // whether the call requests the outcome of each row
	columns []int // lengths of the columns
}

// rounds runs a call in rounds of roundRows rows. The rank with the most rows determines the number
// of rounds.
func (t *table[K]) rounds(
	ctx context.Context, b batch[K], round func(x *exchange, lo, hi int),
) (total int, err error) {
	for lo := 0; ; {
		x := t.r.open(b.sign, &t.owners)
		hi, n := min(lo+roundRows, len(b.keys)), 0
		func() {
			defer x.close()
			x.mustMatch(len(b.keys), b.columns...)
			if hi < len(b.keys) {
				t.r.head[headState] |= stateMore
			}
			begin(ctx, x, b.keys[lo:hi], b.combine, b.flags)
			round(x, lo, hi)
			n, err = x.end()
		}()
		total += n
		if err != nil {
			if p := (*weft.PartialError)(nil); errors.As(err, &p) {
				p.Done += lo
				for i := range p.Rows {
					p.Rows[i] += lo
				}
			}
			return total, err
		}
		if lo = hi; !t.r.anyRank(stateMore) {
			return total, nil
		}
		ctx = context.WithoutCancel(ctx)
	}
}

// Contains returns the number of rows on all ranks with keys in the table. If found is not nil, it
// receives whether each key of this rank is present.
func (t *keyed[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	if t.r.size == 1 {
		return t.keys.Contains(ctx, keys, found)
	}
	b := batch[K]{t.sign(methodContains, 0), keys, combineAny, found != nil,
		[]int{optional(found, len(keys))}}
	return t.rounds(ctx, b, func(x *exchange, lo, hi int) {
		k := sendColumn(x, keysOut, keys[lo:hi])
		is := x.flagsBuffer()
		x.apply(ctx, func(ctx context.Context) (int, error) { return t.keys.Contains(ctx, k, is) })
		x.found(is, part(found, lo, hi))
	})
}

// Delete removes keys and returns the number of removed keys on all ranks. If deleted is not nil,
// it receives whether each row removed a key. If a key occurs several times, its first row on the
// lowest rank removes it.
func (t *keyed[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	if t.r.size == 1 {
		return t.keys.Delete(ctx, keys, deleted)
	}
	x := t.open(methodDelete)
	defer x.close()
	x.mustMatch(len(keys), optional(deleted, len(keys)))
	begin(ctx, x, keys, combineFirst, deleted != nil)
	k := sendColumn(x, keysOut, keys)
	x.applyFlags(ctx, deleted, func(ctx context.Context, is []bool) (int, error) {
		return t.keys.Delete(ctx, k, is)
	})
	return x.end()
}

// Len returns the number of keys on all ranks, or of arcs in a graph.
func (t *table[K]) Len(ctx context.Context) (int, error) {
	return t.all(ctx, methodLen, func(context.Context) (int, error) { return t.shard.Len(), nil })
}

// Clear removes all keys and keeps the memory.
func (t *table[K]) Clear(ctx context.Context) error {
	_, err := t.all(ctx, methodClear, func(ctx context.Context) (int, error) {
		return 0, t.shard.Clear(ctx)
	})
	return err
}

// Check checks the shards of all ranks. It returns the first error on the lowest rank as
// [weft.ErrCorrupt], for example a key that belongs to another rank.
func (t *table[K]) Check(ctx context.Context) error {
	_, err := t.all(ctx, methodCheck, func(ctx context.Context) (int, error) {
		if err := t.shard.Check(ctx); err != nil {
			return 0, err
		}
		return 0, t.visitPages(ctx, func(keys []K) error {
			for _, k := range keys {
				if rank := t.owners.rank(position(&t.owners, k), t.r.size); rank != t.r.rank {
					return fmt.Errorf("%w: key %v belongs to rank %d", weft.ErrCorrupt, k, rank)
				}
			}
			return nil
		})
	})
	return err
}

// Close closes the structure of this rank. It is not collective. Later calls on other ranks return
// [weft.ErrClosed].
func (t *table[K]) Close() error { return t.shard.Close() }

// all runs a call without rows, and returns the sum of the results of run on all ranks.
func (t *table[K]) all(
	ctx context.Context, m method, run func(context.Context) (int, error),
) (int, error) {
	if t.r.size == 1 {
		return run(ctx)
	}
	x := t.open(m)
	defer x.close()
	clear(x.sent)
	x.agree(ctx, nil, false)
	x.apply(ctx, run)
	return x.endEmpty()
}
