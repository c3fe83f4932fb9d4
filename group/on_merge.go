package group

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// MergeOn adds the groups of on to g, so that groups of several devices become one result, which
// [Groups.Save] can store. It waits for the batches that streams have added, and leaves the groups
// on the device unchanged. The device needs memory for the state of all groups, which is copied to
// the host in pieces. Groups from a GPU are in no order, unless results are sorted.
//
// If aggregates, types or SkipNulls differ, or the rows of g have ordinals, MergeOn returns
// [weft.ErrOptions]. If it fails after some groups have been merged, for example because the
// context ends, all later calls return its error.
func (g *Groups) MergeOn(ctx context.Context, on *GroupsOn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	on.mu.Lock()
	defer on.mu.Unlock()
	err := g.prepareRead(ctx)
	if err == nil {
		err = on.err
	}
	if err == nil {
		err = g.mergeable(on.aggs, on.opts.SkipNulls)
	}
	if err == nil && on.l != nil {
		err = g.bindTypes(on.l.keys, on.l.values, false)
	}
	if err == nil && on.l != nil {
		err = on.impl.mergeInto(ctx, g)
	}
	if err != nil {
		return fmt.Errorf("group: MergeOn: %w", err)
	}
	return nil
}

func (h hostGroups) mergeInto(ctx context.Context, to *Groups) error {
	h.groups.mu.Lock()
	defer h.groups.mu.Unlock()
	if err := h.groups.prepareRead(ctx); err != nil {
		return err
	}
	return to.mergeReady(ctx, h.groups)
}

// mergeGroups is the maximum number of groups that are copied from a device to the host at a time.
// Tests lower it.
var mergeGroups = 1 << 20

func (g *gpuGroups) mergeInto(ctx context.Context, to *Groups) error {
	state := g.stateColumns()
	r, _, err := g.read(ctx, state)
	if err != nil {
		return err
	}
	n, begun := mergeGroups, false
	if m := to.opts.Memory; m > 0 { // a page holds each value as copied and as a word
		n = int(max(1, min(int64(n), m/readShare/int64(16*(len(state)+len(g.l.keys))))))
	}
	for lo := 0; lo < r.Len() && err == nil; lo += n {
		var page []column.Column
		if page, err = g.statePage(ctx, r, state, lo, min(lo+n, r.Len())); err == nil {
			err = to.addPage(ctx, page)
		}
		begun = begun || page != nil
	}
	to.scratch.trim()
	if err = errors.Join(err, g.free(ctx, r)); begun {
		to.failed = err
	}
	return err
}

// stateColumns lists the result columns that hold the state of groups, in the order of
// [layout.stateColumns].
func (g *gpuGroups) stateColumns() []resultColumn {
	all := []resultColumn{{groups.Aggregate{Func: groups.CountRows}, column.Int64}}
	for _, s := range g.l.sources {
		add := func(f groups.Func, t column.Type) {
			all = append(all, resultColumn{groups.Aggregate{Func: f, Type: kernelTypes[s.typ],
				Column: s.col}, t})
		}
		add(groups.CountOf, column.Int64)
		for _, x := range s.slots {
			switch x.kind {
			case sumSigned, sumUnsigned:
				add(groups.SumOf, column.Int64)
				add(groups.HighSumOf, column.Int64)
			case sumFloat:
				add(groups.SumOfFloats, column.Float64)
			case minSigned, minUnsigned, minFloat:
				add(groups.MinOf, s.typ)
			case maxSigned, maxUnsigned, maxFloat:
				add(groups.MaxOf, s.typ)
			case first:
				add(groups.FirstOf, s.typ)
			case last:
				add(groups.LastOf, s.typ)
			}
		}
	}
	return all
}

// statePage copies groups lo to hi-1 of a result to the host, as a page of state.
func (g *gpuGroups) statePage(ctx context.Context, r *ResultOn, columns []resultColumn, lo, hi int) (
	page []column.Column, err error) {
	s, state := g.tables()[0].Stream(), g.l.stateColumns()
	for _, on := range r.Keys {
		key, err := on.Slice(lo, hi).Download(ctx, s)
		if err != nil {
			return nil, err
		}
		page = append(page, key)
	}
	var rows []int64
	for i, on := range r.Values {
		c, err := on.Slice(lo, hi).Download(ctx, s)
		if err != nil {
			return nil, err
		}
		words := load(make([]uint64, hi-lo), c, nil, 0)
		switch columns[i].agg.Func {
		case groups.CountRows:
			rows = column.Values[int64](c)
		case groups.CountOf: // the state is the number of nulls
			for j, values := range column.Values[int64](c) {
				words[j] = uint64(rows[j] - values)
			}
		case groups.MinOf, groups.MaxOf:
			for j := range words {
				if c.Null(j) {
					words[j] = initial(state[i].slot.kind)
				}
			}
		}
		all, err := column.OfRaw(state[i].typ, unsafe.Slice((*byte)(unsafe.Pointer(
			unsafe.SliceData(words))), 8*len(words)))
		if err != nil {
			return nil, err
		}
		if state[i].source >= 0 && c.HasNulls() {
			all = all.WithValid(c.Valid())
		}
		page = append(page, all)
	}
	return page, nil
}
