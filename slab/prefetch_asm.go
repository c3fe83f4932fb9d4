//go:build amd64 || arm64

package slab

import "unsafe"

// prefetch asks for slabs, both cache lines of each. Unlike loads, prefetches
// need not come back before later work retires. Asking for the first lines
// alone makes lookups take half as long again, though most end there.
//
//go:noescape
func prefetch(slabs *unsafe.Pointer, n int)
