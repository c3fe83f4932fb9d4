package load

import (
	"bytes"
	"slices"
)

// readMatrix reads a sparse matrix in NIST's exchange format. Entry i, j is an edge from i to j.
func readMatrix(s *scanner, e *edges) error {
	line, _ := s.next()
	banner := words(bytes.ToLower(line), nil)
	if len(banner) != 5 || string(banner[0]) != "%%matrixmarket" || string(banner[1]) != "matrix" {
		return malformed("the first line is not \"%%%%MatrixMarket matrix coordinate FIELD SYMMETRY\"")
	}
	layout, field, symmetry := string(banner[2]), string(banner[3]), string(banner[4])
	switch {
	case layout != "coordinate":
		return malformed("the matrix is %.40q; want coordinate: dense matrices are not graphs",
			layout)
	case !slices.Contains([]string{"pattern", "integer", "real"}, field):
		return malformed("entries are %.40q; want pattern, integer or real", field)
	case symmetry != "general" && symmetry != "symmetric":
		return malformed("the matrix is %.40q; want general or symmetric", symmetry)
	}
	e.file.Directed = symmetry == "general"
	entries, sizeLine, err := readMatrixSize(s, e)
	if err != nil {
		return err
	}
	found := 0
	for line, ok := s.nextData("%"); ok; line, ok = s.nextData("%") {
		if found++; found > entries {
			return malformed("entry %d, but line %d says %d", found, sizeLine, entries)
		}
		if err := e.addEntry(line, field, symmetry == "symmetric"); err != nil {
			return err
		}
	}
	if s.err == nil && found < entries {
		return malformed("the file ends after %d entries, but line %d says %d", found, sizeLine,
			entries)
	}
	return s.err
}

// readMatrixSize reads the line after the comments, which has the numbers of rows, columns and
// entries. at is the number of that line.
func readMatrixSize(s *scanner, e *edges) (entries, at int, err error) {
	line, ok := s.nextData("%")
	if !ok {
		return 0, 0, malformed("the line of sizes is missing")
	}
	size := words(line, nil)
	if len(size) != 3 {
		return 0, 0, malformed("the line of sizes has %d numbers; want rows, columns, entries", len(size))
	}
	rows, err := count(size[0], "rows")
	if err != nil {
		return 0, 0, err
	}
	columns, err := count(size[1], "columns")
	if err != nil {
		return 0, 0, err
	}
	if rows != columns {
		return 0, 0, malformed("the matrix has %d rows and %d columns, but that of a graph is square", rows, columns)
	}
	if entries, err = count(size[2], "entries"); err != nil {
		return 0, 0, err
	}
	return entries, s.line, e.setVertices(rows)
}

// addEntry adds the edge of a matrix entry.
func (e *edges) addEntry(line []byte, field string, symmetric bool) error {
	row, rest := word(line)
	column, rest := word(rest)
	value, rest := word(rest)
	u, err := e.parseOneBased(row, "row")
	if err != nil {
		return err
	}
	v, err := e.parseOneBased(column, "column")
	if err != nil {
		return err
	}
	if symmetric && u < v {
		return malformed("entry %d, %d is above the diagonal, which a symmetric matrix leaves out; a general one has both", u+1, v+1)
	}
	e.add(u, v)
	if field == "pattern" {
		rest = value
	} else {
		w, err := weight(value)
		if err != nil {
			return err
		}
		if field == "integer" && !isInteger(value) {
			return malformed("value %.40q is not an integer, as the first line requires", value)
		}
		e.weight(w)
	}
	if extra, _ := word(rest); len(extra) > 0 {
		return malformed("%.40q after the entry", extra)
	}
	return nil
}
