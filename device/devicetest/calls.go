package devicetest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Call is a call of the host protocol in source code; see [Site].
type Call struct {
	Site
	Func string // enclosing function, for example "(*slot).send"
	Text string // source of the call, for example "r.in.Record(s.arrived)"
}

// String returns the place and the source of the call on one line.
func (c Call) String() string { return fmt.Sprintf("%v in %s: %s", c.Site, c.Func, c.Text) }

// methods maps the name of a method of the host protocol to its Site.Method and argument count.
var methods = map[string]struct {
	site string
	args int
}{
	"Wait": {"Wait", 1}, "Record": {"Record", 1}, "Sync": {"Sync", 1},
	"CopyOut": {"CopyOut", 3}, "CopyTo": {"CopyOut", 3},
}

// ListCalls lists the calls of the host protocol in the Go files of a folder, except tests, in
// source order. A test can use it to find the calls that it does not reach. ListCalls does not
// check types: it also lists calls of other methods with the same name and number of arguments.
func ListCalls(dir string) ([]Call, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("devicetest: calls of %s: %w", dir, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("devicetest: calls of %s: %w", dir, err)
	}
	var calls []Call
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("devicetest: calls of %s: %w", dir, err)
		}
		of, err := callsOf(filepath.Base(dir)+"/"+f.Name(), src)
		if err != nil {
			return nil, fmt.Errorf("devicetest: calls of %s: %w", dir, err)
		}
		calls = append(calls, of...)
	}
	return calls, nil
}

// callsOf lists the calls in one file.
func callsOf(name string, src []byte) ([]Call, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, decl := range file.Decls {
		in := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			in = nameOf(f)
		}
		var found []*ast.CallExpr
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && methodOf(call) != "" {
				found = append(found, call)
			}
			return true
		})
		// Calls run in the order of their ends, since arguments are evaluated first.
		slices.SortFunc(found, func(a, b *ast.CallExpr) int { return cmp.Compare(a.End(), b.End()) })
		index := map[Site]int{}
		for _, call := range found {
			text := src[fset.Position(call.Pos()).Offset:fset.Position(call.End()).Offset]
			line := fset.Position(call.Fun.(*ast.SelectorExpr).Sel.Pos()).Line
			site := Site{File: name, Line: line, Method: methodOf(call)}
			index[site]++
			calls = append(calls, Call{
				Site: Site{name, line, site.Method, index[site] - 1},
				Func: in, Text: strings.Join(strings.Fields(string(text)), " "),
			})
		}
	}
	return calls, nil
}

// methodOf returns the Site.Method of a call, or "" if the call is not of the host protocol.
func methodOf(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if m := methods[s.Sel.Name]; m.args == len(call.Args) {
			return m.site
		}
	}
	return ""
}

// nameOf returns the name of a function or method, with the receiver of a method.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t, pointer := f.Recv.List[0].Type, ""
	if star, ok := t.(*ast.StarExpr); ok {
		t, pointer = star.X, "*"
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	return fmt.Sprintf("(%s%s).%s", pointer, t.(*ast.Ident).Name, f.Name.Name)
}
