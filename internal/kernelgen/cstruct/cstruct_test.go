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

// add reads the parameters of kernels into p.
func add(t *testing.T, p *Package, kernels ...string) error {
	t.Helper()
	info := read(t)
	for _, k := range kernels {
		s, err := info.Parameter("kinds_" + k)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Add(s); err != nil {
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

// Every kind of field, with holes between them and at the end.
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
	if err := add(t, &p, "good", "other"); err != nil { // the instances are alike
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
	// Of what exists, nothing is imported that only its own fields need.
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
		"none":    "takes 0 parameters",
		"two":     "takes 2 parameters",
		"pointer": "takes no struct",
		"bits":    "kinds::Bits.a is a bit-field",
		"both":    "kinds::Both.u: UnionType",
		"derived": "kinds::Derived has a base",
		"bad":     "kinds::Bad.big: no type of Go is like __int128, of 16 bytes",
		"unknown": "has no debug information",
	} {
		if _, err := info.Parameter("kinds_" + kernel); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", kernel, err, want)
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
		if err := p.Add(a); err != nil {
			t.Fatal(err)
		}
		if err := p.Add(b); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
