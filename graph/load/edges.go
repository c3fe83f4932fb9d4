package load

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/weftgo/weft/device"
)

// edges collects the edges of a file and converts ids to vertices.
type edges struct {
	ctx        context.Context
	dev        device.Device
	file       *File
	ids        ids
	max        int
	unweighted bool
}

// ids converts ids of one kind to vertices. It receives edges in the order of the file, and may
// defer their conversion until flush.
type ids interface {
	// add adds an edge. If line is negative, from and to are a single vertex without an edge.
	add(e *edges, line int, from, to []byte) error
	flush(e *edges) error
	// finish sets the number of vertices and their names. vertices is the number in a header, or
	// -1.
	finish(e *edges, vertices int) error
	// has reports whether id is the id of a vertex. Call flush before has.
	has(e *edges, id []byte) (bool, error)
	count() int
	close() error
}

func (e *edges) close() {
	if e.ids != nil {
		e.ids.close() // only a map in memory; its errors are of no interest
	}
}

// chooseIDs sets the kind of ids. If kind is IDsAuto, the ids of the first edge determine it: they
// are numbers if one of them looks like a number.
func (e *edges) chooseIDs(kind IDs, from, to []byte) (err error) {
	auto := kind == IDsAuto
	if auto {
		kind = IDsStrings
		if looksNumeric(from) || looksNumeric(to) {
			kind = IDsSparse
		}
	}
	switch kind {
	case IDsDense:
		e.ids = &denseIDs{}
	case IDsSparse:
		e.ids, err = newSparseIDs(e.dev, auto)
	default:
		e.ids, err = newStringIDs(e.dev)
	}
	return err
}

// looksNumeric reports whether an id is a number of any kind. -2 and 1.0 are not valid ids, but
// they are not names either.
func looksNumeric(id []byte) bool {
	_, err := strconv.ParseFloat(string(id), 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && bytes.ContainsAny(id, "0123456789")
}

// add adds an edge between numbered vertices.
func (e *edges) add(from, to uint32) {
	e.file.From, e.file.To = append(e.file.From, from), append(e.file.To, to)
}

// weight adds the weight of the last edge.
func (e *edges) weight(w float64) {
	if !e.unweighted {
		e.file.Weights = append(e.file.Weights, w)
	}
}

// parseOneBased converts the number of a vertex in a file that numbers vertices from 1.
func (e *edges) parseOneBased(word []byte, role string) (uint32, error) {
	n, ok := number(word)
	switch {
	case len(word) == 0:
		return 0, malformed("a %s is missing", role)
	case !ok:
		return 0, malformed("%s %.40q is not a number", role, word)
	case n < 1 || n > uint64(e.file.Vertices):
		return 0, malformed("%s %d: vertices are 1 to %d", role, n, e.file.Vertices)
	}
	return uint32(n - 1), nil
}

// setVertices sets the number of vertices of a file that numbers them from 1.
func (e *edges) setVertices(vertices int) error {
	if vertices > e.max {
		return malformed("%d vertices, more than %d, the limit", vertices, e.max)
	}
	e.file.Vertices = vertices
	e.file.Names = &Names{n: vertices, base: 1}
	return nil
}

// integral reports whether all weights are exact integers.
func (e *edges) integral() bool {
	for _, w := range e.file.Weights {
		if w != math.Trunc(w) || math.Abs(w) > maxExact {
			return false
		}
	}
	return true
}
