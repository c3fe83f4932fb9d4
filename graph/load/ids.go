package load

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/linear"
)

// batchEdges is the number of edges with ids that are mapped together.
const batchEdges = 1 << 16

// denseIDs uses each id as the number of its vertex.
type denseIDs struct{ n uint64 }

func (d *denseIDs) add(e *edges, line int, from, to []byte) error {
	u, okFrom := number(from)
	v, okTo := number(to)
	if !okFrom || !okTo {
		return numberError(from, to, okFrom)
	}
	if largest := max(u, v); largest >= uint64(e.max) {
		return malformed("vertex %d: vertices are 0 to %d, the limit", largest, e.max-1)
	}
	d.n = max(d.n, u+1, v+1)
	if line > 0 {
		e.add(uint32(u), uint32(v))
	}
	return nil
}

func numberError(from, to []byte, okFrom bool) error {
	if okFrom {
		from = to
	}
	if len(from) == 0 {
		return malformed("a vertex is missing")
	}
	return malformed("vertex %.40q is not a 64-bit integer; use --ids strings (IDsStrings) to read ids as text", from)
}

func (d *denseIDs) flush(*edges) error { return nil }

func (d *denseIDs) finish(e *edges, vertices int) error {
	n := max(int(d.n), vertices)
	if vertices >= 0 && int(d.n) > vertices {
		return malformed("the header says %d vertices, but there is a vertex %d", vertices, d.n-1)
	}
	e.file.Vertices, e.file.Names = n, &Names{n: n}
	return nil
}

func (d *denseIDs) has(_ *edges, id []byte) (bool, error) {
	n, ok := number(id)
	return ok && n < d.n, nil
}

func (d *denseIDs) count() int   { return int(d.n) }
func (d *denseIDs) close() error { return nil }

// sparseIDs maps numbers to vertices. Until finish, vertices are numbered in the order of their
// first occurrence.
type sparseIDs struct {
	m              *linear.Map[uint64, uint32]
	noLeadingZeros bool     // whether leading zeros are errors
	keys           []uint64 // both ends of each deferred edge
	lines          []int    // line of each deferred edge; negative for a single vertex
	ids            []uint64 // id of each vertex
}

func newSparseIDs(dev device.Device, plain bool) (*sparseIDs, error) {
	m, err := linear.New[uint64, uint32](dev, nil)
	return &sparseIDs{m: m, noLeadingZeros: plain}, err
}

func (s *sparseIDs) add(e *edges, line int, from, to []byte) error {
	if s.noLeadingZeros {
		for _, id := range [][]byte{from, to} {
			if len(id) > 1 && id[0] == '0' {
				return malformed("vertex %.40q begins with 0; --ids sparse (IDsSparse) reads a number, --ids strings (IDsStrings) a text", id)
			}
		}
	}
	u, okFrom := number(from)
	v, okTo := number(to)
	if !okFrom || !okTo {
		return numberError(from, to, okFrom)
	}
	s.keys, s.lines = append(s.keys, u, v), append(s.lines, line)
	if len(s.lines) == batchEdges {
		return s.flush(e)
	}
	return nil
}

func (s *sparseIDs) flush(e *edges) error {
	numbers := make([]uint32, len(s.keys))
	if _, err := s.m.Assign(e.ctx, s.keys, numbers); err != nil {
		return err
	}
	for i, n := range numbers {
		if int(n) == len(s.ids) {
			if len(s.ids) == e.max {
				return &lineError{abs(s.lines[i/2]), malformed("vertex %d is one more than %d, the limit", s.keys[i], e.max)}
			}
			s.ids = append(s.ids, s.keys[i])
		}
	}
	for i, line := range s.lines {
		if line > 0 {
			e.add(numbers[2*i], numbers[2*i+1])
		}
	}
	s.keys, s.lines = s.keys[:0], s.lines[:0]
	return nil
}

func abs(n int) int { return max(n, -n) }

// finish renumbers vertices in the order of their ids. If a header has a number n of vertices that
// is greater than in the lines, the ids must fit into 0 to n-1 or 1 to n. The other vertices get
// the remaining ids.
func (s *sparseIDs) finish(e *edges, vertices int) error {
	order := make([]uint32, len(s.ids))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(s.ids[a], s.ids[b]) })
	names := &Names{n: len(s.ids)}
	numbers := make([]uint32, len(s.ids))
	if n := len(order); n > 0 {
		names.base = s.ids[order[0]]
		first, last := names.base, s.ids[order[n-1]]
		if vertices > n {
			switch names.n = vertices; {
			case last < uint64(vertices):
				names.base = 0
			case first > 0 && last <= uint64(vertices):
				names.base = 1
			default:
				return malformed("the header says %d vertices, but there are %d, up to %d, and the ids of the others are unknown", vertices, n, last)
			}
		} else if last-first >= uint64(n) {
			names.numbers = make([]uint64, n)
		}
	} else if vertices > 0 {
		names.n = vertices
	}
	for i, at := range order {
		numbers[at] = uint32(i)
		if names.numbers != nil {
			names.numbers[i] = s.ids[at]
		} else {
			numbers[at] = uint32(s.ids[at] - names.base)
		}
	}
	renumber(e.file.From, numbers)
	renumber(e.file.To, numbers)
	e.file.Vertices, e.file.Names = names.n, names
	return nil
}

func renumber(vertices, numbers []uint32) {
	for i, v := range vertices {
		vertices[i] = numbers[v]
	}
}

func (s *sparseIDs) has(e *edges, id []byte) (bool, error) {
	n, ok := number(id)
	if !ok {
		return false, nil
	}
	hits, err := s.m.Get(e.ctx, []uint64{n}, make([]uint32, 1), make([]bool, 1))
	return hits == 1, err
}

func (s *sparseIDs) count() int   { return len(s.ids) }
func (s *sparseIDs) close() error { return s.m.Close() }

// stringIDs maps strings to vertices. A map assigns a place to each hash, in the order of first
// occurrence. places has the vertex of the first string with that hash. Further strings with the
// same hash, which occur only in hostile files, are in collisions.
type stringIDs struct {
	m          *linear.Map[uint64, uint32]
	hash       func([]byte) uint64
	keys       []uint64 // hashes of both ends of each deferred edge
	bytes      []byte   // strings of the deferred edges, one after the other
	ends       []int    // offset at which each string ends in the field bytes
	lines      []int    // line of each deferred edge; negative for a single vertex
	places     []uint32 // vertex of each place
	collisions map[string]uint32
	names      []string
}

func newStringIDs(dev device.Device) (*stringIDs, error) {
	m, err := linear.New[uint64, uint32](dev, nil)
	seed := maphash.MakeSeed()
	hash := func(b []byte) uint64 { return maphash.Bytes(seed, b) }
	return &stringIDs{m: m, hash: hash, collisions: map[string]uint32{}}, err
}

// batchBytes bounds the size of the deferred strings.
const batchBytes = 4 << 20

func (s *stringIDs) add(e *edges, line int, from, to []byte) error {
	if len(from) == 0 || len(to) == 0 {
		return malformed("a vertex is missing")
	}
	for _, id := range [][]byte{from, to} {
		s.keys = append(s.keys, s.hash(id))
		s.bytes = append(s.bytes, id...)
		s.ends = append(s.ends, len(s.bytes))
	}
	s.lines = append(s.lines, line)
	if len(s.lines) == batchEdges || len(s.bytes) > batchBytes {
		return s.flush(e)
	}
	return nil
}

func (s *stringIDs) flush(e *edges) error {
	places := make([]uint32, len(s.keys))
	if _, err := s.m.Assign(e.ctx, s.keys, places); err != nil {
		return err
	}
	begin := 0
	for i, place := range places {
		id := s.bytes[begin:s.ends[i]]
		begin = s.ends[i]
		v, err := s.vertex(int(place), id, e.max)
		if err != nil {
			return &lineError{abs(s.lines[i/2]), err}
		}
		places[i] = v
	}
	for i, line := range s.lines {
		if line > 0 {
			e.add(places[2*i], places[2*i+1])
		}
	}
	s.keys, s.bytes, s.ends, s.lines = s.keys[:0], s.bytes[:0], s.ends[:0], s.lines[:0]
	return nil
}

// vertex returns the vertex of the string id, given the place of its hash. It adds a new string, or
// returns an error if the number of vertices has reached limit.
func (s *stringIDs) vertex(place int, id []byte, limit int) (uint32, error) {
	if place < len(s.places) {
		if v := s.places[place]; s.names[v] == string(id) {
			return v, nil
		}
		if v, ok := s.collisions[string(id)]; ok {
			return v, nil
		}
	}
	if len(s.names) == limit {
		return 0, malformed("vertex %.40q is one more than %d, the limit", id, limit)
	}
	v, name := uint32(len(s.names)), string(id)
	s.names = append(s.names, name)
	if place == len(s.places) {
		s.places = append(s.places, v)
	} else {
		s.collisions[name] = v
	}
	return v, nil
}

func (s *stringIDs) finish(e *edges, vertices int) error {
	if vertices > len(s.names) {
		return malformed("the header says %d vertices, but there are %d, and the names of the others are unknown", vertices, len(s.names))
	}
	if s.names == nil {
		s.names = []string{}
	}
	e.file.Vertices, e.file.Names = len(s.names), &Names{n: len(s.names), strings: s.names}
	return nil
}

func (s *stringIDs) has(_ *edges, id []byte) (bool, error) {
	return slices.Contains(s.names, string(id)), nil
}

func (s *stringIDs) count() int   { return len(s.names) }
func (s *stringIDs) close() error { return s.m.Close() }
