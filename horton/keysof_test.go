package horton

import "slices"

// KeysOf returns n keys, starting at from, with the given primary bucket.
func (m *Map[K, V]) KeysOf(bucket, from uint32, n int) (keys []uint32) {
	for k := from; len(keys) < n; k++ {
		if pathOf[uint32, uint32](m.engine.geometry(), k).bucket == bucket {
			keys = append(keys, k)
		}
	}
	return keys
}

// TagOf returns the tag of a key.
func (m *Map[K, V]) TagOf(key uint32) uint32 {
	return tagOf[uint32, uint32](pathOf[uint32, uint32](m.engine.geometry(), key).key)
}

// SecondariesOf returns the secondary buckets that a key may go to, in a map of 32-bit keys and
// values.
func (m *Map[K, V]) SecondariesOf(key uint32) (buckets []uint32) {
	g := m.engine.geometry()
	p := pathOf[uint32, uint32](g, key)
	h := home{p.bucket, tagOf[uint32, uint32](p.key)}
	for i := uint32(1); i <= functions; i++ {
		if to := g.secondary(h, halfEntries, i); !g.overlaps(h, to) && !slices.Contains(buckets, to) {
			buckets = append(buckets, to)
		}
	}
	return buckets
}

// Buckets returns the number of buckets.
func (m *Map[K, V]) Buckets() uint32 { return m.engine.geometry().buckets }
