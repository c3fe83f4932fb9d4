package device

// Range is device memory that grows and shrinks in place. [Device.Reserve] reserves its addresses;
// the first Mapped bytes have memory. Addresses cost next to nothing, so reserve for the largest
// size that may come. An access beyond the mapped bytes is as wrong as one beyond a buffer.
//
// Errors are ErrInvalid for a size out of bounds, ErrMemory if too little memory is free, and
// ErrClosed after Free.
type Range interface {
	// Ptr is the first address, at least 256-byte aligned. It never changes.
	Ptr() Ptr
	// Mapped is the number of bytes from Ptr on that have memory. It is at least the size of the
	// last Resize, rounded up to the device's unit of mapping (2 MiB on a GPU and on a host). After
	// Resize to less it can be up to twice that, since a GPU unmaps memory in the pieces in which
	// it was mapped.
	Mapped() int
	// Buffer is the mapped part, for [Wrap] and, on a [Host] device, for its bytes. It must not be
	// freed, nor used beyond Mapped after a shrink.
	Buffer() Buffer
	// Resize maps the first n bytes, from 0 to the reserved size. Bytes mapped before and after
	// keep their contents; new bytes are undefined. Growing does not wait for running work.
	// Shrinking waits for all work submitted to streams of the device, however long that takes. A
	// failure to grow changes nothing. After a failure to shrink, Mapped returns the size that was
	// reached.
	Resize(n int) error
	// Free waits as shrinking does, then releases memory and addresses. Idempotent.
	Free() error
}
