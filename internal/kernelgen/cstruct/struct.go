package cstruct

import (
	"debug/dwarf"
	"encoding/binary"
	"fmt"
)

// Struct is a C++ struct in the compiler's layout.
type Struct struct {
	Name   string // name with namespaces, without template arguments: "weft::linear::GetParams"
	Kernel string // kernel with these parameters, if C++ has no such struct
	Size   int
	Fields []Field
}

// Field is a member of a struct.
type Field struct {
	Name   string
	Offset int
	Type   Type
}

// Type is the type of a field: a number, a pointer or a struct, or an array of these.
type Type struct {
	Go     string  // "uint32" or "device.Ptr"; "" for a struct
	Struct *Struct // nil for other types
	Size   int     // bytes of one element
	Dims   []int   // lengths of an array, outermost first
}

// Bytes returns the size of the whole field in bytes.
func (t *Type) Bytes() int {
	n := t.Size
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// align returns the alignment of the Go type.
func (t *Type) align() int {
	if t.Struct == nil {
		return t.Size
	}
	largest := 1
	for _, f := range t.Struct.Fields {
		largest = max(largest, f.Type.align())
	}
	return largest
}

// Parameters returns a struct with the parameters of a kernel as its fields. Its size is that of
// the Go struct.
func Parameters(kernel, name string, fields []Field) *Struct {
	s := &Struct{Name: name, Kernel: kernel, Fields: fields}
	for _, f := range fields {
		s.Size = f.Offset + f.Type.Bytes()
	}
	whole := Type{Struct: s}
	s.Size = (s.Size + whole.align() - 1) &^ (whole.align() - 1)
	return s
}

// structOf returns the struct that an entry describes.
func (i *Info) structOf(n *node) (*Struct, error) {
	if s := i.structs[n.Offset]; s != nil {
		return s, nil
	}
	s := &Struct{Name: n.fullName(), Size: n.number(dwarf.AttrByteSize)}
	for _, kid := range n.kids {
		switch {
		case kid.Tag == dwarf.TagInheritance:
			return nil, fmt.Errorf("%s has a base: move the fields of the base into %s", s.Name, s.Name)
		case kid.Tag != dwarf.TagMember || kid.Val(dwarf.AttrExternal) != nil:
			continue // a function, a type or a constant
		case kid.Val(dwarf.AttrBitSize) != nil:
			return nil, fmt.Errorf("%s.%s is a bit-field: use an integer, and mask its bits", s.Name, kid.name())
		case kid.name() == "":
			return nil, fmt.Errorf("%s has a field without a name: add a name", s.Name)
		}
		t, err := i.fieldType(kid)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", s.Name, kid.name(), err)
		}
		s.Fields = append(s.Fields, Field{kid.name(), memberOffset(kid), t})
	}
	i.structs[n.Offset] = s
	return s, nil
}

// memberOffset returns the offset of a member. In old versions of DWARF it is an expression that
// adds a number.
func memberOffset(n *node) int {
	if expr, ok := n.Val(dwarf.AttrDataMemberLoc).([]byte); ok && len(expr) > 1 {
		v, _ := binary.Uvarint(expr[1:])
		return int(v)
	}
	return n.number(dwarf.AttrDataMemberLoc)
}

// fieldType returns the type of a member, or of the elements of an array.
func (i *Info) fieldType(n *node) (Type, error) {
	t := i.typeOf(n)
	size := t.number(dwarf.AttrByteSize)
	switch t.Tag {
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
		return Type{Go: "device.Ptr", Size: 8}, nil
	case dwarf.TagStructType, dwarf.TagClassType:
		s, err := i.structOf(t)
		return Type{Struct: s, Size: size}, err
	case dwarf.TagArrayType:
		elem, err := i.fieldType(t)
		elem.Dims = append(dims(t), elem.Dims...)
		return elem, err
	case dwarf.TagEnumerationType:
		if base := i.typeOf(t); base != nil {
			t = base
		}
		return number(t.number(dwarf.AttrEncoding), size, t.name())
	case dwarf.TagBaseType:
		return number(t.number(dwarf.AttrEncoding), size, t.name())
	}
	return Type{}, fmt.Errorf("%s %s: Go has integers of up to 64 bits, float and double, bool, enums, pointers, structs, and arrays of them", t.Tag, t.name())
}

// dims returns the lengths of an array.
func dims(t *node) (all []int) {
	for _, kid := range t.kids {
		if kid.Tag != dwarf.TagSubrangeType {
			continue
		}
		n := kid.number(dwarf.AttrCount)
		if bound, ok := kid.Val(dwarf.AttrUpperBound).(int64); ok {
			n = int(bound) + 1
		}
		all = append(all, n)
	}
	return all
}

// These are the encodings of numbers (DWARF 5, section 7.8).
const (
	encBoolean, encFloat         = 0x02, 0x04
	encSigned, encSignedChar     = 0x05, 0x06
	encUnsigned, encUnsignedChar = 0x07, 0x08
	encUTF                       = 0x10
)

func number(encoding, size int, name string) (Type, error) {
	var kind string
	switch encoding {
	case encBoolean:
		if size == 1 {
			return Type{Go: "bool", Size: 1}, nil
		}
	case encFloat:
		if size == 4 || size == 8 {
			kind = "float"
		}
	case encSigned, encSignedChar:
		kind = "int"
	case encUnsigned, encUnsignedChar, encUTF, 0: // 0: of an enum without an underlying type
		kind = "uint"
	}
	if kind == "" || size > 8 || size == 0 {
		return Type{}, fmt.Errorf("no type in Go corresponds to %s, of %d bytes; Go has integers of up to 64 bits, float and double, bool, enums, pointers, structs, and arrays of them", name, size)
	}
	return Type{Go: fmt.Sprintf("%s%d", kind, 8*size), Size: size}, nil
}
