package cpu

import "context"

// Watch stops a loop after the context of its call has ended. Each core has its own watch.
type Watch struct {
	ctx        context.Context
	work       int // work since the last check of the context
	total      int
	mustFinish bool // the loop must run to its end
}

// NewWatch returns the watch of one core. Its first use checks the context.
func NewWatch(ctx context.Context) Watch { return Watch{ctx: ctx, work: watchWork} }

// NoWatch returns the watch of a loop that must run to its end.
func NoWatch() *Watch { return &Watch{ctx: context.Background(), mustFinish: true} }

// watchWork is the work between two checks of the context. It takes at most a tenth of a
// millisecond if each unit waits for memory once.
const watchWork = 1 << 10

// maxMustFinishWork is the work after which a loop that must not stop makes no more long searches.
// A later run that can stop makes them. With the keys of a horton table, that much work takes some
// twenty milliseconds.
const maxMustFinishWork = 1 << 17

// ShouldStop adds work to the work that a loop has done and reports whether the loop must stop. The
// unit of work is a memory access for which the loop may have waited.
func (w *Watch) ShouldStop(work int) bool {
	w.AddWork(work)
	return w.work >= watchWork && w.checkContext()
}

// AddWork adds work to the work that a loop has done, without checking the context.
func (w *Watch) AddWork(work int) {
	w.work += work
	w.total += work
}

// Exhausted reports whether the loop must not stop but has done maxMustFinishWork. An operation
// that then needs a long search counts as overflowed, and runs again later.
func (w *Watch) Exhausted() bool { return w.mustFinish && w.total >= maxMustFinishWork }

// checkContext checks the context. Once the context has ended, ShouldStop keeps returning true.
func (w *Watch) checkContext() bool {
	if w.ctx.Err() != nil {
		return true
	}
	w.work = 0
	return false
}

// SearchLimit prevents long searches for a slot in one share of a piece after many have failed. If
// keys crowd a region, search after search fails until the table grows or gets a new seed.
type SearchLimit struct {
	*Watch
	failures int // consecutive failed searches
}

// maxFailures is the maximum number of consecutive failed searches of a share.
const maxFailures = 64

// NewSearchLimit returns the limit of a loop with watch w.
func NewSearchLimit(w *Watch) SearchLimit { return SearchLimit{Watch: w} }

// Allowed reports whether another long search may begin.
func (s *SearchLimit) Allowed() bool { return s.failures < maxFailures && !s.Exhausted() }

// Record records whether a search has found a slot.
func (s *SearchLimit) Record(found bool) {
	s.failures++
	if found {
		s.failures = 0
	}
}
