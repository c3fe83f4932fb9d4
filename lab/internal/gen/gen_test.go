package gen

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// made is what a generator makes on a device.
type made func(t *testing.T, dev device.Device) (graph.Edges, error)

func rmat(o RMATOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return RMAT(t.Context(), dev, o) }
}
func kronecker(o KroneckerOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return Kronecker(t.Context(), dev, o) }
}
func geometric(o GeometricOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return Geometric(t.Context(), dev, o) }
}
func delaunay(o DelaunayOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return Delaunay(t.Context(), dev, o) }
}
func roads(o RoadsOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return Roads(t.Context(), dev, o) }
}
func cliques(o CliquesOptions) made {
	return func(t *testing.T, dev device.Device) (graph.Edges, error) { return Cliques(t.Context(), dev, o) }
}

// Degrees match the graphs that the parameters are named after: rgg_n_2_15_s0 and delaunay_n15,
// with known counts (9.78 and 24; 6.0 and 18), and table 5.1 of Awad's thesis.
func TestDegrees(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, tt := range []struct {
		name                string
		make                made
		vertices, tolerance float64 // tolerance is a share
		mean, off           float64 // arcs per vertex, and the tolerance
		// Lower bounds of the smallest and the largest degree, an upper bound of the latter, and
		// the standard deviation, if not 0.
		min, max, shareBelow, sigma float64
	}{
		{"rgg_n_2_15", geometric(GeometricOptions{Vertices: 1 << 15, Seed: 1}), 1 << 15, 0, 9.78, 0.15, 0, 20, 32, 0},
		{"delaunay_n15", delaunay(DelaunayOptions{Vertices: 1 << 15, Seed: 1}), 1 << 15, 0, 5.998, 0.002, 3, 12, 28, 1.33},
		{"luxembourg_osm", roads(RoadsOptions{Vertices: 40_000, Subdivisions: 6.9}), 40_000, 0.05, 2 * 1.044, 0.02, 1, 3, 4, 0},
		{"germany_osm", roads(RoadsOptions{Vertices: 40_000, Subdivisions: 4}), 40_000, 0.05, 2 * 1.071, 0.02, 1, 3, 4, 0},
		{"road_usa", roads(RoadsOptions{Vertices: 40_000}), 40_000, 0.05, 2 * 1.205, 0.03, 1, 3, 4, 0},
		{"coAuthorsDBLP", cliques(CliquesOptions{Vertices: 30_000}), 30_000, 0, 6.4, 0.1, 0, 200, 500, 0},
		{"hollywood-2009", cliques(CliquesOptions{Vertices: 20_000, MinSize: 10, MaxSize: 100, Degree: 98.9, Top: 110}), 20_000, 0, 98.9, 5, 0, 4000, 15_000, 0},
		{"soc-LiveJournal1", rmat(RMATOptions{Scale: 15, EdgeFactor: 8.6}), 1 << 15, 0, 15, 1.5, 0, 400, 20_000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := tt.make(t, dev)
			if err != nil {
				t.Fatal(err)
			}
			g, err := graph.Build(t.Context(), dev, e, nil)
			if err != nil {
				t.Fatal(err)
			}
			d, err := g.Degrees(t.Context(), dev)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d vertices, %d edges of %d, degrees %d to %d, mean %.3f, sigma %.2f", g.Vertices(), g.Edges(), len(e.From), d.Min, d.Max, d.Mean, d.Sigma)
			if n := float64(g.Vertices()); math.Abs(n-tt.vertices) > tt.tolerance*tt.vertices {
				t.Errorf("%v vertices, want %v", n, tt.vertices)
			}
			if math.Abs(d.Mean-tt.mean) > tt.off {
				t.Errorf("mean degree %.3f, want %v ± %v", d.Mean, tt.mean, tt.off)
			}
			if most := float64(d.Max); float64(d.Min) < tt.min || most < tt.max || most >= tt.shareBelow {
				t.Errorf("degrees %d to %d, want %v to %v, below %v", d.Min, d.Max, tt.min, tt.max, tt.shareBelow)
			}
			if tt.sigma > 0 && math.Abs(d.Sigma-tt.sigma) > 0.05 {
				t.Errorf("sigma %.2f, want %v", d.Sigma, tt.sigma)
			}
		})
	}
}

// One seed gives one graph, on any number of cores and on any machine; another seed another.
func TestDeterministic(t *testing.T) {
	for _, tt := range []struct {
		name   string
		make   func(seed uint64) made
		digest uint64
	}{
		{"RMAT", func(s uint64) made { return rmat(RMATOptions{Scale: 12, EdgeFactor: 5, Seed: s}) }, 0x151fdeb3bd771c88},
		{"RMAT, permuted", func(s uint64) made { return rmat(RMATOptions{Scale: 12, EdgeFactor: 5, Permute: true, Seed: s}) }, 0xe05a6453e7240ef3},
		{"Kronecker", func(s uint64) made {
			return kronecker(KroneckerOptions{Initiator: []float64{5, 2, 1, 2, 1, .5, 1, .5, .25}, Power: 7, EdgeFactor: 5, Seed: s})
		}, 0x1a40ac3658bd205a},
		{"Kronecker, permuted", func(s uint64) made {
			return kronecker(KroneckerOptions{Power: 11, EdgeFactor: 5, Permute: true, Seed: s})
		}, 0x36b65eae29ab978a},
		{"Geometric", func(s uint64) made { return geometric(GeometricOptions{Vertices: 20_000, Seed: s}) }, 0x6e9f6ece06964049},
		{"Delaunay", func(s uint64) made { return delaunay(DelaunayOptions{Vertices: 5000, Seed: s}) }, 0xef058e84acebb88a},
		{"Roads", func(s uint64) made { return roads(RoadsOptions{Vertices: 40_000, Seed: s}) }, 0xfee810279e9d602f},
		{"Cliques", func(s uint64) made { return cliques(CliquesOptions{Vertices: 40_000, Seed: s}) }, 0xdc5b4f7cf35bd0ad},
	} {
		var digests []uint64
		for _, run := range []struct {
			workers int
			seed    uint64
		}{{1, 7}, {4, 7}, {2, 8}} {
			e, err := tt.make(run.seed)(t, devicetest.OpenCPU(t, run.workers))
			if err != nil {
				t.Fatal(err)
			}
			digest := uint64(e.Vertices)
			for i, u := range e.From {
				digest = digest*0x9e3779b97f4a7c15 + uint64(u)<<32 + uint64(e.To[i])
			}
			digests = append(digests, digest)
		}
		if digests[0] != tt.digest || digests[1] != tt.digest || digests[2] == tt.digest {
			t.Errorf("%s: digests %#x, want %#x twice, and another one", tt.name, digests, tt.digest)
		}
	}
}

// Edges fall into the quadrants as often as the options say, on each level.
func TestQuadrants(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	o := RMATOptions{Scale: 9, EdgeFactor: 400, A: 0.5, B: 0.1, C: 0.25}
	e, err := RMAT(t.Context(), dev, o)
	if err != nil {
		t.Fatal(err)
	}
	for level := range o.Scale {
		var counts [4]float64
		for i, u := range e.From {
			counts[u>>level&1<<1|e.To[i]>>level&1]++
		}
		for q, want := range []float64{0.5, 0.1, 0.25, 0.15} {
			if got := counts[q] / float64(len(e.From)); math.Abs(got-want) > 0.005 {
				t.Errorf("level %d, quadrant %d: %.4f of the edges, want %v", level, q, got, want)
			}
		}
	}
}

// Edges fall into the cells of an initiator as often as it says, at each digit, independently of
// other digits.
func TestInitiator(t *testing.T) {
	for _, cells := range [][]float64{nil, {3, 0, 1, 0, 0, 2, 1, 1, 0}, {1, 1e-9, 1e-9, 1}, slices.Repeat([]float64{.25, 4, 1, 0}, 64)} {
		o := KroneckerOptions{Initiator: cells, Power: 3, EdgeFactor: 400}
		if len(cells) == 256 {
			o.Power, o.EdgeFactor = 2, 1500
		}
		e, err := Kronecker(t.Context(), devicetest.OpenCPU(t, 2), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) == 0 {
			cells = []float64{.57, .19, .19, .05}
		}
		sum, base := 0.0, uint32(math.Sqrt(float64(len(cells))))
		for _, p := range cells {
			sum += p
		}
		if want := int(math.Pow(float64(base), float64(o.Power))); e.Vertices != want {
			t.Fatalf("%d vertices, want %d", e.Vertices, want)
		}
		n := float64(len(e.From))
		for place, digit := uint32(1), 0; digit < o.Power; place, digit = place*base, digit+1 {
			counts := make([]float64, len(cells))
			for i, u := range e.From {
				counts[u/place%base*base+e.To[i]/place%base]++
			}
			for c, p := range cells {
				if p /= sum; math.Abs(counts[c]-p*n) > 5*math.Sqrt(p*n) || p == 0 && counts[c] > 0 {
					t.Errorf("%d cells, digit %d, cell %d: %v edges, want %v", len(cells), digit, c, counts[c], p*n)
				}
			}
		}
		first := 0.0 // the product of cells, at two digits
		for i, u := range e.From {
			if u%(base*base) == 0 && e.To[i]%(base*base) == 0 {
				first++
			}
		}
		if want := cells[0] / sum * cells[0] / sum * n; math.Abs(first-want) > 5*math.Sqrt(want) {
			t.Errorf("%d cells: %v edges from 0 to 0 at two digits, want %v", len(cells), first, want)
		}
	}
}

// A geometric graph has exactly the pairs within the radius.
func TestNear(t *testing.T) {
	for _, o := range []GeometricOptions{{Vertices: 1}, {Vertices: 2, Radius: 2}, {Vertices: 400, Radius: 0.3}, {Vertices: 700}, {Vertices: 50, Radius: 1.1}, {Vertices: 300, Radius: 1e-12}} {
		dev := devicetest.OpenCPU(t, 2)
		e, err := Geometric(t.Context(), dev, o)
		if err != nil {
			t.Fatal(err)
		}
		g, err := newGenerator(t.Context(), dev, "", o.Seed)
		if err != nil {
			t.Fatal(err)
		}
		r := o.Radius
		if r == 0 {
			r = 0.55 * math.Sqrt(math.Log(float64(o.Vertices))/float64(o.Vertices))
		}
		points, want := g.points(o.Vertices), 0
		for i, p := range points {
			for _, q := range points[:i] {
				if dx, dy := float64(p.x)-float64(q.x), float64(p.y)-float64(q.y); math.Sqrt(dx*dx+dy*dy) <= math.Floor(r*(1<<side)) {
					want++
				}
			}
		}
		if len(e.From) != want {
			t.Errorf("%+v: %d edges, want %d", o, len(e.From), want)
		}
		seen := map[[2]uint32]bool{}
		for i, u := range e.From {
			if v := e.To[i]; u >= v || int(v) >= o.Vertices || seen[[2]uint32{u, v}] {
				t.Fatalf("%+v: edge %d to %d", o, u, v)
			}
			seen[[2]uint32{u, e.To[i]}] = true
		}
	}
}

// A triangulation has exactly the edges of all triangles with an empty circumcircle.
func TestEmptyCircles(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for seed := range uint64(12) {
		n := 3 + int(seed)*4
		e, err := Delaunay(t.Context(), dev, DelaunayOptions{Vertices: n, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		g, err := newGenerator(t.Context(), dev, "", seed)
		if err != nil {
			t.Fatal(err)
		}
		points, err := g.distinct(g.points(n))
		if err != nil {
			t.Fatal(err)
		}
		m := &mesh{points: points}
		want := map[[2]uint32]bool{}
		for a := range uint32(n) {
			for b := range a {
				for c := range b {
					i, j, k := a, b, c
					if m.orientation(i, j, k) < 0 {
						i, j = j, i
					}
					empty := true
					for p := range uint32(n) {
						empty = empty && (p == a || p == b || p == c || !m.inCircle(i, j, k, p))
					}
					if empty {
						want[[2]uint32{b, a}], want[[2]uint32{c, b}], want[[2]uint32{c, a}] = true, true, true
					}
				}
			}
		}
		got := map[[2]uint32]bool{}
		for i, u := range e.From {
			got[[2]uint32{u, e.To[i]}] = true
			if !want[[2]uint32{u, e.To[i]}] {
				t.Fatalf("%d points: edge %d to %d", n, u, e.To[i])
			}
		}
		if len(got) != len(want) || len(e.From) != len(want) {
			t.Fatalf("%d points: %d edges, want %d", n, len(e.From), len(want))
		}
	}
}

// Points of a lattice, with four on a circle and many on a line, are triangulated as well: 3 n - 3
// - h edges, for h points on the hull.
func TestLattice(t *testing.T) {
	for _, size := range [][2]int{{2, 2}, {3, 3}, {2, 9}, {12, 12}, {7, 30}} {
		var points []point
		for x := range size[0] {
			for y := range size[1] {
				points = append(points, point{uint32(x * 1000), uint32(y * 1000)})
			}
		}
		rand.New(rand.NewPCG(1, uint64(size[1]))).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		e := triangulated(points)
		n, onBoundary := len(points), 2*(size[0]+size[1]-2)
		seen := map[[2]uint32]bool{}
		for i, u := range e.From {
			seen[[2]uint32{u, e.To[i]}] = true
			p, q := points[u], points[e.To[i]]
			if dx, dy := int(p.x)-int(q.x), int(p.y)-int(q.y); max(dx*dx, dy*dy) > 1000*1000 {
				t.Errorf("%v: an edge from %v to %v, which are no corners of one cell", size, p, q)
			}
		}
		if len(seen) != 3*n-3-onBoundary || len(e.From) != len(seen) {
			t.Errorf("%v: %d edges, want %d", size, len(e.From), 3*n-3-onBoundary)
		}
	}
	// All on one line, in any order.
	e := triangulated([]point{{30, 60}, {10, 20}, {40, 80}, {20, 40}})
	if !slices.Equal(e.From, []uint32{1, 3, 0}) || !slices.Equal(e.To, []uint32{3, 0, 2}) {
		t.Errorf("a line: %v", e)
	}
}

func triangulated(points []point) (e graph.Edges) {
	m, ok := newMesh(points)
	if !ok {
		m.line(&e)
		return e
	}
	for i := range points {
		if !slices.Contains(m.corners[:], uint32(i)) {
			m.insert(uint32(i))
		}
	}
	m.edges(&e)
	return e
}

// Points that come twice are drawn again.
func TestDistinct(t *testing.T) {
	g, err := newGenerator(t.Context(), devicetest.OpenCPU(t, 1), "", 3)
	if err != nil {
		t.Fatal(err)
	}
	points, err := g.distinct([]point{{5, 5}, {7, 7}, {5, 5}, {5, 5}, {7, 7}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[point]bool{}
	for i, p := range points {
		seen[p] = true
		if i > 0 && hilbert(points[i-1]) >= hilbert(p) {
			t.Errorf("point %d is not behind the one before", i)
		}
	}
	if len(seen) != 5 || !seen[point{5, 5}] || !seen[point{7, 7}] {
		t.Errorf("points %v", points)
	}
}

// Along Hilbert's curve, each point of a small square touches the one before.
func TestHilbert(t *testing.T) {
	const n = 16
	order := make([]point, n*n)
	first := hilbert(point{0, 0})
	for x := range uint32(n) {
		for y := range uint32(n) {
			order[hilbert(point{x, y})-first] = point{x, y}
		}
	}
	for i := 1; i < len(order); i++ {
		dx, dy := int(order[i].x)-int(order[i-1].x), int(order[i].y)-int(order[i-1].y)
		if dx*dx+dy*dy != 1 {
			t.Fatalf("from %v to %v", order[i-1], order[i])
		}
	}
}

// Tests of circles are exact where floats fail: the last point is on the circle, or next to it.
func TestInCircle(t *testing.T) {
	const r = 1<<(side-1) - 1
	for _, tt := range []struct {
		p    point
		want bool
	}{{point{r, 0}, false}, {point{r, 1}, true}, {point{1, r}, true}, {point{1, r + 1}, true}, {point{0, r + 1}, false}, {point{0, r - 1}, false}, {point{0, 0}, false}, {point{r, r}, true}} {
		m := &mesh{points: []point{{2 * r, r}, {r, 2 * r}, {0, r}, tt.p}} // around {r, r}
		if got := m.inCircle(0, 1, 2, 3); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.p, got, tt.want)
		}
	}
}

// Tests of circles agree with arbitrary-precision integers, also for points on the circle, where
// floats round the products.
func TestInCircleOfAny(t *testing.T) {
	const k, middle = 1<<24 + 12_345, 1 << (side - 1)
	var on []point
	for _, p := range [][2]int{{3, 4}, {4, 3}, {5, 0}, {0, 5}, {3, -4}, {4, -3}, {0, -5}, {-3, -4}, {-4, -3}, {-5, 0}, {-3, 4}, {-4, 3}} {
		on = append(on, point{uint32(middle + k*p[0]), uint32(middle + k*p[1])})
	}
	for a := range on {
		for b := range a {
			for c := range b {
				for d := range on {
					for _, off := range []int{-1, 0, 1} {
						p := point{uint32(int(on[d].x) + off), on[d].y}
						m := &mesh{points: []point{on[a], on[b], on[c], p}}
						if m.orientation(0, 1, 2) < 0 {
							m.points[0], m.points[1] = m.points[1], m.points[0]
						}
						if got := m.inCircle(0, 1, 2, 3); got != inside(m.points) {
							t.Fatalf("%v: %v", m.points, got)
						}
					}
				}
			}
		}
	}
}

// inside reports whether the last of four points lies within the circle through the others.
func inside(points []point) bool {
	at := func(i int) (x, y, lift *big.Int) {
		x, y = big.NewInt(int64(points[i].x)-int64(points[3].x)), big.NewInt(int64(points[i].y)-int64(points[3].y))
		return x, y, new(big.Int).Add(new(big.Int).Mul(x, x), new(big.Int).Mul(y, y))
	}
	sum := new(big.Int)
	for i := range 3 {
		_, _, lift := at(i)
		bx, by, _ := at((i + 1) % 3)
		cx, cy, _ := at((i + 2) % 3)
		minor := new(big.Int).Sub(new(big.Int).Mul(bx, cy), new(big.Int).Mul(by, cx))
		sum.Add(sum, lift.Mul(lift, minor))
	}
	return sum.Sign() > 0
}

func TestOptions(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for _, tt := range []struct {
		make    made
		message string
	}{
		{rmat(RMATOptions{Scale: -1}), "RMAT: invalid options: Scale -1"},
		{rmat(RMATOptions{Scale: 32}), "Scale 32"},
		{rmat(RMATOptions{EdgeFactor: -1}), "EdgeFactor -1"},
		{rmat(RMATOptions{Scale: 31, EdgeFactor: 2}), "fewer than 2^31 edges"},
		{rmat(RMATOptions{A: 0.5, B: 0.5}), "A 0.5, B 0.5, C 0, want"},
		{rmat(RMATOptions{A: math.NaN()}), "A NaN"},
		{kronecker(KroneckerOptions{Initiator: make([]float64, 8)}), "Kronecker: invalid options: an Initiator of 8 cells"},
		{kronecker(KroneckerOptions{Initiator: []float64{1}}), "an Initiator of 1 cells"},
		{kronecker(KroneckerOptions{Initiator: make([]float64, 17*17)}), "an Initiator of 289 cells"},
		{kronecker(KroneckerOptions{Initiator: []float64{1, 1, -1, 1}}), "cell 2 of Initiator is -1"},
		{kronecker(KroneckerOptions{Initiator: []float64{1, math.NaN(), 1, 1}}), "cell 1 of Initiator is NaN"},
		{kronecker(KroneckerOptions{Initiator: make([]float64, 4)}), "the cells of Initiator are 0 together"},
		{kronecker(KroneckerOptions{Initiator: []float64{1e308, 1e308, 1, 1}}), "the cells of Initiator are +Inf together"},
		{kronecker(KroneckerOptions{Power: -1}), "Power -1"},
		{kronecker(KroneckerOptions{Power: 32}), "Power 32 of 2 rows"},
		{kronecker(KroneckerOptions{Power: 31}), "fewer than 2^31 edges"},
		{kronecker(KroneckerOptions{EdgeFactor: math.NaN()}), "EdgeFactor NaN"},
		{geometric(GeometricOptions{}), "Vertices 0, want 1 to"},
		{geometric(GeometricOptions{Vertices: 5, Radius: -1}), "Radius -1"},
		{geometric(GeometricOptions{Vertices: 5, Radius: math.NaN()}), "Radius NaN"},
		{delaunay(DelaunayOptions{}), "Vertices 0"},
		{delaunay(DelaunayOptions{Vertices: 1<<28 + 1}), "want 268435456 at most"},
		{roads(RoadsOptions{}), "Vertices 0"},
		{roads(RoadsOptions{Vertices: 5, Subdivisions: -1}), "Subdivisions -1"},
		{cliques(CliquesOptions{Vertices: -5}), "Vertices -5"},
		{cliques(CliquesOptions{Vertices: 5, MinSize: 1, MaxSize: 3}), "sizes 1 to 3"},
		{cliques(CliquesOptions{Vertices: 5, MinSize: 4, MaxSize: 3}), "sizes 4 to 3"},
		{cliques(CliquesOptions{Vertices: 5, Degree: -1}), "Degree -1"},
		{cliques(CliquesOptions{Vertices: 5, Top: 6}), "Top 6"},
		{cliques(CliquesOptions{Vertices: 50, Top: 0.5}), "Top 0.5"},
	} {
		if _, err := tt.make(t, dev); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%v, want %q", err, tt.message)
		}
	}
	gpu := devicetest.OpenSim(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RMAT(t.Context(), gpu, RMATOptions{}); !errors.Is(err, device.ErrUnsupported) {
		t.Error(err)
	}
	for name, run := range map[string]func() error{
		"RMAT":      func() error { _, err := RMAT(ctx, dev, RMATOptions{Scale: 4}); return err },
		"Kronecker": func() error { _, err := Kronecker(ctx, dev, KroneckerOptions{Power: 4}); return err },
		"Geometric": func() error { _, err := Geometric(ctx, dev, GeometricOptions{Vertices: 9}); return err },
		"Delaunay":  func() error { _, err := Delaunay(ctx, dev, DelaunayOptions{Vertices: 9}); return err },
		"Roads":     func() error { _, err := Roads(ctx, dev, RoadsOptions{Vertices: 9}); return err },
		"Cliques":   func() error { _, err := Cliques(ctx, dev, CliquesOptions{Vertices: 9}); return err },
	} {
		if err := run(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
