package device

// Range is memory of a device that grows and shrinks where it is: addresses
// set aside by [Device.Reserve], of which the first bytes are mapped, that is,
// have memory behind them. Addresses cost next to nothing, so reserve for the
// largest size that may come. Reaching beyond what is mapped is as wrong as
// reaching beyond a buffer.
//
// Errors are ErrInvalid for a size out of bounds, ErrMemory when there is not
// enough memory, and ErrClosed after Free.
type Range interface {
	// Ptr is the first address, at least 256-byte aligned. It never changes.
	Ptr() Ptr
	// Mapped is the number of bytes from Ptr on that have memory: at least
	// what the last Resize asked for, rounded up to what the device maps at
	// least (2 MiB on a GPU and on a host). After Resize to less it can be
	// up to twice that, since a GPU takes memory back in the pieces in which
	// it gave it.
	Mapped() int
	// Buffer is the mapped part: for [Wrap], and on a [Host] device for its
	// bytes. It must not be freed, nor used beyond Mapped once that is less.
	Buffer() Buffer
	// Resize maps the first n bytes, 0 to what was reserved. What lies below
	// n and below what was mapped stays as it is; the contents of what is new
	// are undefined. Growing does not wait for work under way. Shrinking waits
	// until all work submitted to streams of the device is done, however long
	// that takes. If Resize fails to grow, nothing has changed; if it fails to
	// shrink, Mapped tells how far it got.
	Resize(n int) error
	// Free waits as shrinking does, and gives back memory and addresses.
	// Idempotent.
	Free() error
}
