package lint

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// opaque lists the exported fields of public types that have an internal type, with reasons.
var opaque = map[string]string{
	"linear.Ref.Terms":  "kernels read it; Go code passes the Ref on as it is",
	"slab.Ref.Terms":    "as linear.Ref.Terms",
	"ordered.Ref.Terms": "as linear.Ref.Terms",
	"btree.Ref.Terms":   "as linear.Ref.Terms",
}

// publics requires public types that go doc shows in full. They are neither aliases nor copies of
// internal types, of which go doc shows only a name, and have no exported fields of such types.
func publics(t *Tree) (found []string) {
	for _, f := range t.gos {
		if f.test() || f.ast.Name.Name == "main" || strings.Contains("/"+f.path, "/internal/") {
			continue
		}
		hidden := hiddenNames(f.ast)
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok && spec.Name.IsExported() {
					found = append(found, shown(f, spec, hidden)...)
				}
			}
		}
	}
	return found
}

// shown returns what go doc hides of a type.
func shown(f goFile, spec *ast.TypeSpec, hidden map[string]bool) (found []string) {
	name := f.ast.Name.Name + "." + spec.Name.Name
	if from := internalType(spec.Type, hidden); from != "" {
		found = append(found, fmt.Sprintf("%s: go doc %s shows no more than the name %s: declare the type here", f.path, name, from))
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return found
	}
	for _, field := range s.Fields.List {
		from := internalType(field.Type, hidden)
		if from == "" {
			continue
		}
		names := field.Names
		if len(names) == 0 { // embedded
			names = []*ast.Ident{ast.NewIdent(from[strings.Index(from, ".")+1:])}
		}
		for _, n := range names {
			if n.IsExported() && opaque[name+"."+n.Name] == "" {
				found = append(found, fmt.Sprintf("%s: the field %s.%s has the internal type %s", f.path, name, n.Name, from))
			}
		}
	}
	return found
}

// hiddenNames returns the names by which a file imports internal packages.
func hiddenNames(f *ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, imp := range f.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil || !strings.Contains("/"+p+"/", "/internal/") {
			continue
		}
		if imp.Name != nil {
			names[imp.Name.Name] = true
		} else {
			names[path.Base(p)] = true
		}
	}
	return names
}

// internalType returns the internal type that a type is, or points to, as "op.Kind", or "".
func internalType(e ast.Expr, hidden map[string]bool) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && hidden[x.Name] {
			return x.Name + "." + e.Sel.Name
		}
	case *ast.IndexExpr:
		return internalType(e.X, hidden)
	case *ast.IndexListExpr:
		return internalType(e.X, hidden)
	case *ast.StarExpr:
		return internalType(e.X, hidden)
	case *ast.ArrayType:
		return internalType(e.Elt, hidden)
	}
	return ""
}
