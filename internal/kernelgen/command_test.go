package kernelgen

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Command(t.Context(), args, &out, &err)
	return status, out.String(), err.String()
}

// otherModule creates a module other than weft, with one source, and changes to the directory of
// its package.
func otherModule(t *testing.T, source string) {
	t.Helper()
	if err := haveClang(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "// a comment\nmodule \"example.com/other\" // another\n\ngo 1.26\n")
	write(t, filepath.Join(root, "k/k.cu"), source)
	write(t, filepath.Join(root, "k/k.go"), "package kk\n")
	t.Chdir(filepath.Join(root, "k"))
	t.Setenv("GOPACKAGE", "")
}

const scale = `#include "weft/builtin.cuh"
extern "C" __global__ void k_scale(float* x, float by, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
`

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "--help"} {
		status, out, complaint := command(t, flag)
		if status != 0 || complaint != "" || !strings.Contains(out, "Examples:") {
			t.Errorf("%s: status %d, %q, %q", flag, status, out, complaint)
		}
	}
	for _, line := range strings.Split(help, "\n") {
		if len(line) > 100 {
			t.Errorf("a line of %d letters: %s", len(line), line)
		}
	}
}

func TestUsage(t *testing.T) {
	otherModule(t, scale)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"want one source, got 0", nil},
		{"want one source, got 2", []string{"k.cu", "b.cu"}},
		{"k.go: want a source with a name that ends in .cu", []string{"k.go"}},
		{"k.cu: want a header with a name that ends in .cuh", []string{"-struct", "Table", "k.cu"}},
		{"flag provided but not defined: -none", []string{"-none"}},
		{"-target 90,80: want ascending numbers", []string{"-target", "90,80", "k.cu"}},
		{"-target sm_80: want ascending numbers", []string{"-target", "sm_80", "k.cu"}},
		{"-widths 32: want pairs", []string{"-widths", "32", "k.cu"}},
		{"want C++=Go", []string{"-type", "Table", "k.cu"}},
		{"-type T=gpu.T: this module has no directory gpu", []string{"-type", "T=gpu.T", "k.cu"}},
		{"-I k.go: want a directory", []string{"-I", "k.go", "k.cu"}},
		{"-check: want one directory, or none for the whole module, got 2", []string{"-check", "a", "b"}},
		{"-package func: want a valid name of a Go package", []string{"-package", "func", "k.cu"}},
		{"the generated name 7-upImage is not valid in Go", []string{"-package", "p", "7-up.cu"}},
		{"no package name", []string{"lone/lone.cu"}},
	} {
		write(t, "7-up.cu", scale)
		write(t, "lone/lone.cu", scale)
		status, _, complaint := command(t, c.args...)
		if status != exitUsage || !strings.Contains(complaint, c.want) || !strings.Contains(complaint, "try 'weftgen --help'") {
			t.Errorf("%q: status %d, %q, want %q", c.args, status, complaint, c.want)
		}
	}
}

// These failures have causes outside the command line.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T)
		args   []string
		want   string
	}{
		{"no source", nil, []string{"missing.cu"}, "missing.cu: no such file"},
		{"no directory of headers", nil, []string{"-I", "gone", "k.cu"}, "-I: stat gone"},
		{"headers outside of the module", nil, []string{"-I", os.TempDir(), "k.cu"}, "is outside of the module example.com/other"},
		{"no module", func(t *testing.T) { remove(t, "../go.mod") }, []string{"k.cu"}, "is not in a module"},
		{"an empty go.mod", func(t *testing.T) { write(t, "../go.mod", "") }, []string{"k.cu"}, "has no module line"},
		{"the compiler complains", func(t *testing.T) { edit(t, "k.cu", "*= by", "*= buy") }, []string{"k.cu"}, "k/k.cu:4:22: error: use of undeclared identifier 'buy'"},
		{"complaint about a header of weft", func(t *testing.T) { edit(t, "k.cu", "x[i] *= by", "threadIdx = 0") }, []string{"k.cu"}, "github.com/weftgo/weft/kernels/include/weft/builtin.cuh:"},
		{"header of the system", func(t *testing.T) { edit(t, "k.cu", `"weft/builtin.cuh"`, "<cstdint>") }, []string{"k.cu"}, "compiled without system headers"},
		{"no header", func(t *testing.T) { edit(t, "k.cu", `#include "weft/builtin.cuh"`, "") }, []string{"k.cu"}, `begin the source with #include "weft/builtin.cuh"`},
		{"header that weft has not", func(t *testing.T) { edit(t, "k.cu", "weft/builtin.cuh", "weft/other.cuh") }, []string{"k.cu"}, "this version of weft has no such header"},
		{"no kernels", func(t *testing.T) { edit(t, "k.cu", "__global__", "__device__") }, []string{"k.cu"}, "k for sm_80: has no kernels: declare them extern \"C\" __global__"},
		{"two kernels of one name", func(t *testing.T) {
			write(t, "k.cu", scale+`extern "C" __global__ void scale(float* x) { *x = 1; }`)
		}, []string{"k.cu"}, "kernels k_scale and scale would both be method Scale"},
		{"name taken", func(t *testing.T) { write(t, "more.go", "package kk\n\nfunc loadK() {}\n") }, []string{"k.cu"}, "k.cu: the generated name loadK is already declared in more.go:3:6"},
		{"output is a directory", func(t *testing.T) { write(t, "k_sm80.ptx/file", "") }, []string{"k.cu"}, "k_sm80.ptx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			otherModule(t, scale)
			if c.change != nil {
				c.change(t)
			}
			status, out, complaint := command(t, c.args...)
			if status != exitFailed || !strings.Contains(complaint, c.want) || out != "" {
				t.Errorf("status %d, %q, want %q", status, complaint, c.want)
			}
			if strings.Contains(complaint, os.TempDir()+"/weftgen") {
				t.Errorf("names a temporary directory: %s", complaint)
			}
		})
	}
}

// In a user's module the outputs record their inputs, and -check detects changes, even of weft's
// headers.
func TestOtherModule(t *testing.T) {
	otherModule(t, scale)
	write(t, "inc/half.cuh", "#define HALF 0.5f\n")
	edit(t, "k.cu", "*= by", "*= by * HALF * TWICE")
	edit(t, "k.cu", "#include", "#include \"half.cuh\"\n#include")
	if status, _, complaint := command(t, "-I", "inc", "-D", "TWICE=2", "-target", "80,90", "k.cu"); status != 0 {
		t.Fatal(complaint)
	}
	src := read(t, "k_ptx_gen.go")
	for _, want := range []string{
		"// Code generated by weftgen from k.cu. DO NOT EDIT.\n", "package kk\n",
		"//weftgen:more -I k/inc -DTWICE=2\n", " k/inc/half.cuh\n", "//weftgen:header ", " weft/builtin.cuh\n", "-isystem github.com/weftgo/weft/kernels/include -O3\n",
		"func loadK(dev device.Device) (*kModule, error)", "func (m *kModule) Scale(s *device.Stream, grid, block device.Dim, params *scaleParams) error",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("generated file lacks %q", want)
		}
	}
	if all := src + read(t, "k_sm80.ptx") + read(t, "k_params_gen.go"); strings.Contains(all, os.TempDir()) {
		t.Error("an output names a temporary directory")
	}
	if status, _, complaint := command(t, "-check"); status != 0 {
		t.Errorf("fresh: %s", complaint)
	}
	// This simulates an update of weft.
	i := strings.Index(src, "//weftgen:header ") + len("//weftgen:header ")
	write(t, "k_ptx_gen.go", src[:i]+strings.Repeat("0", 64)+src[i+64:])
	if status, _, complaint := command(t, "-check"); status != exitFailed || !strings.Contains(complaint, "weft/builtin.cuh changed; run go generate ./k") {
		t.Errorf("header of weft: status %d, %q", status, complaint)
	}
}

// A kernel may have no parameters, or structs of weft.
func TestParametersOfUsers(t *testing.T) {
	otherModule(t, `#include "weft/alloc.cuh"
namespace weft::linear { template <class K, class V> struct Ref { K* keys; }; }
namespace weft::slab { template <class K> struct Ref { K* keys; }; struct MultiRef { uint64_t* keys; }; }
struct Both { weft::linear::Ref<uint32_t, int> ids; weft::linear::Ref<uint64_t, float> wide; weft::slab::Ref<int> s; weft::slab::MultiRef m; };
extern "C" __global__ void both(Both b) { b.wide.keys[0] = b.ids.keys[0] + b.s.keys[0] + b.m.keys[0]; }
extern "C" __global__ void nothing() {}
namespace weft::graph { struct Graph { uint32_t* records; }; }
extern "C" __global__ void rows(weft::graph::Graph graph, uint32_t* x) { x[0] = graph.records[0]; }
extern "C" __global__ void units(weft::Allocator pool, uint8_t* x, const float (*matrix)[4]) { x[0] = pool.count; x[1] = matrix[1][1]; }
`)
	if status, _, complaint := command(t, "k.cu"); status != 0 {
		t.Fatal(complaint)
	}
	src := read(t, "k_params_gen.go")
	for _, want := range []string{"pool   alloc.Ref\n", "ids  linear.Ref\n", "wide linear.Ref\n", "s    slab.Ref\n", "m    slab.Ref\n", "graph graph.Ref\n", "matrix device.Ptr\n", "\"github.com/weftgo/weft/alloc\"\n", "[unsafe.Sizeof(alloc.Ref{})]byte{}"} {
		if !strings.Contains(src, want) {
			t.Errorf("generated structs lack %q:\n%s", want, src)
		}
	}
	if src := read(t, "k_ptx_gen.go"); !strings.Contains(src, "Nothing(s *device.Stream, grid, block device.Dim) error") {
		t.Error(src)
	}
}

// One type loads the images of all widths.
func TestLoaderOfVariants(t *testing.T) {
	otherModule(t, `#include "weft/entry.cuh"
#define NAME(k) WEFT_PAIR(k, WEFT_KEY_BITS, WEFT_VALUE_BITS)
extern "C" __global__ void NAME(k_fill)(weft::Integer<WEFT_KEY_BITS>::Type* x) { *x = 1; }
`)
	if status, _, complaint := command(t, "-export", "-widths", "32_32,64_0", "k.cu"); status != 0 {
		t.Fatal(complaint)
	}
	src := read(t, "k_ptx_gen.go")
	for _, want := range []string{
		"func LoadK(dev device.Device, widths string) (*KModule, error)", "image := KImages[widths]", `[...]string{"k_fill"}`, `name + "_" + widths`,
		"Fill(s *device.Stream, grid, block device.Dim, params *FillParams) error", "\"fmt\"\n",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("generated file lacks %q:\n%s", want, src)
		}
	}
}

func TestFailureToWriteHelp(t *testing.T) {
	if status := Command(t.Context(), []string{"-h"}, broken{}, broken{}); status != exitFailed {
		t.Error(status)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }
