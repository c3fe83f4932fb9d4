package core

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weftgo/weft/device"
)

// Journal stores the effects of changes, so that a structure can be restored after a power failure.
// The caller of any method except Readable, Slow, Wait and Flush holds the writer lock.
type Journal interface {
	// Reserve reserves space for effects of about n bytes, before the change runs. After an error
	// the change does not run.
	Reserve(n int) error
	// Append stores an effect. The field Last marks the last effect of each change; replay applies
	// all effects of a change or none.
	Append(e *Effect) error
	// Position returns the position in the journal after the last effect.
	Position() uint64
	// Fail makes the journal refuse all later changes, because the effects of a change are unknown.
	// It returns the error that these changes return.
	Fail(err error) error
	// Readable returns the error that lookups must return because the journal has failed. It
	// returns nil if the journal works, or if lookups are allowed after a failure.
	Readable() error
	// Slow reports whether Wait takes much longer than a change, so that collecting changes before
	// a Wait pays.
	Slow() bool
	// Wait waits until all effects before a position are as durable as the journal promises for a
	// change that returns.
	Wait(ctx context.Context, position uint64) error
	// Flush waits until everything appended so far is on the medium.
	Flush(ctx context.Context) error
	// Close flushes and releases the journal.
	Close() error
}

// EffectKind is the kind of an [Effect]. Logs contain these numbers, so they must not change.
type EffectKind uint8

// The kinds of effects.
const (
	PutPairs       EffectKind = 1 + iota // insert pairs or replace values; in a multimap, add pairs
	DeleteKeys                           // remove keys; in a multimap, all pairs of each key
	DeleteRanges                         // remove the pairs inside the ranges from Keys to Keys2
	ClearTable                           // remove everything
	SetNextID                            // raise the next id of Assign to NextID
	PutEdges                             // insert edges from Keys to Keys2, with weights Vals
	DeleteEdges                          // remove edges from Keys to Keys2
	PutVertices                          // insert the vertices Keys
	DeleteVertices                       // remove the vertices Keys, with their edges
	AddItems                             // give ids to the N bytes of items in Keys
	endOfKinds
)

// Valid reports whether k is a kind of effect.
func (k EffectKind) Valid() bool { return k >= PutPairs && k < endOfKinds }

// Effect is a part of what a change has done. Repeating the effects of a log, in order, gives the
// same structure. Effects of maps, sets and items do not depend on the content before them, so that
// repeating effects that the content already has does no harm. Repeating those of a multimap or of
// a graph may add pairs or edges again.
type Effect struct {
	Kind EffectKind
	N    int
	// columns of N rows: Keys2 only of ranges and edges, Vals only of pairs and edges
	Keys, Keys2, Vals []byte
	NextID            uint64
	Last              bool // this is the last effect of its change
}

// ChangeLog appends the effects of one change to a journal. It holds back the newest effect,
// because only End can mark an effect as the last.
type ChangeLog struct {
	Journal Journal
	held    Effect
	err     error
}

// Add adds an effect, whose columns must stay as they are until End.
func (l *ChangeLog) Add(e Effect) {
	if l.err == nil && l.held.Kind != 0 {
		l.err = l.Journal.Append(&l.held)
	}
	l.held = e
}

// Unknown records that the effects of the change are unknown, because of err.
func (l *ChangeLog) Unknown(err error) {
	if l.err == nil {
		l.err = fmt.Errorf("the effect of a change is unknown: %w", err)
	}
}

// Failed reports whether the effects are unknown or could not be appended.
func (l *ChangeLog) Failed() bool { return l.err != nil }

// End appends the last effect. If effects are unknown or could not be appended, the journal fails.
func (l *ChangeLog) End() error {
	l.held.Last = true
	l.Add(Effect{})
	if l.err != nil {
		return l.Journal.Fail(l.err)
	}
	return nil
}

// AwaitChange waits until a change and all earlier changes are durable. It returns err, the error
// of the change, and the error of the wait. before and after are the positions of the journal
// around the change. The caller holds no lock.
func AwaitChange(ctx context.Context, j Journal, before, after uint64, err error) error {
	if err != nil && after == before {
		return err
	}
	return withoutRepeat(err, j.Wait(ctx, after))
}

// withoutRepeat joins two errors. If the first error already wraps the second one, it returns the
// first.
func withoutRepeat(err, more error) error {
	if errors.Is(err, more) {
		return err
	}
	return errors.Join(err, more)
}

// Shape describes to files and messages what a structure holds.
type Shape struct {
	Kind     uint8 // number of the kind of structure; files contain it
	Flags    ShapeFlags
	Types    Types
	Key, Val int    // sizes in bytes of a key or vertex, and of a value or weight
	Name     string // in words, such as "a map of uint64 and uint32"
	Joins    bool   // whether effects of the same kind of several changes may run as one batch
}

// ShapeFlags are properties on which the meaning of effects depends. Files contain them.
type ShapeFlags uint8

// The flags of a shape.
const (
	Ordered  ShapeFlags = 1 << iota // batches run in order
	Directed                        // of graphs
	SelfLoops
	ParallelEdges
)

// Numbers of structures in files, besides those of [Kind].
const (
	RowGraph uint8 = 8 + iota
	TableGraph
	ItemIDs
)

// Logged is a structure whose changes a journal can store.
type Logged interface {
	// Shape returns the shape, or an error if a journal cannot store changes of this structure.
	Shape() (Shape, error)
	// Len returns the number of rows: pairs, arcs or items.
	Len() int
	// Journal returns the journal, or nil.
	Journal() Journal
	// SetJournal makes the journal store all later changes. No call may be active.
	SetJournal(Journal)
	// Locked runs f under the writer lock.
	Locked(ctx context.Context, f func() error) error
	// Checkpoint calls rotate under the writer lock, with the next id of Assign. Then it calls
	// save, with a function that writes the content to a stream and returns the number of rows.
	// The content has all changes before rotate. It may have later changes if repeating these does
	// no harm. The method name in errors is "checkpoint".
	Checkpoint(ctx context.Context, rotate func(nextID uint64) error, save func(write func(io.Writer) (int, error)) error) error
	// LoadCheckpoint fills the empty structure with the stream of a checkpoint, which has n rows.
	// It returns the number of loaded rows. Without a stream it only sets the next id.
	LoadCheckpoint(ctx context.Context, from io.Reader, n int, nextID uint64) (int, error)
	// Replay applies an effect. The structure has no journal yet.
	Replay(ctx context.Context, e *Effect) error
}

var loggedOf []func(facade any) Logged

// RegisterLogged adds a function that returns the structure of a facade, or nil for other values.
// Packages with structures call it when they are initialized.
func RegisterLogged(of func(facade any) Logged) { loggedOf = append(loggedOf, of) }

// LoggedOf returns the structure of a facade, or nil for values that no package knows.
func LoggedOf(facade any) Logged {
	for _, of := range loggedOf {
		if l := of(facade); l != nil {
			return l
		}
	}
	return nil
}

// errNoKernels is returned for kernels that would change a table with a journal.
var errNoKernels = fmt.Errorf("%w: a durable table cannot be changed by kernels of its user, since the log would miss the changes", device.ErrInvalid)
