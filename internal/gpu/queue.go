package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Queue orders the work of one structure. The memory that it uses during a call belongs to the
// device's workspace.
type Queue struct {
	*Workspace
	Dev    device.Device
	Widths batch.Widths

	// Stream runs the engine's own work.
	Stream *device.Stream
	// Visible is recorded after changes that callers submit to streams, and lookups from host
	// memory wait for it. Other changes have been waited for when their call returns, and no lookup
	// is guaranteed to see them before.
	Visible *device.Event

	changed   *device.Event                // recorded after all other changes
	lastEvent atomic.Pointer[device.Event] // the one of the two recorded after the last change
	// stream of the last change; nil: it has been waited for
	lastStream *device.Stream

	control device.Slice[uint32] // see the words below
}

// Words in device memory that kernels write.
const (
	WordContended  = iota // operations that contend
	WordFailed            // operations that overflow
	WordResult            // result of a kernel
	WordReductions        // ticket of the last mixed batch with reductions
	WordSum               // 64 bits, for the sum of a lookup
	_
	WordSpilled // operations that overflow at first
	_
	// overflows on the device and in users' kernels since last read: begins weft::Account
	WordDropped
	_
	_ // effects of users' kernels: three numbers of 64 bits
	_
	_
	_
	_
	_
	WordReport // numbers of 64 bits, see Engine.Report
	words      = WordReport + 2*maxReport
)

// Open prepares a queue. Close closes everything that it has opened, also after an error.
func (q *Queue) Open(dev device.Device, w batch.Widths) (err error) {
	q.Dev, q.Widths, q.Workspace = dev, w, openWorkspace(dev)
	if q.Stream, err = dev.NewStream(); err != nil {
		return err
	}
	for _, e := range []**device.Event{&q.changed, &q.Visible} {
		if *e, err = dev.NewEvent(); err != nil {
			return err
		}
	}
	q.lastEvent.Store(q.changed)
	if q.control, err = device.Make[uint32](dev, words); err != nil {
		return err
	}
	return q.Stream.Fill(q.control.Ptr(), 0, words)
}

// Close waits for all changes and frees everything. No call is in flight.
func (q *Queue) Close() (err error) {
	events := []*device.Event{q.changed, q.Visible}
	for _, e := range events { // streams of callers may be about to record them
		if e != nil {
			err = errors.Join(err, e.Sync(context.Background()))
		}
	}
	if q.Stream != nil {
		err = errors.Join(err, q.Stream.Close())
	}
	if q.Workspace != nil {
		q.removeUser(q)
		err = errors.Join(err, q.Workspace.close(), q.control.Free())
	}
	for _, e := range events {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// LastChange returns the event recorded after all changes: each change runs after the one before.
func (q *Queue) LastChange() *device.Event { return q.lastEvent.Load() }

// Submit launches a change after the one before. Even after an error, later changes wait for what
// has been launched.
func (q *Queue) Submit(s *device.Stream, launch func() error) error {
	return q.submit(s, q.changed, launch)
}

// SubmitVisible is Submit for changes that callers submit to streams.
func (q *Queue) SubmitVisible(s *device.Stream, launch func() error) error {
	return q.submit(s, q.Visible, launch)
}

// submit makes as few driver calls as possible: each takes as long as a few thousand operations.
func (q *Queue) submit(s *device.Stream, event *device.Event, launch func() error) (err error) {
	if q.lastStream != nil && s != q.lastStream {
		if err := s.Wait(q.LastChange()); err != nil {
			return err
		}
	}
	defer func() { // also if a user's code panics
		q.lastStream = s
		if e := s.Record(event); e != nil { // no event marks the end of the change, so wait
			err = errors.Join(err, e, s.Sync(context.Background()))
		}
		q.lastEvent.Store(event) // other tables that share a scratch read it concurrently
	}()
	return launch()
}

// markWaited records that all changes submitted so far have been waited for, so that later ones
// need not wait for them again.
func (q *Queue) markWaited() { q.lastStream = nil }

// Word returns the address of a word.
func (q *Queue) Word(i int) device.Ptr { return q.control.Ptr() + device.Ptr(4*i) }

// ReadWord waits for the queue's stream and reads a word.
func (q *Queue) ReadWord(ctx context.Context, word int) (uint32, error) {
	var v [1]uint32
	err := q.Stream.CopyOut(ctx, device.Bytes(v[:]), q.Word(word))
	return v[0], err
}

// SetWord submits writing a word.
func (q *Queue) SetWord(s *device.Stream, word int, v uint32) error {
	return s.Fill(q.Word(word), v, 1)
}

// ReadDropped reads and resets the number of operations on the device that overflowed.
func (q *Queue) ReadDropped(ctx context.Context) (int, error) {
	n, err := q.ReadWord(ctx, WordDropped)
	if err != nil || n == 0 {
		return 0, err
	}
	// The reset runs before later changes on other streams, which continue counting.
	return int(n), q.Submit(q.Stream, func() error { return q.SetWord(q.Stream, WordDropped, 0) })
}

// Failed returns the list in which a change records operations that overflow.
func (q *Queue) Failed(x *Scratch) List { return List{Items: x.failed(), Count: q.Word(WordFailed)} }

// ReadFailed returns the recorded operations, ascending.
func (q *Queue) ReadFailed(ctx context.Context, x *Scratch) ([]uint32, error) {
	n, err := q.ReadWord(ctx, WordFailed)
	if err != nil {
		return nil, err
	}
	return q.listFailed(ctx, x, n)
}

// listFailed is ReadFailed for a known number of operations.
func (q *Queue) listFailed(ctx context.Context, x *Scratch, n uint32) ([]uint32, error) {
	switch {
	case n == 0:
		return nil, nil
	case int(n) > x.Ops: // do not allocate memory for an impossible number
		return nil, fmt.Errorf("gpu: %d operations are said to have found no room, of %d at most", n, x.Ops)
	}
	failed := make([]uint32, n)
	if err := q.Stream.CopyOut(ctx, device.Bytes(failed), x.failed()); err != nil {
		return nil, err
	}
	slices.Sort(failed)
	return failed, nil
}
