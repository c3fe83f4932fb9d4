package cpu

import "context"

// Watch stops a loop once the context of its call has ended. Each core has its own.
type Watch struct {
	ctx    context.Context
	work   int // since the last check of the context
	all    int
	steady bool // the loop must run to its end
}

// NewWatch returns the watch of one core. Its first use checks the context.
func NewWatch(ctx context.Context) Watch { return Watch{ctx: ctx, work: watchWork} }

// NoWatch returns the watch of a loop that must not stop.
func NoWatch() *Watch { return &Watch{ctx: context.Background(), steady: true} }

// watchWork is the work between two checks of the context: at most a tenth of a millisecond, if
// each unit waits for memory once.
const watchWork = 1 << 10

// steadyWork is the work after which loops that must not stop leave long searches to a run that can
// stop: with the keys of a horton table, some twenty milliseconds.
const steadyWork = 1 << 17

// Over adds to the work that a loop has done, counted in memory accesses that it may have waited
// for, and reports whether the loop must stop.
func (w *Watch) Over(work int) bool {
	w.Work(work)
	return w.work >= watchWork && w.ended()
}

// Work adds to the work that a loop has done.
func (w *Watch) Work(work int) {
	w.work += work
	w.all += work
}

// Exhausted reports whether the loop must not stop and has done enough work. An operation that then
// needs a long search counts as one that overflowed, and runs again.
func (w *Watch) Exhausted() bool { return w.steady && w.all >= steadyWork }

// ended checks the context. Once the context has ended, Over keeps returning true.
func (w *Watch) ended() bool {
	if w.ctx.Err() != nil {
		return true
	}
	w.work = 0
	return false
}

// Search decides for one share of a piece whether long searches for room continue. Where keys
// crowd, one search after another fails, until the table grows or takes another seed.
type Search struct {
	*Watch
	vain int // consecutive failed searches
}

// mostVain is the maximum number of consecutive failed searches of a share.
const mostVain = 64

// SearchBy returns the Search of a loop with a watch.
func SearchBy(w *Watch) Search { return Search{Watch: w} }

// Pays reports whether another search is worth its time.
func (s *Search) Pays() bool { return s.vain < mostVain && !s.Exhausted() }

// Found records the result of a search.
func (s *Search) Found(room bool) {
	s.vain++
	if room {
		s.vain = 0
	}
}
