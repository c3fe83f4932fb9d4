package load

import "bytes"

// readNeighbors reads an adjacency list. A line has an id and the ids of its neighbors. A line with
// only one id adds the vertex without an edge.
func readNeighbors(s *scanner, e *edges, o Options) error {
	l := &edgeReader{s: s, e: e, idKind: o.IDs}
	var w [][]byte
	for line, ok := s.next(); ok; line, ok = s.next() {
		if line = bytes.TrimSpace(line); len(line) == 0 || isComment(line) {
			continue
		}
		w = words(line, w)
		if len(w) == 1 {
			if o.IDs == IDsAuto && bytes.ContainsAny(w[0], separators) {
				return malformed("the line has one id, %.40q, but ids have white space between them; --ids strings (IDsStrings) takes it", w[0])
			}
			if err := l.addEdge(-s.line, w[0], w[0], nil); err != nil {
				return err
			}
			continue
		}
		for _, to := range w[1:] {
			if err := l.addEdge(s.line, w[0], to, nil); err != nil {
				return err
			}
		}
	}
	if s.err != nil {
		return s.err
	}
	if err := l.flush(); err != nil {
		return err
	}
	return e.ids.finish(e, -1)
}
