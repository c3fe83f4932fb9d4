package linear

import "unsafe"

// touchByte loads a byte and drops it. It is not inlined, so that the load is
// not dropped too; a call costs a nanosecond, the miss it starts a hundred.
//
//go:noinline
func touchByte(p unsafe.Pointer) byte { return *(*byte)(p) }
