package sim

// fast is a sequentially consistent and deterministic scheduler for tests of results. It runs works
// one after another, in the order of submission. Within a launch it runs warps one after another in
// lockstep, block by block.
type fast struct{}

// fastQuantum is the number of instructions that a warp runs before the next warp runs, because the
// warp may wait for another one.
const fastQuantum = 1 << 14

func (fast) wake(*warp) {}

func (f fast) step(d *Device, ready []*work) {
	w := ready[0]
	for _, o := range ready {
		if o.number < w.number {
			w = o
		}
	}
	if w.transfer != nil {
		d.runPiece(w)
		return
	}
	w.launch.run(func() { f.round(w.launch) })
}

// round runs each resident warp for a quantum.
func (fast) round(l *launch) {
	if !l.isFull(1) {
		l.startBlock()
	}
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
			l.removeBlock(i)
			i--
		}
	}
	if l.steps == before && len(l.resident) > 0 {
		l.failDeadlock()
	}
}
