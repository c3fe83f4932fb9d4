package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		want Options
	}{
		{"sim", Options{}},
		{"sim:42", Options{Scheduler: Random, Seed: 42}},
		{"sim:0x10", Options{Scheduler: Random, Seed: 16}},
		{"sim:fast", Options{Scheduler: Fast}},
		{"sim:pct:7", Options{Scheduler: PCT, Seed: 7}},
	}
	for _, test := range tests {
		if got, err := Parse(test.name); err != nil || got.Scheduler != test.want.Scheduler || got.Seed != test.want.Seed {
			t.Errorf("Parse(%q) = %+v, %v", test.name, got, err)
		}
	}
	for _, name := range []string{"", "simple", "sim:", "sim:x", "sim:slow:1", "sim:pct:", "cuda"} {
		if _, err := Parse(name); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("Parse(%q): error %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Scheduler: "fastest"}, {Depth: -1}, {Depth: 1 << 20}, {Arch: -1}, {Arch: 60}, {Arch: 1000}} {
		if _, err := Open(&o); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("Open(%+v): error %v", o, err)
		}
	}
}

// Copies and fills write memory. Copies of unwritten bytes are unwritten.
func TestCopies(t *testing.T) {
	r := newRig(t, nil, ptx("ld.global.u32 %r3, [%rd2+4];"), []uint64{1, 2, 3}, 4)
	if err := r.stream.Copy(r.out.Ptr()+8, r.in.Ptr(), 24); err != nil {
		t.Fatal(err)
	}
	if err := r.stream.Fill(r.out.Ptr(), 0xabcd, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.read(r.out); !slices.Equal(got, []uint64{0xabcd, 1, 2, 3}) {
		t.Errorf("memory holds %x", got)
	}
	if err := r.launch(1, 1); err == nil || !strings.Contains(err.Error(), "never written") {
		t.Errorf("the half word that was not filled: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, &Options{Memory: 1 << 12}, ptx(""), []uint64{1}, 1)
	_, big := r.dev.Alloc(1 << 13)
	_, negative := r.dev.Alloc(-1)
	other, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := other.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	vast, err := Open(&Options{Memory: 1 << 62})
	if err != nil {
		t.Fatal(err)
	}
	_, vastly := vast.Alloc(1 << 50)
	before := r.dev.Steps()
	p := [2]device.Ptr{}
	_, kernel := mustLoad(t, other).Kernel("nothing")
	tests := []struct {
		name string
		got  error
		want error
	}{
		{"more memory than there is", big, device.ErrMemory},
		{"more memory than any device has", vastly, device.ErrMemory},
		{"no kernel", r.stream.Driver().Launch(nil, device.Dim{}, device.Dim{}, nil), device.ErrInvalid},
		{"a fill that overflows", r.stream.Driver().Fill(r.out.Ptr(), 1, 1<<62), device.ErrInvalid},
		{"a fill of less than nothing", r.stream.Driver().Fill(r.out.Ptr(), 1, -1), device.ErrInvalid},
		{"a copy of less than nothing", r.stream.Driver().Copy(r.out.Ptr(), r.in.Ptr(), -1), device.ErrInvalid},
		{"negative size", negative, device.ErrInvalid},
		{"copy past the end", r.stream.CopyIn(r.in.Ptr()+8, make([]byte, 8)), device.ErrInvalid},
		{"free of nothing", r.dev.Free(device.Buffer{Ptr: 1, Size: 1}), device.ErrInvalid},
		{"kernel of another device", device.Launch(s, r.kernel, device.Dim{}, device.Dim{}, &p), device.ErrInvalid},
		{"too many threads", r.launch(1, 1025), device.ErrInvalid},
		{"a negative grid", r.launch(-1, 32), device.ErrInvalid},
		{"a grid too wide", r.launch(1<<31, 32), device.ErrInvalid},
		{"a product that overflows", device.Launch(r.stream, r.kernel, device.Dim{}, device.Dim{X: 1 << 32, Y: 1 << 32}, &p), device.ErrInvalid},
		{"a block too deep", device.Launch(r.stream, r.kernel, device.Dim{}, device.Dim{Z: 65}, &p), device.ErrInvalid},
		{"no such kernel", kernel, device.ErrKernel},
	}
	for _, test := range tests {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: error %v, want %v", test.name, test.got, test.want)
		}
	}
	if now := r.dev.Steps(); now != before {
		t.Errorf("what was refused took %d ticks of the clock", now-before)
	}
	if err := errors.Join(r.stream.Sync(t.Context()), r.in.Free(), r.out.Free(), r.stream.Close(), r.dev.Close(), r.dev.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.dev.Alloc(1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("use after Close: %v", err)
	}
}

// Memory is pinned from Register to unregister. A second unregister does nothing.
func TestRegister(t *testing.T) {
	d, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	first, err := d.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Register(b[:32]); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Register of what is registered: %v", err)
	}
	if !d.Pinned(b) || !d.Pinned(b[8:16]) || d.Pinned(make([]byte, 64)) || d.Pinned(nil) {
		t.Error("pinned is not what was registered")
	}
	if err := errors.Join(first(), first()); err != nil || d.Pinned(b) {
		t.Errorf("after it was undone twice: %v", err)
	}
	second, err := d.Register(b[:32])
	if err != nil {
		t.Fatal(err)
	}
	if err := first(); err != nil || !d.Pinned(b[:32]) {
		t.Errorf("undone a third time, for another registration: %v", err)
	}
	if err := second(); err != nil || d.Pinned(b[:32]) {
		t.Errorf("after both were undone: %v", err)
	}
}

func mustLoad(t *testing.T, d *Device) device.Module {
	t.Helper()
	m, err := d.Load(&device.Image{Name: "test", Targets: []device.Target{{Arch: 80, PTX: ptx("")}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Events measure time. Their order has no effect here, because no work overlaps.
func TestEvents(t *testing.T) {
	r := newRig(t, nil, ptx("st.global.u64 [%rd2], 1;"), []uint64{1}, 1)
	a, err := r.dev.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.dev.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Since(a); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Since of an event never recorded: %v", err)
	}
	err = errors.Join(r.stream.Record(a), r.launch(1, 1), r.stream.Record(b), r.stream.Wait(b), b.Sync(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := b.Since(a); err != nil || d != 9 {
		t.Errorf("9 instructions took %v, %v", d, err)
	}
}

// A replay with the same seed gives the same trace, instruction by instruction.
func TestReplay(t *testing.T) {
	const body = `
	and.b32 %r3, %r1, 1;
	setp.eq.u32 %p1, %r3, 0;
	@%p1 bra EVEN;
	atom.global.add.u64 %rd3, [%rd1], 1;
EVEN:
	ld.relaxed.gpu.global.u64 %rd3, [%rd1];
	bar.warp.sync -1;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	bar.sync 0;
	st.global.u64 [%rd5], %rd3;`
	for _, s := range []Scheduler{Fast, Random, PCT} {
		trace := func(seed uint64) string {
			file := filepath.Join(t.TempDir(), "trace")
			r := newRig(t, &Options{Scheduler: s, Seed: seed, Trace: file}, ptx(body), []uint64{0}, 3*64)
			out := fmt.Sprint(r.run(3, 64), r.run(3, 64)) // two launches
			if err := r.dev.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return out + string(text)
		}
		one := trace(7)
		if again := trace(7); again != one {
			t.Errorf("%s: two traces of one seed differ", s)
		}
		if other := strings.ReplaceAll(trace(8), "seed 8", "seed 7"); (other == one) != (s == Fast) {
			t.Errorf("%s: another seed has the same trace: %v", s, other == one)
		}
		if len(one) < 1<<12 {
			t.Errorf("%s: a trace of %d bytes", s, len(one))
		}
	}
}

// A trace shows each instruction with its thread, its lanes and its line.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	r := newRig(t, &Options{Trace: file}, ptx("setp.lt.u32 %p1, %r2, 4;\n@%p1 st.global.u64 [%rd2], 1;\n"+
		"ld.global.v2.u32 {%r3, %r4}, [%rd1];\natom.global.add.u64 %rd3, [%rd1], 2;\nfence.acq_rel.gpu;\nld.local.u32 %r3, [lo];"), []uint64{7<<32 | 5}, 1)
	if err := r.launch(1, 32); err == nil {
		t.Fatal("no fault")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# launch 0: k, grid [1 1 1], blocks of [32 1 1], seed 0",
		"0,0,0.0 ffffffff 21: setp.lt.u32 %p1, %r2, 4",
		"0,0,0.0 0000000f 22: @%p1 st.global.u64 [%rd2], 1  (of ffffffff)  lane 0: [0x1b5740000100] = 0x1\n",
		"23: ld.global.v2.u32 {%r3, %r4}, [%rd1]  lane 0: [0x1b5700000000] = 0x5 0x7\n",
		"24: atom.global.add.u64 %rd3, [%rd1], 2  lane 0: [0x1b5700000000] = 0x700000005\n",
		"25: fence.acq_rel.gpu\n",
		"26: ld.local.u32 %r3, [lo]  lane 0: [0x0]\n",
		"# reads byte 0 of a thread's local memory, which was never written: kernel k",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the trace lacks %q:\n%s", want, text)
		}
	}
}

func TestTraceWithoutRegisters(t *testing.T) {
	const src = ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 8 .b8 p[16]) { membar.gl; ret; }"
	if err := newRig(t, &Options{Trace: filepath.Join(t.TempDir(), "trace")}, src, []uint64{1}, 1).launch(1, 1); err != nil {
		t.Error(err)
	}
}

func TestRewrite(t *testing.T) {
	src := ptx("st.global.u64 [%rd2], 1;")
	r := newRig(t, &Options{Rewrite: func(file, ptx string) string {
		if file != "test_sm80.ptx" {
			t.Errorf("file %q", file)
		}
		return strings.ReplaceAll(ptx, "[%rd2], 1", "[%rd2], 2")
	}}, src, []uint64{0}, 1)
	if got := r.run(1, 1)[0]; got != 2 {
		t.Errorf("got %d", got)
	}
}

// Later devices reuse cached programs: those of unchanged images always, those of rewritten images
// only if they are recent.
func TestProgramsThatStay(t *testing.T) {
	load := func(line string) map[string]*program {
		t.Helper()
		d, err := Open(&Options{Rewrite: func(_, ptx string) string { return ptx + line }})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m, err := d.Load(&device.Image{Name: "stays", Targets: []device.Target{{Arch: 80, PTX: ptx("")}}})
		if err != nil {
			t.Fatal(err)
		}
		return m.(*loaded).prog
	}
	first, mutant := load(""), load("// 0")
	if !same(mutant, load("// 0")) {
		t.Error("a program is made twice")
	}
	for i := range maxRewritten {
		load(fmt.Sprint("// ", i+1))
	}
	if same(mutant, load("// 0")) {
		t.Error("every mutant stays")
	}
	if !same(first, load("")) {
		t.Error("a program that nobody has rewritten is gone")
	}
}

func same(a, b map[string]*program) bool { return a["k"] == b["k"] }

// Programs are also cached for images with variables. Each device has its own variables.
func TestVariablesOfEachDevice(t *testing.T) {
	src := strings.Replace(ptx(`
	mov.u64 %rd3, count;
	ld.global.u64 %rd4, [count];
	add.u64 %rd4, %rd4, 1;
	st.u64 [%rd3+8], %rd4;
	ld.u64 %rd4, [count+8];
	st.global.u64 [%rd2], %rd3;
	st.global.u64 [%rd2+8], %rd4;`), ".visible .entry", ".global .align 8 .u64 count[2] = {41, 0};\n.visible .entry", 1)
	programs, at := map[*program]bool{}, map[uint64]bool{}
	for _, before := range []int{1, 1000, 100_000} {
		r := newRig(t, nil, ptx(""), []uint64{0}, 2)
		if _, err := r.dev.Alloc(before); err != nil {
			t.Fatal(err)
		}
		m, err := r.dev.Load(&device.Image{Name: "variables", Targets: []device.Target{{Arch: 80, PTX: src}}})
		if err != nil {
			t.Fatal(err)
		}
		if r.kernel, err = m.Kernel("k"); err != nil {
			t.Fatal(err)
		}
		got := r.run(1, 1)
		if got[1] != 42 {
			t.Errorf("behind %d bytes the variable is %d, want 42", before, got[1])
		}
		programs[m.(*loaded).prog["k"]], at[got[0]] = true, true
	}
	if len(programs) != 1 || len(at) != 3 {
		t.Errorf("%d programs, want one; the variable has %d addresses, want three", len(programs), len(at))
	}
}

// Watch receives every access to global memory, in order.
func TestWatch(t *testing.T) {
	var seen []Access
	r := newRig(t, &Options{Watch: func(a Access) { seen = append(seen, a) }}, ptx(`
	ld.global.u32 %r3, [%rd1];
	ld.param.u64 %rd3, [p];
	st.shared.u32 [sh], %r3;
	st.global.v2.u64 [%rd2], {%rd3, %rd3};
	red.global.add.u64 [%rd1], 1;`), []uint64{0}, 2)
	r.run(1, 1)
	in, out := r.in.Ptr(), r.out.Ptr()
	want := []Access{{Addr: in, Size: 4}, {Addr: out, Size: 8, Write: true}, {Addr: out + 8, Size: 8, Write: true}, {Addr: in, Size: 8, Write: true}}
	if !slices.Equal(seen, want) {
		t.Errorf("saw %+v", seen)
	}
}

// linearize keeps the blocks of a loop together, and puts the loop's exit after them.
func TestLinearize(t *testing.T) {
	blocks := []basicBlock{
		{fallThrough: -1, jumps: []int{3}},    // entry
		{fallThrough: 2},                      // end of the body
		{fallThrough: 3},                      // latch, back to the head
		{fallThrough: 4, jumps: []int{5}},     // head: leave to 5
		{fallThrough: -1, jumps: []int{1, 2}}, // body
		{fallThrough: -1},                     // exit
	}
	at := make([]int, len(blocks))
	for i, b := range linearize(blocks) {
		at[b] = i
	}
	for _, pair := range [][2]int{{0, 3}, {3, 4}, {4, 1}, {1, 2}, {2, 5}} {
		if at[pair[0]] >= at[pair[1]] {
			t.Errorf("block %d stands behind block %d: positions %v", pair[0], pair[1], at)
		}
	}
}
