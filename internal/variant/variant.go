// Package variant opens structures with kernels other than their own, or with launches of another
// shape. Experiments use it to measure what a part of a design contributes. A variant is passed in
// a context, and this package is internal, so that no user's program can select a variant. A
// variant may break promises of the structure.
package variant

import (
	"context"

	"github.com/weftgo/weft/device"
)

// GPHash is a variant of a persistent index (package gphash) on a GPU. The zero value is the usual
// index.
type GPHash struct {
	// Image contains the kernels that replace those of the index, for keys and values in place.
	// Kernels lists their names, without the prefix of the image. A nil Image replaces none.
	Image   *device.Image
	Kernels []string
	// Lanes is the number of lanes of a warp that process a key together. 0 means all lanes.
	Lanes int
	// MaxRound bounds the number of changes of a batch per warp. 0 means the number of lanes of a
	// warp.
	MaxRound int
	// Unfenced leaves out fences of system scope. A crash may then leave anything in memory that
	// was being written, and lookups that run concurrently with changes return wrong results.
	Unfenced bool
	// Form and Plain are names of kernels in Image, for slots that have another form than those of
	// the index. Form converts the slots of a pool when the pool is opened or cleared. It sets
	// BucketsParams.crowded if it cannot. Plain converts the control words back for code that reads
	// them: exports, checks, and the next process that opens the pool. If both are "", slots keep
	// the form of the index. Another form excludes a mirror, a cache, a log and growth, and
	// requires keys of 8 bytes in place.
	Form, Plain string
	// Refused is the error of changes that set bit 1 of ChangeParams.lacked, and of opening if Form
	// fails.
	Refused error
}

type key struct{}

// Context returns a context in which indexes are opened with variant v.
func Context(parent context.Context, v GPHash) context.Context {
	return context.WithValue(parent, key{}, v)
}

// Of returns the variant in ctx, or the zero value if ctx has none.
func Of(ctx context.Context) GPHash {
	v, _ := ctx.Value(key{}).(GPHash)
	return v
}
