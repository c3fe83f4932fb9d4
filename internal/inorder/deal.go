package inorder

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

const (
	// leastPart is the minimum number of rows in a part. For smaller parts, distribution costs more
	// than it gains.
	leastPart = 1 << 12
	// partsPerCore is greater than 1, so that cores that finish early take further parts instead of
	// waiting.
	partsPerCore = 4
)

// Deal divides sorted rows into several parts per core and calls part for each, with its range
// [lo,hi) of rows. Rows with equal keys stay in one part.
func Deal[K cpu.Key](dev device.Host, items []cpu.Item[K], part func(lo, hi int)) {
	parts := partsPerCore * dev.Properties().Units
	size := max(leastPart, (len(items)+parts-1)/parts)
	for lo := 0; lo < len(items); {
		hi := cpu.RunEnd(items, lo+size)
		part(lo, hi)
		lo = hi
	}
}
