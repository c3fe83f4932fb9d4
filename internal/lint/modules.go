package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// allowed lists the modules that the library may require, two of them in tests only.
// ARCHITECTURE.md gives the reason for each.
var allowed = []string{
	"github.com/anishathalye/porcupine", "github.com/ebitengine/purego", "golang.org/x/sync", "golang.org/x/sys", "pgregory.net/rapid",
}

// modules keeps requirements of commands and measurements out of the library's module. It also
// rejects replace directives in modules that users install, since go install refuses these.
func modules(t *Tree) (found []string) {
	for _, f := range t.gos {
		for _, imp := range f.ast.Imports {
			if strings.HasPrefix(imp.Path.Value, `"github.com/weftgo/weft/lab/`) && !strings.HasPrefix(f.path, "lab/") {
				found = append(found, fmt.Sprintf("%s: imports the lab; only the lab may", f.path))
			}
		}
	}
	for _, name := range t.files {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		own := name == "lab/go.mod" || name == "tools/go.mod"
		for _, fields := range directives(t.read(name)) {
			switch {
			case fields[0] == "replace" && !own:
				found = append(found, fmt.Sprintf("%s: replaces %s: go install of the module would refuse; go.work is for that", name, fields[1]))
			case fields[0] == "require" && name == "go.mod" && !slices.Contains(allowed, fields[1]):
				found = append(found, fmt.Sprintf("%s: requires %s: users of the library would get it", name, fields[1]))
			}
		}
	}
	return found
}

// directives returns the fields of each directive in a go.mod file. A line inside a block starts
// with the block's keyword.
func directives(text string) (lines [][]string) {
	block := ""
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "//"):
		case fields[0] == ")":
			block = ""
		case block != "":
			lines = append(lines, append([]string{block}, fields...))
		case len(fields) > 1 && fields[1] == "(":
			block = fields[0]
		case len(fields) > 1:
			lines = append(lines, fields)
		}
	}
	return lines
}
