package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/internal/core"
)

// log writes frames to segments and syncs them. It is the journal of a table.
//
// The holder of the table's writer lock appends frames. The frames go to the operating system at
// once, so that the end of the process loses none. One goroutine syncs. While a sync runs, later
// changes append frames, and the next sync covers all of them.
type log struct {
	shape shape
	opts  Options

	// Only the holder of the writer lock uses these.
	buf []byte

	mu       sync.Mutex
	segment  *segment      // receives frames
	unsynced []*segment    // earlier segments with frames that may not be on the disk
	appended uint64        // sequence of the last frame
	synced   uint64        // sequence of the last frame that is on the disk
	wanted   uint64        // sequence up to which a call waits for a sync
	bytes    int64         // bytes of frames that no checkpoint has replaced
	rotated  int64         // value of bytes when the last checkpoint began
	due      int64         // value of bytes at which the next checkpoint begins
	progress chan struct{} // closed when synced or failure changes
	closed   bool

	failure atomic.Pointer[error]
	wake    chan struct{} // signals that a sync is wanted
	full    chan struct{} // signals that a checkpoint is due
	ended   chan struct{} // closed when the syncing goroutine has returned
}

// segment is a file of the log that is being written.
type segment struct {
	file
	number, salt uint64
	size         int64 // offset of the end of the last frame
	allocated    int64
}

func segmentName(number uint64) string { return fmt.Sprintf("log-%016x", number) }

// newSalt returns the salt of a segment. Tests replace it.
var newSalt = func(number uint64) uint64 { return rand.Uint64() }

// createSegment makes a segment; fill, if not nil, writes its first frames. The header and these
// frames are on the disk before the segment gets its name, and the name is on the disk when
// createSegment returns. So a power failure never leaves a named segment with a damaged header. It
// also never leaves a segment without the frames that replace frames of an earlier segment.
func createSegment(fs fileSystem, s shape, number, first uint64, fill func(*segment) error) (*segment, error) {
	seg := &segment{number: number, salt: newSalt(number), size: segmentHeader}
	if err := mustNotExist(fs, segmentName(number)); err != nil {
		return nil, err
	}
	_, err := createFile(fs, segmentName(number), func(f file) error {
		seg.file = f
		header := s.appendSegmentHeader(nil, number, seg.salt, first)
		if _, err := f.WriteAt(header, 0); err != nil || fill == nil {
			return err
		}
		return fill(seg)
	})
	return seg, err
}

// allocationStep is the number of bytes of disk space that a segment reserves at a time. Tests
// lower it.
var allocationStep int64 = 8 << 20

// reserve reserves disk space for n bytes of frames.
func (s *segment) reserve(n int64) error {
	need := s.size + n
	if need <= s.allocated {
		return nil
	}
	to := (need + allocationStep - 1) / allocationStep * allocationStep
	if err := s.Allocate(to); err != nil {
		return fmt.Errorf("reserve %d bytes in %s: %w", to-s.allocated, segmentName(s.number), err)
	}
	s.allocated = to
	return nil
}

// seal closes a segment that receives no more frames. It frees the disk space after the last frame.
func (s *segment) seal() error {
	err := s.Truncate(s.size)
	return errors.Join(err, s.Close())
}

// newLog returns a log that appends to segment seg. All frames up to sequence synced are on the
// disk.
func newLog(s shape, opts Options, seg *segment, synced uint64) *log {
	return &log{
		shape: s, opts: opts, segment: seg, appended: synced, synced: synced, due: opts.LogLimit,
		progress: make(chan struct{}), ended: make(chan struct{}),
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// err returns the error that made the log fail, or nil.
func (l *log) err() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Reserve implements core.Journal.
func (l *log) Reserve(n int) error {
	if err := l.err(); err != nil {
		return err
	}
	l.mu.Lock()
	seg := l.segment
	l.mu.Unlock()
	frames := int64(n/(maxPayload/2)+4) * (frameHeader + 8)
	return seg.reserve(int64(n) + frames)
}

// Append implements core.Journal.
func (l *log) Append(e *core.Effect) error {
	if err := l.err(); err != nil {
		return err
	}
	l.mu.Lock()
	seg, sequence, synced := l.segment, l.appended, l.synced
	l.mu.Unlock()
	l.buf = l.buf[:0]
	at := seg.size
	write := func() error {
		if err := seg.reserve(int64(len(l.buf))); err != nil {
			return err
		}
		if _, err := seg.WriteAt(l.buf, at); err != nil {
			return fmt.Errorf("write %s: %w", segmentName(seg.number), err)
		}
		at += int64(len(l.buf))
		l.buf = l.buf[:0]
		return nil
	}
	err := l.shape.frames(e, func(part *core.Effect) error {
		sequence++
		l.buf = appendFrame(l.buf, &frame{*part, sequence, synced}, seg.salt)
		if len(l.buf) < maxPayload {
			return nil
		}
		return write()
	})
	if err == nil && len(l.buf) > 0 {
		err = write()
	}
	if err != nil {
		return err
	}
	l.commit(seg, at, sequence, e.Last)
	return nil
}

// commit records that frames up to the given sequence have been written to a segment, which now
// ends at offset end.
func (l *log) commit(seg *segment, end int64, sequence uint64, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := end - seg.size
	seg.size, l.appended = end, sequence
	l.grow(n)
	if last && l.opts.Sync.mode == syncBatch {
		l.wanted = sequence
		signal(l.wake)
	}
}

// grow counts n more bytes of frames that no checkpoint has replaced. The caller holds the mutex.
func (l *log) grow(n int64) {
	if l.bytes += n; l.bytes >= l.due {
		l.due = math.MaxInt64 // until the checkpoint has ended
		signal(l.full)
	}
}

// signal wakes the goroutine that receives from a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Position implements core.Journal.
func (l *log) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appended
}

// Fail implements core.Journal.
func (l *log) Fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if l.failure.CompareAndSwap(nil, &err) {
		l.opts.Logger.Error("durable: the store has failed", "error", cause)
		l.mu.Lock()
		l.notify()
		l.mu.Unlock()
	}
	return l.err()
}

// notify wakes all goroutines that wait for progress. The caller holds the mutex.
func (l *log) notify() {
	close(l.progress)
	l.progress = make(chan struct{})
}

// Readable implements core.Journal.
func (l *log) Readable() error {
	if l.opts.ReadAfterFailure {
		return nil
	}
	return l.err()
}

// Slow implements core.Journal.
func (l *log) Slow() bool { return l.opts.Sync.mode == syncBatch }

// Wait implements core.Journal.
func (l *log) Wait(ctx context.Context, position uint64) error {
	if l.opts.Sync.mode != syncBatch {
		return l.err()
	}
	return l.await(ctx, position)
}

// Flush implements core.Journal.
func (l *log) Flush(ctx context.Context) error { return l.flush(ctx, l.Position()) }

// flush syncs all frames up to the given sequence.
func (l *log) flush(ctx context.Context, position uint64) error {
	l.mu.Lock()
	l.wanted = max(l.wanted, position)
	l.mu.Unlock()
	signal(l.wake)
	return l.await(ctx, position)
}

// await waits until all frames up to the given sequence are on the disk.
func (l *log) await(ctx context.Context, position uint64) error {
	for {
		if err := l.err(); err != nil {
			return err
		}
		l.mu.Lock()
		done, progress := l.synced >= position, l.progress
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("changes may not be on the disk yet: %w", ctx.Err())
		}
	}
}

// run syncs on request, or once per interval, until the log is closed.
func (l *log) run() {
	defer close(l.ended)
	var tick <-chan time.Time
	if l.opts.Sync.mode == syncInterval {
		ticker := time.NewTicker(l.opts.Sync.interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		timed := false
		select {
		case <-l.wake:
		case <-tick:
			timed = true
		}
		l.mu.Lock()
		closed := l.closed
		due := l.wanted > l.synced || timed && l.appended > l.synced
		l.mu.Unlock()
		if due && l.err() == nil {
			if err := l.sync(); err != nil {
				l.Fail(err)
			}
		}
		if closed {
			return
		}
	}
}

// sync syncs all frames appended so far. It syncs earlier segments first, so that no change is on
// the disk without the changes before it.
func (l *log) sync() error {
	l.mu.Lock()
	target := l.appended
	files := append(l.unsynced[:len(l.unsynced):len(l.unsynced)], l.segment)
	l.mu.Unlock()
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", segmentName(f.number), err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, f := range files[:len(files)-1] {
		err = errors.Join(err, f.seal())
	}
	l.unsynced = l.unsynced[len(files)-1:]
	l.synced = target
	l.notify()
	return err
}

// rotate directs later frames to the given segment. The caller holds the writer lock.
func (l *log) rotate(to *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsynced = append(l.unsynced, l.segment)
	l.segment, l.rotated = to, l.bytes
}

// checkpointed sets the log size at which the next checkpoint begins. After a failed checkpoint,
// that is LogLimit bytes beyond the present size.
func (l *log) checkpointed(ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok {
		l.bytes -= l.rotated
		l.due = l.opts.LogLimit
	} else {
		l.due = l.bytes + l.opts.LogLimit
	}
}

// close syncs everything and ends the syncing goroutine.
func (l *log) close() error {
	err := l.Flush(context.Background())
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	signal(l.wake)
	<-l.ended
	for _, f := range append(l.unsynced, l.segment) {
		err = errors.Join(err, f.seal())
	}
	return err
}
