package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// stream implements [device.StreamDriver].
type stream struct {
	dev    *Device
	handle uintptr // CUstream
	ring   ring

	// life is read-locked while a method runs. Close write-locks it to wait for running methods.
	// Exported methods lock it; unexported methods require the lock.
	life   sync.RWMutex
	closed bool
}

// NewStream opens a stream. Its work is not ordered with other streams of the process, not even
// with the legacy default stream.
func (d *Device) NewStream() (*device.Stream, error) {
	s := &stream{dev: d}
	s.ring.init(s)
	err := d.do(func(fr *frame) error {
		if err := fr.call(symStreamCreate, fr.result(0), streamNonBlocking); err != nil {
			return err
		}
		s.handle = uintptr(fr.out[0])
		if err := d.addChild(s); err != nil {
			return errors.Join(err, fr.call(symStreamDestroy, s.handle))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, s), nil
}

// enter begins a method: it read-locks life, unless the stream is closed. leave ends the method.
func (s *stream) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return closed("stream")
	}
	return nil
}

func (s *stream) leave() { s.life.RUnlock() }

// do calls f like [Device.do]. Close of the stream waits until f has returned.
func (s *stream) do(f func(fr *frame) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.dev.do(f)
}

func (s *stream) Copy(dst, src device.Ptr, size int) error {
	if size < 0 {
		return invalid("Copy of %d bytes", size)
	}
	return s.do(func(fr *frame) error {
		for to, from, left := uintptr(dst), uintptr(src), uintptr(size); left > 0; {
			n := min(s.dev.bytesInPiece(to, left), s.dev.bytesInPiece(from, left))
			if err := fr.call(symMemcpyDtoDAsync, to, from, n, s.handle); err != nil {
				return err
			}
			to, from, left = to+n, from+n, left-n
		}
		return nil
	})
}

func (s *stream) Fill(dst device.Ptr, pattern uint32, count int) error {
	if count < 0 || count > math.MaxInt/4 {
		return invalid("Fill of %d words", count)
	}
	if dst%4 != 0 {
		return invalid("Fill at %#x, which is not a multiple of 4", uint64(dst))
	}
	return s.do(func(fr *frame) error {
		for at, left := uintptr(dst), 4*uintptr(count); left > 0; {
			n := s.dev.bytesInPiece(at, left)
			if err := fr.call(symMemsetD32Async, at, uintptr(pattern), n/4, s.handle); err != nil {
				return err
			}
			at, left = at+n, left-n
		}
		return nil
	})
}

// Launch implements [device.StreamDriver]. It allocates no memory: the arguments and the driver's
// copy of params are in a pooled frame.
func (s *stream) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	kn, err := s.kernelOf(k, params)
	if err != nil {
		return err
	}
	g, ok := extent(grid)
	b, ok2 := extent(block)
	if !ok || !ok2 {
		return invalid("Launch of %s with a grid of %v blocks of %v threads", kn.name, grid, block)
	}
	return s.do(func(fr *frame) error {
		if err := kn.ensureCompiled(fr); err != nil {
			return err
		}
		fr.size = uintptr(copy(fr.bytes(), params))
		const shared, single = 0, 0
		err := fr.call(symLaunchKernel, kn.handle.Load(), g[0], g[1], g[2], b[0], b[1], b[2],
			shared, s.handle, single, uintptr(unsafe.Pointer(&fr.extra)))
		if err != nil {
			return fmt.Errorf("kernel %s, grid %v, block %v: %w", kn.name, g, b, err)
		}
		return nil
	})
}

// kernelOf returns k as a kernel of this package, or an error if s cannot launch k with params.
func (s *stream) kernelOf(k device.Kernel, params []byte) (*kernel, error) {
	kn, ok := k.(*kernel)
	if !ok || kn.module.dev != s.dev {
		return nil, invalid("Launch of a kernel that was not loaded on this device")
	}
	if len(params) != kn.paramSize {
		return nil, invalid("kernel %s takes %d bytes of parameters, got %d", kn.name, kn.paramSize, len(params))
	}
	return kn, nil
}

// extent returns the members of d and reports whether they fit the driver's types. The driver
// itself checks the limits of the GPU.
func extent(d device.Dim) (e [3]uintptr, ok bool) {
	for i, n := range [3]int{d.X, d.Y, d.Z} {
		if n < 0 || n > math.MaxInt32 {
			return e, false
		}
		e[i] = uintptr(max(n, 1))
	}
	return e, true
}

func (s *stream) Record(e device.EventDriver) error {
	ev, err := eventOf("Record", e)
	if err != nil {
		return err
	}
	if ev.dev != s.dev {
		return invalid("Record of an event of another device")
	}
	return s.withEvent(ev, func(fr *frame) error { return fr.call(symEventRecord, ev.handle, s.handle) })
}

// Wait implements [device.StreamDriver]. e may be an event of another GPU.
func (s *stream) Wait(e device.EventDriver) error {
	ev, err := eventOf("Wait", e)
	if err != nil {
		return err
	}
	const flags = 0 // CU_EVENT_WAIT_DEFAULT
	return s.withEvent(ev, func(fr *frame) error { return fr.call(symStreamWaitEvent, s.handle, ev.handle, flags) })
}

// withEvent calls f like do, and prevents ev from being closed meanwhile.
func (s *stream) withEvent(ev *event, f func(fr *frame) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return ev.use(func() error { return s.dev.do(f) })
}

func (s *stream) Sync(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.sync(ctx)
}

// maxPolls is the number of times that sync polls the whole stream before it polls a marker.
const maxPolls = 64

// sync waits for the work submitted so far. For short work it polls the stream, which is faster
// than a marker. For longer work it polls a marker, so that later work cannot prolong the wait.
func (s *stream) sync(ctx context.Context) error {
	var marker uintptr
	polls := 0
	err := wait(ctx, func() (done bool, err error) {
		err = s.dev.do(func(fr *frame) (err error) {
			switch polls++; {
			case marker != 0:
				done, err = fr.query(symEventQuery, marker)
			case polls <= maxPolls:
				done, err = fr.query(symStreamQuery, s.handle)
			default:
				if marker, err = fr.newEvent(eventDisableTiming); err == nil {
					err = fr.call(symEventRecord, marker, s.handle)
				}
			}
			return err
		})
		return done, err
	})
	if marker != 0 {
		freed := s.dev.release(func(fr *frame) error { return fr.call(symEventDestroy, marker) })
		if err == nil {
			err = freed
		}
	}
	return err
}

// Close waits for the work, then frees the stream and its ring, even if the work failed.
func (s *stream) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	// This runs last, because a concurrent Close of the device waits for all children.
	defer s.dev.removeChild(s)
	waited := s.sync(context.Background())
	freed := s.dev.release(func(fr *frame) error {
		return errors.Join(s.ring.free(fr), fr.call(symStreamDestroy, s.handle))
	})
	if waited != nil {
		return waited
	}
	return freed
}
