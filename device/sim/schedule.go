package sim

import "math/rand/v2"

// scheduler chooses the next step among the works that can run.
type scheduler interface {
	// step takes a small step of one of the ready works.
	step(d *Device, ready []*work)
	// wake is called when waiting lanes of a warp become runnable.
	wake(w *warp)
}

// schedule sets up the scheduler, its random numbers and its views.
func (d *Device) schedule() {
	if d.opts.Scheduler != Fast {
		d.rng = rand.New(rand.NewPCG(d.opts.Seed, 0))
	}
	sequential := d.opts.Sequential || d.opts.Scheduler == Fast
	// A domain needs views, which record the stores that threads have seen.
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

// step takes one step of a work that can run, if there is one.
func (d *Device) step() {
	if ready := d.ready(); len(ready) > 0 {
		d.sched.step(d, ready)
	}
}

// run calls step as one step of the launch. It begins the launch before the first step and finishes
// it after the last.
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
