package load

import (
	"bytes"
	"cmp"
	"slices"
)

// edgeReader processes lines with one edge each.
type edgeReader struct {
	s        *scanner
	e        *edges
	idKind   IDs
	begun    bool // whether the first edge has determined the kind of ids
	weighted bool
	edges    int
}

// addEdge adds the edge of a line. w is empty if the line has no weight.
func (l *edgeReader) addEdge(line int, from, to, w []byte) error {
	if !l.begun {
		l.begun = true
		if err := l.e.chooseIDs(l.idKind, from, to); err != nil {
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

// flush converts the ids of all lines read so far.
func (l *edgeReader) flush() error {
	if !l.begun {
		if err := l.e.chooseIDs(l.idKind, []byte{'0'}, []byte{'0'}); err != nil {
			return err
		}
		l.begun = true
	}
	return l.e.ids.flush(l.e)
}

// counts holds the counts of a header or a comment.
type counts struct {
	vertices, edges int
	line            int // line number, or 0 without counts
}

// listReader reads an edge list.
type listReader struct {
	csv
	header     counts
	comment    counts   // counts in a comment
	firstWords [][]byte // words of the first line if it may be a header
	firstLine  int      // line number of firstWords
}

func readList(s *scanner, e *edges, o Options) error {
	l := &listReader{csv: csv{edgeReader: edgeReader{s: s, e: e, idKind: o.IDs}, o: o}}
	var w [][]byte
	for first := true; ; {
		line, ok := l.nextLine()
		if !ok {
			break
		}
		w = fieldsOf(line, w)
		var err error
		switch {
		case len(w) < 2:
			err = malformed("the line has one id, but an edge has two: %.40q%s", w[0],
				l.adjListHint())
		case first && o.Header == HeaderYes && allNumbers(w):
			err = l.readHeader(w)
		case first && o.Header == HeaderAuto && len(w) == 2 && allNumbers(w):
			l.firstLine, l.firstWords = s.line, [][]byte{slices.Clone(w[0]), slices.Clone(w[1])}
		case l.width == 0:
			err = l.beginEdges(line, first)
		default:
			err = l.addLine(s.line, w)
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

// nextLine returns the next line that is neither empty nor a comment.
func (l *listReader) nextLine() ([]byte, bool) {
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
		l.readCounts(line)
	}
}

// readCounts reads the counts in a SNAP comment above the edges: "# Nodes: 7115 Edges: 103689".
func (l *listReader) readCounts(comment []byte) {
	if l.edges > 0 || l.firstWords != nil || l.o.Header == HeaderNo {
		return
	}
	vertices, edges := wordAfter(comment, "Nodes:"), wordAfter(comment, "Edges:")
	n, errVertices := count(vertices, "vertices")
	m, errEdges := count(edges, "edges")
	if errVertices == nil && errEdges == nil { // otherwise it is an ordinary comment
		l.comment = counts{n, m, l.s.line}
	}
}

// wordAfter returns the word that follows a label.
func wordAfter(line []byte, label string) []byte {
	_, rest, _ := bytes.Cut(line, []byte(label))
	w, _ := word(rest)
	return w
}

// fieldsOf splits a line into words. Attributes of networkx are one word: "0 1 {'weight': 3.0}".
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

// beginEdges processes the first line with an edge or with column names. Only the first line of the
// file, for which first is true, can have column names.
func (l *listReader) beginEdges(line []byte, first bool) error {
	if !first {
		l.o.Header = HeaderNo
	}
	fields := fieldsOf(slices.Clone(line), nil)
	if l.o.Format == WEL && len(fields) == 2 {
		return malformed("the line has no weight")
	}
	return l.readFirstFields(fields, l.nextLine)
}

// readHeader reads the words of the first line as a header.
func (l *listReader) readHeader(w [][]byte) (err error) {
	if len(w) != 2 {
		return malformed("the header has %d words, want the numbers of vertices and edges", len(w))
	}
	l.header.line = l.s.line
	if l.header.vertices, err = count(w[0], "vertices"); err != nil {
		return err
	}
	l.header.edges, err = count(w[1], "edges")
	return err
}

// finish decides whether the first line is a header, checks the counts, and numbers the vertices.
func (l *listReader) finish() error {
	if err := l.flush(); err != nil {
		return err
	}
	if l.firstWords != nil {
		if err := l.resolveFirstLine(); err != nil {
			return &lineError{l.firstLine, err}
		}
	}
	if h := l.header; h.line > 0 && h.edges != l.edges {
		return &lineError{h.line, malformed("the header says %d edges, but %d lines follow",
			h.edges, l.edges)}
	}
	if c := l.comment; c.line > 0 {
		if c.edges != l.edges {
			return &lineError{c.line, malformed("the comment says %d edges, but there are %d lines; --header no (HeaderNo) ignores it", c.edges, l.edges)}
		}
		if found := l.e.ids.count(); found > c.vertices {
			return &lineError{c.line, malformed("the comment says %d vertices, but there are %d",
				c.vertices, found)}
		}
	}
	vertices := -1
	if l.header.line > 0 {
		l.e.file.Header = true
		vertices = l.header.vertices
		if found := l.e.ids.count(); found > vertices {
			return &lineError{l.header.line, malformed("the header says %d vertices, but there are %d", vertices, found)}
		}
		if vertices > l.e.max {
			return &lineError{l.header.line, malformed("the header says %d vertices, more than %d, the limit", vertices, l.e.max)}
		}
	}
	if err := l.e.ids.finish(l.e, vertices); err != nil {
		return &lineError{l.header.line, err}
	}
	return nil
}

// resolveFirstLine decides whether the first line is a header or an edge; see the package comment.
func (l *listReader) resolveFirstLine() error {
	n, _ := number(l.firstWords[0])
	m, _ := number(l.firstWords[1])
	vertices := uint64(l.e.ids.count())
	hasN, errN := l.e.ids.has(l.e, l.firstWords[0])
	hasM, errM := l.e.ids.has(l.e, l.firstWords[1])
	if err := cmp.Or(errN, errM); err != nil {
		return err
	}
	switch {
	case m != uint64(l.edges), n < vertices && (n == 0 || hasM), // an edge
		l.comment.line > 0 && l.comment.edges == l.edges+1:
	case n < vertices:
		return malformed("the header says %d vertices, but there are %d; --header no reads an edge",
			n, vertices)
	case l.edges == 0, l.width == 2 && (hasM || hasN && m <= n):
		return malformed("%d %d may be an edge, or the numbers of vertices and edges; set --header no or --header yes", n, m)
	default:
		l.header = counts{int(min(n, maxVertices+1)), int(m), l.firstLine}
		return nil
	}
	if _, text := l.e.ids.(*stringIDs); text && l.idKind == IDsAuto {
		return malformed("the ids are numbers here and text in later lines; use --ids strings (IDsStrings) to read ids as text")
	}
	if l.width == 0 {
		l.width, l.first = 2, l.firstLine
		if err := l.findColumns(l.firstWords, false); err != nil {
			return err
		}
	}
	if err := l.addLine(l.firstLine, l.firstWords); err != nil {
		return err
	}
	if err := l.e.ids.flush(l.e); err != nil {
		return err
	}
	moveToFront(l.e.file.From)
	moveToFront(l.e.file.To)
	return nil
}

func moveToFront(list []uint32) {
	if n := len(list); n > 0 {
		last := list[n-1]
		copy(list[1:], list[:n-1])
		list[0] = last
	}
}
