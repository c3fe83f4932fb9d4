package sim

// fast runs one warp after another in lockstep, block by block. It is
// sequentially consistent and always the same: for looking at results.
type fast struct{}

// fastQuantum is how many instructions a warp runs before others get a turn: it
// may wait for one of them.
const fastQuantum = 1 << 14

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
		if l.steps == before && len(l.resident) > 0 {
			l.failStuck()
			return
		}
		if !l.crowded(1) {
			l.admit()
		}
	}
}
