package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
)

// stream is a queue of works that run one after another.
type stream struct {
	dev    *Device
	index  int // index in dev.streams; reused after Close
	queue  []*work
	after  progress // works ordered before the next submitted work
	latest *work    // last submitted work, or nil
	closed bool

	// observed is what finished works of the stream have seen of works not ordered before them,
	// because their threads read stores of these works. The next work begins with this view, too.
	// nil means that they have seen nothing.
	observed *view
	weight   uint32 // weight of the stream in random.chooseWork
}

var errClosedStream = fmt.Errorf("sim: stream: %w", device.ErrClosed)

// NewStream implements [device.Device].
func (d *Device) NewStream() (*device.Stream, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	s := &stream{dev: d, index: slices.Index(d.streams, nil), weight: 1}
	if s.index < 0 {
		s.index = len(d.streams)
		d.streams, d.lastWork, d.lastAccess = append(d.streams, nil), append(d.lastWork, 0), append(d.lastAccess, 0)
	}
	d.streams[s.index] = s
	return device.NewStream(d, s), nil
}

// addObserved joins v to the stream's observed view.
func (s *stream) addObserved(v *view) { s.observed = joinViews(s.observed, v) }

// do calls f with the device locked, or returns an error if the device or the stream is unusable.
func (s *stream) do(f func(d *Device) error) error {
	if err := s.dev.lock(); err != nil {
		return err
	}
	defer s.dev.mu.Unlock()
	if s.closed {
		return errClosedStream
	}
	return f(s.dev)
}

func (s *stream) send(t *transfer) error {
	return s.do(func(d *Device) error { return d.send(s, t) })
}

func (d *Device) send(s *stream, t *transfer) error {
	if err := t.prepare(s); err != nil || t.size == 0 {
		return err
	}
	return d.submit(s, &work{transfer: t})
}

func (s *stream) CopyIn(dst device.Ptr, src []byte) error {
	return s.send(&transfer{kind: transferIn, to: uint64(dst), host: slices.Clone(src), size: len(src)})
}

func (s *stream) CopyInAsync(dst device.Ptr, src []byte) error {
	return s.send(&transfer{kind: transferIn, to: uint64(dst), host: src, size: len(src), async: true})
}

// CopyOut implements [device.StreamDriver]. After it returns, with or without an error, dst does
// not change.
func (s *stream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	return s.do(func(d *Device) error {
		if err := ctx.Err(); err != nil || len(dst) == 0 {
			return err
		}
		t := &transfer{kind: transferOut, from: uint64(src), host: make([]byte, len(dst)), size: len(dst)}
		if err := d.send(s, t); err != nil {
			return err
		}
		if err := d.await(ctx, s.latest); err != nil {
			t.dropped = true
			return err
		}
		copy(dst, t.host)
		return nil
	})
}

func (s *stream) CopyOutAsync(dst []byte, src device.Ptr) error {
	return s.send(&transfer{kind: transferOut, from: uint64(src), host: dst, size: len(dst), async: true})
}

func (s *stream) Copy(dst, src device.Ptr, size int) error {
	return s.send(&transfer{kind: transferWithin, to: uint64(dst), from: uint64(src), size: size})
}

func (s *stream) Fill(dst device.Ptr, pattern uint32, count int) error {
	if count < 0 || count > maxBlockSize/4 {
		return fmt.Errorf("sim: %w: a fill of %d words", device.ErrInvalid, count)
	}
	return s.send(&transfer{kind: transferFill, to: uint64(dst), pattern: pattern, size: 4 * count})
}

func (s *stream) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	return s.do(func(d *Device) error {
		l, err := d.newLaunch(k, grid, block, params)
		if err != nil {
			return err
		}
		w := &work{launch: l}
		l.work = w
		return d.submit(s, w)
	})
}

func (s *stream) Record(e device.EventDriver) error {
	return s.do(func(d *Device) error {
		ev, err := d.event(e)
		if err != nil {
			return err
		}
		w := &work{}
		w.record = &marker{work: w}
		ev.last = w.record
		return d.submit(s, w)
	})
}

// Wait implements [device.StreamDriver]. It waits for the marker that e last recorded.
func (s *stream) Wait(e device.EventDriver) error {
	return s.do(func(d *Device) error {
		ev, err := d.event(e)
		if err != nil || ev.last == nil {
			return err
		}
		return d.submit(s, &work{wait: ev.last})
	})
}

func (s *stream) Sync(ctx context.Context) error {
	return s.do(func(d *Device) error { return d.drain(ctx, s) })
}

// drain waits for all works of a stream.
func (d *Device) drain(ctx context.Context, s *stream) error {
	if s.latest == nil {
		return nil
	}
	return d.await(ctx, s.latest)
}

// Close runs the queued works and closes the stream.
func (s *stream) Close() error {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.closed || d.closed {
		s.closed = true
		return nil
	}
	// Set first, so that concurrent callers submit nothing after the last work.
	s.closed = true
	err := d.lost
	if err == nil {
		err = d.drain(context.Background(), s)
	}
	if !d.closed { // checked again, since drain releases the lock
		d.streams[s.index] = nil
	}
	if errors.Is(err, device.ErrLost) {
		return nil // callers that submitted or wait for the failed work get the error
	}
	return err
}
