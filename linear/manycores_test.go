package linear

import (
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// small is roughly the batch size from which the cores divide a batch.
const small = 1 << 11

// If a batch has fewer shares than cores, some cores must get no share, and must not reuse their
// share of the previous batch.
func TestBatchesForManyCores(t *testing.T) {
	for _, workers := range []int{1, 3, 48, 64, 100, 500} {
		m, err := New[uint64, uint64](devicetest.OpenCPU(t, workers), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range []int{2 * small, small, small + 1, small + 17, 3*small + 1} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = uint64(sum + i)
			}
			if got, err := m.Put(t.Context(), keys, keys); got != n || err != nil {
				t.Fatalf("%d workers: Put of %d keys: %d, %v", workers, n, got, err)
			}
			vals := make([]uint64, n)
			if hits, err := m.Get(t.Context(), keys, vals, nil); hits != n || err != nil || !slices.Equal(vals, keys) {
				t.Fatalf("%d workers: %d of %d keys are there: %v", workers, hits, n, err)
			}
			sum += n
		}
		if err := m.CheckInvariants(); err != nil || m.Len() != sum {
			t.Errorf("%d workers: %d keys, want %d: %v", workers, m.Len(), sum, err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
