package device

// Range is device memory that grows and shrinks in place. [Device.Reserve] reserves its addresses;
// the first Mapped bytes have memory. Addresses cost next to nothing, so callers reserve for the
// largest size that they may need. Accesses beyond the mapped bytes are invalid.
//
// Methods return ErrInvalid for a size out of bounds, ErrMemory if too little memory is free, and
// ErrClosed after Free.
type Range interface {
	// Ptr returns the first address, a multiple of 256. It never changes.
	Ptr() Ptr
	// Mapped returns the number of bytes that have memory, counted from Ptr. It is at least the
	// size of the last Resize, rounded up to the device's mapping unit (2 MiB on a GPU and on a
	// host). After a shrink it can be up to twice that size, because a GPU unmaps whole pieces
	// only, in the sizes in which they were mapped.
	Mapped() int
	// Buffer returns the mapped part. Pass it to [Wrap], or read its bytes on a [Host] device. The
	// buffer must not be freed. After a shrink it must not be used beyond Mapped.
	Buffer() Buffer
	// Resize maps or unmaps memory so that the first n bytes are mapped. n is between 0 and the
	// reserved size. Bytes that stay mapped keep their contents; those of new bytes are undefined.
	// Growing does not wait for running work. Shrinking waits for all work submitted to streams of
	// the device, however long that takes. A failure to grow changes nothing. After a failure to
	// shrink, Mapped returns the size reached.
	Resize(n int) error
	// Free waits as shrinking does, then releases memory and addresses. A second Free does nothing.
	Free() error
}
