//go:build !linux

package hostmem

// Copies reports whether Remap copies, so that both mappings exist for a moment.
const Copies = true

func remap(b []byte, size int) ([]byte, error) {
	to, err := mapMemory(size)
	if err != nil {
		return nil, err
	}
	copy(to, b)
	return to, unmap(b)
}

// Discard does nothing on this system. Unmap returns the memory.
func Discard([]byte) {}
