package device

import "fmt"

// CheckFree returns an error that wraps [ErrMemory] and names both numbers if a device has fewer
// than bytes free. It reads the free memory and allocates nothing. Callers use it before a
// structure allocates its parts one by one.
func CheckFree(dev Device, bytes int) error {
	m, err := dev.Memory()
	if err != nil {
		return err
	}
	// A host that does not report its memory reads as 0.
	if m.Total > 0 && (bytes < 0 || uint64(bytes) > m.Free) {
		return fmt.Errorf("%w: %d bytes asked for, %d free", ErrMemory, bytes, m.Free)
	}
	return nil
}
