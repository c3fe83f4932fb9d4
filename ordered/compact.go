package ordered

import (
	"context"
	"errors"
)

// compact implements engine. While a version is held, it does nothing. If ctx ends, it stops and
// changes nothing.
func (e *cpuEngine[K, V]) compact(ctx context.Context) error {
	from := e.forest()
	if len(from.versions) > 0 {
		return nil
	}
	to, err := newForest[K, V](e.Device, from.fill)
	if err != nil {
		return err
	}
	if n := int(from.present.pairs()); n > 0 {
		if err = to.bulkLoad(ctx, e.Device, n, from.copyPairs); err != nil {
			return errors.Join(err, to.Free())
		}
	}
	return e.Leases.Replace(to)
}

// copyPairs copies n pairs of the forest to leaf l, in key order. Parameter first is the rank of
// the first of these pairs.
func (f *forest[K, V]) copyPairs(l *leaf[K, V], first, n int) {
	p, at := f.present.place(uint64(first))
	for done := 0; done < n; p, at = p+1, 0 {
		from := f.at(f.present.ids[p])
		end := min(int(f.present.sizes[p]), at+n-done)
		copy(l.vals[done:], from.vals[at:end])
		done += copy(l.keys[done:], from.keys[at:end])
	}
	l.set(l.keys[:n], l.vals[:n])
}

// ensure implements engine.
func (e *cpuEngine[K, V]) ensure(pairs int) error {
	f := e.forest()
	ids, err := f.allocLeaves((pairs + f.fill - 1) / f.fill)
	if err == nil && len(ids) > 0 {
		f.reset()
	}
	return err
}

// extent implements engine.
func (e *cpuEngine[K, V]) extent() (leaves, capacity int) {
	f := e.forest()
	return f.present.leaves, f.capacity()
}

// usage implements engine.
func (e *cpuEngine[K, V]) usage() (usage, error) {
	f := e.forest()
	u := usage{
		leaves: f.present.leaves, capacity: f.capacity(), free: f.capacity() - int(f.used) + len(f.free),
		versions: len(f.versions), bytes: f.present.mem.Size,
	}
	for _, b := range f.blocks {
		u.bytes += b.Size
	}
	for i, v := range f.versions {
		if i == 0 || v.index != f.versions[i-1].index {
			u.bytes += v.index.mem.Size
		}
	}
	if f.spare != nil {
		u.bytes += f.spare.mem.Size
	}
	return u, nil
}
