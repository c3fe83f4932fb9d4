//go:build !linux

package hostmem

// Copies reports whether Remap holds both mappings for a moment, in order to copy.
const Copies = true

func remap(b []byte, size int) ([]byte, error) {
	to, err := mapMemory(size)
	if err != nil {
		return nil, err
	}
	copy(to, b)
	return to, unmap(b)
}

// Discard does nothing here: Unmap returns the memory.
func Discard([]byte) {}
