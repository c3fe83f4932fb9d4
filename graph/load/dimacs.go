package load

// readDIMACS reads a .gr file: comments "c", "p sp VERTICES ARCS" once, and lines "a FROM TO
// WEIGHT".
func readDIMACS(s *scanner, e *edges) error {
	e.file.Directed = true
	arcs, found, problemLine := 0, 0, 0
	var w [][]byte
	for line, ok := s.nextData(""); ok; line, ok = s.nextData("") {
		w = words(line, w)
		switch kind := string(w[0]); {
		case kind == "c":
		case kind == "p" && problemLine > 0:
			return malformed("a second line \"p\", after line %d", problemLine)
		case kind == "p":
			if len(w) != 4 || string(w[1]) != "sp" {
				return malformed("want \"p sp VERTICES ARCS\"")
			}
			n, err := count(w[2], "vertices")
			if err != nil {
				return err
			}
			if arcs, err = count(w[3], "arcs"); err != nil {
				return err
			}
			if err := e.setVertices(n); err != nil {
				return err
			}
			problemLine = s.line
		case kind == "a" && problemLine == 0:
			return malformed("an arc before the line \"p sp VERTICES ARCS\"")
		case kind == "a":
			if found++; found > arcs {
				return malformed("arc %d, but line %d says %d", found, problemLine, arcs)
			}
			if err := e.addArc(w[1:]); err != nil {
				return err
			}
		default:
			return malformed("the line begins with %.40q; want c, p or a", kind)
		}
	}
	switch {
	case s.err != nil:
		return s.err
	case problemLine == 0:
		return malformed("the line \"p sp VERTICES ARCS\" is missing")
	case found < arcs:
		return malformed("the file ends after %d arcs, but line %d says %d", found, problemLine,
			arcs)
	}
	return nil
}

// addArc adds the arc of a line. w holds the words of the line after "a".
func (e *edges) addArc(w [][]byte) error {
	if len(w) != 3 {
		return malformed("want \"a FROM TO WEIGHT\"")
	}
	u, err := e.parseOneBased(w[0], "vertex")
	if err != nil {
		return err
	}
	v, err := e.parseOneBased(w[1], "vertex")
	if err != nil {
		return err
	}
	x, err := weight(w[2])
	if err != nil {
		return err
	}
	if !isInteger(w[2]) {
		return malformed("weight %.40q is not an integer", w[2])
	}
	e.add(u, v)
	e.weight(x)
	return nil
}
