//go:build amd64 || arm64

package linear

import "unsafe"

// prefetch asks for the sectors of a table that lies at base, by their
// indices. Unlike loads, prefetches need not come back before later work
// retires, so a core goes on with one group of operations while the next is on
// its way: 10^7 keys of 64 bits at load .5 are found in 30 ns each instead of
// 44.
//
//go:noescape
func prefetch(base unsafe.Pointer, sectors *uint32, n int)
