// Package variant opens structures with other kernels than their own, or launches of another shape,
// for experiments that measure what a part of a design brings. It goes by a context, so that no
// program of a user can: what is replaced may be a promise.
package variant

import (
	"context"

	"github.com/weftgo/weft/device"
)

// GPHash is how a persistent index (package gphash) works on a GPU. The zero value is the index as
// it is.
type GPHash struct {
	// Image has kernels that replace those of the index for keys and values in place: each of
	// Kernels, which are names without the prefix of the image. Nil: none.
	Image   *device.Image
	Kernels []string
	// Lanes of a warp work on a key together. 0: all.
	Lanes int
	// MaxRound bounds how many changes of a batch a warp has. 0: a warp's lanes.
	MaxRound int
	// Unfenced leaves out fences of system scope: a crash may leave anything of what was being
	// written, and lookups beside changes are not right.
	Unfenced bool
	// Form and Plain are kernels of Image, by name, for slots of another form than those of the
	// index. Form gives them to the slots of a pool when it is opened or cleared, and raises
	// BucketsParams.crowded if it cannot. Plain makes control words right for what reads these:
	// exports, checks, and the next to open the pool. "": slots have the form of the index. With
	// another form it has no mirror, cache or log, its keys are 8 bytes in place, and it does not
	// grow.
	Form, Plain string
	// Refused is what changes return that raise bit 1 of ChangeParams.lacked, and opening where
	// Form fails.
	Refused error
}

type key struct{}

// Context is a context under which indexes are opened in that way.
func Context(parent context.Context, v GPHash) context.Context {
	return context.WithValue(parent, key{}, v)
}

// Of returns the way of a context, the zero value unless it comes from [Context].
func Of(ctx context.Context) GPHash {
	v, _ := ctx.Value(key{}).(GPHash)
	return v
}
