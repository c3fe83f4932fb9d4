// Package refs contains kernels like those that users write, and their tests. The kernels access
// tables through the Refs that View and Update make. The tests cover separate keys, contended keys,
// insertions beyond the limit, and concurrent growth.
package refs

import (
	"context"
	"errors"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_32,32_0,64_0 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref refs.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,32_64 -type slab::MultiRef=slab.Ref -type Ops=.ops -type Pairs=.pairs refs_multi.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_64,64_32,32_0,64_0 -type linear::Ref=linear.Ref -type slab::Ref=slab.Ref -type Pairs=.pairs refs_each.cu
//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,64_32 -type btree::Ref=btree.Ref -type btree::VersionedRef=btree.VersionedRef -type Ops=.ops refs_btree.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -widths 32_32,64_32 -type ordered::Ref=ordered.Ref refs_ordered.cu

// pairs has the layout of the C++ struct Pairs, a parameter of kernels.
type pairs struct {
	keys, vals, count device.Ptr
	room              uint32
	_                 uint32
}

// RunVersioned launches a kernel that works on a tree with versions. Some tiles delete the keys in
// deleted. Other tiles read the ranges that begin at the keys in searched. Each tile processes
// perTile keys, one after the other. Tests of package btree call RunVersioned.
func RunVersioned(
	ctx context.Context, s *device.Stream, m *btree.Map[uint32, uint32], deleted, searched []uint32, perTile int,
) (err error) {
	const maxPairs = 4 // maximum number of pairs in a range
	n := len(deleted) + len(searched)
	cols := make([]uint32, (5+2*maxPairs)*n)
	kinds, keys, to := cols[:n], cols[n:2*n], cols[2*n:3*n]
	copy(keys[copy(keys, deleted):], searched)
	for i := range n {
		if kinds[i], to[i] = uint32(op.Delete), keys[i]; i >= len(deleted) {
			kinds[i], to[i] = kindRange, keys[i]+maxPairs-1
		}
	}
	var k device.Kernel
	err = gpu.Load(s.Device(), refsBtreeImages["32_32"], []gpu.Entry{{Name: "versioned", To: &k}})
	if err != nil {
		return err
	}
	mem, err := device.Make[uint32](s.Device(), len(cols))
	if err != nil {
		return err
	}
	if err = s.CopyIn(mem.Ptr(), device.Bytes(cols)); err == nil {
		col := func(i int) device.Ptr { return mem.Ptr() + device.Ptr(4*n*i) }
		p := versionedParams{tasks: tasks{
			kinds: col(0), keys: col(1), to: col(2), vals: col(3), outcomes: col(4),
			keysOut: col(5), valsOut: col(5 + maxPairs),
			n: uint32(n), each: uint32(perTile), most: maxPairs, repeat: 1,
		}}
		err = m.Update(ctx, s, 0, func(r btree.Ref) error {
			p.ref = r.Versioned()
			return device.Launch(s, k, device.Dim{X: (n/perTile + 63) / 64}, gpu.Block, &p)
		})
	}
	return errors.Join(err, s.Sync(ctx), mem.Free())
}

// kindRange is the kind of a task that reads a range. In CUDA it is kRange in refs_btree.cu.
const kindRange = 100
