package dst

import (
	"maps"
	"testing"

	"github.com/weftgo/weft"
)

// Lookups must see contents between atomic batches, in the order of their streams.
func TestCheckBatches(t *testing.T) {
	type pairs = contents
	both, second, first, none := pairs{1: 10, 2: 20}, pairs{2: 20}, pairs{1: 10}, pairs{}
	for _, c := range []struct {
		name          string
		a, b          pairs // contents that two lookups on a stream see
		linked        bool  // the lookups follow the first change
		snapshot      pairs // content of a snapshot taken between the changes
		removed       uint32
		deleted, want bool
	}{
		{"before both, and behind", none, second, false, both, 1, true, true},
		{"between", both, both, true, both, 1, true, true},
		{"half of a batch", first, second, false, both, 1, true, false},
		{"less than the stream waits for", none, both, true, both, 1, true, false},
		{"less than was seen before", second, both, false, both, 1, true, false},
		{"a snapshot that changes", both, both, false, second, 1, true, false},
		{"a snapshot from before", none, none, false, none, 1, true, false},
		{"a range that removes too many", both, both, false, both, 2, true, false},
		{"a key that is there is not deleted", both, both, false, both, 1, false, false},
	} {
		h := history{atomicBatches: true, reduce: reduced[uint64], streams: make([]batchSet, 3), removals: map[int]*addRemoval{}}
		addView := func(number, at int, seen pairs) {
			h.views = append(h.views, view{number, at, c.name, func(have pairs) bool { return maps.Equal(have, seen) }})
		}
		put := func(key uint64) event {
			return event{op: weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: key, Value: 10 * key}}
		}
		h.add(h.begin(0, true), []event{put(1), put(2)})
		if c.linked {
			h.link(0, 1)
		}
		addView(h.begin(1, false), -1, c.a)
		undos := h.beginCall(false)
		addView(undos, undos, c.snapshot)
		h.add(h.begin(2, true), []event{{
			op: weft.Op[uint64, uint64]{Kind: weft.OpDelete, Key: 1}, ok: c.deleted, returns: Returns{OK: true},
		}})
		addView(h.begin(1, false), -1, c.b)
		h.removals[h.begin(2, true)] = &addRemoval{[]uint64{0}, []uint64{9}, []uint32{c.removed}}
		if _, err := h.check(); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
