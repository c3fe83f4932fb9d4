package sim

import "math/rand/v2"

// A scheduler chooses the next step among the works that can run.
type scheduler interface {
	// step takes a small step of one of the works that can begin or continue.
	step(d *Device, ready []*work)
	// wake reports that waiting lanes of a warp can run.
	wake(w *warp)
}

// schedule sets up the scheduler, its random numbers and its views.
func (d *Device) schedule() {
	if d.opts.Scheduler != Fast {
		d.rng = rand.New(rand.NewPCG(d.opts.Seed, 0))
	}
	sequential := d.opts.Sequential || d.opts.Scheduler == Fast
	// A domain requires views, for the stores that threads have seen.
	if !sequential || d.journal != nil {
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

// step makes the smallest possible progress.
func (d *Device) step() {
	if ready := d.ready(); len(ready) > 0 {
		d.sched.step(d, ready)
	}
}

// run lets a launch take a step. It begins the launch before the step and concludes it after, if
// needed.
func (l *launch) run(step func()) {
	d := l.dev
	if !l.begun {
		l.begin()
	}
	l.start = d.clock - l.steps
	step()
	d.clock = l.start + l.steps
	if l.finished() || l.failed() {
		d.finishLaunch(l)
	}
}
