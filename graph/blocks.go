package graph

// blocks holds the counts of the blocks of a generation that the host keeps; the engine keeps the
// free lists. The counts depend only on the changes, so every device puts blocks in the same
// places.
type blocks struct {
	free  [classes]int // on the stack of each class
	made  [classes]int // blocks of each class, free or not
	units int          // units handed out, now or before
	used  int          // units of blocks in use by vertices
	limbo int          // units of blocks that only snapshots have
	large int          // units of blocks of largeClass and above that are not free
}

// largeClass is the first class with rows that several blocks of threads copy (kLargeClass in
// graph_few.cuh).
const largeClass = 29

// placing is the source of new blocks of a class. Block r is number top-1-r of the stack if r is
// less than taken. The others begin at unit base, one after the other.
type placing struct {
	top, taken int
	base       int
}

func (p placing) fresh(class uint32, r int) uint32 {
	return uint32(p.base + (r-p.taken)*unitsOf(class))
}

// take returns the sources of the needed new blocks of each class.
func (b *blocks) take(need *[classes]int) (from [classes]placing, units int) {
	units = b.units
	for c, n := range need {
		p := placing{top: b.free[c], taken: min(n, b.free[c]), base: units}
		units += (n - p.taken) * unitsOf(uint32(c))
		from[c] = p
	}
	return from, units
}

// took counts the blocks taken.
func (b *blocks) took(need *[classes]int, units int) {
	b.units = units
	for c, n := range need {
		b.made[c] += n - min(n, b.free[c])
		b.free[c] -= min(n, b.free[c])
		b.used += n * unitsOf(uint32(c))
		if c >= largeClass {
			b.large += n * unitsOf(uint32(c))
		}
	}
}

// gave counts blocks that have become free, and units that only snapshots have.
func (b *blocks) gave(released *[classes]int, limbo int) {
	for c, n := range released {
		b.free[c] += n
		b.used -= n * unitsOf(uint32(c))
		if c >= largeClass {
			b.large -= n * unitsOf(uint32(c))
		}
	}
	b.used -= limbo
	b.limbo += limbo
}

// exorcise counts a retired block of a snapshot as free.
func (b *blocks) exorcise(class uint32) {
	b.free[class]++
	b.limbo -= unitsOf(class)
	if class >= largeClass {
		b.large -= unitsOf(class)
	}
}
