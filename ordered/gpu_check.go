package ordered

import (
	"context"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// Check implements core.Checker. It copies a generation to host memory and checks the copy.
func (e *gpuEngine) Check(ctx context.Context, l *core.Lease) error {
	check, err := cpu.Choose(e.Widths, checkCopy[uint32, uint32], checkCopy[uint32, uint64],
		checkCopy[uint64, uint32], checkCopy[uint64, uint64], nil, nil)
	if err != nil {
		return err
	}
	return check(ctx, e, l.Parts.(*gpuIndex))
}

func checkCopy[K, V word](ctx context.Context, e *gpuEngine, x *gpuIndex) error {
	f, err := copyToHost[K, V](ctx, e, x)
	if err != nil {
		return err
	}
	if err := f.checkIndex(ctx, f.present); err != nil {
		return err
	}
	if n := f.present.pairs(); n != x.content.live {
		return corrupt("the index counts %d pairs, the counters say %d", n, x.content.live)
	}
	return f.checkUnique(f.present)
}

func (f *forest[K, V]) checkUnique(x *index[K]) error {
	seen := make([]bool, f.used)
	for _, id := range x.ids[:x.leaves] {
		if seen[id] {
			return corrupt("leaf %d is used twice", id)
		}
		seen[id] = true
	}
	return nil
}

// copyToHost copies the generation with index x to host memory. The counters must have been read
// since the last change.
func copyToHost[K, V word](ctx context.Context, e *gpuEngine, x *gpuIndex) (*forest[K, V], error) {
	f := &forest[K, V]{fill: e.fill, present: &index[K]{}}
	f.used = uint32(x.pool.capacity())
	leaves := make([]leaf[K, V], f.used)
	all := bytesOf(leaves)
	for b := range f.bases {
		f.bases[b] = unsafe.Pointer(unsafe.SliceData(leaves))
	}
	for _, block := range x.pool.memory() {
		if err := e.Stream.CopyOut(ctx, all[:block.Size], block.Ptr); err != nil {
			return nil, err
		}
		all = all[block.Size:]
	}
	mem := make([]uint64, x.buf.Size/8)
	if err := e.Stream.CopyOut(ctx, bytesOf(mem), x.buf.Ptr); err != nil {
		return nil, err
	}
	if !f.present.read(x.pool.layOut(x.nodes), x.nodes, int(x.content.leaves), bytesOf(mem)) {
		return nil, corrupt("levels of the index of %d leaves do not match its separators",
			x.content.leaves)
	}
	return f, nil
}

// read fills x from mem, a copy of the GPU memory of an index with capacity for n nodes. It reports
// whether upper levels, ranks and unused entries are as [index.complete] makes them.
func (x *index[K]) read(at indexAt, n, leaves int, mem []byte) bool {
	x.mem.Host = bytesOf(make([]uint64, indexBytes[K](leaves)/8+1))
	x.layOutArrays(leaves)
	perLevel := make([][]K, 0, levels(n)) // from the lowest to the highest
	counts := []int{n}
	for ; n > 1; n = nodes(n) {
		counts = append(counts, nodes(n))
	}
	unread := batch.View[K](mem[:at.ids])
	for _, c := range slices.Backward(counts) {
		perLevel = append(perLevel, unread[:c*fanout])
		unread = unread[c*fanout:]
	}
	slices.Reverse(perLevel)
	copy(x.seps[0], perLevel[0])
	copy(x.ids, batch.View[uint32](mem[at.ids:at.sizes]))
	copy(x.sizes, mem[at.sizes:at.ranks])
	copy(x.ranks, batch.View[uint64](mem[at.ranks:at.content]))
	for l, level := range x.seps {
		copy(level, perLevel[l])
	}
	made := &index[K]{}
	made.mem.Host = slices.Clone(x.mem.Host)
	made.layOutArrays(leaves)
	made.complete()
	return slices.Equal(made.mem.Host, x.mem.Host)
}

func bytesOf[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}
