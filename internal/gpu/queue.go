package gpu

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Queue is where the work of one structure goes, and the device memory that
// its changes work with, one change at a time. That memory grows with the
// largest batch and stays.
type Queue struct {
	Dev    device.Device
	Widths batch.Widths

	// Stream runs what the engine does on its own account. Changed is recorded
	// behind each change, on whichever stream, and waited for by the next:
	// changes run one after another. Visible is recorded behind changes that
	// callers submit to streams, and waited for by lookups from host memory;
	// other changes have been waited for when their call returns, and until
	// then nobody is promised to see them.
	Stream           *device.Stream
	Changed, Visible *device.Event

	control  device.Slice[uint32] // see the words below
	deferred device.Slice[uint32] // operations that contend
	ranks    device.Slice[uint32] // twice as many, zero between changes
	ranked   bool                 // unless it says that they may not be
	flags    device.Slice[bool]   // the flags of a batch that brings none
	failed   device.Slice[uint32] // operations without room

	carriers carriers
}

// Words in device memory that kernels report in.
const (
	WordDeferred = iota // operations that contend
	WordFailed          // operations without room
	WordLost            // the same in batches on the device, since last read
	WordResult          // whatever a kernel finds out
	WordSum             // 64 bits, which a lookup may add to
	_
	WordLongest // 64 bits
	_
	words
)

// Open prepares a queue. What is opened is closed by Close, also after an
// error.
func (q *Queue) Open(dev device.Device, w batch.Widths) (err error) {
	q.Dev, q.Widths = dev, w
	if q.Stream, err = dev.NewStream(); err != nil {
		return err
	}
	for _, e := range []**device.Event{&q.Changed, &q.Visible} {
		if *e, err = dev.NewEvent(); err != nil {
			return err
		}
	}
	if q.control, err = device.Make[uint32](dev, words); err != nil {
		return err
	}
	return q.Stream.Fill(q.control.Ptr(), 0, words)
}

// Close waits for all changes and frees everything. No call is under way.
func (q *Queue) Close() (err error) {
	for _, e := range []*device.Event{q.Changed, q.Visible} { // Visible comes behind Changed
		if e != nil {
			err = errors.Join(err, e.Sync(context.Background()))
		}
	}
	if q.Stream != nil {
		err = errors.Join(err, q.Stream.Close())
	}
	err = errors.Join(err, q.carriers.free(),
		q.control.Free(), q.deferred.Free(), q.ranks.Free(), q.flags.Free(), q.failed.Free())
	for _, e := range []*device.Event{q.Changed, q.Visible} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// Submit launches a change behind the one before. After an error, too, later
// changes wait for what has been launched.
func (q *Queue) Submit(s *device.Stream, launch func() error) error {
	if err := s.Wait(q.Changed); err != nil {
		return err
	}
	err := launch()
	return errors.Join(err, s.Record(q.Changed))
}

// Word is the address of a word.
func (q *Queue) Word(i int) device.Ptr { return q.control.Ptr() + device.Ptr(4*i) }

// Read waits for the queue's stream and reads a word.
func (q *Queue) Read(ctx context.Context, word int) (uint32, error) {
	var v [1]uint32
	err := q.Stream.CopyOut(ctx, device.Bytes(v[:]), q.Word(word))
	return v[0], err
}

// Set submits writing a word.
func (q *Queue) Set(s *device.Stream, word int, v uint32) error { return s.Fill(q.Word(word), v, 1) }

// Lost reads how many operations on the device found no room, and resets it.
func (q *Queue) Lost(ctx context.Context) (int, error) {
	n, err := q.Read(ctx, WordLost)
	if err != nil || n == 0 {
		return 0, err
	}
	// Later changes, on other streams, count on from there.
	return int(n), q.Submit(q.Stream, func() error { return q.Set(q.Stream, WordLost, 0) })
}

// Reserve takes memory for a change of n operations, of which failed may be
// recorded.
func (q *Queue) Reserve(n, failed int) error {
	if q.deferred.Len() < n {
		if err := q.reserveOrder(n); err != nil {
			return err
		}
	}
	if q.failed.Len() < failed {
		// Nobody uses it: whoever lists failures waits for them.
		if err := q.failed.Free(); err != nil {
			return err
		}
		var err error
		if q.failed, err = device.Make[uint32](q.Dev, failed); err != nil {
			return err
		}
	}
	return nil
}

// reserveOrder replaces the memory for resolving duplicates by more of it.
func (q *Queue) reserveOrder(n int) (err error) {
	if err := q.Changed.Sync(context.Background()); err != nil { // it may be in use
		return err
	}
	if err := errors.Join(q.deferred.Free(), q.ranks.Free(), q.flags.Free()); err != nil {
		return err
	}
	n = 1 << bits.Len(uint(max(n, 256)-1))
	if q.ranks, err = device.Make[uint32](q.Dev, 2*n); err != nil {
		return err
	}
	if err = q.Stream.Fill(q.ranks.Ptr(), 0, 2*n); err != nil {
		return err
	}
	if err = q.Stream.Sync(context.Background()); err != nil { // changes use other streams
		return err
	}
	if q.flags, err = device.Make[bool](q.Dev, n); err != nil {
		return err
	}
	// Last, because its length says that all is there.
	q.deferred, err = device.Make[uint32](q.Dev, n)
	return err
}

// Failed is the list that a change records operations without room in.
func (q *Queue) Failed() List { return List{Items: q.failed.Ptr(), Count: q.Word(WordFailed)} }

// ReadFailed returns the recorded operations, ascending.
func (q *Queue) ReadFailed(ctx context.Context) ([]uint32, error) {
	n, err := q.Read(ctx, WordFailed)
	if err != nil || n == 0 {
		return nil, err
	}
	failed := make([]uint32, n)
	if err := q.failed.CopyTo(ctx, q.Stream, failed); err != nil {
		return nil, err
	}
	slices.Sort(failed)
	return failed, nil
}
