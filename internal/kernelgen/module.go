package kernelgen

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// weftPath is the path of weft's module, with which imports in generated files begin.
const weftPath = "github.com/weftgo/weft"

// module is the Go module of the source.
type module struct {
	root string // absolute path; records name files relative to it
	path string
}

// isWeft reports whether the module is weft itself.
func (m *module) isWeft() bool { return m.path == weftPath }

var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+("[^"\n]+"|[^\s"]+)`)

// findModule returns the module of dir: that of the closest go.mod in dir or above. A module nested
// in weft's counts as a part of weft, so that its kernels use the headers of the tree.
func findModule(dir string) (module, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return module{}, err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, "go.mod")
		text, err := os.ReadFile(file)
		if err == nil {
			line := moduleLine.FindStringSubmatch(string(text))
			if line == nil {
				return module{}, fmt.Errorf("%s has no module line; go mod init writes one", file)
			}
			m := module{dir, strings.Trim(line[1], `"`)}
			if up, nested := strings.CutPrefix(m.path, weftPath+"/"); nested {
				whole, err := findModule(filepath.Dir(dir))
				if err == nil && whole.isWeft() && filepath.Join(whole.root, up) == dir {
					return whole, nil
				}
			}
			return m, nil
		}
		if !os.IsNotExist(err) {
			return module{}, err
		}
		if dir == filepath.Dir(dir) {
			return module{}, fmt.Errorf("%s is not in a module: neither it nor a parent directory has a go.mod; create one with go mod init", start)
		}
	}
}

// relative returns a path relative to the module's root, with slashes. Records and the compiler use
// this form.
func (m *module) relative(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(m.root, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is outside of the module %s, so other machines could not generate the same files; move it into %s", path, m.path, m.root)
	}
	return filepath.ToSlash(rel), nil
}

// goFiles returns the Go files in a directory. The directory's name may contain pattern characters.
func goFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// packageName returns the package name of the Go files in a directory.
func packageName(dir string) (string, error) {
	files, err := goFiles(dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		ast, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly)
		if err == nil {
			return ast.Name.Name, nil
		}
	}
	return "", usage("no package name: %s has no Go files; set -package, or run weftgen by go generate", strconv.Quote(dir))
}
