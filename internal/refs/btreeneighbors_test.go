package refs

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Tiles find the neighbors of keys at a snapshot, on both sides, across leaves without pairs.
func TestNeighborsOfTiles(t *testing.T) {
	onGPUs(t, 2, func(t *testing.T, dev device.Device) {
		x := openTrees(t, dev, btree.OutOfPlace)
		defer func() { check(t, errors.Join(x.m.Close(), x.s.Close())) }()
		var keys, gone []uint32
		for i := range uint32(400) {
			keys = append(keys, 10+3*i)
		}
		keys = append(keys, 0, ^uint32(0))
		slices.Sort(keys)
		must[int](t)(x.m.Put(t.Context(), keys, keys))
		gone = keys[100:180]
		must[int](t)(x.m.Delete(t.Context(), gone, nil))
		keys = slices.Concat(keys[:100], keys[180:])
		var all []task
		for _, k := range []uint32{0, 1, 10, 11, 300, 301, gone[0], gone[40], gone[79], 1207, 5000, ^uint32(0) - 1, ^uint32(0)} {
			all = append(all, task{kind: taskNext, key: k}, task{kind: taskBefore, key: k})
		}
		check(t, x.run(t.Context(), all, 1, 32, 1, 0, 1, false))
		for _, o := range all {
			i, has := slices.BinarySearch(keys, o.key)
			if o.kind == taskBefore {
				i--
			} else if has {
				i++
			}
			some := i >= 0 && i < len(keys)
			if (o.outcome == present) != some || some && (o.keys[0] != keys[i] || o.val != keys[i]) {
				t.Errorf("neighbor of %d by %d: %d, %v with %d", o.key, o.kind, o.outcome, o.keys, o.val)
			}
		}
		// During changes, a permanent key is found as a neighbor under every schedule.
		all = all[:0]
		for i := range uint32(40) {
			all = append(all, task{kind: []uint32{uint32(op.PutNew), uint32(op.Delete)}[i%2], key: 311 + i/2%20})
			all = append(all, task{kind: []uint32{taskNext, taskBefore}[i%2], key: 309 + i%2})
		}
		check(t, x.run(t.Context(), all, 4, 32, 1, 40, 1, false))
		for _, o := range all {
			if o.kind == taskBefore && (o.outcome != present || o.keys[0] != 304) || o.kind == taskNext && (o.outcome != present || o.keys[0] < 311) {
				t.Errorf("neighbor of %d by %d beside changes: %d, %v", o.key, o.kind, o.outcome, o.keys)
			}
		}
		check(t, x.m.Check(t.Context()))
	})
}
