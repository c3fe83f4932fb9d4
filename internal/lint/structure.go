package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// generator matches the directive that compiles the kernels of a directory. Its last argument is
// the source.
var generator = regexp.MustCompile(`^//go:generate go run (?:\.\./)+cmd/weftgen (?:.* )?([\w./]+)$`)

// generated requires a go:generate directive and the generated Go files for each kernel source. A
// test of internal/kernelgen checks that these files and all PTX are up to date.
func generated(t *Tree) (found []string) {
	directives := make(map[string]bool) // keyed by source
	for _, f := range t.gos {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				m := generator.FindStringSubmatch(c.Text)
				if m == nil {
					continue
				}
				source := path.Join(path.Dir(f.path), m[1])
				directives[source] = true
				if !t.has(source) {
					found = append(found, fmt.Sprintf("%s: generates from %s, which does not exist", f.path, source))
				}
			}
		}
	}
	for _, source := range t.files {
		stem, ok := strings.CutSuffix(source, ".cu")
		if !ok {
			continue
		}
		if !directives[source] {
			found = append(found, fmt.Sprintf("%s: no Go file beside it has //go:generate go run .../cmd/weftgen %s", source, path.Base(source)))
		}
		for _, suffix := range []string{"_ptx_gen.go", "_params_gen.go"} {
			if !t.has(stem + suffix) {
				found = append(found, fmt.Sprintf("%s: %s is missing; run go generate", source, stem+suffix))
			}
		}
	}
	return found
}

// structures requires the package of every structure to have the same files. Such a package has
// kernels and is outside internal, lab and examples.
func structures(t *Tree) (found []string) {
	for _, source := range t.files {
		dir := path.Dir(source)
		name := path.Base(dir)
		if path.Ext(source) != ".cu" || strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "lab/") || strings.HasPrefix(dir, "examples/") {
			continue
		}
		if base := path.Base(source); base != name+".cu" && !strings.HasPrefix(base, name+"_") {
			found = append(found, fmt.Sprintf("%s: the kernels of %s belong in %s.cu and %s_*.cu", source, name, name, name))
		}
		for _, want := range []string{"doc.go", "layout.go", name + ".go", "cpu.go", "gpu.go", "example_test.go"} {
			if !t.has(path.Join(dir, want)) {
				found = append(found, fmt.Sprintf("%s: the package has no %s", dir, want))
			}
		}
	}
	return found
}

func (t *Tree) has(name string) bool {
	_, ok := slices.BinarySearch(t.files, name)
	return ok
}
