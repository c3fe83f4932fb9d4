package load

import (
	"slices"
	"strconv"
)

// Names are what the vertices of a file are called in it.
type Names struct {
	n       int
	base    uint64 // of numbers without gaps, the first
	numbers []uint64
	strings []string
	byName  map[string]uint32 // of strings, made when it is asked for
}

// Len is the number of vertices.
func (n *Names) Len() int { return n.n }

// Name is what a vertex is called.
func (n *Names) Name(v uint32) string {
	switch {
	case n.strings != nil:
		return n.strings[v]
	case n.numbers != nil:
		return strconv.FormatUint(n.numbers[v], 10)
	}
	return strconv.FormatUint(n.base+uint64(v), 10)
}

// Strings reports whether names are strings, and not numbers.
func (n *Names) Strings() bool { return n.strings != nil }

// Vertex is the vertex of a name. Its first call on strings makes an index of them, so it must not be called at the same time as others.
func (n *Names) Vertex(name string) (v uint32, ok bool) {
	if n.strings != nil {
		if n.byName == nil {
			n.byName = make(map[string]uint32, len(n.strings))
			for v, s := range n.strings {
				n.byName[s] = uint32(v)
			}
		}
		v, ok = n.byName[name]
		return v, ok
	}
	x, ok := number([]byte(name))
	if !ok {
		return 0, false
	}
	if n.numbers != nil {
		at, found := slices.BinarySearch(n.numbers, x)
		return uint32(at), found
	}
	if x < n.base || x-n.base >= uint64(n.n) {
		return 0, false
	}
	return uint32(x - n.base), true
}
