package cpu

import "context"

// Watch tells a loop to stop once the context of its call has ended. Each core
// has its own.
type Watch struct {
	ctx    context.Context
	work   int // since the context was asked
	all    int
	steady bool // the loop runs to its end
}

// NewWatch makes the watch of one core. It looks at the context at once.
func NewWatch(ctx context.Context) Watch { return Watch{ctx: ctx, work: watchWork} }

// NoWatch is the watch of a loop that must not stop.
func NoWatch() *Watch { return &Watch{ctx: context.Background(), steady: true} }

// watchWork is the work between two looks at the context: a tenth of a
// millisecond at most, if each unit of it waits for memory once.
const watchWork = 1 << 10

// steadyWork is the work that loops which must not stop do before they leave long searches to a
// run that can stop: with the keys of a horton table, some twenty milliseconds.
const steadyWork = 1 << 17

// Over adds to the work that a loop has done, counted in accesses of memory that
// it may have waited for, and reports whether the loop is to stop.
func (w *Watch) Over(work int) bool {
	w.Work(work)
	return w.work >= watchWork && w.ended()
}

// Work adds to the work that a loop has done.
func (w *Watch) Work(work int) {
	w.work += work
	w.all += work
}

// Exhausted reports whether the loop must not stop and has done enough work: an operation that
// needs a long search then counts as one that found no room, and runs again.
func (w *Watch) Exhausted() bool { return w.steady && w.all >= steadyWork }

// ended looks at the context. Once it has ended, Over goes on reporting so.
func (w *Watch) ended() bool {
	if w.ctx.Err() != nil {
		return true
	}
	w.work = 0
	return false
}

// Search decides for one share of a piece whether long searches for room go on. Where keys crowd,
// one after the other finds none, until the table grows or takes another seed.
type Search struct {
	*Watch
	vain int // in a row
}

// mostVain is how many searches in a row find nothing before those of the share end.
const mostVain = 64

// SearchBy is that of a loop with a watch.
func SearchBy(w *Watch) Search { return Search{Watch: w} }

// Pays reports whether another search is worth its time.
func (s *Search) Pays() bool { return s.vain < mostVain && !s.Exhausted() }

// Found takes account of what a search has come to.
func (s *Search) Found(room bool) {
	s.vain++
	if room {
		s.vain = 0
	}
}
