package cuda

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestLoadOnce(t *testing.T) {
	f := newFake()
	d := f.open(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := d.Load(vectors); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.calls[symModuleLoadDataEx]; n != 1 {
		t.Errorf("the image was loaded %d times", n)
	}
}

func TestLoadTargets(t *testing.T) {
	ptx := func(what string) string { return "// " + what + "\n.visible .entry k()" }
	for _, c := range []struct {
		name     string
		targets  []device.Target
		variable string
		want     string // text that is loaded
		err      error
	}{
		{"newest that runs", []device.Target{{Arch: 80, PTX: ptx("a")}, {Arch: 90, PTX: ptx("b")}, {Arch: 100, PTX: ptx("c")}}, "", ptx("b"), nil},
		{"older", []device.Target{{Arch: 80, PTX: ptx("a")}}, "", ptx("a"), nil},
		{"asked for older", []device.Target{{Arch: 80, PTX: ptx("a")}, {Arch: 90, PTX: ptx("b")}}, "80", ptx("a"), nil},
		{"asked for newer", []device.Target{{Arch: 80, PTX: ptx("a")}, {Arch: 90, PTX: ptx("b")}, {Arch: 100, PTX: ptx("c")}}, "100", ptx("b"), nil},
		{"asked for nonsense", []device.Target{{Arch: 80, PTX: ptx("a")}}, "sm_80", "", device.ErrInvalid},
		{"none", []device.Target{{Arch: 100, PTX: ptx("c")}}, "", "", device.ErrUnsupported},
		{"driver too old for the newest", []device.Target{{Arch: 80, PTX: ptx("a")}, {Arch: 90, PTX: ptx("newest")}}, "", ptx("a"), nil},
		{"driver too old for all", []device.Target{{Arch: 90, PTX: ptx("newest")}}, "", "", device.ErrKernel},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(archVariable, c.variable)
			f := newFake()
			_, err := f.open(t).Load(&device.Image{Name: "test", Targets: c.targets})
			if !errors.Is(err, c.err) {
				t.Fatalf("error is %v, want %v", err, c.err)
			}
			if got := slices.Collect(maps.Values(f.modules)); c.err == nil && !slices.Equal(got, []string{c.want}) {
				t.Errorf("loaded %q, want %q", got, c.want)
			}
		})
	}
}

func TestLoadShowsTheLog(t *testing.T) {
	d := newFake().open(t)
	_, err := d.Load(&device.Image{Name: "broken", Targets: []device.Target{{Arch: 80, PTX: "bad"}}})
	if !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), fakeLog) || !strings.Contains(err.Error(), "image broken") {
		t.Errorf("error is %v", err)
	}
}

func TestKernelRefuses(t *testing.T) {
	m, err := newFake().open(t).Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"absent":                       "image vectors has no kernel absent",
		"two":                          "several parameters",
		strings.Repeat("a", maxParams): "the name of the kernel has 4096 bytes",
	} {
		if _, err := m.Kernel(name); !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want ErrKernel and %q", err, says)
		}
	}
}

func TestParamsBeyondTheLimit(t *testing.T) {
	d := newFake().open(t)
	for _, size := range []int{-1, maxParams + 1} {
		_, err := kernelOf(d, withParams(map[string]int{"add": size}), "add")
		if !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Unload releases the driver's module at once, not only at Close.
func TestUnloadReachesTheDriver(t *testing.T) {
	f := newFake()
	d := f.open(t)
	if _, err := d.Load(vectors); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second Unload does nothing
		if err := d.Unload(vectors); err != nil {
			t.Error(err)
		}
	}
	if len(f.modules) != 0 || f.calls[symModuleUnload] != 1 {
		t.Errorf("%d modules are left after %d calls", len(f.modules), f.calls[symModuleUnload])
	}
}

func TestEntries(t *testing.T) {
	for _, c := range []struct {
		ptx  string
		want map[string][]int
	}{
		{"", map[string][]int{}},
		{vectors.Targets[0].PTX, map[string][]int{"add": {32}, "wild": {32}, "spin": {32}, "none": {}, "two": {8, 4}}},
		{".visible .entry a_1$(.param .align 8 .b8 a_1$_param_0[48])", map[string][]int{"a_1$": {48}}},
		{".entry b(\n\t.param .u64 .ptr .align 1 b_param_0,\n\t.param .s16 b_param_1,\n\t.param .u8 b_param_2\n)\n.maxntid 256", map[string][]int{"b": {8, 2, 1}}},
		{".visible .entry c(.param .align 16 .b32 c_param_0[3])", map[string][]int{"c": {12}}},
		{".visible .func (.param .b32 r) d(.param .b32 x)\n.visible .entry e ( )", map[string][]int{"e": {}}},
	} {
		got, err := entries(c.ptx)
		if err != nil || !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("entries of %q are %v, %v; want %v", c.ptx, got, err, c.want)
		}
	}
	for _, bad := range []string{".entry a(.param .u65 x)", ".entry a(.reg .u64 x)", ".entry a(.param .b8 x[99999999999999999999])"} {
		if got, err := entries(bad); err == nil {
			t.Errorf("entries of %q are %v", bad, got)
		}
	}
}
