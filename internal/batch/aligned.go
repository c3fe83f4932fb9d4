package batch

import "github.com/weftgo/weft/device"

// Aligned returns a copy of bytes at an address aligned for words of any width.
func Aligned(b []byte) []byte {
	c := device.Bytes(make([]uint64, (len(b)+7)/8))[:len(b)]
	copy(c, b)
	return c
}
