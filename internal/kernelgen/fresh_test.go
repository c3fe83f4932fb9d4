package kernelgen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The generated files of this repository match their sources. The test needs no compiler.
func TestRepositoryIsFresh(t *testing.T) {
	if err := (&options{module: module{repository, weftPath}}).verifyTree(repository); err != nil {
		t.Error(err)
	}
}

func TestStaleFilesAreNamed(t *testing.T) {
	cases := []struct {
		name   string
		change func(t *testing.T)
		want   string
	}{
		{"source", func(t *testing.T) { edit(t, "tiny.cu", "// the work", "") }, "tiny/tiny.cu changed; run go generate ./tiny"},
		{"header", func(t *testing.T) { edit(t, "../kernels/include/weft/least.cuh", "#pragma once\n", "") }, "kernels/include/weft/least.cuh changed"},
		{"output", func(t *testing.T) { edit(t, "tiny_sm90.ptx", ".target sm_90", ".target sm_91") }, "tiny/tiny_sm90.ptx changed"},
		{"structs", func(t *testing.T) { edit(t, "tiny_params_gen.go", "maxProbe uint32", "maxProbe int32") }, "tiny/tiny_params_gen.go changed"},
		{"structs of nobody", func(t *testing.T) { write(t, "old_params_gen.go", "package tiny\n") }, "tiny/old_params_gen.go is not in a record"},
		{"output gone", func(t *testing.T) { remove(t, "tiny_sm80.ptx") }, "tiny/tiny_sm80.ptx is gone"},
		{"source gone", func(t *testing.T) { remove(t, "tiny.cu") }, "tiny/tiny.cu is gone"},
		{"generator", func(t *testing.T) {
			edit(t, "tiny_ptx_gen.go", "//kernelgen:version "+version, "//kernelgen:version 0")
		}, "made by version 0"},
		{"flags", func(t *testing.T) { edit(t, "tiny_ptx_gen.go", "-O3", "-O2") }, "the flags changed"},
		{"record damaged", func(t *testing.T) { edit(t, "tiny_ptx_gen.go", "//kernelgen:target", "//kernelgen:tarmac") }, "is unknown"},
		{"record gone", func(t *testing.T) { write(t, "tiny_ptx_gen.go", "package tiny\n") }, "has no record"},
		{"never compiled", func(t *testing.T) { write(t, "more.cu", "") }, "more.cu has not been compiled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			room(t)
			if err := gen(t); err != nil {
				t.Fatal(err)
			}
			if err := generateWith("-check"); err != nil {
				t.Fatalf("fresh: %v", err)
			}
			c.change(t)
			if err := generateWith("-check"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// Modules nested in weft's are part of weft. Other modules with such paths are not.
func TestNestedModules(t *testing.T) {
	m, err := findModule(filepath.Join(repository, "lab"))
	if root, _ := filepath.Abs(repository); err != nil || !m.isWeft() || m.root != root {
		t.Errorf("the lab is in %+v, %v", m, err)
	}
	lone := t.TempDir()
	write(t, filepath.Join(lone, "go.mod"), "module "+weftPath+"/lab\n")
	if m, err := findModule(lone); err != nil || m.isWeft() || m.root != lone {
		t.Errorf("a module elsewhere is in %+v, %v", m, err)
	}
}
