package device

// Prober is a device that can identify its own memory, as GPUs can. [Wrap] calls Probe.
type Prober interface {
	Device
	// Probe checks the first and the last of the size bytes at p. It returns ErrInvalid unless work
	// of this device can access both. The memory may come from this package or from another library
	// in the same process. size must be positive.
	Probe(p Ptr, size int) error
}
