package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// GroupOptions configure Group and Distinct. The zero value and nil are good defaults.
type GroupOptions struct {
	// Options apply to the groups of each rank. A rank has two tables at a time, so each gets half
	// of Memory, but at least group.MinMemory.
	group.Options

	// Gather makes rank 0 return all groups, and the other ranks nil. By default each rank returns
	// the groups that hash to it.
	Gather bool
}

// Group groups the rows of all ranks and aggregates each group, like [group.By]. Each rank first
// groups its own rows. The groups are then partitioned by a hash of their keys, exchanged, and
// merged on the rank of the partition. Frequent keys therefore cost no more than others.
//
// Rows are ordered by rank, then by their order on the rank. First, Last and the order of groups on
// a rank follow this order, unless groups are sorted.
//
// All ranks must pass the same aggregates, options and types of columns. If one rank fails, or its
// rows yield an error, all ranks return the same error.
func Group(
	ctx context.Context, r *Ranks, rows iter.Seq2[Rows, error], aggs []group.Aggregate,
	opts *GroupOptions,
) (*group.Result, error) {
	g := newGrouping(r, aggs, opts)
	return g.result(ctx, func() (*group.Groups, error) { return g.partial(ctx, rows) })
}

// GroupOn merges groups that each rank has already made on its device; see [Group]. Groups on a
// device have no order, so the result is sorted by keys. First and Last follow the order of ranks.
// If Options.Memory is set, they cause weft.ErrOptions. The groups on the devices are not changed.
func GroupOn(
	ctx context.Context, r *Ranks, rows *group.GroupsOn, aggs []group.Aggregate,
	opts *GroupOptions,
) (*group.Result, error) {
	g := newGrouping(r, aggs, opts)
	g.opts.Sorted = true
	return g.result(ctx, func() (*group.Groups, error) {
		if g.ordinals() {
			return nil, fmt.Errorf("shard: GroupOn: %w: First and Last cannot be used with Options.Memory, "+
				"because rows on a device have no ordinals", weft.ErrOptions)
		}
		own, err := group.New(g.r.dev, g.aggs, g.options())
		if err == nil {
			err = own.MergeOn(ctx, rows)
		}
		return own, err
	})
}

func (g *grouping) result(
	ctx context.Context, partial func() (*group.Groups, error),
) (result *group.Result, err error) {
	err = g.run(ctx, partial, func(all *group.Groups) (err error) {
		result, err = all.Result(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// GroupPages yields the groups of this rank in pages, as [group.Groups.Pages] does, so that memory
// holds only one page of the result. See [Group]. If the job fails, all ranks yield the same error
// last.
func GroupPages(
	ctx context.Context, r *Ranks, rows iter.Seq2[Rows, error], aggs []group.Aggregate,
	opts *GroupOptions,
) iter.Seq2[*group.Result, error] {
	return func(yield func(*group.Result, error) bool) {
		on, grouping := true, newGrouping(r, aggs, opts)
		partial := func() (*group.Groups, error) { return grouping.partial(ctx, rows) }
		err := grouping.run(ctx, partial, func(g *group.Groups) error {
			for page, err := range g.Pages(context.WithoutCancel(ctx)) {
				if err != nil {
					return err
				}
				if on = yield(page, nil); !on {
					break
				}
			}
			return nil
		})
		if err != nil && on {
			yield(nil, err)
		}
	}
}

// Distinct returns the distinct keys of the rows of all ranks. Other columns are ignored. See
// [Group] for the distribution over ranks.
func Distinct(
	ctx context.Context, r *Ranks, rows iter.Seq2[Rows, error], opts *GroupOptions,
) ([]column.Column, error) {
	result, err := Group(ctx, r, func(yield func(Rows, error) bool) {
		for batch, err := range rows {
			if !yield(Rows{Keys: batch.Keys}, err) {
				return
			}
		}
	}, nil, opts)
	if result == nil {
		return nil, err
	}
	return result.Keys, err
}

type grouping struct {
	r    *Ranks
	aggs []group.Aggregate
	opts GroupOptions
}

func newGrouping(r *Ranks, aggs []group.Aggregate, opts *GroupOptions) *grouping {
	g := &grouping{r: r, aggs: aggs}
	if opts != nil {
		g.opts = *opts
	}
	return g
}

// run exchanges the partial groups of all ranks, and calls read with the groups of this rank. If
// any rank fails, all ranks return its error.
func (g *grouping) run(
	ctx context.Context, partial func() (*group.Groups, error), read func(*group.Groups) error,
) error {
	ended := false
	defer g.r.abortUnless(&ended)
	own, err := partial()
	if g.r.size > 1 {
		own, err = g.exchange(ctx, own, false, err)
		if err == nil && g.opts.Gather {
			own, err = g.exchange(context.WithoutCancel(ctx), own, true, nil)
		}
	}
	if err == nil {
		if !g.opts.Gather || g.r.rank == 0 {
			err = read(own)
		}
		if g.r.size > 1 {
			_, err = g.r.outcome(err, 0)
		}
	}
	if own != nil {
		err = errors.Join(err, own.Close())
	}
	ended = true
	return err
}

func (g *grouping) options() *group.Options {
	o := g.opts.Options
	if o.Memory > group.MinMemory && g.r.size > 1 {
		o.Memory = max(o.Memory/2, group.MinMemory)
	}
	return &o
}

// ordered reports whether the result depends on the order of rows.
func (g *grouping) ordered() bool {
	return !g.opts.Sorted || slices.ContainsFunc(g.aggs, func(a group.Aggregate) bool {
		return a.Func == group.First || a.Func == group.Last
	})
}

// ordinals reports whether rows get ordinals, which increase the time by half. Without ordinals,
// received groups are held until they can be merged in the order of ranks. Bounded memory does not
// allow that. Neither does Gather, because partitioning drops the order of groups.
func (g *grouping) ordinals() bool {
	return g.ordered() && g.opts.Memory > 0 || g.opts.Gather && !g.opts.Sorted
}

// partial groups the rows of this rank. If rows need ordinals, an ordinal consists of the rank and
// the row.
func (g *grouping) partial(
	ctx context.Context, rows iter.Seq2[Rows, error],
) (*group.Groups, error) {
	own, err := group.New(g.r.dev, g.aggs, g.options())
	if err != nil {
		return nil, err
	}
	next, numbered := uint64(g.r.rank)<<48, g.ordinals() && g.r.size > 1
	var ordinals []uint64
	for batch, err := range rows {
		if err != nil {
			return own, err
		}
		if !numbered {
			if err := own.Add(ctx, batch.Keys, batch.Columns); err != nil {
				return own, err
			}
			continue
		}
		ordinals = slices.Grow(ordinals[:0], batch.len())[:batch.len()]
		for i := range ordinals {
			ordinals[i] = next
			next++
		}
		if err := own.AddAt(ctx, ordinals, batch.Keys, batch.Columns); err != nil {
			return own, err
		}
	}
	return own, nil
}

func (b *Rows) len() int {
	for _, c := range slices.Concat(b.Keys, b.Columns) {
		return c.Len()
	}
	return 0
}

// exchange sends groups to the ranks of their keys, or all groups to rank 0 if gather is set. It
// closes the argument from, and returns the groups of this rank. failure is the reason why this
// rank cannot take part.
func (g *grouping) exchange(
	ctx context.Context, from *group.Groups, gather bool, failure error,
) (merged *group.Groups, err error) {
	o := g.options()
	m := newMail(g.r, sign(methodGroup, 0, 0, 0, 0),
		g.aggs, o.Sorted, o.SkipNulls, g.opts.Gather, gather)
	to, err := group.New(g.r.dev, g.aggs, o)
	failure = errors.Join(failure, err)
	more, ordered, buffered := true, g.ordered() && !g.ordinals(), make([][][]byte, g.r.size)
	flush := func(hasMore bool) error {
		var in [][]byte
		if in, more, err = m.round(ctx, hasMore, failure); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		for rank, part := range in {
			if ordered && more {
				buffered[rank] = append(buffered[rank], part)
				continue
			}
			if failure == nil {
				failure = merge(ctx, to, append(buffered[rank], part)...)
			}
			buffered[rank] = nil
		}
		return nil
	}
	parts := g.r.size
	if gather {
		parts = 1
	}
	if failure == nil {
		serr := from.SaveParts(context.WithoutCancel(ctx), parts, slotSeed,
			roundBytes/pieceShare/parts, func(rank, _ int, piece []byte) error {
				m.out[rank] = append(m.out[rank], piece...)
				if m.bytes() < roundBytes {
					return nil
				}
				return flush(true)
			})
		if err == nil {
			failure = errors.Join(failure, serr)
		}
	}
	for err == nil && more {
		err = flush(false)
	}
	if from != nil {
		failure = errors.Join(failure, from.Close())
	}
	if err == nil {
		_, err = g.r.outcome(failure, 0)
	}
	if err != nil && to != nil {
		to.Close()
		to = nil
	}
	return to, err
}

// pieceShare limits the memory of incomplete pieces of groups to 1/pieceShare of a round.
const pieceShare = 4

// merge adds the groups in received mail to a table of groups. Each part of the mail consists of
// whole pieces.
func merge(ctx context.Context, to *group.Groups, parts ...[]byte) error {
	for _, part := range parts {
		for r := bytes.NewReader(part); r.Len() > 0; {
			if err := to.MergeFrom(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}
