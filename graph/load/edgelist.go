package load

import (
	"bytes"
	"slices"
)

// lister takes lines that are an edge each, of edge lists and of CSV.
type lister struct {
	s        *scanner
	e        *edges
	how      IDs
	begun    bool // an edge has decided about ids and weights
	weighted bool
	edges    int
}

// edge adds the edge of a line; w is empty if the line has no weight.
func (l *lister) edge(line int, from, to, w []byte) error {
	if !l.begun {
		l.begun = true
		if err := l.e.choose(l.how, from, to); err != nil {
			return err
		}
	}
	if l.weighted {
		x, err := weight(w)
		if err != nil {
			return err
		}
		l.e.weight(x)
	}
	l.edges++
	return l.e.ids.add(l.e, line, from, to)
}

// flush numbers all vertices of the lines that were read.
func (l *lister) flush() error {
	if !l.begun {
		if err := l.e.choose(l.how, []byte{'0'}, []byte{'0'}); err != nil {
			return err
		}
		l.begun = true
	}
	return l.e.ids.flush(l.e)
}

// counts are what a header says, and in which line.
type counts struct {
	vertices, edges int
	line            int // 0: there is none
}

// list reads an edge list.
type list struct {
	lister
	o       Options
	columns int // 2, or 3 for more; 0 before the first edge
	header  counts
	comment counts   // what a comment says
	held    [][]byte // of the first line, which may be a header
	at      int      // its number
}

func readList(s *scanner, e *edges, o Options) error {
	l := &list{lister: lister{s: s, e: e, how: o.IDs}, o: o}
	var w [][]byte
	for first := true; ; {
		line, ok := l.line()
		if !ok {
			break
		}
		w = words(line, w)
		var err error
		switch {
		case first && o.Header == HeaderFirst:
			err = l.takeHeader(w)
		case first && o.Header == HeaderAuto && twoNumbers(w):
			l.at, l.held = s.line, [][]byte{slices.Clone(w[0]), slices.Clone(w[1])}
		default:
			err = l.add(s.line, w)
		}
		if err != nil {
			return err
		}
		first = false
	}
	if s.err != nil {
		return s.err
	}
	return l.finish()
}

// line returns the next line that is not empty, and no comment.
func (l *list) line() ([]byte, bool) {
	for {
		line, ok := l.s.next()
		if !ok {
			return nil, false
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !isComment(line) {
			return line, true
		}
		l.read(line)
	}
}

// read looks for counts in a comment above the edges, as SNAP writes them: "# Nodes: 7115 Edges: 103689".
func (l *list) read(comment []byte) {
	if l.edges > 0 || l.held != nil || l.o.Header == HeaderNone {
		return
	}
	vertices, edges := after(comment, "Nodes:"), after(comment, "Edges:")
	n, errVertices := count(vertices, "vertices")
	m, errEdges := count(edges, "edges")
	if errVertices == nil && errEdges == nil { // else it is a comment like others
		l.comment = counts{n, m, l.s.line}
	}
}

// after is the word behind another one.
func after(line []byte, this string) []byte {
	_, rest, _ := bytes.Cut(line, []byte(this))
	w, _ := word(rest)
	return w
}

func twoNumbers(w [][]byte) bool {
	if len(w) != 2 {
		return false
	}
	_, a := number(w[0])
	_, b := number(w[1])
	return a && b
}

// takeHeader takes the first line for a header.
func (l *list) takeHeader(w [][]byte) (err error) {
	if len(w) != 2 {
		return malformed("the header has %d words; it says how many vertices and edges there are", len(w))
	}
	l.header.line = l.s.line
	if l.header.vertices, err = count(w[0], "vertices"); err != nil {
		return err
	}
	l.header.edges, err = count(w[1], "edges")
	return err
}

// add adds the edge of a line.
func (l *list) add(line int, w [][]byte) error {
	if len(w) < 2 {
		return malformed("the line has one id, and an edge two: %.40q", w[0])
	}
	if l.columns == 0 {
		l.columns = min(len(w), 3)
		if len(w) > 2 {
			_, err := weight(w[2])
			l.weighted = err == nil
		}
		if l.o.Format == WEL && !l.weighted {
			return malformed("the line has no weight")
		}
	}
	switch {
	case l.columns == 2 && len(w) > 2:
		return malformed("the line has %d columns, and those before have two", len(w))
	case l.columns == 3 && len(w) == 2:
		return malformed("the line has two columns, and those before have more")
	}
	var of []byte
	if len(w) > 2 {
		of = w[2]
	}
	return l.edge(line, w[0], w[1], of)
}

// finish decides what the first line was, and compares counts.
func (l *list) finish() error {
	if err := l.flush(); err != nil {
		return err
	}
	if l.held != nil {
		if err := l.decide(); err != nil {
			return &located{l.at, err}
		}
	}
	if h := l.header; h.line > 0 && h.edges != l.edges {
		return &located{h.line, malformed("the header says %d edges, and %d lines follow", h.edges, l.edges)}
	}
	if c := l.comment; c.line > 0 {
		if c.edges != l.edges {
			return &located{c.line, malformed("the comment says %d edges, and there are %d lines; Header none leaves it unread", c.edges, l.edges)}
		}
		if found := l.e.ids.count(); found > c.vertices {
			return &located{c.line, malformed("the comment says %d vertices, and there are %d", c.vertices, found)}
		}
	}
	vertices := -1
	if l.header.line > 0 {
		l.e.file.Header = true
		vertices = l.header.vertices
		if found := l.e.ids.count(); found > vertices {
			return &located{l.header.line, malformed("the header says %d vertices, and there are %d", vertices, found)}
		}
		if vertices > l.e.max {
			return &located{l.header.line, malformed("the header says %d vertices, more than %d, the limit", vertices, l.e.max)}
		}
	}
	if err := l.e.ids.finish(l.e, vertices); err != nil {
		return &located{l.header.line, err}
	}
	return nil
}

// decide tells a header from an edge: see the package documentation.
func (l *list) decide() error {
	n, _ := number(l.held[0])
	m, _ := number(l.held[1])
	isEdge := m != uint64(l.edges)
	if !isEdge && n < uint64(l.e.ids.count()) {
		found, err := l.e.ids.has(l.e, l.held[1])
		if err != nil {
			return err
		}
		isEdge = n == 0 || found
	}
	if !isEdge {
		l.header = counts{int(min(n, maxVertices+1)), int(m), l.at}
		return nil
	}
	if err := l.add(l.at, l.held); err != nil {
		return err
	}
	if err := l.e.ids.flush(l.e); err != nil {
		return err
	}
	toFront(l.e.file.From)
	toFront(l.e.file.To)
	return nil
}

// toFront moves the last element to the front.
func toFront(list []uint32) {
	if n := len(list); n > 0 {
		last := list[n-1]
		copy(list[1:], list[:n-1])
		list[0] = last
	}
}
