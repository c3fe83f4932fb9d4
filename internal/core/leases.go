package core

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Parts is the memory that a structure uses between two rehashes. An engine reads and writes it.
type Parts interface {
	// Free frees the memory, which is no longer in use. The call that ends the last lease calls
	// Free; it may be a reader's call while a writer is active.
	Free() error
}

// Leases controls access to the memory of a structure.
//
// A lease entitles a reader to one generation of memory, which stays allocated and in place until
// the lease ends. A call takes a lease for its duration. An iteration or a snapshot holds a lease
// until its user ends it. Writers take the writer lock. A writer that needs other memory replaces
// the generation; the old generation is freed when its last lease ends. A writer that changes
// memory under readers enters an exclusive section: new calls wait, and the writer waits for
// running calls. It never waits for held leases, since their user may be waiting for this writer.
//
// Every wait for a lock ends when its context ends.
type Leases struct {
	*gate
	current *Lease // lease on the generation in use
	closed  bool
}

// gate admits calls to one table, or to all tables of a group. The tables of a group share the
// writer lock and exclusive sections.
type gate struct {
	writer chan struct{} // the writer lock; full while a writer is active

	mu         sync.Mutex      // also guards leases and generations
	calls      int             // running calls, on all generations
	nExclusive int             // nesting depth of exclusive sections; new calls wait while > 0
	waiting    []chan struct{} // one channel per call that waits for the exclusive section to end
	idle       chan struct{}   // closed when calls becomes 0; nil if no writer waits
}

func newGate() *gate { return &gate{writer: make(chan struct{}, 1)} }

// generation is the state of one generation of memory and of its readers.
type generation struct {
	leases  int              // leases of all kinds, including the one for the current generation
	held    int              // leases held by user code
	streams []*device.Stream // callers' streams with lookups that may still be running
	pruneAt int              // length of streams at which idle streams are removed
}

// Lease entitles its owner to use one generation of memory. If the engine has versions, the lease
// also selects a version of the content.
type Lease struct {
	Parts   Parts
	Version uint64 // 0 for the current version; see [Versioner]

	leases *Leases
	gen    *generation
	kind   leaseKind
}

type leaseKind uint8

const (
	callLease leaseKind = iota // ends with the call that took it
	heldLease                  // held by user code beyond the call
	keptLease                  // kept by the writer, or by a call that has another lease
)

// NewLeases returns Leases with parts as the first generation.
func NewLeases(parts Parts) *Leases { return newGate().leases(parts) }

func (g *gate) leases(parts Parts) *Leases {
	l := &Leases{gate: g}
	l.current = l.newGeneration(parts)
	return l
}

// newGeneration returns a lease on a new generation. It is the generation's only lease.
func (l *Leases) newGeneration(parts Parts) *Lease {
	return &Lease{Parts: parts, leases: l, gen: &generation{leases: 1}, kind: keptLease}
}

// ---- readers ------------------------------------------------------------------

// Read takes a lease for a call. It is on the same generation as the lease from, or on the current
// generation if from is nil. [Lease.End] ends it.
func (l *Leases) Read(ctx context.Context, from *Lease) (*Lease, error) {
	return l.acquire(ctx, from, callLease)
}

// Hold takes a lease that user code holds beyond the call. A held lease blocks no other call.
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

// clone returns another lease on the same generation and version. The caller holds the mutex.
func (l *Lease) clone(kind leaseKind) *Lease {
	l.gen.leases++
	return &Lease{Parts: l.Parts, Version: l.Version, leases: l.leases, gen: l.gen, kind: kind}
}

// ReadNested takes a lease for a call that already has a lease on a table of the group.
func (l *Leases) ReadNested() (*Lease, error) {
	if err := l.open(); err != nil { // if Close runs after this check, it waits for the call
		return nil, err
	}
	return l.Keep(), nil
}

// wait waits until the exclusive section ends and releases the mutex meanwhile. EndExclusive counts
// the waiting call as running, so that the next writer cannot overtake it.
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
		l.endCall() // the section ended at the same time
	}
	return err
}

// AddStream records that work submitted to s reads the generation. A writer that moves or frees the
// generation waits for s first. The record costs no work on the device.
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

// minPruneAt is the length of the stream list at which idle streams are first removed. The next
// removal happens when the list has doubled, so a lookup checks two streams on average.
const minPruneAt = 64

// EndedContext is a context that has already ended. A wait with it only polls.
var EndedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// waitFor waits for the work submitted to a stream so far. It returns nil for a closed stream,
// which has already waited, and for a lost device, which has no pending work.
func waitFor(ctx context.Context, s *device.Stream) error {
	if err := s.Sync(ctx); !errors.Is(err, op.ErrClosed) && !errors.Is(err, device.ErrLost) {
		return err
	}
	return nil
}

// End ends the lease. If the generation has been replaced and this was its last lease, End frees
// the generation.
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

// endCall counts one running call as ended. The caller holds the mutex.
func (l *gate) endCall() {
	if l.calls--; l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Wait waits for lookups that callers submitted to streams under leases on the same generation. The
// caller must hold the writer lock or have ended the last lease.
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

// open returns op.ErrClosed if the structure has been closed.
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

// BeginExclusive begins an exclusive section, which EndExclusive ends. It blocks new calls, and
// waits for running calls and for lookups that callers have submitted to streams. After an error no
// section has begun. Only writers call BeginExclusive; sections may be nested.
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

// EndExclusive ends the innermost exclusive section.
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

// InExclusive reports whether an exclusive section blocks new calls. Only writers call it.
func (l *gate) InExclusive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nExclusive > 0
}

// Current returns a lease on the generation in use. Only the holder of the writer lock calls it or
// replaces the generation. The result is valid until the writer lock is released.
func (l *Leases) Current() *Lease { return l.current }

// Held reports whether user code holds a lease on the current generation. If so, writers must not
// move pairs to other pages. Only writers call it.
func (l *Leases) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.gen.held > 0
}

// Replace makes parts the current generation. The old generation is freed when its last lease ends.
// Only writers call Replace.
func (l *Leases) Replace(parts Parts) error { return l.Revert(l.newGeneration(parts)) }

// Keep returns a lease with which the writer can later Revert to the current generation. The lease
// does not count as held by user code.
func (l *Leases) Keep() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.clone(keptLease)
}

// memoryBytes returns the size of the current generation. It returns 0 if the parts do not report
// their size or the structure is closed.
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
	kept.End() // may free a replaced generation; the error is ignored
	return bytes
}

// Revert makes the generation of a kept lease current again. The kept lease must not be used
// afterward.
func (l *Leases) Revert(kept *Lease) error {
	l.mu.Lock()
	old := l.current
	l.current = kept
	l.mu.Unlock()
	return old.End()
}

// Close closes the structure and waits for running calls. Later calls and calls that wait return
// ErrClosed. first is false if the structure was already closed.
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
