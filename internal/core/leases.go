package core

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Parts is the memory of a structure between two rehashes: what an engine reads
// and writes.
type Parts interface {
	// Free gives the memory back. Nobody uses it any more. It is called by
	// whoever ends the last lease, which may be a reader beside a writer.
	Free() error
}

// Leases decide who may use the memory of a structure, and when.
//
// A lease is a reader's right to one generation of memory: it stays what it is
// until the lease ends. A call takes one for its duration; an iteration or a
// snapshot holds one for as long as its user likes. Writers take turns. A writer
// that needs other memory replaces the generation, and the old one is freed when
// its last lease ends. A writer that works where readers read excludes them:
// new ones wait, and it waits for the calls in flight, but never for leases that
// are held, whose user may be waiting for this very writer.
//
// Every wait for a turn ends when its context does.
type Leases struct {
	*gate
	current *Lease // holds the generation in use
	closed  bool
}

// gate is where calls come in: to one table, or to all tables of a group, which
// have one writer at a time among them, and are excluded together.
type gate struct {
	turn chan struct{} // holds a token while a writer is at work

	mu      sync.Mutex      // also of the leases
	calls   int             // in flight, on all generations
	bars    int             // new calls wait while there are any
	waiting []chan struct{} // for the bar to go
	idle    chan struct{}   // closed when calls becomes 0; nil if nobody waits
}

func newGate() *gate { return &gate{turn: make(chan struct{}, 1)} }

// generation is memory and who uses it.
type generation struct {
	leases  int              // of calls and held, and one while it is current
	held    int              // of those, the ones that user code holds
	streams []*device.Stream // of callers, with lookups that nobody has waited for
	many    int              // so many of them are looked through for some to forget
}

// Lease is a right to one generation of memory, at a version of its content if
// the engine has such.
type Lease struct {
	Parts   Parts
	Version uint64 // 0 is the present; see [Versioner]

	of   *Leases
	gen  *generation
	kind leaseKind
}

type leaseKind uint8

const (
	call leaseKind = iota // ends with the call that took it
	held                  // by user code
	kept                  // by the writer, or by a call that has another lease
)

// NewLeases guards the first generation of a structure's memory.
func NewLeases(parts Parts) *Leases { return newGate().leases(parts) }

func (g *gate) leases(parts Parts) *Leases {
	l := &Leases{gate: g}
	l.current = l.first(parts)
	return l
}

// first is the first lease of a new generation.
func (l *Leases) first(parts Parts) *Lease {
	return &Lease{Parts: parts, of: l, gen: &generation{leases: 1}, kind: kept}
}

// ---- readers ------------------------------------------------------------------

// Read takes a lease for a call: on what another lease holds, if there is one, or
// on the current generation. End it with [Lease.End].
func (l *Leases) Read(ctx context.Context, of *Lease) (*Lease, error) { return l.enter(ctx, of, call) }

// Hold takes a lease that user code keeps: it outlives calls and blocks nobody.
func (l *Leases) Hold(ctx context.Context) (*Lease, error) { return l.enter(ctx, nil, held) }

func (l *Leases) enter(ctx context.Context, of *Lease, kind leaseKind) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.bars > 0 && !l.closed {
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
	} else {
		l.calls++
	}
	if l.closed {
		l.ended()
		return nil, op.ErrClosed
	}
	if of == nil {
		of = l.current
	}
	if kind == held {
		of.gen.held++
		l.ended()
	}
	return of.another(kind), nil
}

// another is a lease on the same generation, at the same version. Its taker has
// the mutex.
func (l *Lease) another(kind leaseKind) *Lease {
	l.gen.leases++
	return &Lease{Parts: l.Parts, Version: l.Version, of: l.of, gen: l.gen, kind: kind}
}

// Also takes a lease for a call that has one already of a table of the group.
func (l *Leases) Also() (*Lease, error) {
	if err := l.open(); err != nil { // who closes it from now on waits for the call
		return nil, err
	}
	return l.Keep(), nil
}

// wait waits until the bar goes. Whoever lifts it counts the call, so that the
// next writer cannot come first. The mutex is released meanwhile.
func (l *gate) wait(ctx context.Context) error {
	lifted := make(chan struct{})
	l.waiting = append(l.waiting, lifted)
	l.mu.Unlock()
	var err error
	select {
	case <-lifted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	if err == nil {
		return nil
	}
	if i := slices.Index(l.waiting, lifted); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		l.ended() // it was lifted all the same
	}
	return err
}

// On notes that work on a stream of the caller, which has been submitted, reads
// the generation: whoever moves or frees it waits for the stream first. That is
// nothing to the device.
func (l *Lease) On(s *device.Stream) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if slices.Contains(l.gen.streams, s) {
		return
	}
	g := l.gen
	if g.streams = append(g.streams, s); len(g.streams) >= max(manyStreams, g.many) {
		g.streams = slices.DeleteFunc(g.streams, func(s *device.Stream) bool { return waitFor(Ended, s) == nil })
		g.many = 2 * len(g.streams)
	}
}

// manyStreams is how many streams it takes before those with nothing under way
// are forgotten; and again at twice as many as are left, so that a lookup asks for
// two streams, taken all together.
const manyStreams = 64

// Ended is a context that has ended: who waits with it only asks.
var Ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// waitFor waits for what a stream has been given so far, and not for what others
// give it meanwhile. One that has been closed has waited by itself; on a device that is
// lost nothing is under way.
func waitFor(ctx context.Context, s *device.Stream) error {
	if err := s.Sync(ctx); !errors.Is(err, op.ErrClosed) && !errors.Is(err, device.ErrLost) {
		return err
	}
	return nil
}

// End ends the lease, and frees its generation if it was the last one of a
// generation that has been replaced.
func (l *Lease) End() error {
	l.of.mu.Lock()
	switch l.kind {
	case call:
		l.of.ended()
	case held:
		l.gen.held--
	}
	l.gen.leases--
	last := l.gen.leases == 0
	l.of.mu.Unlock()
	if !last {
		return nil
	}
	err := l.Wait(context.Background())
	return errors.Join(err, l.Parts.Free())
}

// ended counts a call that is over.
func (l *gate) ended() {
	if l.calls--; l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Wait waits for lookups that callers have submitted to streams, by leases of the
// same generation. It comes in a writer's turn, or behind the last lease.
func (l *Lease) Wait(ctx context.Context) error {
	g, mu := l.gen, &l.of.mu
	mu.Lock()
	streams := g.streams
	g.streams = nil
	mu.Unlock()
	for i, s := range streams {
		if err := waitFor(ctx, s); err != nil {
			mu.Lock()
			g.streams = append(g.streams, streams[i:]...)
			mu.Unlock()
			return err
		}
	}
	return nil
}

// ---- writers ------------------------------------------------------------------

// Write waits for the turn of a writer. Release gives it to the next one.
func (l *Leases) Write(ctx context.Context) error {
	err := l.take(ctx)
	if err != nil {
		return err
	}
	if err = l.open(); err != nil {
		l.Release()
	}
	return err
}

// take waits for the turn.
func (l *gate) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open reports a structure that has been closed.
func (l *Leases) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return op.ErrClosed
	}
	return nil
}

// Release ends a writer's turn.
func (l *gate) Release() { <-l.turn }

// Exclude bars new calls and waits for those in flight, and for lookups that
// callers have submitted to streams. Admit lifts the bar, unless there is an
// error: then it is lifted already. Only writers call it; one that has done so
// may do so again.
func (l *Leases) Exclude(ctx context.Context) error {
	l.mu.Lock()
	l.bars++
	var idle chan struct{}
	if l.calls > 0 {
		idle = make(chan struct{})
		l.idle = idle
	}
	l.mu.Unlock()
	var err error
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		err = l.Current().Wait(ctx)
	}
	if err != nil {
		l.Admit()
	}
	return err
}

// Admit lifts the bar of Exclude.
func (l *gate) Admit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = nil
	if l.bars--; l.bars > 0 {
		return
	}
	l.calls += len(l.waiting)
	for _, w := range l.waiting {
		close(w)
	}
	l.waiting = nil
}

// Excluded reports whether new calls are barred. Only writers call it.
func (l *gate) Excluded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bars > 0
}

// Current is the generation in use, for a writer in its turn, who alone replaces
// it. It ends with the turn.
func (l *Leases) Current() *Lease { return l.current }

// Held reports whether user code holds a lease on the current generation, so
// that pairs must stay in the pages that they are in. Only writers call it.
func (l *Leases) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.gen.held > 0
}

// Replace makes other memory the current generation. The old one is freed when
// its last lease ends. Only writers call it.
func (l *Leases) Replace(parts Parts) error { return l.Revert(l.first(parts)) }

// Keep keeps the current generation for the writer itself, so that Revert can go
// back to it. A kept generation does not count as held by user code.
func (l *Leases) Keep() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.another(kept)
}

// memoryBytes is how large the current generation is, if it tells; 0 of a structure that has
// been closed.
func (l *Leases) memoryBytes() int {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0
	}
	kept := l.current.another(kept)
	l.mu.Unlock()
	bytes := 0
	if m, ok := kept.Parts.(interface{ MemoryBytes() int }); ok {
		bytes = m.MemoryBytes()
	}
	kept.End() // may free a generation that has been replaced meanwhile; who replaced it is told nothing
	return bytes
}

// Revert makes a kept generation the current one again. Its lease ends with that.
func (l *Leases) Revert(kept *Lease) error {
	l.mu.Lock()
	old := l.current
	l.current = kept
	l.mu.Unlock()
	return old.End()
}

// Close ends the structure: calls that come later, and those that wait, get
// ErrClosed; those in flight are waited for. It reports false if that has
// happened before.
func (l *Leases) Close() (first bool, err error) {
	l.turn <- struct{}{}
	defer l.Release()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false, nil
	}
	l.closed = true
	l.mu.Unlock()
	if err = l.Exclude(context.Background()); err == nil {
		l.Admit()
	}
	return true, err
}

// Free drops the current generation of a closed structure.
func (l *Leases) Free() error { return l.current.End() }
