package cstruct

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Info is the debug information of a module of PTX.
type Info struct {
	nodes   map[dwarf.Offset]*node
	kernels map[string]*node
	structs map[dwarf.Offset]*Struct // structs read so far
}

// node is an entry in the tree of debug information.
type node struct {
	*dwarf.Entry
	in   *node // parent, or nil at the top
	kids []*node
}

// Read parses the debug information in PTX.
func Read(ptx string) (*Info, error) {
	data, err := dwarf.New(section(ptx, "abbrev"), nil, nil, section(ptx, "info"), nil, nil, nil, section(ptx, "str"))
	if err != nil {
		return nil, fmt.Errorf("debug information: %w", err)
	}
	info := &Info{nodes: map[dwarf.Offset]*node{}, kernels: map[string]*node{}, structs: map[dwarf.Offset]*Struct{}}
	var in *node
	for r := data.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("debug information: %w", err)
		}
		if e == nil {
			break
		}
		if e.Tag == 0 {
			in = in.in
			continue
		}
		n := &node{Entry: e, in: in}
		info.nodes[e.Offset] = n
		if in != nil {
			in.kids = append(in.kids, n)
		}
		if e.Tag == dwarf.TagSubprogram && n.name() != "" {
			info.kernels[n.name()] = n
		}
		if e.Children {
			in = n
		}
	}
	if len(info.nodes) == 0 {
		return nil, errors.New("the PTX has no debug information")
	}
	return info, nil
}

// section returns the contents of a section of debug information. PTX text lists them as numbers.
// Addresses, which the text lists by name, become 0.
func section(ptx, name string) (data []byte) {
	_, text, _ := strings.Cut(ptx, ".section\t.debug_"+name+"\n")
	text, _, _ = strings.Cut(text, "\n\t}")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		directive, values, _ := strings.Cut(strings.TrimSpace(line), " ")
		bits, isData := strings.CutPrefix(directive, ".b")
		if !isData {
			continue
		}
		width, _ := strconv.Atoi(bits)
		for value := range strings.SplitSeq(values, ",") {
			v, err := strconv.ParseUint(strings.TrimSpace(value), 0, 64)
			if err != nil {
				v = 0
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, v)[:width/8]...)
		}
	}
	return data
}

func (n *node) name() string {
	s, _ := n.Val(dwarf.AttrName).(string)
	return s
}

func (n *node) number(attr dwarf.Attr) int {
	v, _ := n.Val(attr).(int64)
	return int(v)
}

// fullName returns the name of a struct with its namespaces, without template arguments.
func (n *node) fullName() string {
	name, _, _ := strings.Cut(n.name(), "<")
	for in := n.in; in != nil && in.Tag != dwarf.TagCompileUnit; in = in.in {
		if in.name() != "" { // an anonymous namespace has no name
			outer, _, _ := strings.Cut(in.name(), "<")
			name = outer + "::" + name
		}
	}
	return name
}

// typeOf returns the type of an entry, without typedefs and qualifiers.
func (i *Info) typeOf(n *node) *node {
	for {
		off, ok := n.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return nil // void
		}
		n = i.nodes[off]
		switch n.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType:
		default:
			return n
		}
	}
}

// Parameters returns the parameters of a kernel, without offsets, which only the PTX contains. A
// parameter without a name gets a name with its index.
func (i *Info) Parameters(kernel string) (params []Field, err error) {
	k := i.kernels[kernel]
	if k == nil {
		return nil, errors.New(`no debug information: declare it extern "C"`)
	}
	for _, kid := range k.kids {
		if kid.Tag != dwarf.TagFormalParameter {
			continue
		}
		name := kid.name()
		if name == "" {
			name = fmt.Sprintf("param%d", len(params))
		}
		t, err := i.fieldType(kid)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		params = append(params, Field{Name: name, Type: t})
	}
	return params, nil
}
