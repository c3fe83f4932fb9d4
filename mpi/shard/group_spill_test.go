package shard

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// Groups that exceed the memory of a rank, before or after the exchange, go to a temporary file.
func TestGroupSpills(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a file of some 100 MB")
	}
	const ranks, rows, groups = 2, 1_200_000, 800_000
	onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
		batches := func(yield func(Rows, error) bool) {
			keys, vals := make([]uint64, 1<<16), make([]int64, 1<<16)
			for lo := 0; lo < rows; lo += len(keys) {
				for i := range keys {
					k := uint64(lo+i) % groups
					keys[i], vals[i] = k*0x9e3779b97f4a7c15, int64(k)+int64(r.rank)
				}
				n := min(len(keys), rows-lo)
				b := Rows{
					Keys:    []column.Column{column.Of(keys).Slice(0, n)},
					Columns: []column.Column{column.Of(vals).Slice(0, n)},
				}
				if !yield(b, nil) {
					return
				}
			}
		}
		opts := &GroupOptions{Options: group.Options{Memory: 2 * group.MinMemory, TempDir: "/var/tmp"}}
		aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}
		n, pages, wrong := 0, 0, 0
		for page, err := range GroupPages(ctx, r, batches, aggs, opts) {
			if err != nil {
				return err
			}
			pages++
			n += page.Len()
			counts, sums := column.Values[int64](page.Values[0]), column.Values[int64](page.Values[1])
			for i, key := range column.Values[uint64](page.Keys[0]) {
				// inverse of the multiplication: number of the group
				k := int64(key * 0xf1de83e19937733d)
				times := int64(1)
				if k < rows-groups {
					times = 2
				}
				if counts[i] != 2*times || sums[i] != times*(2*k+1) {
					wrong++
				}
			}
		}
		all := make([]uint64, ranks)
		if err := r.comm.AllGather(ctx, []uint64{uint64(n)}, all); err != nil {
			return err
		}
		if sum := all[0] + all[1]; sum != groups || wrong > 0 || pages < 2 || slices.Contains(all, 0) {
			return fmt.Errorf("%d groups, %d of them wrong, in %d pages", sum, wrong, pages)
		}
		return nil
	})
}
