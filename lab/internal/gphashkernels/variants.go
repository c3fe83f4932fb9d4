// Package gphashkernels has the kernels of a persistent index (package gphash) that only
// experiments use: for single threads, and for slots in the form of the GPHash paper.
package gphashkernels

import (
	"errors"

	"github.com/weftgo/weft/internal/variant"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -I ../../../gphash gphash_threads.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -I ../../../gphash -type GetParams=.getParams -type weft::gphash::ChangeParams=.changeParams -type gphash::Table=.table -type gphash::Space=.space gphash_reserved.cu

// Threads runs each key in a single thread, which reads one slot after the other: the starting
// point of section 4.4 of the paper.
var Threads = variant.GPHash{Image: &gphashThreadsImage, Kernels: []string{"get", "change"}, Lanes: 1, MaxRound: 1}

// Reserved stores the states of slots in the words of 8-byte keys, as in sections 3.1 and 3.2.3 of
// the paper, which reserves three keys. A crash leaves a pool that does not open.
var Reserved = variant.GPHash{
	Image: &gphashReservedImage, Kernels: []string{"get", "change", "recycle"}, Form: "to_keys", Plain: "to_words", Refused: ErrReserved,
}

// ErrReserved is returned for changes of the three reserved keys.
var ErrReserved = errors.New("the keys 0, 1 and 2, as words of 8 bytes, say the state of a slot, which has no word for it, and are refused")
