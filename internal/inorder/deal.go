package inorder

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

const (
	// leastPart is the number of rows that it pays to give a core.
	leastPart = 1 << 12
	// partsPerCore exceeds 1, so that cores with fast parts do not wait for the slowest part.
	partsPerCore = 4
)

// Deal cuts sorted rows between keys, into some parts for each core: rows [lo,hi).
func Deal[K cpu.Key](dev device.Host, items []cpu.Item[K], part func(lo, hi int)) {
	parts := partsPerCore * dev.Properties().Units
	size := max(leastPart, (len(items)+parts-1)/parts)
	for lo := 0; lo < len(items); {
		hi := cpu.RunEnd(items, lo+size)
		part(lo, hi)
		lo = hi
	}
}
