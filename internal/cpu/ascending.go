package cpu

import (
	"context"
	"sync/atomic"
)

// samplePrefix is the number of keys of a batch that are checked first. Few batches that do not
// ascend begin with that many keys that do.
const samplePrefix = 1 << 8

// WhileAscending writes a batch with ascending keys, in the order of their stored form, and reports
// whether they ascend. The check runs during the copy, so the keys are read once. write reports for
// each part that it copies, from key number first on, whether that part ascends. If a part does
// not, or does not follow the one before, WhileAscending cancels the context of write, which must
// then fail.
func WhileAscending[K Key](ctx context.Context, keys []K, flip K, write func(ctx context.Context, report func(first int, ascends bool)) error) (ascending bool, err error) {
	outOfOrder := func(i int) bool { return i > 0 && keys[i]^flip <= keys[i-1]^flip }
	for i := range min(samplePrefix, len(keys)) {
		if outOfOrder(i) {
			return false, nil
		}
	}
	writeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var unordered atomic.Bool
	err = write(writeCtx, func(first int, ascends bool) {
		if !ascends || outOfOrder(first) {
			unordered.Store(true)
			cancel()
		}
	})
	if unordered.Load() {
		return false, ctx.Err()
	}
	return true, err
}
