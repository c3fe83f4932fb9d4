package group

import (
	"context"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/extsort"
)

// sortKeys returns the columns of a result to sort by: the keys, or the ordinals and then the keys.
func (g *Groups) sortKeys() []extsort.Key {
	if g.opts.Sorted {
		return ascending(0, len(g.l.keys))
	}
	return append(ascending(len(g.l.keys)+len(g.aggs), 1), ascending(0, len(g.l.keys))...)
}

// ascending returns n sort keys, for the columns from number lo on.
func ascending(lo, n int) []extsort.Key {
	keys := make([]extsort.Key, n)
	for i := range keys {
		keys[i].Column = lo + i
	}
	return keys
}

// sorted returns the groups of r, sorted by keys.
func sorted(ctx context.Context, dev device.Host, r *Result, keys []extsort.Key) (*Result, error) {
	columns := slices.Concat(r.Keys, r.Values)
	perm, err := extsort.Order(ctx, dev, columns, keys)
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		columns[i] = column.Take(dev, c, perm)
	}
	n := len(r.Keys)
	return &Result{Keys: columns[:n:n], Values: columns[n:]}, ctx.Err()
}
