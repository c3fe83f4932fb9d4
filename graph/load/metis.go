package load

import (
	"hash/maphash"
	"math"
)

// metis reads a .graph file: a line of sizes, followed by a line per vertex that lists its
// neighbors.
type metis struct {
	s               *scanner
	e               *edges
	edges           int
	sized, weighted bool // whether vertices have a size, and edges a weight
	weights         int  // number of weights of each vertex
	headerLine      int  // line number of the line of sizes
	entries         int
	seed            maphash.Seed
	lines           []int // line number of each vertex
	// sum of the hashes of the edges that each vertex lists to smaller vertices
	sums []uint64
}

// readMETIS reads the edges that both ends list, checks that they agree, and keeps one of each
// pair. It drops sizes and weights of vertices.
func readMETIS(s *scanner, e *edges) error {
	s.maxLen = maxRow
	m := &metis{s: s, e: e, seed: maphash.MakeSeed()}
	if e.unweighted { // compare weights, and drop them afterwards
		e.unweighted = false
		defer func() { e.file.Weights = nil }()
	}
	line, ok := s.nextData("%")
	if !ok {
		if s.err != nil {
			return s.err
		}
		return malformed("the line of sizes is missing")
	}
	if err := m.readHeader(words(line, nil)); err != nil {
		return err
	}
	v, n := 0, e.file.Vertices
	for line, ok := s.next(); ok; line, ok = s.next() {
		if len(line) > 0 && line[0] == '%' {
			continue
		}
		if v == n {
			if w, _ := word(line); len(w) > 0 {
				return malformed("a line after those of the %d vertices of line %d", n,
					m.headerLine)
			}
			continue
		}
		m.lines, m.sums = append(m.lines, s.line), append(m.sums, 0)
		if err := m.readVertex(uint32(v), line); err != nil {
			return err
		}
		v++
	}
	switch {
	case s.err != nil:
		return s.err
	case v < n:
		return malformed("the file ends after %d vertices, but line %d says %d", v, m.headerLine, n)
	case m.entries != 2*m.edges:
		return &lineError{m.headerLine, malformed("the line says %d edges, but the vertices have %d neighbors, which is not twice as many", m.edges, m.entries)}
	}
	return m.checkSymmetry()
}

// readHeader reads the line of sizes: vertices, edges, a format of three digits, and the number of
// weights of a vertex.
func (m *metis) readHeader(w [][]byte) error {
	if len(w) < 2 || len(w) > 4 {
		return malformed("the line of sizes has %d numbers; want vertices, edges, and perhaps format and weights of a vertex", len(w))
	}
	n, err := count(w[0], "vertices")
	if err != nil {
		return err
	}
	if m.edges, err = count(w[1], "edges"); err != nil {
		return err
	}
	m.headerLine = m.s.line
	if len(w) > 2 {
		format := w[2]
		for _, c := range format {
			if c != '0' && c != '1' || len(format) > 3 {
				return malformed("format %.40q; want three digits, 0 or 1", format)
			}
		}
		flag := func(i int) bool { return len(format) >= i && format[len(format)-i] == '1' }
		m.weighted, m.sized = flag(1), flag(3)
		if flag(2) {
			m.weights = 1
		}
	}
	if len(w) > 3 {
		k, err := count(w[3], "weights")
		if err != nil {
			return err
		}
		if m.weights == 0 && k > 0 {
			return malformed("%d weights per vertex, but format %.40q has none", k, w[2])
		}
		m.weights = k
	}
	m.e.file.VertexWeights = m.sized || m.weights > 0
	return m.e.setVertices(n)
}

func (m *metis) readVertex(v uint32, line []byte) error {
	skip := m.weights
	if m.sized {
		skip++
	}
	for range skip {
		var w []byte
		if w, line = word(line); len(w) == 0 {
			return malformed("vertex %d does not have the %d sizes and weights of line %d", v+1,
				skip, m.headerLine)
		}
		if _, err := weight(w); err != nil {
			return err
		}
	}
	for {
		var w []byte
		if w, line = word(line); len(w) == 0 {
			return nil
		}
		u, err := m.e.parseOneBased(w, "neighbor")
		if err != nil {
			return err
		}
		if u == v {
			return malformed("vertex %d is its own neighbor", v+1)
		}
		if err := m.readNeighbor(v, u, &line); err != nil {
			return err
		}
	}
}

// readNeighbor processes a neighbor of a vertex, and reads the weight of the edge from the line.
func (m *metis) readNeighbor(v, u uint32, line *[]byte) error {
	x := 0.
	if m.weighted {
		var w []byte
		if w, *line = word(*line); len(w) == 0 {
			return malformed("the edge from %d to %d has no weight, which line %d requires", v+1,
				u+1, m.headerLine)
		}
		var err error
		if x, err = weight(w); err != nil {
			return err
		}
		if !isInteger(w) {
			return malformed("weight %.40q is not an integer", w)
		}
	}
	m.entries++
	if v > u {
		m.sums[v] += m.hashEdge(u, v, x)
	}
	if v < u {
		m.e.add(v, u)
		if m.weighted {
			m.e.weight(x)
		}
	}
	return nil
}

// hashEdge returns the hash of an edge from u to a larger vertex v.
func (m *metis) hashEdge(u, v uint32, weight float64) uint64 {
	// -0 becomes 0
	return maphash.Comparable(m.seed,
		[2]uint64{uint64(u)<<32 | uint64(v), math.Float64bits(weight + 0)})
}

// checkSymmetry checks that both ends of each edge list it with the same weight. It compares sums
// of hashes for each vertex.
func (m *metis) checkSymmetry() error {
	f := m.e.file
	for i, u := range f.From {
		x := 0.
		if m.weighted {
			x = f.Weights[i]
		}
		m.sums[f.To[i]] -= m.hashEdge(u, f.To[i], x)
	}
	for v, sum := range m.sums {
		if sum != 0 {
			return &lineError{m.lines[v], malformed("vertex %d and smaller ones list different edges between them, or different weights", v+1)}
		}
	}
	return nil
}
