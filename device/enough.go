package device

import "fmt"

// Enough returns an error that wraps [ErrMemory] and names both numbers if a
// device has less free memory than so many bytes. It reads what is free and
// takes nothing: for asking before a structure allocates its parts one by one.
func Enough(dev Device, bytes int) error {
	m, err := dev.Memory()
	if err != nil {
		return err
	}
	// A host that does not tell how much memory it has reads as 0.
	if m.Total > 0 && (bytes < 0 || uint64(bytes) > m.Free) {
		return fmt.Errorf("%w: %d bytes asked for, %d free", ErrMemory, bytes, m.Free)
	}
	return nil
}
