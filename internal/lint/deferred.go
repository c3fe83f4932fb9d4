package lint

import (
	"fmt"
	"go/ast"
	"go/token"
)

// deferredErrors reports functions that assign err in a deferred function although err is not a
// named result. The caller would never see that error.
func deferredErrors(t *Tree) (found []string) {
	for _, f := range t.gos {
		for _, d := range f.ast.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				name := ""
				var of *ast.FuncType
				var body *ast.BlockStmt
				switch fn := n.(type) {
				case *ast.FuncDecl:
					name, of, body = fn.Name.Name, fn.Type, fn.Body
				case *ast.FuncLit:
					name, of, body = "a function in it", fn.Type, fn.Body
				}
				if body != nil && returnsUnnamed(of) && assignsDeferred(body) {
					found = append(found, fmt.Sprintf("%s: %s defers the assignment of err, which is not a result", f.path, name))
				}
				return true
			})
		}
	}
	return found
}

func returnsUnnamed(fn *ast.FuncType) bool {
	if fn.Results == nil {
		return false
	}
	last := fn.Results.List[len(fn.Results.List)-1]
	of, ok := last.Type.(*ast.Ident)
	return ok && of.Name == "error" && len(last.Names) == 0
}

// assignsDeferred reports whether body defers a function literal that assigns err.
func assignsDeferred(body *ast.BlockStmt) (found bool) {
	own(body, func(n ast.Node) {
		d, ok := n.(*ast.DeferStmt)
		if !ok {
			return
		}
		if fn, ok := d.Call.Fun.(*ast.FuncLit); ok {
			own(fn.Body, func(n ast.Node) {
				if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
					to, ok := a.Lhs[0].(*ast.Ident)
					found = found || ok && to.Name == "err"
				}
			})
		}
	})
	return found
}

// own visits the nodes of a function body, except those inside function literals.
func own(body *ast.BlockStmt, visit func(ast.Node)) {
	ast.Inspect(body, func(n ast.Node) bool {
		visit(n)
		_, other := n.(*ast.FuncLit)
		return !other
	})
}
