package cpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Offsets returns, for a batch with several result rows per key, the index in the outputs at which
// the rows of each key begin. The last element is the total number of rows. In host memory these
// are the caller's offsets. On a stream they are computed from the counts that lookUp finds.
func Offsets(b *batch.Batch, s *device.Stream, lookUp func(count *batch.Batch) error) ([]uint64, error) {
	c := &b.Columns
	if s == nil {
		return c[batch.Vals].Offsets, nil
	}
	count := *b
	count.Columns[batch.Vals], count.Columns[batch.OutKeys] = batch.Column{}, batch.Column{}
	if err := lookUp(&count); err != nil {
		return nil, err
	}
	offsets := batch.View[uint64](c[batch.Offsets].Host)
	offsets[0] = 0
	for i, n := range batch.View[uint32](c[batch.Counts].Host) {
		offsets[i+1] = offsets[i] + uint64(n)
	}
	return offsets, nil
}

// RunLoop runs body for the elements [lo,hi) of a batch until the watch stops it. work is the cost
// of one call of body. It returns the number of calls and the sum of their results.
func RunLoop(w *Watch, lo, hi, work int, body func(i int) int) (ran, hits int) {
	for i := lo; i < hi; i++ {
		if w.ShouldStop(work) {
			return i - lo, hits
		}
		hits += body(i)
	}
	return hi - lo, hits
}
