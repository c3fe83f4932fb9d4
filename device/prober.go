package device

// Prober is a device that can tell what memory is its own, as GPUs can. [Wrap]
// asks it.
type Prober interface {
	Device
	// Probe fails with ErrInvalid unless there is memory at p, and at the last of
	// size bytes from there on, that work of this device can access: of this
	// package, or of another library in the same process. size must be positive.
	Probe(p Ptr, size int) error
}
