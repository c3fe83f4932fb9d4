package lint

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// opaque lists exported fields of public types that may have an internal type, with the reason.
var opaque = map[string]string{
	"linear.Ref.Terms":  "kernels read it; Go code passes the Ref on as it is",
	"slab.Ref.Terms":    "as linear.Ref.Terms",
	"ordered.Ref.Terms": "as linear.Ref.Terms",
	"btree.Ref.Terms":   "as linear.Ref.Terms",
}

// publics requires go doc to show public types in full. A public type must not be an alias or a
// copy of an internal type, because go doc then shows only its name. Exported fields must not have
// an internal type, unless opaque lists them.
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

// shown reports the parts of a type that go doc hides.
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

// hiddenNames returns the names under which a file imports internal packages.
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

// internalType returns the name, such as "op.Kind", if e is an internal type or a pointer or slice
// of one. Otherwise it returns "".
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
