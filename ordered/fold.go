package ordered

import (
	"github.com/weftgo/weft/device"
)

// reserve allocates the spare index, with capacity for the present leaves and the given number of
// extra leaves.
func (f *forest[K, V]) reserve(extra int) error {
	leaves := f.present.leaves + extra
	if f.spare != nil {
		if indexBytes[K](leaves) <= f.spare.mem.Size {
			return nil
		}
		err := f.dev.Free(f.spare.mem)
		if f.spare = nil; err != nil {
			return err
		}
	}
	x, err := newIndex[K](f.dev, leaves+leaves/4)
	f.spare = x
	return err
}

// prepare allocates all memory that chunks may need. After an error the chunks have no new leaves.
func (f *forest[K, V]) prepare(chunks []chunk[K]) error {
	extra := 0
	for i := range chunks {
		extra += chunks[i].maxExtra
	}
	if err := f.reserve(extra); err != nil {
		return err
	}
	ids, err := f.allocLeaves(extra)
	if err != nil {
		return err
	}
	for i := range chunks {
		c := &chunks[i]
		c.ids, ids = ids[:c.maxExtra:c.maxExtra], ids[c.maxExtra:]
	}
	return nil
}

// abandon frees the leaves that were allocated for the chunks of an empty forest, whether written
// or not.
func (f *forest[K, V]) abandon(chunks []chunk[K]) {
	for i := range chunks {
		f.freeLeaves(chunks[i].out.ids...)
		f.freeLeaves(chunks[i].ids...)
	}
}

// fold makes an index in which the results of chunks replace leaves, and makes it the present one.
// Parameter of is the index from whose leaves the chunks were made. If that is the present index,
// no leaf has moved, and no version shares it, only sizes change. Otherwise fold builds a new
// present index. moved must be set if of is not the present index.
func (f *forest[K, V]) fold(dev device.Host, of *index[K], moved bool, chunks []chunk[K]) error {
	moved = moved || f.present.refs > 1 || of.leaves == 0
	for i := range chunks {
		c := &chunks[i]
		moved = moved || c.moved
		f.tally.Live += uint64(c.delta)
		f.freeLeaves(c.ids...)
	}
	f.tally.Used = f.tally.Live
	var err error
	if moved {
		err = f.replace(f.buildIndex(dev, of, chunks))
	} else {
		for i := range chunks {
			copy(f.present.sizes[chunks[i].a:], chunks[i].out.sizes)
		}
		f.present.recount(chunks[0].a/fanout, nodes(chunks[len(chunks)-1].b))
	}
	for i := range chunks {
		for _, id := range chunks[i].retired {
			f.retire(id)
		}
	}
	return err
}

// replace makes x the present index. The memory of the old index is kept as the spare index, unless
// a version uses it or a spare exists already.
func (f *forest[K, V]) replace(x *index[K]) error {
	oldIndex := f.present
	x.refs, f.present = 1, x
	if oldIndex.refs > 1 || f.spare != nil {
		return f.releaseIndex(oldIndex)
	}
	f.spare = oldIndex
	return nil
}

// span is a run of leaves from the old index or from a chunk. to is the position of its first leaf
// in the new index.
type span[K word] struct {
	entries[K]
	to int
}

// spanLeaves is the maximum number of leaves to copy from the old index at a time.
const spanLeaves = 1 << 15

// buildIndex builds an index in the spare memory. It takes the leaves of old, and replaces those of
// each chunk by the results of the chunk.
func (f *forest[K, V]) buildIndex(dev device.Host, old *index[K], chunks []chunk[K]) *index[K] {
	x := f.spare
	f.spare = nil
	var spans []span[K]
	to := 0
	add := func(e entries[K]) {
		spans = append(spans, span[K]{e, to})
		to += len(e.ids)
	}
	keep := func(a, b int) {
		for ; a < b; a += spanLeaves {
			end := min(a+spanLeaves, b)
			add(entries[K]{old.seps[0][a:end], old.ids[a:end], old.sizes[a:end]})
		}
	}
	kept := 0
	for i := range chunks {
		c := &chunks[i]
		keep(kept, c.a)
		add(c.out)
		kept = c.b
	}
	keep(kept, old.leaves)
	x.layOutArrays(to)
	dev.Parallel(len(spans), 1, func(i, _ int) {
		s := &spans[i]
		copy(x.seps[0][s.to:], s.seps)
		copy(x.ids[s.to:], s.ids)
		copy(x.sizes[s.to:], s.sizes)
	})
	x.complete()
	return x
}
