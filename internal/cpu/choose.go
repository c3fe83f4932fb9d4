package cpu

import (
	"fmt"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Choose returns the instance of a generic function for the widths of keys and values. The name of
// each parameter states the bits of a key and of a value. The instances f32 and f64 are for sets,
// which have no values.
func Choose[F any](w batch.Widths, f32x32, f32x64, f64x32, f64x64, f32, f64 F) (F, error) {
	byWidth := map[[2]int]F{{4, 4}: f32x32, {4, 8}: f32x64, {8, 4}: f64x32, {8, 8}: f64x64, {4, 0}: f32, {8, 0}: f64}
	f, ok := byWidth[[2]int{w.Key, w.Val}]
	if !ok {
		return f, fmt.Errorf("%w: no engine for keys of %d and values of %d bytes", op.ErrOptions, w.Key, w.Val)
	}
	return f, nil
}
