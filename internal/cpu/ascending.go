package cpu

import (
	"context"
	"sync/atomic"
)

// glance is how many keys of a batch are looked at before anything is done for it: few batches that do not ascend begin with so
// many that do.
const glance = 1 << 8

// WhileAscending writes a batch whose keys ascend, in the order of what is stored, and reports whether they do. That is seen
// while they are copied, so that they are read once: write reports for each part that it copies, from key number first on, whether that
// ascends. If a part does not, or not behind the one before, the context that write is given ends, with which it has to fail.
func WhileAscending[K Key](ctx context.Context, keys []K, flip K, write func(ctx context.Context, wrote func(first int, ascends bool)) error) (ascending bool, err error) {
	falls := func(i int) bool { return i > 0 && keys[i]^flip <= keys[i-1]^flip }
	for i := range min(glance, len(keys)) {
		if falls(i) {
			return false, nil
		}
	}
	writing, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var fell atomic.Bool
	err = write(writing, func(first int, ascends bool) {
		if !ascends || falls(first) {
			fell.Store(true)
			giveUp()
		}
	})
	if fell.Load() {
		return false, ctx.Err()
	}
	return true, err
}
