package ordered

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// forest is a generation: leaves, the index of the present, and those of versions. The present and
// versions share leaves. A change writes in place only in leaves that no version has. Leaves that
// it replaces are kept for the versions that have them.
type forest[K, V word] struct {
	pool[K, V]
	fill    int // pairs per leaf when several are written together
	tally   core.Tally
	present *index[K]
	spare   *index[K] // memory for the next one
	clock   uint64    // time of leaves that are written now

	mu       sync.Mutex // readers look up versions while others come and go
	versions []*version[K]
}

// version is the structure as of a time of the clock.
type version[K word] struct {
	time    uint64
	index   *index[K]
	retired []uint32 // leaves that neither a later version nor the present has
}

// newForest makes a generation without leaves.
func newForest[K, V word](dev device.Device, fill int) (*forest[K, V], error) {
	f := &forest[K, V]{pool: pool[K, V]{dev: dev}, fill: fill, clock: 1}
	x, err := newIndex[K](dev, 0)
	if err != nil {
		return nil, err
	}
	x.empty()
	x.refs, f.present = 1, x
	return f, nil
}

// Tally returns the counters, for engines.
func (f *forest[K, V]) Tally() *core.Tally { return &f.tally }

// Free implements core.Parts.
func (f *forest[K, V]) Free() error {
	err := f.pool.Free()
	for _, v := range f.versions {
		err = errors.Join(err, f.releaseIndex(v.index))
	}
	err = errors.Join(err, f.releaseIndex(f.present))
	if f.spare != nil {
		err = errors.Join(err, f.dev.Free(f.spare.mem))
	}
	return err
}

// releaseIndex ends a use of an index, and frees it after the last.
func (f *forest[K, V]) releaseIndex(x *index[K]) error {
	if x.refs--; x.refs > 0 {
		return nil
	}
	return f.dev.Free(x.mem)
}

// newestTime returns the time of the newest version, or 0.
func (f *forest[K, V]) newestTime() uint64 {
	if n := len(f.versions); n > 0 {
		return f.versions[n-1].time
	}
	return 0
}

// unshared reports whether no version has a leaf of the present.
func (f *forest[K, V]) unshared(id uint32) bool {
	return len(f.versions) == 0 || f.created[id] > f.newestTime()
}

// retire removes a leaf from the present.
func (f *forest[K, V]) retire(id uint32) {
	if f.unshared(id) {
		f.freeLeaves(id)
		return
	}
	v := f.versions[len(f.versions)-1]
	v.retired = append(v.retired, id)
}

// pin makes the present a version.
func (f *forest[K, V]) pin() *version[K] {
	v := &version[K]{time: f.clock, index: f.present}
	v.index.refs++
	f.clock++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions = append(f.versions, v)
	return v
}

// indexAt returns the index of a version, or that of the present if time is 0.
func (f *forest[K, V]) indexAt(time uint64) *index[K] {
	if time == 0 {
		return f.present
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions[f.findVersion(time)].index
}

// findVersion returns the index of the version of a time, which must exist.
func (f *forest[K, V]) findVersion(time uint64) int {
	i, _ := slices.BinarySearchFunc(f.versions, time, func(v *version[K], time uint64) int { return cmp.Compare(v.time, time) })
	return i
}

// unpin ends a version. Its leaves pass to the version before it, if that has them too.
func (f *forest[K, V]) unpin(time uint64) error {
	i := f.findVersion(time)
	v := f.versions[i]
	f.mu.Lock()
	f.versions = slices.Delete(f.versions, i, i+1)
	f.mu.Unlock()
	var previous *version[K]
	if i > 0 {
		previous = f.versions[i-1]
	}
	for _, id := range v.retired {
		if previous != nil && f.created[id] <= previous.time {
			previous.retired = append(previous.retired, id)
		} else {
			f.freeLeaves(id)
		}
	}
	return f.releaseIndex(v.index)
}

// clear removes all leaves from the present.
func (f *forest[K, V]) clear() error {
	ids := f.present.ids[:f.present.leaves]
	if f.present.refs > 1 {
		x, err := newIndex[K](f.dev, 0)
		if err != nil {
			return err
		}
		x.refs = 1
		f.present.refs--
		f.present = x
	}
	if len(f.versions) == 0 {
		f.reset()
	} else {
		for _, id := range ids {
			f.retire(id)
		}
	}
	f.present.empty()
	f.tally = core.Tally{}
	return nil
}
