package cstruct

import (
	"cmp"
	"fmt"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Package collects structs for a Go package and writes their Go source.
type Package struct {
	// Export makes the names of types and fields exported.
	Export bool
	// Types maps C++ structs to Go types. A key is the C++ name, or a suffix of it after "::". A
	// plain name is the name of a new type. A name after a period, ".Ref", is an existing type of
	// the package. A name after a path, "github.com/weftgo/weft/alloc.Ref", is a type of another
	// package. The fields of an existing type are exported if the type is. A struct without an
	// entry keeps its C++ name; Export decides the case of the first letter.
	Types map[string]string
	// Known maps the full names of structs that kernels often take to types of other packages, in
	// the form of Types. Only the sizes are compared, because those packages compare the fields.
	Known map[string]string

	structs map[string]*Struct // by Go name: "getParams", "alloc.Ref", ".Ref"
	imports map[string]bool
	used    map[string]bool // entries of Types that a struct has matched
}

// Add adds a struct and the structs of its fields. It returns the name by which the package refers
// to the Go type.
func (p *Package) Add(s *Struct) (string, error) {
	err := p.add(s)
	return referred(p.goName(s)), err
}

func (p *Package) add(s *Struct) error {
	if p.structs == nil {
		p.structs, p.imports, p.used = map[string]*Struct{}, map[string]bool{}, map[string]bool{}
	}
	name := p.goName(s)
	if old := p.structs[name]; old != nil && p.isKnown(s) {
		if old.Size != s.Size {
			return fmt.Errorf("%s has %d bytes and %s has %d, but both are %s in Go", old.Name, old.Size, s.Name, s.Size, name)
		}
		return nil
	} else if old != nil {
		return same(old, s, name)
	}
	p.structs[name] = s
	fields := map[string]bool{}
	for _, f := range s.Fields {
		n := p.fieldName(name, f.Name)
		if fields[n] {
			return fmt.Errorf("%s: two fields would be %s in Go; rename one", s.Name, n)
		}
		fields[n] = true
		switch {
		case exists(name): // existing types need none of their fields written
		case f.Type.Struct != nil:
			if err := p.add(f.Type.Struct); err != nil {
				return err
			}
		case f.Type.Go == "device.Ptr":
			p.imports["github.com/weftgo/weft/device"] = true
		}
	}
	return nil
}

// same returns an error unless two structs can share the Go type name. They can if they are
// instances of one template that have the same layout.
func same(a, b *Struct, name string) error {
	if a == b {
		return nil
	}
	if a.Name != b.Name {
		return fmt.Errorf("%s and %s would both be %s in Go; set another name for one with -type C++=Go", a.Name, b.Name, name)
	}
	equal := slices.EqualFunc(a.Fields, b.Fields, func(f, g Field) bool {
		if f.Type.Struct != nil && g.Type.Struct != nil && f.Type.Struct.Name != g.Type.Struct.Name {
			return false
		}
		return f.Name == g.Name && f.Offset == g.Offset && f.Type.Go == g.Type.Go && f.Type.Size == g.Type.Size && slices.Equal(f.Type.Dims, g.Type.Dims)
	})
	if !equal || a.Size != b.Size {
		return fmt.Errorf("instances of %s differ: give structs of different layout different names", a.Name)
	}
	return nil
}

// exists reports whether a Go type exists already, in this package or another one.
func exists(goName string) bool { return strings.Contains(goName, ".") }

// referred returns the name by which the package refers to a Go type.
func referred(goName string) string { return strings.TrimPrefix(goName, ".") }

// goName returns the name of the Go type for a struct, as a key of Package.structs.
func (p *Package) goName(s *Struct) string {
	for _, c := range slices.Sorted(maps.Keys(p.Types)) {
		if s.Name == c || strings.HasSuffix(s.Name, "::"+c) {
			p.used[c] = true
			return p.imported(p.Types[c])
		}
	}
	if known := p.Known[s.Name]; known != "" {
		return p.imported(known)
	}
	return cased(s.Name[strings.LastIndexByte(s.Name, ':')+1:], p.Export)
}

// imported removes the package path from an entry of Types, and imports the package.
func (p *Package) imported(t string) string {
	dir, name := path.Split(t)
	if pkg, _, qualified := strings.Cut(name, "."); qualified && pkg != "" {
		p.imports[dir+pkg] = true
	}
	return name
}

// isKnown reports whether another package compares the fields of a struct.
func (p *Package) isKnown(s *Struct) bool {
	known := p.Known[s.Name]
	return known != "" && path.Base(known) == p.goName(s)
}

// fieldName returns the Go name of a field: maxProbe for max_probe.
func (p *Package) fieldName(goType, name string) string {
	export := p.Export
	if exists(goType) {
		export = token.IsExported(goType[strings.IndexByte(goType, '.')+1:])
	}
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(cased(word, b.Len() > 0 || export))
	}
	if token.IsKeyword(b.String()) {
		b.WriteByte('_')
	}
	return b.String()
}

// cased returns word with its first letter in upper or lower case.
func cased(word string, upper bool) string {
	first, n := utf8.DecodeRuneInString(word)
	if n == 0 {
		return ""
	}
	if upper {
		return string(unicode.ToUpper(first)) + word[n:]
	}
	return string(unicode.ToLower(first)) + word[n:]
}

// Unused returns the keys of Types that no struct matches, sorted.
func (p *Package) Unused() (all []string) {
	for c := range p.Types {
		if !p.used[c] {
			all = append(all, c)
		}
	}
	slices.Sort(all)
	return all
}

// Imports returns the import paths that Source needs. First come those of the standard library,
// then "", then the others, sorted.
func (p *Package) Imports() (all []string) {
	if len(p.structs) == 0 {
		return nil
	}
	for name := range p.structs {
		if !exists(name) {
			all = append(all, "structs")
			break
		}
	}
	all = append(all, "unsafe", "")
	return append(all, slices.Sorted(maps.Keys(p.imports))...)
}

// Source returns the Go source of the structs and of their assertions, unformatted.
func (p *Package) Source() string {
	var b strings.Builder
	// New types come before existing ones.
	names := slices.SortedFunc(maps.Keys(p.structs), func(x, y string) int {
		if exists(x) != exists(y) {
			// a name contains no period or one
			return cmp.Compare(strings.Count(x, "."), strings.Count(y, "."))
		}
		return cmp.Compare(x, y)
	})
	for _, name := range names {
		if s := p.structs[name]; !exists(name) {
			p.writeStruct(&b, name, s)
		}
	}
	for _, name := range names {
		p.writeAsserts(&b, name, p.structs[name])
	}
	return b.String()
}

func (p *Package) writeStruct(b *strings.Builder, name string, s *Struct) {
	fmt.Fprintf(b, "\n// %s %s.\ntype %s struct {\n\t_ structs.HostLayout\n", name, s.describe(), name)
	at := 0
	pad := func(to int) {
		if to > at {
			fmt.Fprintf(b, "\t_ [%d]byte\n", to-at)
		}
		at = to
	}
	for _, f := range s.Fields {
		pad(f.Offset)
		fmt.Fprintf(b, "\t%s ", p.fieldName(name, f.Name))
		for _, d := range f.Type.Dims {
			fmt.Fprintf(b, "[%d]", d)
		}
		if f.Type.Struct != nil {
			fmt.Fprintf(b, "%s\n", referred(p.goName(f.Type.Struct)))
		} else {
			fmt.Fprintf(b, "%s\n", f.Type.Go)
		}
		at += f.Type.Bytes()
	}
	pad(s.Size)
	b.WriteString("}\n")
}

// describe returns the rest of a struct's doc comment, after its name.
func (s *Struct) describe() string {
	if s.Kernel != "" {
		return "are the parameters of kernel " + s.Kernel
	}
	return "is " + s.Name + " of C++"
}

// source returns the C++ origin of a struct, for comments.
func (s *Struct) source() string {
	if s.Kernel != "" {
		return "the parameters of kernel " + s.Kernel
	}
	return s.Name
}

// Names returns the names of the types to write, sorted.
func (p *Package) Names() (all []string) {
	for name := range p.structs {
		if !exists(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// writeAsserts writes assignments between array types, which compile only if sizes and offsets
// match. Otherwise the compiler's error shows both lengths.
func (p *Package) writeAsserts(b *strings.Builder, name string, s *Struct) {
	is := referred(name)
	fmt.Fprintf(b, "\n// %s has the layout of %s.\nvar (\n\t_ [%d]byte = [unsafe.Sizeof(%s{})]byte{}\n", is, s.source(), s.Size, is)
	for _, f := range s.Fields {
		if p.isKnown(s) {
			break
		}
		fmt.Fprintf(b, "\t_ [%d]byte = [unsafe.Offsetof(%s{}.%s)]byte{}\n", f.Offset, is, p.fieldName(name, f.Name))
	}
	b.WriteString(")\n")
}
