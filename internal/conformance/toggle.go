package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Toggle adds two keys to an empty set, one of them the largest possible key. Then it repeatedly
// deletes and adds them in mixed batches in device memory. It returns the statistics of the set
// before and after.
func Toggle[K weft.Key, S any](t *testing.T, dev device.Device, set interface {
	AnySet[K]
	Stats(context.Context) (S, error)
}) (before, after S) {
	keys := []K{7, 0}
	keys[1]--
	n, err := set.Add(t.Context(), keys, nil)
	if n != 2 || err != nil {
		t.Fatal(n, err)
	}
	before = StatsOf(t, set)
	s := devicetest.NewStream(t, dev)
	on := devicetest.Upload(t, s, []K{keys[0], keys[0], keys[1], keys[1]})
	kinds := devicetest.Upload(t, s, []weft.OpKind{weft.OpDelete, weft.OpPut, weft.OpDelete, weft.OpPut})
	for i := range 40 {
		if err := errors.Join(set.ApplyOn(s, kinds, on, device.Slice[bool]{}), set.Sync(t.Context())); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if n, err = set.Contains(t.Context(), keys, nil); n != 2 || set.Len() != 2 || err != nil {
		t.Errorf("%d of 2 keys are there, Len is %d: %v", n, set.Len(), err)
	}
	return before, StatsOf(t, set)
}
