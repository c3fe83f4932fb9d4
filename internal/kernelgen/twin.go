package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	pathpkg "path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// goStruct is a struct type of the room's package, as written.
type goStruct struct {
	name       string
	pos        string // file:line
	hostLayout bool
	fields     []goField
}

type goField struct {
	name string
	typ  string // if it is a plain name, else ""
}

// readStructs collects the struct types of the package in dir, and by the
// names of their aliases those that it shares with other packages of the
// module. It parses and does not type-check, because the package need not
// compile while its generated file is missing; sizes and offsets are for the
// Go compiler.
func readStructs(root, dir string) (map[string]*goStruct, error) {
	structs, aliases, err := parsePackage(dir)
	if err != nil {
		return nil, err
	}
	names := make(map[alias]string)
	for name, a := range aliases {
		names[a] = name
	}
	for name, a := range aliases {
		theirs, _, err := parsePackage(filepath.Join(root, filepath.FromSlash(a.dir)))
		if err != nil {
			return nil, err
		}
		s := theirs[a.name]
		if s == nil {
			continue // an alias of something else
		}
		for i, f := range s.fields {
			s.fields[i].typ = names[alias{a.dir, f.typ}]
		}
		structs[name] = s
	}
	return structs, nil
}

// alias names a type of another package, by its directory in the module.
type alias struct{ dir, name string }

// parsePackage collects the struct types that the package in dir defines, and
// its aliases of types of other packages of this module.
func parsePackage(dir string) (map[string]*goStruct, map[string]alias, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	structs, aliases := make(map[string]*goStruct), make(map[string]alias)
	fset := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.TypeSpec)
				switch typ := spec.Type.(type) {
				case *ast.StructType:
					at := fset.Position(spec.Pos())
					s := newGoStruct(spec.Name.Name, typ)
					s.pos = fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
					structs[s.name] = s
				case *ast.SelectorExpr:
					if dir := importedFrom(file, typ.X); spec.Assign.IsValid() && dir != "" {
						aliases[spec.Name.Name] = alias{dir, typ.Sel.Name}
					}
				}
			}
		}
	}
	return structs, aliases, nil
}

// importedFrom is the directory in the module of the package that a file knows
// by a name, or "".
func importedFrom(file *ast.File, name ast.Expr) string {
	id, ok := name.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, imp := range file.Imports {
		path, inModule := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), modulePath+"/")
		known := pathpkg.Base(path)
		if imp.Name != nil {
			known = imp.Name.Name
		}
		if inModule && known == id.Name {
			return path
		}
	}
	return ""
}

// modulePath begins the import paths of packages that twins are looked for in.
const modulePath = "github.com/weftgo/weft"

func newGoStruct(name string, st *ast.StructType) *goStruct {
	s := &goStruct{name: name}
	for _, f := range st.Fields.List {
		typ := ""
		switch t := f.Type.(type) {
		case *ast.Ident:
			typ = t.Name
		case *ast.SelectorExpr:
			s.hostLayout = s.hostLayout || t.Sel.Name == "HostLayout"
		}
		if len(f.Names) == 0 { // embedded
			s.fields = append(s.fields, goField{typ, typ})
		}
		for _, n := range f.Names {
			if n.Name != "_" { // padding
				s.fields = append(s.fields, goField{n.Name, typ})
			}
		}
	}
	return s
}

// twinName is the Go name of a C++ struct: getParams of GetParams.
func twinName(name string) string {
	first, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(first)) + name[n:]
}

// assertion is what the Go compiler is to check: an expression and its value.
type assertion struct {
	expr  string
	value int
}

// match compares the parameter of a kernel with its Go twin and notes the
// assertions.
func (g *generated) match(e entry, typ string, layouts map[string]*record, twins map[string]*goStruct) error {
	if typ == "" {
		return fmt.Errorf("kernel %s: no declaration of it with one parameter; declare it in the .cu file", e.name)
	}
	r := layouts[typ]
	if r == nil {
		return fmt.Errorf("kernel %s: its parameter %s is no struct, or no code uses it", e.name, typ)
	}
	if r.size != e.size {
		return fmt.Errorf("kernel %s: %s has %d bytes, and the PTX takes %d", e.name, typ, r.size, e.size)
	}
	if err := g.assert(r, twinName(r.name()), twins); err != nil {
		return fmt.Errorf("kernel %s: %w", e.name, err)
	}
	return nil
}

// assert compares a record with a Go struct by the names of their fields.
// Every instance of a template has to agree with the one twin.
func (g *generated) assert(r *record, goName string, twins map[string]*goStruct) error {
	if r.err != nil {
		return fmt.Errorf("%s: %w", r.name(), r.err)
	}
	s := twins[goName]
	if s == nil {
		return fmt.Errorf("%s has no twin: the package has no struct type %s and no alias of one", r.name(), cmp.Or(goName, twinName(r.name())))
	}
	if !s.hostLayout {
		return fmt.Errorf("%s: add a field _ structs.HostLayout to %s", s.pos, goName)
	}
	checks := []assertion{{fmt.Sprintf("unsafe.Sizeof(%s{})", goName), r.size}}
	for i, f := range r.fields {
		switch {
		case f.size == 0:
			return fmt.Errorf("%s.%s has the type %s; a field is a number of fixed size, a pointer, an array of them, or a struct", r.name(), f.name, f.typ)
		case i >= len(s.fields):
			return fmt.Errorf("%s: %s lacks the field %s of %s", s.pos, goName, f.name, r.name())
		case plainName(f.name) != plainName(s.fields[i].name):
			return fmt.Errorf("%s: field %d is %s in %s and %s in %s", s.pos, i+1, s.fields[i].name, goName, f.name, r.name())
		}
		name := s.fields[i].name
		checks = append(checks,
			assertion{fmt.Sprintf("unsafe.Offsetof(%s{}.%s)", goName, name), f.offset},
			assertion{fmt.Sprintf("unsafe.Sizeof(%s{}.%s)", goName, name), f.size})
		if f.record != nil {
			if err := g.assert(f.record, s.fields[i].typ, twins); err != nil {
				return err
			}
		}
	}
	if len(s.fields) > len(r.fields) {
		return fmt.Errorf("%s: %s lacks the field %s of %s", s.pos, r.name(), s.fields[len(r.fields)].name, goName)
	}
	return g.note(goName, r, checks)
}

// note keeps the assertions on one Go struct.
func (g *generated) note(goName string, r *record, checks []assertion) error {
	if g.asserts == nil {
		g.asserts = make(map[string][]assertion)
	}
	old, ok := g.asserts[goName]
	for i := range old {
		if old[i] != checks[i] {
			return fmt.Errorf("%s is %d there and %d in other kernels: give structs of different layout different names", checks[i].expr, checks[i].value, old[i].value)
		}
	}
	if !ok {
		g.asserts[goName] = checks
		g.origin(goName, r)
	}
	return nil
}

// plainName is a field's name without case and underscores.
func plainName(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "_", ""))
}
