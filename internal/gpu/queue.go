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

// Queue orders the work of one structure on a device. Its calls take memory from the device's
// [Workspace].
type Queue struct {
	*Workspace
	Dev    device.Device
	Widths batch.Widths

	// Stream runs the work that the engine submits for itself.
	Stream *device.Stream
	// Visible is recorded after each change that a caller submits to a stream. Lookups from host
	// memory wait for it. Other changes end before their calls return, so lookups need not wait for
	// them.
	Visible *device.Event

	changed   *device.Event                // recorded after each change that Visible does not cover
	lastEvent atomic.Pointer[device.Event] // changed or Visible, whichever was recorded last
	// stream of the last change; nil if that change has been waited for
	lastStream *device.Stream

	control device.Slice[uint32] // words that kernels write; see WordContended
}

// Indices of words in device memory that kernels write.
const (
	WordContended  = iota // number of operations that contend (see Structure.Change)
	WordFailed            // number of operations that overflow
	WordResult            // result of a kernel
	WordReductions        // ticket of the last mixed batch that contains reductions
	WordSum               // 64-bit sum of a lookup
	_
	WordSpilled // number of operations in Change.Spilled
	_
	// number of operations dropped by batches on the device and by users' kernels since the last
	// read; begins weft::Account
	WordDropped
	_
	_ // three 64-bit counters of the changes that users' kernels made
	_
	_
	_
	_
	_
	WordReport // 64-bit numbers of Engine.Report
	words      = WordReport + 2*maxReport
)

// Open prepares a queue. After an error too, the caller must call Close.
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

// Close waits for all changes and frees everything that Open has allocated. No call may be in
// flight.
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

// LastChange returns the event that was recorded after the last change. Changes run one after
// another, so the event marks the end of all of them.
func (q *Queue) LastChange() *device.Event { return q.lastEvent.Load() }

// Submit calls launch, which launches a change on stream s that runs after the previous change. If
// launch fails, later changes still wait for the work that it has submitted.
func (q *Queue) Submit(s *device.Stream, launch func() error) error {
	return q.submit(s, q.changed, launch)
}

// SubmitVisible acts as Submit for a change that a caller submits to a stream. Lookups from host
// memory wait for the change.
func (q *Queue) SubmitVisible(s *device.Stream, launch func() error) error {
	return q.submit(s, q.Visible, launch)
}

// submit makes few driver calls, since each takes as long as a few thousand operations.
func (q *Queue) submit(s *device.Stream, event *device.Event, launch func() error) (err error) {
	if q.lastStream != nil && s != q.lastStream {
		if err := s.Wait(q.LastChange()); err != nil {
			return err
		}
	}
	defer func() { // runs even if a user's code panics
		q.lastStream = s
		// without an event, only a wait ensures that the change has ended
		if e := s.Record(event); e != nil {
			err = errors.Join(err, e, s.Sync(context.Background()))
		}
		q.lastEvent.Store(event) // atomic: other tables that share a scratch read it concurrently
	}()
	return launch()
}

// markWaited records that all submitted changes have ended, so that later changes skip the wait.
func (q *Queue) markWaited() { q.lastStream = nil }

// Word returns the device address of word i.
func (q *Queue) Word(i int) device.Ptr { return q.control.Ptr() + device.Ptr(4*i) }

// ReadWord waits for the queue's stream and reads a word.
func (q *Queue) ReadWord(ctx context.Context, word int) (uint32, error) {
	var v [1]uint32
	err := q.Stream.CopyOut(ctx, device.Bytes(v[:]), q.Word(word))
	return v[0], err
}

// SetWord submits writing v to a word.
func (q *Queue) SetWord(s *device.Stream, word int, v uint32) error {
	return s.Fill(q.Word(word), v, 1)
}

// ReadDropped reads and resets the number of operations that overflowed on the device.
func (q *Queue) ReadDropped(ctx context.Context) (int, error) {
	n, err := q.ReadWord(ctx, WordDropped)
	if err != nil || n == 0 {
		return 0, err
	}
	// The reset runs before later changes on other streams, which continue counting.
	return int(n), q.Submit(q.Stream, func() error { return q.SetWord(q.Stream, WordDropped, 0) })
}

// Failed returns the list in which a change records the operations that overflow.
func (q *Queue) Failed(x *Scratch) List { return List{Items: x.failed(), Count: q.Word(WordFailed)} }

// ReadFailed returns the indices of the operations that overflowed, in ascending order.
func (q *Queue) ReadFailed(ctx context.Context, x *Scratch) ([]uint32, error) {
	n, err := q.ReadWord(ctx, WordFailed)
	if err != nil {
		return nil, err
	}
	return q.listFailed(ctx, x, n)
}

// listFailed returns the n indices in the list of failed operations, in ascending order.
func (q *Queue) listFailed(ctx context.Context, x *Scratch, n uint32) ([]uint32, error) {
	switch {
	case n == 0:
		return nil, nil
	case int(n) > x.Ops: // do not allocate memory for an impossible number
		return nil, fmt.Errorf("gpu: the device reports %d operations without room, but the batch has at most %d", n, x.Ops)
	}
	failed := make([]uint32, n)
	if err := q.Stream.CopyOut(ctx, device.Bytes(failed), x.failed()); err != nil {
		return nil, err
	}
	slices.Sort(failed)
	return failed, nil
}
