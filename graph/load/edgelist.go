package load

import (
	"bytes"
	"cmp"
	"slices"
)

// lister reads lines with one edge each, of edge lists and of CSV.
type lister struct {
	s        *scanner
	e        *edges
	how      IDs
	begun    bool // the first edge has determined ids and weights
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

// counts are the counts of a header, and its line.
type counts struct {
	vertices, edges int
	line            int // 0: none
}

// list reads an edge list.
type list struct {
	csv
	header  counts
	comment counts   // counts of a comment
	held    [][]byte // words of the first line, which may be a header
	at      int      // its line
}

func readList(s *scanner, e *edges, o Options) error {
	l := &list{csv: csv{lister: lister{s: s, e: e, how: o.IDs}, o: o}}
	var w [][]byte
	for first := true; ; {
		line, ok := l.line()
		if !ok {
			break
		}
		w = fieldsOf(line, w)
		var err error
		switch {
		case len(w) < 2:
			err = malformed("the line has one id, and an edge two: %.40q%s", w[0], l.neighbors())
		case first && o.Header == HeaderYes && allNumbers(w):
			err = l.takeHeader(w)
		case first && o.Header == HeaderAuto && len(w) == 2 && allNumbers(w):
			l.at, l.held = s.line, [][]byte{slices.Clone(w[0]), slices.Clone(w[1])}
		case l.width == 0:
			err = l.beginEdges(line, first)
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

// line returns the next line that is neither empty nor a comment.
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

// read looks for counts in a comment above the edges, as SNAP writes them: "# Nodes: 7115 Edges:
// 103689".
func (l *list) read(comment []byte) {
	if l.edges > 0 || l.held != nil || l.o.Header == HeaderNo {
		return
	}
	vertices, edges := after(comment, "Nodes:"), after(comment, "Edges:")
	n, errVertices := count(vertices, "vertices")
	m, errEdges := count(edges, "edges")
	if errVertices == nil && errEdges == nil { // otherwise it is an ordinary comment
		l.comment = counts{n, m, l.s.line}
	}
}

// after returns the word after another one.
func after(line []byte, this string) []byte {
	_, rest, _ := bytes.Cut(line, []byte(this))
	w, _ := word(rest)
	return w
}

// fieldsOf splits a line into words; attributes of networkx are one: "0 1 {'weight': 3.0}".
func fieldsOf(line []byte, into [][]byte) [][]byte {
	into = into[:0]
	for {
		line = bytes.TrimLeft(line, " \t\r\v\f")
		if len(into) == 2 && len(line) > 0 && line[0] == '{' {
			return append(into, bytes.TrimRight(line, " \t\r\v\f"))
		}
		var w []byte
		if w, line = word(line); len(w) == 0 {
			return into
		}
		into = append(into, w)
	}
}

func allNumbers(w [][]byte) bool {
	return !slices.ContainsFunc(w, func(x []byte) bool { _, ok := number(x); return !ok })
}

// beginEdges processes the first edge, or, only on the first line, the names of columns before it.
func (l *list) beginEdges(line []byte, first bool) error {
	if !first {
		l.o.Header = HeaderNo
	}
	fields := fieldsOf(slices.Clone(line), nil)
	if l.o.Format == WEL && len(fields) == 2 {
		return malformed("the line has no weight")
	}
	return l.beginWith(fields, l.line)
}

// takeHeader reads the first line as a header.
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

// finish decides what the first line is, and compares counts.
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
			return &located{c.line, malformed("the comment says %d edges, and there are %d lines; --header no (HeaderNo) leaves it unread", c.edges, l.edges)}
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

// decide distinguishes a header from an edge; see the package documentation.
func (l *list) decide() error {
	n, _ := number(l.held[0])
	m, _ := number(l.held[1])
	vertices := uint64(l.e.ids.count())
	hasN, errN := l.e.ids.has(l.e, l.held[0])
	hasM, errM := l.e.ids.has(l.e, l.held[1])
	if err := cmp.Or(errN, errM); err != nil {
		return err
	}
	switch {
	case m != uint64(l.edges), n < vertices && (n == 0 || hasM), // an edge
		l.comment.line > 0 && l.comment.edges == l.edges+1:
	case n < vertices:
		return malformed("the header says %d vertices, and there are %d; --header no reads an edge", n, vertices)
	case l.edges == 0, l.width == 2 && (hasM || hasN && m <= n):
		return malformed("%d %d may be an edge, or the numbers of vertices and edges; --header no or yes says which", n, m)
	default:
		l.header = counts{int(min(n, maxVertices+1)), int(m), l.at}
		return nil
	}
	if _, text := l.e.ids.(*stringIDs); text && l.how == IDsAuto {
		return malformed("the ids are numbers, and text in the lines after it; --ids strings (IDsStrings) reads ids as text")
	}
	if l.width == 0 {
		l.width, l.first = 2, l.at
		if err := l.find(l.held, false); err != nil {
			return err
		}
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
