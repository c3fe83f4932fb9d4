package cpu

import "context"

// Watch stops a loop once the context of its call has ended. Each core has its own.
type Watch struct {
	ctx        context.Context
	work       int // since the last check of the context
	total      int
	mustFinish bool // the loop must run to its end
}

// NewWatch returns the watch of one core. Its first use checks the context.
func NewWatch(ctx context.Context) Watch { return Watch{ctx: ctx, work: watchWork} }

// NoWatch returns the watch of a loop that must not stop.
func NoWatch() *Watch { return &Watch{ctx: context.Background(), mustFinish: true} }

// watchWork is the work between two checks of the context: at most a tenth of a millisecond, if
// each unit waits for memory once.
const watchWork = 1 << 10

// maxMustFinishWork is the work after which loops that must not stop leave long searches to a run
// that can stop: with the keys of a horton table, some twenty milliseconds.
const maxMustFinishWork = 1 << 17

// ShouldStop adds to the work that a loop has done, counted in memory accesses that it may have
// waited for, and reports whether the loop must stop.
func (w *Watch) ShouldStop(work int) bool {
	w.AddWork(work)
	return w.work >= watchWork && w.checkContext()
}

// AddWork adds to the work that a loop has done.
func (w *Watch) AddWork(work int) {
	w.work += work
	w.total += work
}

// Exhausted reports whether the loop must not stop and has done enough work. An operation that then
// needs a long search counts as one that overflowed, and runs again.
func (w *Watch) Exhausted() bool { return w.mustFinish && w.total >= maxMustFinishWork }

// checkContext checks the context. Once the context has ended, ShouldStop keeps returning true.
func (w *Watch) checkContext() bool {
	if w.ctx.Err() != nil {
		return true
	}
	w.work = 0
	return false
}

// SearchLimit decides for one share of a piece whether long searches for a slot continue. Where
// keys crowd, one search after another fails, until the table grows or takes another seed.
type SearchLimit struct {
	*Watch
	failures int // consecutive failed searches
}

// maxFailures is the maximum number of consecutive failed searches of a share.
const maxFailures = 64

// NewSearchLimit returns the limit of a loop with a watch.
func NewSearchLimit(w *Watch) SearchLimit { return SearchLimit{Watch: w} }

// Allowed reports whether another search is worth its time.
func (s *SearchLimit) Allowed() bool { return s.failures < maxFailures && !s.Exhausted() }

// Record records the result of a search.
func (s *SearchLimit) Record(found bool) {
	s.failures++
	if found {
		s.failures = 0
	}
}
