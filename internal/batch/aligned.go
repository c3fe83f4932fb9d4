package batch

import "github.com/weftgo/weft/device"

// Aligned returns a copy of b at an address that is aligned for words of up to 8 bytes.
func Aligned(b []byte) []byte {
	c := device.Bytes(make([]uint64, (len(b)+7)/8))[:len(b)]
	copy(c, b)
	return c
}
