package kernelgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
)

// checkCollisions returns an error if another file of the package declares a name that is to be
// generated. Otherwise the Go compiler would report the collision in generated code.
func (g *generated) checkCollisions() error {
	declared, err := g.declarations()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range g.structs.Names() {
		if at, ok := declared[name]; ok {
			errs = append(errs, fmt.Errorf("%s: the generated type %s is already declared in %s; set another name with -type C++=Go, or use the declared type with -type C++=.%s", filepath.Base(g.source), name, at, name))
		}
	}
	for _, name := range g.names() {
		if at, ok := declared[name]; ok {
			errs = append(errs, fmt.Errorf("%s: the generated name %s is already declared in %s; rename the declaration or the source", filepath.Base(g.source), name, at))
		}
		if slices.Contains(g.structs.Names(), name) {
			errs = append(errs, fmt.Errorf("%s: the name %s would be generated twice; set another name for the struct with -type C++=Go", filepath.Base(g.source), name))
		}
	}
	return errors.Join(errs...)
}

// names returns the names that the images and the loader declare.
func (g *generated) names() (all []string) {
	for _, im := range g.images {
		all = append(all, g.kernelsIdent(im))
		for t := range g.files(im) {
			all = append(all, g.textIdent(im, t))
		}
	}
	if len(g.images) == 0 {
		return nil
	}
	if len(g.widths) > 0 {
		all = append(all, g.ident("Images", g.export))
	} else {
		all = append(all, g.ident("Image", g.export))
	}
	if g.loader {
		all = append(all, g.loadName(), g.typeName())
	}
	return all
}

// declarations returns the names that other files of the package declare, with their positions. It
// skips files that do not parse, because the Go compiler reports them.
func (g *generated) declarations() (map[string]token.Position, error) {
	files, err := goFiles(g.dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]token.Position)
	fset := token.NewFileSet()
	for _, f := range files {
		if f == g.path("_ptx_gen.go") || f == g.path("_params_gen.go") {
			continue
		}
		file, err := parser.ParseFile(fset, f, nil, parser.SkipObjectResolution)
		if err != nil || file.Name.Name != g.pkg {
			continue
		}
		for _, id := range topLevel(file) {
			at := fset.Position(id.Pos())
			at.Filename = filepath.Base(at.Filename)
			all[id.Name] = at
		}
	}
	return all, nil
}

func topLevel(file *ast.File) (all []*ast.Ident) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				all = append(all, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all = append(all, spec.Name)
				case *ast.ValueSpec:
					all = append(all, spec.Names...)
				}
			}
		}
	}
	return all
}
