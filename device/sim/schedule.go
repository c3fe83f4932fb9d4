package sim

import "math/rand/v2"

// A scheduler decides what goes on next, of all that can.
type scheduler interface {
	// step takes a small step of one of the works that can begin or go on.
	step(d *Device, ready []*work)
	// wake tells that lanes of a warp that waited can run.
	wake(w *warp)
}

// schedule chooses the scheduler and what goes with it.
func (d *Device) schedule() {
	if d.opts.Scheduler != Fast {
		d.rng = rand.New(rand.NewPCG(d.opts.Seed, 0))
	}
	sequential := d.opts.Sequential || d.opts.Scheduler == Fast
	if !sequential || d.journal != nil { // which is told what threads have seen
		d.views = newViews(d)
		d.views.newest = sequential
	}
	switch d.opts.Scheduler {
	case Fast:
		d.sched = fast{}
	case PCT:
		d.sched = &pct{}
	default:
		d.sched = &random{}
	}
}

// step makes the smallest progress there is.
func (d *Device) step() {
	if ready := d.ready(); len(ready) > 0 {
		d.sched.step(d, ready)
	}
}

// run lets a launch take a step, begins it before and ends it behind that.
func (l *launch) run(step func()) {
	d := l.dev
	if !l.begun {
		l.begin()
	}
	l.start = d.clock - l.steps
	step()
	d.clock = l.start + l.steps
	if l.finished() || l.failed() {
		d.conclude(l)
	}
}
