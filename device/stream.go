package device

import (
	"context"
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// StreamDriver is the part of a stream that a device implements. Work runs in submission order.
type StreamDriver interface {
	// CopyIn copies host memory to the device. The caller may change src after the call.
	CopyIn(dst Ptr, src []byte) error
	// CopyOut copies device memory to the host and waits for the copy.
	CopyOut(ctx context.Context, dst []byte, src Ptr) error
	// CopyInAsync and CopyOutAsync submit a copy from or to host memory of AllocHost, Register or
	// Map. The host memory must not be changed or read until the copy has completed.
	CopyInAsync(dst Ptr, src []byte) error
	CopyOutAsync(dst []byte, src Ptr) error
	// Copy submits a copy of size bytes within the device.
	Copy(dst, src Ptr, size int) error
	// Fill submits work that writes the 32-bit pattern count times.
	Fill(dst Ptr, pattern uint32, count int) error
	// Launch submits a kernel. It copies params before it returns.
	Launch(k Kernel, grid, block Dim, params []byte) error
	// Record submits the marker of e. Wait makes work that is submitted later wait for that marker.
	Record(e EventDriver) error
	Wait(e EventDriver) error
	// Sync waits for all submitted work. If ctx ends first, it returns the context's error and the
	// work continues.
	Sync(ctx context.Context) error
	Close() error
}

// PeerDriver is a [StreamDriver] that can copy from other devices of its kind.
type PeerDriver interface {
	// CopyPeer submits a copy of size bytes to dst, from address src of another device.
	CopyPeer(dst Ptr, from Device, src Ptr, size int) error
}

// EventDriver is the part of an event that a device implements.
type EventDriver interface {
	// Sync waits until the stream has reached the last recorded marker.
	Sync(ctx context.Context) error
	// Since returns how much time passed on the device between the markers of start and of this
	// event. Both markers must be reached.
	Since(start EventDriver) (time.Duration, error)
	Close() error
}

// Stream is a queue of work on one device. Work on one stream runs in order. Work on different
// streams may overlap unless events order it.
type Stream struct {
	dev    Device
	driver StreamDriver
}

// NewStream makes a stream of dev from its driver d. Implementations of [Device] call it.
func NewStream(dev Device, d StreamDriver) *Stream { return &Stream{dev, d} }

// Device returns the device of the stream.
func (s *Stream) Device() Device { return s.dev }

// Driver returns the device's implementation of the stream. Devices that wrap devices use it.
func (s *Stream) Driver() StreamDriver { return s.driver }

// CopyIn copies host memory to the device. The caller may change src after the call.
func (s *Stream) CopyIn(dst Ptr, src []byte) error { return s.driver.CopyIn(dst, src) }

// CopyOut copies device memory to the host and waits for the copy.
func (s *Stream) CopyOut(ctx context.Context, dst []byte, src Ptr) error {
	return s.driver.CopyOut(ctx, dst, src)
}

// CopyInAsync submits a copy from memory of AllocHost, Register or Map. src must not change until
// the copy has completed.
func (s *Stream) CopyInAsync(dst Ptr, src []byte) error { return s.driver.CopyInAsync(dst, src) }

// CopyOutAsync submits a copy to memory of AllocHost, Register or Map. dst must not be used until
// the copy has completed.
func (s *Stream) CopyOutAsync(dst []byte, src Ptr) error { return s.driver.CopyOutAsync(dst, src) }

// Copy submits a copy of size bytes within the device.
func (s *Stream) Copy(dst, src Ptr, size int) error { return s.driver.Copy(dst, src, size) }

// CopyPeer submits a copy of size bytes from memory of another device, over the link between the
// two if they have one. CopyPeer orders nothing on the other device: writes to src must have
// completed before the call, and later changes of src must wait for the copy. It returns
// [ErrUnsupported] unless the devices support such copies, as two GPUs of one machine do.
func (s *Stream) CopyPeer(dst Ptr, from Device, src Ptr, size int) error {
	if d, ok := s.driver.(PeerDriver); ok {
		return d.CopyPeer(dst, from, src, size)
	}
	return fmt.Errorf("device: %w: a %s does not copy from other devices", ErrUnsupported,
		s.dev.Properties().Kind)
}

// Fill submits work that writes the 32-bit pattern count times. dst must be a multiple of 4.
func (s *Stream) Fill(dst Ptr, pattern uint32, count int) error {
	return s.driver.Fill(dst, pattern, count)
}

// Record submits the marker of e to the stream.
func (s *Stream) Record(e *Event) error { return s.driver.Record(e.driver) }

// Wait makes work that is submitted later wait for the marker of e.
func (s *Stream) Wait(e *Event) error { return s.driver.Wait(e.driver) }

// Sync waits for all submitted work. If ctx ends first, it returns the context's error while the
// work continues. Memory that it uses must not be freed or reused before a later Sync succeeds.
func (s *Stream) Sync(ctx context.Context) error { return s.driver.Sync(ctx) }

// Close waits for the submitted work and frees the stream. A second Close does nothing.
func (s *Stream) Close() error { return s.driver.Close() }

// Launch submits a launch of kernel k. grid is the number of blocks, and block the number of
// threads per block. P is the kernel's one parameter struct, or a struct with its parameters as
// fields. P must have the size of the kernel's parameters; only padding at its end may make it
// larger. Launch copies params.
func Launch[P any](s *Stream, k Kernel, grid, block Dim, params *P) error {
	size, want := int(unsafe.Sizeof(*params)), k.ParamSize()
	if size != want && !padded(reflect.TypeFor[P](), want) {
		return fmt.Errorf("device: %w: kernel %s takes %d bytes of parameters, got %d", ErrInvalid, k.Name(), want, size)
	}
	return s.driver.Launch(k, grid, block, unsafe.Slice((*byte)(unsafe.Pointer(params)), want))
}

// padded reports whether the fields of struct t end at n bytes, so that only padding follows.
func padded(t reflect.Type, n int) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := t.NumField() - 1; i >= 0; i-- {
		if f := t.Field(i); f.Name != "_" {
			return int(f.Offset+f.Type.Size()) == n
		}
	}
	return n == 0
}

// Event is a marker that orders and times the work of streams.
type Event struct {
	driver EventDriver
}

// NewEvent makes an event from its driver. Implementations of [Device] call it.
func NewEvent(d EventDriver) *Event { return &Event{d} }

// Driver returns the device's implementation of the event.
func (e *Event) Driver() EventDriver { return e.driver }

// Sync waits until the last recorded marker has been reached. It returns at once for an event never
// recorded.
func (e *Event) Sync(ctx context.Context) error { return e.driver.Sync(ctx) }

// Since returns how much time passed on the device between the markers of start and of e. Both must
// have been recorded. Since does not wait: it returns ErrInvalid if either marker has not been
// reached.
func (e *Event) Since(start *Event) (time.Duration, error) { return e.driver.Since(start.driver) }

// Close frees the event. A second Close does nothing.
func (e *Event) Close() error { return e.driver.Close() }
