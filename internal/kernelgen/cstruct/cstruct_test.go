package cstruct

import (
	_ "embed"
	"go/format"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/kinds.ptx
var kinds string

func read(t *testing.T) *Info {
	t.Helper()
	info, err := Read(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// add adds the parameters of kernels to p.
func add(t *testing.T, p *Package, kernels ...string) error {
	t.Helper()
	info := read(t)
	for _, k := range kernels {
		params, err := info.Parameters("kinds_" + k)
		if err != nil || len(params) != 1 {
			t.Fatal(params, err)
		}
		if _, err := p.Add(params[0].Type.Struct); err != nil {
			return err
		}
	}
	return nil
}

func source(t *testing.T, p *Package) string {
	t.Helper()
	src, err := format.Source([]byte("package p\n" + p.Source()))
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Source())
	}
	return string(src)
}

// params has every kind of field, with padding between fields and at the end.
const params = `
// params is kinds::Params of C++.
type params struct {
	_       structs.HostLayout
	inner   inner
	several [2]inner
	flag    uint8
	_       [15]byte
	wide    wide
	to      device.Ptr
	yes     bool
	letter  int8
	half    int16
	mode    uint8
	_       [3]byte
	plain   uint32
	grid    [2][3]uint32
	f       float32
	range_  float64
	last    uint64
	ref     device.Ptr
	tail    uint8
	_       [7]byte
}
`

const inner = `
// inner is kinds::Inner of C++.
type inner struct {
	_      structs.HostLayout
	nameOf device.Ptr
	small  uint8
	_      [7]byte
}
`

func TestEveryKindOfField(t *testing.T) {
	var p Package
	if err := add(t, &p, "good", "other"); err != nil { // the instances have equal layouts
		t.Fatal(err)
	}
	src := source(t, &p)
	for _, want := range []string{
		params, inner, "type wide struct",
		"[160]byte = [unsafe.Sizeof(params{})]byte{}\n", "[16]byte  = [unsafe.Offsetof(params{}.several)]byte{}\n", "[48]byte  = [unsafe.Offsetof(params{}.flag)]byte{}\n",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("the source lacks %s\n%s", want, src)
		}
	}
	if got, want := p.Imports(), []string{"structs", "unsafe", "", "github.com/weftgo/weft/device"}; !slices.Equal(got, want) {
		t.Errorf("imports %q, want %q", got, want)
	}
}

func TestNames(t *testing.T) {
	p := Package{Export: true, Types: map[string]string{
		"kinds::Wide": "example.org/x/wide.Pair", "Inner": ".Own", "kinds::Params": "All", "ners": "Never",
	}}
	if err := add(t, &p, "good"); err != nil {
		t.Fatal(err)
	}
	src := source(t, &p)
	for _, want := range []string{
		"type All struct", "Inner   Own\n", "Several [2]Own\n", "Wide    wide.Pair\n", "Range   float64\n",
		"[unsafe.Offsetof(wide.Pair{}.High)]byte{}", "[unsafe.Offsetof(Own{}.NameOf)]byte{}",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("the source lacks %q\n%s", want, src)
		}
	}
	for _, other := range []string{"type Own", "type wide", "Never"} {
		if strings.Contains(src, other) {
			t.Errorf("the source has %q\n%s", other, src)
		}
	}
	if got, want := p.Imports(), []string{"structs", "unsafe", "", "example.org/x/wide", "github.com/weftgo/weft/device"}; !slices.Equal(got, want) {
		t.Errorf("imports %q, want %q", got, want)
	}
	if got := p.Unused(); !slices.Equal(got, []string{"ners"}) {
		t.Errorf("unused are %q", got)
	}
	// An existing type does not cause an import for its own fields.
	p = Package{Types: map[string]string{"Params": "example.org/x/wide.All"}}
	if err := add(t, &p, "good"); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Imports(), []string{"unsafe", "", "example.org/x/wide"}; !slices.Equal(got, want) {
		t.Errorf("imports %q, want %q", got, want)
	}
}

func TestParametersThatAreNone(t *testing.T) {
	info := read(t)
	for kernel, want := range map[string]string{
		"bits":    "kinds::Bits.a is a bit-field",
		"both":    "kinds::Both.u: UnionType",
		"derived": "kinds::Derived has a base",
		"bad":     "kinds::Bad.big: no type in Go corresponds to __int128, of 16 bytes",
		"unknown": "no debug information",
	} {
		if _, err := info.Parameters("kinds_" + kernel); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", kernel, err, want)
		}
	}
}

// A kernel may have any parameters.
func TestParameters(t *testing.T) {
	info := read(t)
	for kernel, want := range map[string][]string{"none": nil, "two": {"Wide", "Wide"}, "pointer": {"device.Ptr"}} {
		params, err := info.Parameters("kinds_" + kernel)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range params {
			if s := p.Type.Struct; s != nil {
				got = append(got, strings.TrimPrefix(s.Name, "kinds::"))
			} else {
				got = append(got, p.Type.Go)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s takes %q, want %q", kernel, got, want)
		}
	}
}

// Only the sizes of known types are compared.
func TestKnownTypes(t *testing.T) {
	p := Package{Known: map[string]string{"kinds::Wide": "example.org/x/wide.Pair", "Inner": "example.org/x/wide.Inner"}}
	if err := add(t, &p, "good"); err != nil {
		t.Fatal(err)
	}
	src := source(t, &p)
	for _, want := range []string{"wide    wide.Pair\n", "[unsafe.Sizeof(wide.Pair{})]byte{}", "type inner struct"} {
		if !strings.Contains(src, want) {
			t.Errorf("the source lacks %q\n%s", want, src)
		}
	}
	if other := "unsafe.Offsetof(wide.Pair{}"; strings.Contains(src, other) {
		t.Errorf("the source has %q", other)
	}
	if got := p.Unused(); len(got) > 0 {
		t.Errorf("unused are %q", got)
	}
	// Several structs may map to one type, if they have the same size.
	p = Package{Known: map[string]string{"a::Ref": "example.org/x/a.Ref", "a::MultiRef": "example.org/x/a.Ref", "a::Long": "example.org/x/a.Ref"}}
	for name, size := range map[string]int{"a::Ref": 8, "a::MultiRef": 8} {
		if _, err := p.Add(&Struct{Name: name, Size: size}); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Add(&Struct{Name: "a::Long", Size: 16}); err == nil {
		t.Error("structs of two sizes are one type")
	}
}

func TestParametersOfKernels(t *testing.T) {
	var p Package
	pair := &Struct{Name: "Pair", Size: 8, Fields: []Field{{"a", 0, Type{Go: "uint32", Size: 4}}, {"b", 4, Type{Go: "uint32", Size: 4}}}}
	for want, fields := range map[int][]Field{
		24: {{"n", 0, Type{Go: "uint8", Size: 1}}, {"p", 8, Type{Go: "device.Ptr", Size: 8}}, {"m", 16, Type{Go: "uint8", Size: 1}}},
		12: {{"s", 0, Type{Struct: pair, Size: 8}}, {"m", 8, Type{Go: "uint8", Size: 1, Dims: []int{2}}}},
		3:  {{"a", 0, Type{Go: "bool", Size: 1, Dims: []int{3}}}},
	} {
		if s := Parameters("k", "KParams", fields); s.Size != want {
			t.Errorf("%v: %d bytes, want %d", fields, s.Size, want)
		}
	}
	name, err := p.Add(Parameters("scale", "ScaleParams", []Field{{"n", 0, Type{Go: "uint64", Size: 8}}}))
	if err != nil || name != "scaleParams" {
		t.Fatal(name, err)
	}
	for _, want := range []string{"// scaleParams are the parameters of kernel scale.\n", "// scaleParams has the layout of the parameters of kernel scale.\n"} {
		if src := source(t, &p); !strings.Contains(src, want) {
			t.Errorf("the source lacks %q\n%s", want, src)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, ptx := range map[string]string{
		"optimized": ".version 7.0\n.visible .entry k()\n",
		"cut off":   kinds[:len(kinds)/2],
	} {
		if _, err := Read(ptx); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func TestStructsOfOneName(t *testing.T) {
	a := &Struct{Name: "a::Table", Size: 4, Fields: []Field{{"n", 0, Type{Go: "uint32", Size: 4}}}}
	for name, b := range map[string]*Struct{
		"of another namespace": {Name: "b::Table", Size: 4, Fields: a.Fields},
		"of another size":      {Name: "a::Table", Size: 8, Fields: a.Fields},
		"of another field":     {Name: "a::Table", Size: 4, Fields: []Field{{"m", 0, Type{Go: "uint32", Size: 4}}}},
		"of another type":      {Name: "a::Table", Size: 4, Fields: []Field{{"n", 0, Type{Go: "int32", Size: 4}}}},
		"of more fields":       {Name: "a::Table", Size: 4, Fields: append(slices.Clone(a.Fields), Field{"m", 4, Type{Go: "uint32", Size: 4}})},
	} {
		var p Package
		if _, err := p.Add(a); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Add(b); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
