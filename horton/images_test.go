package horton

import (
	"maps"
	"slices"

	"github.com/weftgo/weft/device"
)

// Images are the kernels, MixedImages those of mixed batches and reductions.
var Images, MixedImages = byWidths(hortonImages), byWidths(hortonMixedImages)

// byWidths are images in the order of their names.
func byWidths(of map[string]*device.Image) (all []*device.Image) {
	for _, pair := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[pair])
	}
	return all
}
