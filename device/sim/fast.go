package sim

// fast runs one warp after another in lockstep, block by block. It is
// sequentially consistent and always the same: for looking at results.
type fast struct{}

const (
	// fastQuantum is how many instructions a warp runs before others get a
	// turn: it may wait for one of them.
	fastQuantum = 1 << 14
	// maxResident is how many blocks run at the same time.
	maxResident = 64
)

func (fast) wake(*warp) {}

func (fast) run(l *launch) {
	l.admit()
	for len(l.resident) > 0 {
		before := l.steps
		for i := 0; i < len(l.resident); i++ {
			b := l.resident[i]
			for _, w := range b.warps {
				w.run(fastQuantum)
				if l.checkBudget(w); l.failed() {
					return
				}
			}
			if b.finished() {
				l.retire(i)
				i--
			}
		}
		if len(l.resident) < maxResident {
			// What is still here may wait for a block that is not.
			if l.admit() == nil && l.steps == before && len(l.resident) > 0 {
				l.failStuck()
				return
			}
		} else if l.steps == before {
			l.failStuck()
			return
		}
	}
}
