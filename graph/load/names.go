package load

import (
	"slices"
	"strconv"
)

// Names are the names of the vertices of a file.
type Names struct {
	n       int
	base    uint64 // first of the numbers without gaps
	numbers []uint64
	strings []string
	byName  map[string]uint32 // of strings, made on first use
}

// Len returns the number of vertices.
func (n *Names) Len() int { return n.n }

// Name returns the name of a vertex.
func (n *Names) Name(v uint32) string {
	switch {
	case n.strings != nil:
		return n.strings[v]
	case n.numbers != nil:
		return strconv.FormatUint(n.numbers[v], 10)
	}
	return strconv.FormatUint(n.base+uint64(v), 10)
}

// Strings reports whether names are strings, not numbers.
func (n *Names) Strings() bool { return n.strings != nil }

// Vertex returns the vertex with a name. For strings, its first call builds an index, and must not
// run concurrently with others.
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
