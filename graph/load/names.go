package load

import (
	"slices"
	"strconv"
)

// Names holds the names of the vertices in a file: strings, or numbers.
type Names struct {
	n       int
	base    uint64 // name of vertex 0, if names are numbers without gaps
	numbers []uint64
	strings []string
	byName  map[string]uint32 // index of strings, made on first use
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

// Strings reports whether names are strings rather than numbers.
func (n *Names) Strings() bool { return n.strings != nil }

// Vertex returns the vertex with a name. If names are strings, the first call builds an index and
// must not run concurrently with other calls.
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
