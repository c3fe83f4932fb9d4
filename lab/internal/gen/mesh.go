package gen

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/graph"
)

// mesh is a Delaunay triangulation of the points inserted so far. Each hull edge also belongs to an
// outer triangle, which has a corner at infinity: the vertex after the last point (Shewchuk calls
// it a ghost). So every triangle has three neighbors.
type mesh struct {
	points    []point
	infinity  uint32
	triangles []triangle
	free      []int32  // indices of unused triangles
	stamps    []uint32 // for each triangle, 1 plus the point whose cavity contained it
	last      int32    // triangle that was made last; searches start there
	corners   [3]uint32

	cavity []int32
	border []edge
	from   []int32 // for each vertex, the new triangle at the border edge that begins there
}

// triangle has its corners in counterclockwise order. Neighbor i is opposite corner i.
type triangle struct {
	corner   [3]uint32
	neighbor [3]int32
}

// edge is a border edge of a cavity, counterclockwise, and the triangle outside.
type edge struct {
	a, b    uint32
	outside int32
}

// newMesh returns a mesh of one triangle of points. It returns false if all points are collinear.
func newMesh(points []point) (*mesh, bool) {
	m := &mesh{points: points, infinity: uint32(len(points)), from: make([]int32, len(points)+1)}
	for k := 2; k < len(points); k++ {
		orient := m.orientation(0, 1, uint32(k))
		if orient == 0 {
			continue
		}
		a, b, c := uint32(0), uint32(1), uint32(k)
		if orient < 0 {
			a, b = b, a
		}
		m.corners = [3]uint32{a, b, c}
		w := m.infinity
		m.triangles = []triangle{
			{[3]uint32{a, b, c}, [3]int32{2, 3, 1}},
			{[3]uint32{b, a, w}, [3]int32{3, 2, 0}},
			{[3]uint32{c, b, w}, [3]int32{1, 3, 0}},
			{[3]uint32{a, c, w}, [3]int32{2, 1, 0}},
		}
		m.stamps = make([]uint32, 4)
		return m, true
	}
	return m, false
}

// line adds the edges between adjacent points, which must be collinear.
func (m *mesh) line(e *graph.Edges) {
	order := make([]uint32, len(m.points))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int {
		p, q := m.points[i], m.points[j]
		return int(int64(p.x)-int64(q.x))<<32 + int(int64(p.y)-int64(q.y))
	})
	for i := 1; i < len(order); i++ {
		add(e, order[i-1], order[i])
	}
}

// edges adds all edges. Each edge belongs to two triangles, in opposite directions.
func (m *mesh) edges(e *graph.Edges) {
	for _, i := range m.free {
		m.triangles[i].corner = [3]uint32{m.infinity, m.infinity, m.infinity}
	}
	for i := range m.triangles {
		c := &m.triangles[i].corner
		for k := range c {
			if u, v := c[k], c[(k+1)%3]; u < v && v != m.infinity {
				add(e, u, v)
			}
		}
	}
}

// insert inserts a point. It removes all triangles that have the point in their circumcircle. New
// triangles connect the point with the border of the cavity.
func (m *mesh) insert(p uint32) {
	m.removeConflicting(p, m.locate(p))
	for _, s := range m.border {
		t := m.place(triangle{[3]uint32{s.a, s.b, p}, [3]int32{0, 0, s.outside}})
		m.from[s.a] = t
		o := &m.triangles[s.outside]
		for k := range o.corner {
			if o.corner[(k+1)%3] == s.b && o.corner[(k+2)%3] == s.a {
				o.neighbor[k] = t
			}
		}
		m.last = t
	}
	for _, s := range m.border {
		t, next := m.from[s.a], m.from[s.b]
		m.triangles[t].neighbor[0] = next
		m.triangles[next].neighbor[1] = t
	}
}

// place stores a triangle and returns its index.
func (m *mesh) place(t triangle) int32 {
	if n := len(m.free); n > 0 {
		at := m.free[n-1]
		m.free = m.free[:n-1]
		m.triangles[at] = t
		return at
	}
	m.triangles, m.stamps = append(m.triangles, t), append(m.stamps, 0)
	return int32(len(m.triangles) - 1)
}

// locate returns a triangle that contains a point. If the point is outside the hull, it returns the
// outer triangle of a hull edge that separates the point from the hull.
func (m *mesh) locate(p uint32) int32 {
	at := m.last
	t := &m.triangles[at]
	if k := slices.Index(t.corner[:], m.infinity); k >= 0 {
		at = t.neighbor[k]
	}
walk:
	for {
		t := &m.triangles[at]
		if slices.Contains(t.corner[:], m.infinity) {
			return at
		}
		for k := range 3 {
			if m.orientation(t.corner[(k+1)%3], t.corner[(k+2)%3], p) < 0 {
				at = t.neighbor[k]
				continue walk
			}
		}
		return at
	}
}

// removeConflicting determines the cavity of a point, starting at one of its triangles, and the
// border of the cavity. The triangles of the cavity become free.
func (m *mesh) removeConflicting(p uint32, start int32) {
	m.cavity, m.border = append(m.cavity[:0], start), m.border[:0]
	m.stamps[start] = p + 1
	for i := 0; i < len(m.cavity); i++ {
		t := &m.triangles[m.cavity[i]]
		for k, n := range t.neighbor {
			switch {
			case m.stamps[n] == p+1:
			case m.conflicts(n, p):
				m.stamps[n] = p + 1
				m.cavity = append(m.cavity, n)
			default:
				m.border = append(m.border, edge{t.corner[(k+1)%3], t.corner[(k+2)%3], n})
			}
		}
	}
	m.free = append(m.free, m.cavity...)
}

// conflicts reports whether a point lies within the circumcircle of a triangle. For an outer
// triangle, it reports whether the point lies beyond the hull edge, or on it.
func (m *mesh) conflicts(at int32, p uint32) bool {
	t := &m.triangles[at]
	k := slices.Index(t.corner[:], m.infinity)
	if k < 0 {
		return m.inCircle(t.corner[0], t.corner[1], t.corner[2], p)
	}
	a, b := t.corner[(k+1)%3], t.corner[(k+2)%3]
	orient := m.orientation(a, b, p)
	return orient > 0 || orient == 0 && m.isBetween(a, b, p)
}

// isBetween reports whether point p, on the line through a and b, lies between them.
func (m *mesh) isBetween(a, b, p uint32) bool {
	q, r, s := m.points[a], m.points[b], m.points[p]
	return min(q.x, r.x) <= s.x && s.x <= max(q.x, r.x) && min(q.y, r.y) <= s.y && s.y <= max(q.y, r.y)
}

// orientation is positive if three points turn left, negative if they turn right, and 0 if they are
// collinear.
func (m *mesh) orientation(a, b, c uint32) int64 {
	p, q, r := m.points[a], m.points[b], m.points[c]
	return (int64(q.x)-int64(p.x))*(int64(r.y)-int64(p.y)) - (int64(q.y)-int64(p.y))*(int64(r.x)-int64(p.x))
}

// inCircle reports whether p lies within the circle through a, b and c, which must turn left.
func (m *mesh) inCircle(a, b, c, p uint32) bool {
	var lift, minor [3]int64
	var dx, dy [3]int64
	o := m.points[p]
	for i, v := range [3]uint32{a, b, c} {
		dx[i], dy[i] = int64(m.points[v].x)-int64(o.x), int64(m.points[v].y)-int64(o.y)
		lift[i] = dx[i]*dx[i] + dy[i]*dy[i]
	}
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		minor[i] = dx[j]*dy[k] - dy[j]*dx[k]
	}
	// Floats suffice except for points almost on the circle: the relative error of each of three
	// terms is less than 2^-50.
	sum, size := 0., 0.
	for i := range 3 {
		term := float64(lift[i]) * float64(minor[i])
		sum, size = sum+term, size+math.Abs(term)
	}
	if math.Abs(sum) > size*0x1p-48 {
		return sum > 0
	}
	var high int64
	var low uint64
	for i := range 3 {
		h, l := multiply(lift[i], minor[i])
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high += h + int64(carry)
	}
	return high > 0 || high == 0 && low > 0
}

// multiply returns the 128-bit product of two numbers. The first must not be negative.
func multiply(a, b int64) (high int64, low uint64) {
	h, l := bits.Mul64(uint64(a), uint64(b))
	if b < 0 {
		h -= uint64(a)
	}
	return int64(h), l
}
