// Package ablation leaves parts of a structure out, for experiments that measure what these cost or
// bring. It goes by a context, so that no program of a user can: what is left out is promised.
package ablation

import "context"

// Without says what is left out.
type Without struct {
	// Fences, of a GPU, that order what it writes to a persistent index: a crash may leave anything of
	// what it was writing, and lookups beside changes are not right.
	Fences bool
	// Rounds, of a GPU, in which a warp has several changes of a large batch on a persistent index and publishes
	// them behind one fence: it has one.
	Rounds bool
	// Warps, of a GPU, that work on a key of a persistent index together: a thread does, alone, and reads one slot
	// after the other.
	Warps bool
	// States of slots, of a GPU, in words of their own in a persistent index: they are in the words of keys, three of
	// which are reserved. A crash leaves a pool that does not open.
	States bool
}

type key struct{}

// Context is a context under which structures are opened without something.
func Context(parent context.Context, w Without) context.Context {
	return context.WithValue(parent, key{}, w)
}

// Of is what a context leaves out: nothing, unless it comes from [Context].
func Of(ctx context.Context) Without {
	w, _ := ctx.Value(key{}).(Without)
	return w
}
