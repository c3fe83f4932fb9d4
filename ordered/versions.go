package ordered

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// forest is a generation: leaves, the present index, and the indexes of versions. These indexes
// share leaves. A change overwrites a leaf only if no version contains it. Otherwise the change
// writes a new leaf, and the old leaf is kept for the versions.
type forest[K, V word] struct {
	pool[K, V]
	fill    int // pairs per leaf if several leaves are written together
	tally   core.Tally
	present *index[K]
	spare   *index[K] // memory for the next index, or nil
	clock   uint64    // time that leaves written now get

	mu       sync.Mutex // guards versions: readers search it while versions are added and removed
	versions []*version[K]
}

// version is the state that the map had at one time of the forest's clock.
type version[K word] struct {
	time    uint64
	index   *index[K]
	retired []uint32 // leaves that are neither in a later version nor in the present index
}

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

// Tally returns the counters of pairs.
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

// releaseIndex ends one use of an index, and frees the index after its last use.
func (f *forest[K, V]) releaseIndex(x *index[K]) error {
	if x.refs--; x.refs > 0 {
		return nil
	}
	return f.dev.Free(x.mem)
}

// newestTime returns the time of the newest version, or 0 if no version exists.
func (f *forest[K, V]) newestTime() uint64 {
	if n := len(f.versions); n > 0 {
		return f.versions[n-1].time
	}
	return 0
}

// unshared reports whether no version contains leaf id of the present index.
func (f *forest[K, V]) unshared(id uint32) bool {
	return len(f.versions) == 0 || f.created[id] > f.newestTime()
}

// retire handles a leaf that has left the present index. It frees the leaf if no version contains
// it, and otherwise adds it to the retired leaves of the newest version.
func (f *forest[K, V]) retire(id uint32) {
	if f.unshared(id) {
		f.freeLeaves(id)
		return
	}
	v := f.versions[len(f.versions)-1]
	v.retired = append(v.retired, id)
}

// pin makes a version of the present index.
func (f *forest[K, V]) pin() *version[K] {
	v := &version[K]{time: f.clock, index: f.present}
	v.index.refs++
	f.clock++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions = append(f.versions, v)
	return v
}

// indexAt returns the index of the version at time, or the present index if time is 0.
func (f *forest[K, V]) indexAt(time uint64) *index[K] {
	if time == 0 {
		return f.present
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions[f.findVersion(time)].index
}

// findVersion returns the position of the version at time in f.versions. It must exist.
func (f *forest[K, V]) findVersion(time uint64) int {
	i, _ := slices.BinarySearchFunc(f.versions, time, func(v *version[K], time uint64) int { return cmp.Compare(v.time, time) })
	return i
}

// unpin removes a version. Its retired leaves pass to the previous version if that version contains
// them. Otherwise they are freed.
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

// clear removes all leaves from the present index.
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
