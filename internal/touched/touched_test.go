package touched_test

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/touched"
)

// batch is a list of edges in host memory, with the parameters for listing their ends.
type batch struct {
	from, to []uint32
	done     []bool
	vertices int // 0 for the maximum
}

// want computes the ends of a batch with a map.
func (b batch) want(most int) []uint32 {
	if b.vertices > 0 {
		most = b.vertices
	}
	ends := map[uint32]bool{}
	for i, u := range b.from {
		for _, v := range []uint32{u, b.to[i]} {
			if (len(b.done) == 0 || b.done[i]) && uint64(v) < uint64(most) {
				ends[v] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ends))
}

// draw returns n random edges between vertices below a bound. A share of them is done, and half
// have a hub as an end.
func draw(r *rand.Rand, n int, below uint64, share float64) batch {
	b := batch{from: make([]uint32, n), to: make([]uint32, n), done: make([]bool, n)}
	for i := range n {
		b.from[i], b.to[i], b.done[i] = uint32(r.Uint64N(below)), uint32(r.Uint64N(below)), r.Float64() < share
		if r.IntN(2) == 0 {
			b.from[i] = uint32(below / 3)
		}
	}
	return b
}

// unwritten marks memory that must not be written.
const unwritten = 4_000_000_011

// listed is a submitted list.
type listed struct {
	testing.TB
	s     *device.Stream
	ends  device.Slice[uint32]
	count device.Slice[uint64]
	free  func() error
}

// submit submits a list of ends in memory for room ends.
func submit(t testing.TB, l *touched.Lister, s *device.Stream, b batch, room int) (listed, error) {
	from, to, done := upload(t, s, b.from), upload(t, s, b.to), upload(t, s, b.done)
	x := listed{t, s, upload(t, s, slices.Repeat([]uint32{unwritten}, room+1)), upload(t, s, []uint64{99, 99}), nil}
	x.free = func() error {
		return errors.Join(from.Free(), to.Free(), done.Free(), x.ends.Free(), x.count.Free())
	}
	return x, l.List(s, touched.Edges{From: from, To: to, Done: done, Vertices: b.vertices}, x.ends.Sub(0, room), x.count)
}

func upload[T device.Elem](t testing.TB, s *device.Stream, v []T) device.Slice[T] {
	t.Helper()
	d, err := device.Upload(s, v)
	must(t, err)
	return d
}

// is compares the listed ends with want.
func (x listed) is(want []uint32) {
	x.Helper()
	got, count := make([]uint32, x.ends.Len()), make([]uint64, 2)
	must(x, x.ends.CopyTo(x.Context(), x.s, got))
	must(x, x.count.CopyTo(x.Context(), x.s, count))
	n := min(len(want), len(got)-1)
	if int(count[0]) != len(want) || !slices.Equal(got[:n], want[:n]) {
		x.Fatalf("%d ends, %v, want %d, %v", count[0], got[:n], len(want), want[:n])
	}
	for i, v := range got[n:] {
		if v != unwritten {
			x.Fatalf("place %d behind %d ends is %d", i, n, v)
		}
	}
	if count[1] != 99 {
		x.Fatalf("%d is behind the count", count[1])
	}
	must(x, x.free())
}

// list lists batches of all kinds, one after the other, so that each list uses what the previous
// list leaves in memory.
func list(t testing.TB, dev device.Device, most, gathered int) {
	l := &touched.Lister{Dev: dev, Most: most}
	l.Gather(gathered)
	s, r := devicetest.NewStream(t, dev), rand.New(rand.NewPCG(1, 5))
	end := most / touched.TileVertices * touched.TileVertices // begin of the last tile
	last := uint32(most - 1)
	few := draw(r, 40, 100, 1)
	few.vertices = 50
	for name, b := range map[string]batch{
		"none":             {},
		"none counts":      {from: []uint32{1, 2}, to: []uint32{3, 4}, done: []bool{false, false}},
		"all count":        {from: []uint32{7, 7, 0}, to: []uint32{7, 0, 7}},
		"some count":       {from: []uint32{5, 1, 9}, to: []uint32{6, 2, 5}, done: []bool{true, false, true}},
		"the last":         {from: []uint32{last}, to: []uint32{last}},
		"beyond":           {from: []uint32{last + 1, math.MaxUint32, 1 << 31}, to: []uint32{3, last + 2, 1 << 31}},
		"all beyond":       {from: []uint32{last + 1}, to: []uint32{math.MaxUint32}},
		"ends of a tile":   {from: []uint32{touched.TileVertices - 1, 2 * touched.TileVertices}, to: []uint32{touched.TileVertices, 2*touched.TileVertices - 1}},
		"ends of words":    {from: []uint32{31, 63, 1023, 4095}, to: []uint32{32, 64, 1024, 4096}},
		"one tile alone":   {from: []uint32{3 * touched.TileVertices}, to: []uint32{3*touched.TileVertices + 5}},
		"up to a vertex":   few,
		"the first of all": {from: []uint32{0}, to: []uint32{1}, vertices: 1},
		"dense":            draw(r, 600, 300, 0.9),
		"all tiles":        draw(r, 500, uint64(most), 0.7),
		"beyond, mixed":    draw(r, 300, 2*uint64(most), 1),
		"ends of ranges":   {from: []uint32{touched.OwnVertices - 1}, to: []uint32{touched.OwnVertices}},
		"far by lane 1":    far(1, end),
		"far by lane 2":    far(2, end),
		"far by lane 4":    far(4, end),
		"far by lane 8":    far(8, end),
		"far by lane 16":   far(16, end),
		"far by warp 1":    far(32, end),
		"far by warp 2":    far(64, end),
	} {
		want := b.want(most)
		for _, room := range []int{2 * len(b.from), len(want) / 2, 0} {
			x, err := submit(t, l, s, b, room)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			x.is(want)
		}
	}
	must(t, l.Close())
}

// far returns edges between the first vertices, but the edge at one position leads to a distant
// vertex.
func far(at, vertex int) (b batch) {
	for i := range uint32(70) {
		b.from, b.to = append(b.from, i), append(b.to, i/2)
	}
	b.to[at] = uint32(vertex)
	return b
}

// strides lists more edges than a launch has threads, so that each thread processes several edges
// several times.
func strides(t testing.TB, dev device.Device, gathered int) {
	dev = devicetest.Narrow(dev)
	l, s := &touched.Lister{Dev: dev, Most: 50_000}, devicetest.NewStream(t, dev)
	l.Gather(gathered)
	same := func(b batch) {
		t.Helper()
		x, err := submit(t, l, s, b, len(b.from))
		must(t, err)
		x.is(b.want(l.Most))
	}
	for _, n := range []int{2049, 6000, 10_000} {
		same(draw(rand.New(rand.NewPCG(8, uint64(n))), n, 60_000, 0.9))
	}
	for at := 5; at < 10_000; at += 2048 { // the only end in the last tile, among few that are done
		for _, reverse := range []bool{false, true} {
			b := draw(rand.New(rand.NewPCG(9, uint64(at))), 10_000, 300, 0.01)
			if b.to[at], b.done[at] = 45_000, true; reverse {
				b.from, b.to = b.to, b.from
			}
			same(b)
		}
	}
	must(t, l.Close())
}

// manyTiles lists more tiles than a warp looks back at in one step.
func manyTiles(t testing.TB, dev device.Device) {
	l, s := &touched.Lister{Dev: dev, Most: 40 * touched.TileVertices}, devicetest.NewStream(t, dev)
	for seed := range uint64(2) {
		b := draw(rand.New(rand.NewPCG(6, seed)), 300, uint64(l.Most), 1)
		x, err := submit(t, l, s, b, 600)
		must(t, err)
		x.is(b.want(l.Most))
	}
	must(t, l.Close())
}

// overStreams submits lists to several streams without waiting. They must run one after the other,
// even if memory grows or the lister is closed.
func overStreams(t testing.TB, dev device.Device, seed uint64) {
	l, r := &touched.Lister{Dev: dev, Most: 4 * touched.TileVertices}, rand.New(rand.NewPCG(seed, 7))
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	var all []listed
	var want [][]uint32
	for i := range 7 {
		b := draw(r, 20+r.IntN(60), 2000, 0.8)
		if b.vertices = 1000; i == 4 {
			b.vertices = 0 // takes more memory
		}
		x, err := submit(t, l, streams[i%2], b, 2*len(b.from))
		must(t, err)
		all, want = append(all, x), append(want, b.want(l.Most))
	}
	must(t, l.Close())
	for i, x := range all {
		x.is(want[i])
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const tiles5 = 5*touched.TileVertices - 7

func TestList(t *testing.T) { list(t, devicetest.Open(t), tiles5, 0) }

func TestSmokeList(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	if dev.Properties().Kind != device.Sim { // on a simulator, schedules use smaller lists
		list(t, dev, 1<<28, 0)
		list(t, dev, 40*touched.TileVertices-7, 1)
	}
	strides(t, dev, 0)
	strides(t, dev, 1)
	manyTiles(t, dev)
}

func TestOverStreams(t *testing.T) { overStreams(t, devicetest.Open(t), 1) }

var kernelTests = []mutate.KernelTest{
	{Name: "list", Run: func(t testing.TB, dev device.Device) { list(t, dev, tiles5, 0) }},
	{Name: "gathered", Run: func(t testing.TB, dev device.Device) { list(t, dev, touched.OwnVertices+touched.TileVertices, 1) }},
	{Name: "strides", Run: func(t testing.TB, dev device.Device) { strides(t, dev, 0) }},
	{Name: "strides, gathered", Run: func(t testing.TB, dev device.Device) { strides(t, dev, 1) }},
	{Name: "many tiles", Run: manyTiles},
	{Name: "streams", Run: func(t testing.TB, dev device.Device) { overStreams(t, dev, 2) }},
}

// TestSchedules runs the kernel tests under random schedules of lanes, warps and blocks, with weak
// memory, where a data race is a fault.
func TestSchedules(t *testing.T) { mutate.RunOnSim(t, kernelTests, 1, 90) }

// TestMutantsFailKernelTests checks that the kernel tests detect broken kernels.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, kernelTests, []mutate.Fault{
		{"a mark takes others away", "mark", `atom\.relaxed\.gpu\.global\.or\.b32`, "atom.relaxed.gpu.global.exch.b32"},
		{"the end is that of the last warp", "mark", `red\.relaxed\.gpu\.global\.max\.u32`, "red.relaxed.gpu.global.min.u32"},
		{"a mark takes others of the block away", "gather", `atom\.relaxed\.cta\.shared\.or\.b32`, "atom.relaxed.cta.shared.exch.b32"},
		{"what a block has takes others away", "gather", `atom\.relaxed\.gpu\.global\.or\.b32`, "atom.relaxed.gpu.global.exch.b32"},
		{"a block gives its marks before all are made", "gather", `bar\.sync\s+0;`, ""},
		{"bits stay", "list", `st\.global\.u32 \[%rd\d+\+\d+\], %r\d+;`, ""},
		{"lanes below and the own", "list", `not\.b32`, "mov.b32"},
		{"tiles are taken at the scope of a block", "list", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	})
}

// TestOmissionsAreNoticed checks that a test fails without any one of the calls by which the host
// orders lists or waits for them.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	var tries []dst.Try
	for seed := range uint64(3) {
		tries = append(tries, dst.SimTry(t, seed, overStreams))
	}
	dst.Omit(t, ".", nil, tries...)
}

// TestClosedStream checks that a CPU refuses a closed stream.
func TestClosedStream(t *testing.T) {
	dev, err := cpu.Open(nil)
	must(t, err)
	s, err := dev.NewStream()
	must(t, err)
	from, count := upload(t, s, []uint32{1}), upload(t, s, []uint64{1})
	must(t, s.Close())
	l := &touched.Lister{Dev: dev, Most: 10}
	if err := l.List(s, touched.Edges{From: from, To: from}, device.Slice[uint32]{}, count); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed stream: %v", err)
	}
	must(t, errors.Join(l.Close(), dev.Close()))
}

//go:embed testdata/survivors.txt
var survivors string

// TestRandomMutants checks that the tests notice most random changes of the kernels. Flags set
// their number.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{touched.Image}, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		touched.Image.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, 1, kernelTests))
		},
	}})
}

// TestSameKernels checks that both architectures have the same kernels, so that interpreting one of
// them suffices.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "touched") }

// TestFails checks lists after a list that failed halfway.
func TestFails(t *testing.T) {
	dev := devicetest.Open(t)
	s, r := devicetest.NewStream(t, dev), rand.New(rand.NewPCG(3, 3))
	b, other := draw(r, 50, 3000, 1), draw(r, 50, 3000, 1)
	devicetest.FailEach(t, dev, "List", func() error {
		l := &touched.Lister{Dev: dev, Most: 3000}
		try := func(b batch) error {
			ends, err := device.Make[uint32](dev, 200)
			var count device.Slice[uint64]
			if err == nil {
				count, err = device.Make[uint64](dev, 1)
			}
			from, to, err2 := both(s, b)
			if err = errors.Join(err, err2); err == nil {
				err = l.List(s, touched.Edges{From: from, To: to}, ends, count)
			}
			if err != nil {
				devicetest.ClearFailures(dev)
				err = errors.Join(err, s.Sync(t.Context()))
			}
			got, n := make([]uint32, 200), make([]uint64, 1)
			if err == nil {
				err = errors.Join(ends.CopyTo(t.Context(), s, got), count.CopyTo(t.Context(), s, n))
			}
			if want := b.want(3000); err == nil && !slices.Equal(got[:n[0]], want) {
				t.Errorf("%v, want %v", got[:n[0]], want)
			}
			devicetest.ClearFailures(dev)
			return errors.Join(err, s.Sync(t.Context()), ends.Free(), count.Free(), from.Free(), to.Free())
		}
		err := try(b)
		return errors.Join(err, try(other), l.Close())
	})
}

func both(s *device.Stream, b batch) (from, to device.Slice[uint32], err error) {
	if from, err = device.Upload(s, b.from); err == nil {
		to, err = device.Upload(s, b.to)
	}
	return from, to, err
}

// TestMisuse checks that invalid outputs are refused and not written.
func TestMisuse(t *testing.T) {
	dev := devicetest.Open(t)
	s, host := devicetest.NewStream(t, dev), devicetest.OpenCPU(t, 1)
	other := devicetest.NewStream(t, host)
	l := &touched.Lister{Dev: dev, Most: 100}
	from, ends := devicetest.Upload(t, s, []uint32{1, 2}), devicetest.Upload(t, s, []uint32{8, 8, 8, 8})
	count, wide := devicetest.Upload(t, s, []uint64{7}), devicetest.Upload(t, s, []uint64{7, 7, 7})
	among, err := device.Wrap[uint32](dev, device.Buffer{Ptr: wide.Ptr(), Size: 24, Host: device.Bytes(wide.Host())}, 6)
	must(t, err)
	e := touched.Edges{From: from, To: from}
	for _, tt := range []struct {
		says string
		run  func() error
	}{
		{"the stream is nil", func() error { return l.List(nil, e, ends, count) }},
		{"the stream belongs to another device", func() error { return l.List(other, e, ends, count) }},
		{"for the count", func() error { return l.List(s, e, ends, device.Slice[uint64]{}) }},
		{"another device", func() error { return l.List(s, e, devicetest.Upload(t, other, []uint32{1}), count) }},
		{"another device", func() error { return l.List(s, e, ends, devicetest.Upload(t, other, []uint64{1})) }},
		{"count is among", func() error { return l.List(s, e, among, wide.Sub(0, 1)) }},
		{"count is among", func() error { return l.List(s, e, among, wide.Sub(2, 3)) }},
		{"count is among", func() error { return l.List(s, e, among.Sub(3, 4), wide.Sub(1, 2)) }},
		{"-1 vertices", func() error { return l.List(s, touched.Edges{From: from, To: from, Vertices: -1}, ends, count) }},
		{"101 vertices, want 0 to 100", func() error { return l.List(s, touched.Edges{From: from, To: from, Vertices: 101}, ends, count) }},
	} {
		if err := tt.run(); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want one that says %q", err, tt.says)
		}
	}
	if got := devicetest.Download(t, s, ends); !slices.Equal(got, []uint32{8, 8, 8, 8}) {
		t.Errorf("ends have been written: %v", got)
	}
	must(t, l.List(s, e, among.Sub(2, 6), wide.Sub(0, 1))) // adjacent
	if got := devicetest.Download(t, s, wide); !slices.Equal(got, []uint64{2, 1 | 2<<32, 7}) {
		t.Errorf("count and ends are %v", got)
	}
	// overwrites the input
	must(t, l.List(s, touched.Edges{From: ends.Sub(0, 2), To: from}, ends, count))
	if got := devicetest.Download(t, s, ends); !slices.Equal(got, []uint32{1, 2, 8, 8}) {
		t.Errorf("ends in the place of edges are %v", got)
	}
	must(t, errors.Join(l.Close(), l.Close()))
	if err := l.List(s, e, ends, count); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestBytes checks that the first list on a GPU allocates memory for the maximum number of
// vertices.
func TestBytes(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	l, s := &touched.Lister{Dev: dev, Most: 1 << 28}, devicetest.NewStream(t, dev)
	if n := l.Bytes(); n != 0 {
		t.Errorf("%d bytes before the first list", n)
	}
	b := draw(rand.New(rand.NewPCG(5, 5)), 10, 900, 1)
	b.vertices = 1000
	x, err := submit(t, l, s, b, 20)
	must(t, err)
	if n := l.Bytes(); n > 8<<10 {
		t.Errorf("%d bytes for 1000 vertices", n)
	}
	x.is(b.want(l.Most))
	b.vertices = 0
	x, err = submit(t, l, s, b, 20)
	must(t, err)
	if n := l.Bytes(); n < 32<<20 || n > 33<<20 {
		t.Errorf("%d bytes for 2^28 vertices", n)
	}
	x.is(b.want(l.Most))
	must(t, l.Close())
}

// TestEnds compares Ends with a map, for close and distant vertices.
func TestEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	for i := range 300 {
		below, most := uint64(1)<<(1+r.IntN(32)), uint64(1)<<(1+r.IntN(32))
		b := draw(r, r.IntN(200), below, 0.8)
		if i%3 == 0 {
			b.done = nil
		}
		if got, want := touched.Ends(b.from, b.to, b.done, most), b.want(int(most)); got == nil || !slices.Equal(got, want) {
			t.Fatalf("%d edges below %d and %d: %v, want %v", len(b.from), below, most, got, want)
		}
	}
}

// TestStreams runs lists on several streams under random schedules.
func TestStreams(t *testing.T) {
	for _, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		t.Run(fmt.Sprint(scheduler), func(t *testing.T) {
			overStreams(t, devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: 4, Races: true}), 4)
		})
	}
}
