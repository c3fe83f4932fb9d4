package core

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Parts is the memory of a structure between two rehashes. An engine reads and writes it.
type Parts interface {
	// Free frees the memory, which is no longer in use. The caller is whoever ends the last lease,
	// which may be a reader concurrent with a writer.
	Free() error
}

// Leases controls access to the memory of a structure.
//
// A lease is a reader's right to one generation of memory, which does not change until the lease
// ends. A call takes a lease for its duration; an iteration or a snapshot holds one for as long as
// its user likes. Writers take the writer lock. A writer that needs other memory replaces the
// generation, and the old one is freed when its last lease ends. A writer that works where readers
// read enters an exclusive section: new calls wait, and the writer waits for the calls in flight.
// It never waits for leases that are held, since their user may be waiting for this very writer.
//
// Every wait for the lock ends when its context does.
type Leases struct {
	*gate
	current *Lease // holds the generation in use
	closed  bool
}

// gate admits calls to one table, or to all tables of a group. The tables of a group share one
// writer lock and one exclusive section.
type gate struct {
	writer chan struct{} // the writer lock: holds a token while a writer is active

	mu         sync.Mutex      // also guards the leases
	calls      int             // in flight, on all generations
	nExclusive int             // nested exclusive sections; new calls wait while > 0
	waiting    []chan struct{} // calls waiting for the exclusive section to end
	idle       chan struct{}   // closed when calls becomes 0; nil if no writer waits
}

func newGate() *gate { return &gate{writer: make(chan struct{}, 1)} }

// generation is the state of one generation of memory and its users.
type generation struct {
	leases  int              // of calls and held, plus one while it is current
	held    int              // leases that user code holds
	streams []*device.Stream // of callers, with lookups not waited for yet
	pruneAt int              // length of streams at which idle ones are removed
}

// Lease is a right to one generation of memory, at a version of its content if the engine has
// versions.
type Lease struct {
	Parts   Parts
	Version uint64 // 0 is the current version; see [Versioner]

	leases *Leases
	gen    *generation
	kind   leaseKind
}

type leaseKind uint8

const (
	callLease leaseKind = iota // ends with the call that took it
	heldLease                  // by user code
	keptLease                  // by the writer, or by a call that has another lease
)

// NewLeases returns the Leases of the first generation of a structure's memory.
func NewLeases(parts Parts) *Leases { return newGate().leases(parts) }

func (g *gate) leases(parts Parts) *Leases {
	l := &Leases{gate: g}
	l.current = l.newGeneration(parts)
	return l
}

// newGeneration returns the first lease of a new generation.
func (l *Leases) newGeneration(parts Parts) *Lease {
	return &Lease{Parts: parts, leases: l, gen: &generation{leases: 1}, kind: keptLease}
}

// ---- readers ------------------------------------------------------------------

// Read takes a lease for a call: on the generation of another lease, if given, or on the current
// generation. [Lease.End] ends it.
func (l *Leases) Read(ctx context.Context, from *Lease) (*Lease, error) {
	return l.acquire(ctx, from, callLease)
}

// Hold takes a lease that user code keeps. It outlives calls and blocks no other call.
func (l *Leases) Hold(ctx context.Context) (*Lease, error) { return l.acquire(ctx, nil, heldLease) }

func (l *Leases) acquire(ctx context.Context, from *Lease, kind leaseKind) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.nExclusive > 0 && !l.closed {
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
	} else {
		l.calls++
	}
	if l.closed {
		l.endCall()
		return nil, op.ErrClosed
	}
	if from == nil {
		from = l.current
	}
	if kind == heldLease {
		from.gen.held++
		l.endCall()
	}
	return from.clone(kind), nil
}

// clone returns a lease on the same generation and version. The caller holds the mutex.
func (l *Lease) clone(kind leaseKind) *Lease {
	l.gen.leases++
	return &Lease{Parts: l.Parts, Version: l.Version, leases: l.leases, gen: l.gen, kind: kind}
}

// ReadNested takes a lease for a call that already has one on a table of the group.
func (l *Leases) ReadNested() (*Lease, error) {
	if err := l.open(); err != nil { // a later Close waits for the call
		return nil, err
	}
	return l.Keep(), nil
}

// wait waits until the exclusive section ends. The goroutine that ends it counts the waiting call,
// so that the next writer cannot overtake it. wait releases the mutex meanwhile.
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
		l.endCall() // the section ended at the same moment
	}
	return err
}

// AddStream records that work submitted to a stream of the caller reads the generation. The writer
// that moves or frees the generation waits for the stream first. The record costs the device
// nothing.
func (l *Lease) AddStream(s *device.Stream) {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if slices.Contains(l.gen.streams, s) {
		return
	}
	g := l.gen
	if g.streams = append(g.streams, s); len(g.streams) >= max(minPruneAt, g.pruneAt) {
		g.streams = slices.DeleteFunc(g.streams, func(s *device.Stream) bool { return waitFor(EndedContext, s) == nil })
		g.pruneAt = 2 * len(g.streams)
	}
}

// minPruneAt is the number of streams at which those with no pending work are removed. The next
// removal is at twice the number that remain, so a lookup checks two streams on average.
const minPruneAt = 64

// EndedContext is a context that has ended: a wait with it only polls.
var EndedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// waitFor waits for the work given to a stream so far, and not for later work. A closed stream has
// already waited; on a lost device no work is pending.
func waitFor(ctx context.Context, s *device.Stream) error {
	if err := s.Sync(ctx); !errors.Is(err, op.ErrClosed) && !errors.Is(err, device.ErrLost) {
		return err
	}
	return nil
}

// End ends the lease. It frees the generation if that has been replaced and this was its last
// lease.
func (l *Lease) End() error {
	l.leases.mu.Lock()
	switch l.kind {
	case callLease:
		l.leases.endCall()
	case heldLease:
		l.gen.held--
	}
	l.gen.leases--
	last := l.gen.leases == 0
	l.leases.mu.Unlock()
	if !last {
		return nil
	}
	err := l.Wait(context.Background())
	return errors.Join(err, l.Parts.Free())
}

// endCall counts a call that is over.
func (l *gate) endCall() {
	if l.calls--; l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Wait waits for lookups that callers have submitted to streams under leases of the same
// generation. The caller holds the writer lock, or the last lease has ended.
func (l *Lease) Wait(ctx context.Context) error {
	g, mu := l.gen, &l.leases.mu
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

// LockWriter takes the writer lock. UnlockWriter releases it.
func (l *Leases) LockWriter(ctx context.Context) error {
	err := l.lockWriter(ctx)
	if err != nil {
		return err
	}
	if err = l.open(); err != nil {
		l.UnlockWriter()
	}
	return err
}

// lockWriter takes the writer lock.
func (l *gate) lockWriter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open returns ErrClosed if the structure has been closed.
func (l *Leases) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return op.ErrClosed
	}
	return nil
}

// UnlockWriter releases the writer lock.
func (l *gate) UnlockWriter() { <-l.writer }

// BeginExclusive begins an exclusive section. It blocks new calls, and waits for those in flight
// and for lookups that callers have submitted to streams. EndExclusive ends the section. After an
// error the section has already ended. Only writers call BeginExclusive, and they may nest it.
func (l *Leases) BeginExclusive(ctx context.Context) error {
	l.mu.Lock()
	l.nExclusive++
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
		l.EndExclusive()
	}
	return err
}

// EndExclusive ends the exclusive section of BeginExclusive.
func (l *gate) EndExclusive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = nil
	if l.nExclusive--; l.nExclusive > 0 {
		return
	}
	l.calls += len(l.waiting)
	for _, w := range l.waiting {
		close(w)
	}
	l.waiting = nil
}

// InExclusive reports whether new calls are blocked. Only writers call it.
func (l *gate) InExclusive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nExclusive > 0
}

// Current returns the generation in use. Only the holder of the writer lock calls it, and only that
// holder replaces the generation. The result is valid until the lock is released.
func (l *Leases) Current() *Lease { return l.current }

// Held reports whether user code holds a lease on the current generation, so that pairs must stay
// in their pages. Only writers call it.
func (l *Leases) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.gen.held > 0
}

// Replace makes other memory the current generation. The old one is freed when its last lease ends.
// Only writers call it.
func (l *Leases) Replace(parts Parts) error { return l.Revert(l.newGeneration(parts)) }

// Keep keeps the current generation for the writer itself, so that Revert can return to it. A kept
// generation does not count as held by user code.
func (l *Leases) Keep() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.clone(keptLease)
}

// memoryBytes returns the size of the current generation if its parts report it. It returns 0 for a
// closed structure.
func (l *Leases) memoryBytes() int {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0
	}
	kept := l.current.clone(keptLease)
	l.mu.Unlock()
	bytes := 0
	if m, ok := kept.Parts.(interface{ MemoryBytes() int }); ok {
		bytes = m.MemoryBytes()
	}
	kept.End() // may free a generation replaced meanwhile; its error is dropped
	return bytes
}

// Revert makes a kept generation the current one again, and ends the kept lease.
func (l *Leases) Revert(kept *Lease) error {
	l.mu.Lock()
	old := l.current
	l.current = kept
	l.mu.Unlock()
	return old.End()
}

// Close closes the structure. Later calls, and those that wait, get ErrClosed; Close waits for
// those in flight. first is false if the structure was closed before.
func (l *Leases) Close() (first bool, err error) {
	l.writer <- struct{}{}
	defer l.UnlockWriter()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false, nil
	}
	l.closed = true
	l.mu.Unlock()
	if err = l.BeginExclusive(context.Background()); err == nil {
		l.EndExclusive()
	}
	return true, err
}

// Free frees the current generation of a closed structure.
func (l *Leases) Free() error { return l.current.End() }
