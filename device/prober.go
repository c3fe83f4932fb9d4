package device

// Prober is a device that can identify its own memory, as GPUs can. [Wrap] calls Probe.
type Prober interface {
	Device
	// Probe returns ErrInvalid unless work of this device can access memory at p and at the last of
	// size bytes from there. The memory may come from this package or from another library in the
	// same process. size must be positive.
	Probe(p Ptr, size int) error
}
