// Package gphashkernels has kernels for a persistent index (package gphash) that only experiments
// use. One variant runs single threads; the other stores slots in the form of the GPHash paper.
package gphashkernels

import (
	"errors"

	"github.com/weftgo/weft/internal/variant"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -I ../../../gphash gphash_threads.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -I ../../../gphash -type GetParams=.getParams -type weft::gphash::ChangeParams=.changeParams -type gphash::Table=.table -type gphash::Space=.space gphash_reserved.cu

// Threads runs each key in a single thread, which reads one slot after the other. It is the
// starting point of section 4.4 of the GPHash paper.
var Threads = variant.GPHash{Image: &gphashThreadsImage, Kernels: []string{"get", "change"}, Lanes: 1, MaxRound: 1}

// Reserved stores the state of a slot in the word of its 8-byte key (sections 3.1 and 3.2.3 of the
// GPHash paper). Three key values stand for states, so they cannot be keys. After a crash the pool
// does not open.
var Reserved = variant.GPHash{
	Image: &gphashReservedImage, Kernels: []string{"get", "change", "recycle"}, Form: "to_keys", Plain: "to_words", Refused: ErrReserved,
}

// ErrReserved is the error of a change that uses one of the three reserved keys.
var ErrReserved = errors.New("the keys 0, 1 and 2, as words of 8 bytes, say the state of a slot, which has no word for it, and are refused")
