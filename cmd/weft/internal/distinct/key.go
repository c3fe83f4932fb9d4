package distinct

import (
	"encoding/binary"

	"github.com/weftgo/weft/internal/arena"
)

// key returns the key of the item at s; see package arena. The piece must have pad bytes after it,
// so that a short item is loaded at once.
func key(h *arena.Hasher, padded []byte, s span) uint64 {
	if s.n <= arena.MaxShort {
		return h.Short(pack(padded, s))
	}
	return h.Long(padded[s.off : s.off+s.n])
}

// pack returns a short item and its length as one word.
func pack(padded []byte, s span) uint64 {
	x := binary.LittleEndian.Uint64(padded[s.off:])
	return x&(1<<(8*uint(s.n))-1) | uint64(s.n)<<56
}
