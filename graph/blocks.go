package graph

// blocks holds the counts of the blocks of a generation that the host keeps; the engine keeps the
// free lists. The counts depend only on the changes, so every device puts blocks in the same
// places.
type blocks struct {
	free         [classes]int // on the stack of each class
	allocated    [classes]int // blocks of each class, free or not
	units        int          // units handed out, now or before
	used         int          // units of blocks in use by vertices
	retiredUnits int          // units of blocks that only snapshots have
	large        int          // units of blocks of largeClass and above that are not free
}

// largeClass is the first class with rows that several blocks of threads copy (kLargeClass in
// graph_few.cuh).
const largeClass = 29

// blockSource is the source of new blocks of a class. Block r is number top-1-r of the stack if r
// is less than taken. The others begin at unit base, one after the other.
type blockSource struct {
	top, taken int
	base       int
}

func (p blockSource) fresh(class uint32, r int) uint32 {
	return uint32(p.base + (r-p.taken)*unitsOf(class))
}

// blockSources returns the sources of the needed new blocks of each class.
func (b *blocks) blockSources(needed *[classes]int) (from [classes]blockSource, units int) {
	units = b.units
	for c, n := range needed {
		p := blockSource{top: b.free[c], taken: min(n, b.free[c]), base: units}
		units += (n - p.taken) * unitsOf(uint32(c))
		from[c] = p
	}
	return from, units
}

// countAllocated counts the blocks taken.
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

// countReleased counts blocks that have become free, and units that only snapshots have.
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

// releaseRetired counts a retired block of a snapshot as free.
func (b *blocks) releaseRetired(class uint32) {
	b.free[class]++
	b.retiredUnits -= unitsOf(class)
	if class >= largeClass {
		b.large -= unitsOf(class)
	}
}
