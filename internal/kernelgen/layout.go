package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// record is the layout of a C++ struct, in bytes.
type record struct {
	typ    string // "weft::GetParams<unsigned int, unsigned int>"
	size   int
	fields []field
	err    error // why it cannot be a parameter
}

// field is a member of a record; offset is from the record's start.
type field struct {
	name   string
	typ    string
	offset int
	size   int
	record *record // if it is a struct
}

// name is that of the struct alone: "GetParams".
func (r *record) name() string {
	plain, _, _ := strings.Cut(r.typ, "<")
	return plain[strings.LastIndex(plain, ":")+1:]
}

var (
	layoutRow  = regexp.MustCompile(`^ *([\d:-]+) \| ( *)(.+)$`)
	layoutSize = regexp.MustCompile(`^ *\| \[sizeof=(\d+)`)
)

// parseLayouts reads what clang's -fdump-record-layouts prints, by type.
func parseLayouts(dump string) (map[string]*record, error) {
	layouts := make(map[string]*record)
	for block := range strings.SplitSeq(dump, "*** Dumping ") {
		body, ok := strings.CutPrefix(block, "AST Record Layout\n")
		if !ok {
			continue
		}
		var rows []row
		var size int
		for line := range strings.Lines(body) {
			line = strings.TrimRight(line, "\n")
			if m := layoutSize.FindStringSubmatch(line); m != nil {
				size, _ = strconv.Atoi(m[1])
				break
			}
			if m := layoutRow.FindStringSubmatch(line); m != nil {
				rows = append(rows, row{m[1], len(m[2]) / 2, m[3]})
			}
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("layout of clang without rows: %q", block)
		}
		typ := typeName(rows[0].text)
		r := &record{typ: typ, size: size}
		r.fields, r.err = parseFields(rows[1:])
		layouts[typ] = r
	}
	for _, r := range layouts {
		r.resolve(layouts)
	}
	return layouts, nil
}

// row is a line of a dump: an offset, the depth of nesting, a declaration.
type row struct {
	offset string
	depth  int
	text   string
}

// parseFields reads the rows of a struct's own fields. Deeper rows repeat what
// the dump of the inner struct says, and only tell that it is one.
func parseFields(rows []row) ([]field, error) {
	var fields []field
	for i, r := range rows {
		if r.depth > 1 {
			continue
		}
		offset, err := strconv.Atoi(r.offset)
		split := strings.LastIndexByte(r.text, ' ')
		if err != nil || split < 0 || strings.HasSuffix(r.text, ")") {
			return nil, fmt.Errorf("%q is a base, a bit-field or has no name", r.text)
		}
		f := field{typ: typeName(r.text[:split]), name: r.text[split+1:], offset: offset}
		if i+1 < len(rows) && rows[i+1].depth > 1 {
			f.record = &record{typ: f.typ}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// resolve finds the sizes of fields.
func (r *record) resolve(layouts map[string]*record) {
	for i := range r.fields {
		f := &r.fields[i]
		switch {
		case f.record != nil:
			if f.record = layouts[f.typ]; f.record != nil {
				f.size = f.record.size
			}
		default:
			f.size = scalarSize(f.typ)
		}
	}
}

func typeName(s string) string {
	s = strings.TrimPrefix(s, "const ")
	return strings.TrimPrefix(strings.TrimPrefix(s, "struct "), "class ")
}

var scalarSizes = map[string]int{
	"bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1,
	"short": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2,
	"int": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
	"long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8,
	"int64_t": 8, "uint64_t": 8, "size_t": 8, "double": 8,
}

// scalarSize is the size of a number, a pointer, or an array of them; 0 if
// the type is none.
func scalarSize(typ string) int {
	if strings.HasSuffix(typ, "*") {
		return 8
	}
	elem, dims, isArray := strings.Cut(typ, "[")
	if !isArray {
		return scalarSizes[strings.TrimPrefix(typ, "weft::")]
	}
	size := scalarSize(strings.TrimSpace(elem))
	for dim := range strings.SplitSeq(strings.TrimSuffix(dims, "]"), "][") {
		n, err := strconv.Atoi(dim)
		if err != nil {
			return 0
		}
		size *= n
	}
	return size
}
