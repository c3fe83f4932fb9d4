package cpu_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Choose must return the instance for each pair of widths, and reject all others.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		w    batch.Widths
		want string
	}{
		{batch.MapWidths[uint32, float32](), "32x32"}, {batch.MapWidths[int32, uint64](), "32x64"},
		{batch.MapWidths[uint64, int32](), "64x32"}, {batch.MapWidths[int64, float64](), "64x64"},
		{batch.SetWidths[uint32](), "32"}, {batch.SetWidths[uint64](), "64"},
	} {
		if got, err := cpu.Choose(c.w, "32x32", "32x64", "64x32", "64x64", "32", "64"); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c.w, got, err)
		}
	}
	if got, err := cpu.Choose(batch.Widths{Key: 2, Val: 4}, 1, 2, 3, 4, 5, 6); got != 0 || !errors.Is(err, op.ErrOptions) {
		t.Errorf("%d, %v", got, err)
	}
}
