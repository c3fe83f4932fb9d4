package kernelgen

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A newer target has its own file if instructions differ. Otherwise it may have other register
// bounds.
func TestTargetsShare(t *testing.T) {
	const same = "{Arch: 90, PTX: tinySM80, Params: tinyKernels}"
	for _, c := range []struct {
		name, old, new string
		own            bool
		want           string // part of the generated file
	}{
		{"instructions differ", "", "", true, "{Arch: 90, PTX: tinySM90, Params: tinyKernels}"},
		{"nothing differs", "__CUDA_ARCH__; // the target", "1;", false, same},
		{"bounds differ", "void tiny_get_##B(", "void __attribute__((launch_bounds(64, __CUDA_ARCH__ / 100))) tiny_get_##B(", false,
			"MinBlocks: map[string]int{\n\t\t\t\"tiny_get_32\": 9,\n\t\t}}"},
		{"one has bounds", "void tiny_get_##B(", "void BOUND tiny_get_##B(", true, "{Arch: 90, PTX: tinySM90, Params: tinyKernels}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			room(t)
			if c.old != "" {
				edit(t, "tiny.cu", "__CUDA_ARCH__; // the target", "1;")
			}
			if c.new != "1;" && c.old != "" {
				edit(t, "tiny.cu", c.old, c.new)
				edit(t, "tiny.cu", "namespace tiny {", "#if __CUDA_ARCH__ < 900\n#define BOUND __attribute__((launch_bounds(64, 8)))\n#else\n#define BOUND __attribute__((launch_bounds(64)))\n#endif\nnamespace tiny {")
			}
			if err := gen(t); err != nil {
				t.Fatal(err)
			}
			if src := read(t, "tiny_ptx_gen.go"); !strings.Contains(src, c.want) {
				t.Errorf("generated file lacks %q:\n%s", c.want, src)
			}
			if _, err := os.Stat("tiny_sm90.ptx"); errors.Is(err, fs.ErrNotExist) == c.own {
				t.Errorf("a file of the newer target: %v", err)
			}
			if out, err := build(t); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := generateWith("-check"); err != nil {
				t.Errorf("fresh: %v", err)
			}
		})
	}
}
