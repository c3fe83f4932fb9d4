package graph

// blocks is what the host knows of the blocks of a generation; which ones are free the engine knows. It depends on the changes
// that there were, and on nothing else, so that every device puts blocks in the same places.
type blocks struct {
	free  [classes]int // on the stack of each class
	made  [classes]int // of each class, whoever has them
	units int          // that have been given out, now or before
	used  int          // units of blocks that vertices have
	limbo int          // units of blocks that only snapshots have
	large int          // units of blocks of largeClass and above that are not free
}

// largeClass is the class from which on several blocks of threads copy a row (kLargeClass in graph_few.cuh).
const largeClass = 29

// placing is where new blocks of a class come from: block r is number top-1-r of the stack as long as r is less than
// taken, and then from a unit on, one behind the other.
type placing struct {
	top, taken int
	base       int
}

func (p placing) fresh(class uint32, r int) uint32 {
	return uint32(p.base + (r-p.taken)*unitsOf(class))
}

// take says where so many new blocks of each class come from.
func (b *blocks) take(need *[classes]int) (from [classes]placing, units int) {
	units = b.units
	for c, n := range need {
		p := placing{top: b.free[c], taken: min(n, b.free[c]), base: units}
		units += (n - p.taken) * unitsOf(uint32(c))
		from[c] = p
	}
	return from, units
}

// took counts what has been taken.
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

// gave counts blocks that are free now, and units that only snapshots have.
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

// exorcise counts a block free that a snapshot had.
func (b *blocks) exorcise(class uint32) {
	b.free[class]++
	b.limbo -= unitsOf(class)
	if class >= largeClass {
		b.large -= unitsOf(class)
	}
}
