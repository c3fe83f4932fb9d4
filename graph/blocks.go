package graph

// blocks counts the blocks of a memory generation. The engine lists the free blocks. The counts
// depend only on the changes, so every device places blocks at the same positions.
type blocks struct {
	free         [classes]int // free blocks of each class
	allocated    [classes]int // blocks of each class, free or not
	units        int          // units from which blocks have been made
	used         int          // units of blocks in use by vertices
	retiredUnits int          // units of blocks that only snapshots use
	large        int          // units of blocks of largeClass and above that are not free
}

// largeClass is the first class with rows that several thread blocks copy (kLargeClass in
// graph_few.cuh).
const largeClass = 29

// blockSource describes where the new blocks of a class come from. New block r is entry top-1-r of
// the stack of free blocks if r is less than taken. The other new blocks lie one after the other,
// beginning at unit base.
type blockSource struct {
	top, taken int
	base       int
}

func (p blockSource) fresh(class uint32, r int) uint32 {
	return uint32(p.base + (r-p.taken)*unitsOf(class))
}

// blockSources returns the source of the new blocks of each class, and the new number of units.
func (b *blocks) blockSources(needed *[classes]int) (from [classes]blockSource, units int) {
	units = b.units
	for c, n := range needed {
		p := blockSource{top: b.free[c], taken: min(n, b.free[c]), base: units}
		units += (n - p.taken) * unitsOf(uint32(c))
		from[c] = p
	}
	return from, units
}

// countAllocated counts the needed blocks as allocated. units is the number of units that
// blockSources returned.
func (b *blocks) countAllocated(needed *[classes]int, units int) {
	b.units = units
	for c, n := range needed {
		b.allocated[c] += n - min(n, b.free[c])
		b.free[c] -= min(n, b.free[c])
		b.used += n * unitsOf(uint32(c))
		if c >= largeClass {
			b.large += n * unitsOf(uint32(c))
		}
	}
}

// countReleased counts blocks that became free, and retired units, which only snapshots use.
func (b *blocks) countReleased(released *[classes]int, retired int) {
	for c, n := range released {
		b.free[c] += n
		b.used -= n * unitsOf(uint32(c))
		if c >= largeClass {
			b.large -= n * unitsOf(uint32(c))
		}
	}
	b.used -= retired
	b.retiredUnits += retired
}

// releaseRetired counts a retired block as free.
func (b *blocks) releaseRetired(class uint32) {
	b.free[class]++
	b.retiredUnits -= unitsOf(class)
	if class >= largeClass {
		b.large -= unitsOf(class)
	}
}
