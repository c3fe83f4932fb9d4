// Package lint checks rules of this repository that go vet and staticcheck do not cover. Each rule
// is a function over a file tree. The package's tests apply the rules to the repository, so go test
// ./... enforces them.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines and maxBytes limit the size of a file.
const (
	maxLines = 700
	maxBytes = 1 << 20
)

// Tree is the set of files to check.
type Tree struct {
	fsys  fs.FS
	files []string // slash-separated, sorted
	fset  *token.FileSet
	gos   []goFile
}

type goFile struct {
	path string
	ast  *ast.File
}

func (f goFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// NewTree parses the named Go files of fsys. It returns an error if a Go file cannot be read or
// parsed.
func NewTree(fsys fs.FS, files []string) (*Tree, error) {
	t := &Tree{fsys: fsys, files: slices.Sorted(slices.Values(files)), fset: token.NewFileSet()}
	for _, name := range t.files {
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			continue
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		t.gos = append(t.gos, goFile{name, file})
	}
	return t, nil
}

// Rule is a check of a tree. Check returns one sentence per violation, which begins with the path
// of the file.
type Rule struct {
	Name  string
	Check func(*Tree) []string
}

// Rules lists all rules.
var Rules = []Rule{
	{"every package has a doc comment and tests", packages},
	{"files are short", lengths},
	{"files are small", sizes},
	{"purego opens C libraries in two packages", pureGo},
	{"no paths of somebody's machine", localPaths},
	{"kernels are generated", generated},
	{"packages of structures have the same files", structures},
	{"users of the library get purego and x/sys", modules},
	{"links lead somewhere", links},
	{"CI and releases do what a script here does", hosting},
	{"errors assigned after a return are results", deferredErrors},
	{"go doc shows public types whole", publics},
	{"comments have plain words", words},
	{"comment lines are short", columns},
	{"words of file names are separate", names},
}

// packages requires a doc comment and a test file in each directory that has Go code. Programs
// under examples need no tests: they are documentation themselves.
func packages(t *Tree) (found []string) {
	documented, tested := make(map[string]bool), make(map[string]bool)
	var dirs []string
	for _, f := range t.gos {
		dir := path.Dir(f.path)
		switch {
		case f.test():
			tested[dir] = true
		default:
			dirs = append(dirs, dir)
			documented[dir] = documented[dir] || f.ast.Doc != nil && !ast.IsGenerated(f.ast)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if !documented[dir] {
			found = append(found, fmt.Sprintf("%s: no file has a package comment", dir))
		}
		if !tested[dir] && !strings.HasPrefix(dir, "examples/") {
			found = append(found, fmt.Sprintf("%s: no tests", dir))
		}
	}
	return found
}

// sources are the extensions of handwritten files.
var sources = []string{".go", ".cu", ".cuh", ".s", ".sh", ".md"}

func lengths(t *Tree) (found []string) {
	isGenerated := make(map[string]bool)
	for _, f := range t.gos {
		isGenerated[f.path] = ast.IsGenerated(f.ast)
	}
	for _, name := range t.files {
		if isGenerated[name] || !slices.Contains(sources, path.Ext(name)) {
			continue
		}
		if n := strings.Count(t.read(name), "\n"); n > maxLines {
			found = append(found, fmt.Sprintf("%s: %d lines, more than %d: split it by concept", name, n, maxLines))
		}
	}
	return found
}

func sizes(t *Tree) (found []string) {
	for _, name := range t.files {
		if info, err := fs.Stat(t.fsys, name); err == nil && info.Size() > maxBytes {
			found = append(found, fmt.Sprintf("%s: %d bytes, more than %d", name, info.Size(), maxBytes))
		}
	}
	return found
}

// pureGo keeps programs without a GPU statically linked. A program that imports purego is linked to
// the C library, so only two packages may import purego.
func pureGo(t *Tree) (found []string) {
	for _, f := range t.gos {
		if strings.HasPrefix(f.path, "device/cuda/") || strings.HasPrefix(f.path, "mpi/comm/internal/clib/") {
			continue
		}
		for _, imp := range f.ast.Imports {
			if strings.HasPrefix(imp.Path.Value, `"github.com/ebitengine/purego`) {
				found = append(found, fmt.Sprintf("%s: imports purego; only device/cuda and mpi/comm/internal/clib may", f.path))
			}
		}
	}
	return found
}

// localPath matches paths below directories in which people keep their work.
var localPath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `=(:,])/(?:work|home|root|Users)/[\w./-]+`)

func localPaths(t *Tree) (found []string) {
	for _, name := range t.files {
		ext := path.Ext(name)
		if ext != "" && ext != ".ptx" && ext != ".mod" && ext != ".yml" && ext != ".json" && !slices.Contains(sources, ext) {
			continue // binary
		}
		for i, line := range strings.Split(t.read(name), "\n") {
			if p := localPath.FindString(line); p != "" {
				found = append(found, fmt.Sprintf("%s:%d: path of one machine: %s", name, i+1, strings.TrimSpace(p)))
			}
		}
	}
	return found
}

// read returns the content of a file, or "" if the file cannot be read. NewTree has already
// verified that Go files can be read.
func (t *Tree) read(name string) string {
	b, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return ""
	}
	return string(b)
}
