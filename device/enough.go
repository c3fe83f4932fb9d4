package device

import "fmt"

// CheckFree returns [ErrMemory] if dev has less free memory than the given number of bytes. The
// error names both numbers. Callers check a total before they allocate its parts one by one.
func CheckFree(dev Device, bytes int) error {
	m, err := dev.Memory()
	if err != nil {
		return err
	}
	// A host that does not report its memory returns Total 0.
	if m.Total > 0 && (bytes < 0 || uint64(bytes) > m.Free) {
		return fmt.Errorf("%w: %d bytes requested, %d free", ErrMemory, bytes, m.Free)
	}
	return nil
}
