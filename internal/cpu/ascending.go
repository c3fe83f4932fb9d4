package cpu

import (
	"context"
	"sync/atomic"
)

// samplePrefix is the number of leading keys of a batch that are checked for ascending order before
// the batch is copied. If a batch does not ascend, these keys usually do not ascend either.
const samplePrefix = 1 << 8

// WhileAscending calls write to copy a batch and reports whether the stored keys ascend. A stored
// key is the exclusive or of the key and flip. The keys are checked during the copy, so they are
// read once. For each part that it copies, write reports the part's first key index and whether the
// part ascends. If a part does not ascend, or does not continue the order of the keys before it,
// WhileAscending cancels the context of write. Then write must return an error.
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
