package cuda

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// twoKernels is PTX in the form of cmd/weftgen. Both kernels call a function; one reads a constant.
const twoKernels = `// Code generated.
.version 8.3
.target sm_80
.address_size 64
.visible .const .align 4 .u32 limit = 7;
.weak .shared .align 4 .b8 room[8];
.func (.param .b32 out) twice(
.param .b32 in
)
;
.func (.param .b32 out) twice(
.param .b32 in
)
{
ret;
}
.visible .entry one(
.param .u64 one_param_0
)
.maxntid 256, 1, 1
.minnctapersm 5
{
{ .reg .pred p; ld.const.u32 %r1, [limit]; }
call twice;
ret;
}
.visible .entry two()
{
st.shared.u32 [room], 1;
ret;
}
`

func imageOf(arch int, ptx string, minBlocks map[string]int) *device.Image {
	return &device.Image{Name: "test", Targets: []device.Target{
		{Arch: arch, PTX: ptx, Params: map[string]int{"one": 8, "two": 0}, MinBlocks: minBlocks},
	}}
}

func streamOf(t *testing.T, d *Device) *device.Stream {
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func launch(s *device.Stream, k device.Kernel) error {
	if k.ParamSize() == 0 {
		return device.Launch(s, k, device.Dim{}, device.Dim{}, &struct{}{})
	}
	return device.Launch(s, k, device.Dim{}, device.Dim{}, &[1]uint64{})
}

// The driver compiles a kernel at its first launch, with only the parts that the kernel uses.
func TestKernelsAreCompiledWhenLaunched(t *testing.T) {
	f := newFake()
	d := f.open(t)
	img := imageOf(90, twoKernels, map[string]int{"one": 8})
	one, err := kernelOf(d, img, "one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := kernelOf(d, img, "two")
	if err != nil {
		t.Fatal(err)
	}
	if n := f.calls[symModuleLoadDataEx]; n != 0 {
		t.Errorf("%d modules were loaded before a launch", n)
	}
	s := streamOf(t, d)
	for range 2 {
		if err := launch(s, two); err != nil {
			t.Fatal(err)
		}
	}
	const head = ".version 8.3\n.target sm_90\n.address_size 64\n"
	want := head + ".weak .shared .align 4 .b8 room[8];\n" + twoKernels[strings.Index(twoKernels, ".visible .entry two"):]
	if got := slices.Collect(maps.Values(f.modules)); !slices.Equal(got, []string{want}) {
		t.Errorf("modules are %q, want %q", got, want)
	}
	if err := launch(s, one); err != nil {
		t.Fatal(err)
	}
	if again, err := kernelOf(d, img, "one"); again != one || err != nil {
		t.Errorf("the kernel again is %v, %v", again, err)
	}
	for _, text := range f.modules {
		if strings.Contains(text, "entry one") {
			for part, n := range map[string]int{head: 1, "limit = 7": 1, ".func": 2, "room": 0, "entry two": 0, ".minnctapersm 8\n": 1, ".minnctapersm 5": 0} {
				if strings.Count(text, part) != n {
					t.Errorf("%q is there %d times, want %d:\n%s", part, strings.Count(text, part), n, text)
				}
			}
		}
	}
	if err := d.Unload(img); err != nil || len(f.modules) != 0 {
		t.Errorf("%d modules are left, %v", len(f.modules), err)
	}
	if err := launch(s, one); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a launch after Unload: %v", err)
	}
}

// Kernels that share a variable are compiled once, all together.
func TestKernelsThatShareAreCompiledTogether(t *testing.T) {
	for name, ptx := range map[string]string{
		"a variable":    strings.Replace(twoKernels, ".visible .const", ".visible .global", 1),
		"an open brace": strings.Replace(twoKernels, "call twice;\nret;\n}", "call twice;\nret;", 1),
	} {
		f := newFake()
		d := f.open(t)
		s := streamOf(t, d)
		img := imageOf(80, ptx, nil)
		for kernel := range img.Targets[0].Params {
			k, err := kernelOf(d, img, kernel)
			if err == nil {
				err = launch(s, k)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := slices.Collect(maps.Values(f.modules)); !slices.Equal(got, []string{ptx}) {
			t.Errorf("%s: modules are %q", name, got)
		}
	}
}

// A launch returns the compiler's message. It uses an older target if the driver is too old.
func TestLaunchCompiles(t *testing.T) {
	f := newFake()
	d := f.open(t)
	s := streamOf(t, d)
	img := imageOf(80, twoKernels, nil)
	img.Targets = append(img.Targets, device.Target{Arch: 90, PTX: strings.ReplaceAll(twoKernels, "call twice", "newest"), Params: img.Targets[0].Params})
	k, err := kernelOf(d, img, "one")
	if err == nil {
		err = launch(s, k)
	}
	if got := slices.Collect(maps.Values(f.modules)); err != nil || len(got) != 1 || !strings.Contains(got[0], ".target sm_80\n") {
		t.Errorf("modules are %q, %v", got, err)
	}
	k, err = kernelOf(d, imageOf(80, strings.ReplaceAll(twoKernels, "call twice", "bad"), nil), "one")
	if err != nil {
		t.Fatal(err)
	}
	err = launch(s, k)
	if !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), fakeLog) || !strings.Contains(err.Error(), "image test") {
		t.Errorf("error is %v", err)
	}
}

// All kernels of this repository can be split into modules that contain every name they use.
func TestRepositorySplits(t *testing.T) {
	var files []string
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == "out" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") && path != "../.." {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".ptx") && !strings.Contains(path, "testdata") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no tree of the repository: the binary was carried here")
	}
	declaration := regexp.MustCompile(`(?m)^(?:\.weak |\.visible )*\.(?:const|shared) (?:\.align \d+ )?\.\w+ ([\w$]+)`)
	mangled := regexp.MustCompile(`_Z[\w$]+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := split(string(text))
		if s == nil {
			t.Errorf("%s cannot be split", file)
			continue
		}
		if want := strings.Count(string(text), ".entry "); len(s.kernels) != want {
			t.Errorf("%s: %d kernels, want %d", file, len(s.kernels), want)
		}
		for name := range s.kernels {
			piece := s.kernel(name, &device.Target{Arch: 90, PTX: string(text)})
			if strings.Count(piece, "{") != strings.Count(piece, "}") || strings.Count(piece, ".entry ") != 1 {
				t.Errorf("%s: kernel %s is not whole", file, name)
			}
			declared := map[string]bool{}
			for _, m := range declaration.FindAllStringSubmatch(piece, -1) {
				declared[m[1]] = true
			}
			for _, used := range mangled.FindAllString(piece, -1) {
				if !declared[used] {
					t.Errorf("%s: kernel %s uses %s, which is not there", file, name, used)
					break
				}
			}
		}
	}
}
