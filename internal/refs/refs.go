// Package refs has kernels of a user, which work on tables by the Refs of View and
// Update, and the tests of these: what they do with one key, with keys that threads
// want together, beyond what is permitted, and beside growth.
package refs

import "github.com/weftgo/weft/device"

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64,64_32,32_0,64_0 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref refs.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_64 -type slab::MultiRef=slab.Ref -type Ops=.ops -type Pairs=.pairs refs_multi.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref -type Lookups=.lookups refs_find.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64,64_32,32_0,64_0 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref -type Pairs=.pairs refs_each.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64 -type btree::Ref=btree.Ref -type btree::VersionedRef=btree.VersionedRef -type Ops=.ops refs_btree.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_64,64_32 -type ordered::Ref=ordered.Ref refs_ordered.cu

// pairs is Pairs of C++.
type pairs struct {
	keys, vals, count device.Ptr
	room              uint32
	_                 uint32
}

// lookups is Lookups of C++.
type lookups struct {
	keys, vals device.Ptr
	n          uint64
}
