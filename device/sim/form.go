package sim

import (
	"fmt"
	"strings"
)

// opcode is one row of the table of opcodes: a name, the possible modifiers, and the function that
// resolves such an instruction.
type opcode struct {
	name string
	// slots lists the slots of modifiers in order, separated by spaces. Each slot is a list of
	// choices, separated by bars. A leading "?" makes a slot optional.
	slots string
	build func(a *assembler, s *statement, f form) (instr, error)
}

// form holds the modifier in each slot of an opcode, or "" if a slot is empty.
type form []string

// typ returns the type in a slot.
func (f form) typ(slot int) typ { return types[f[slot]] }

// last returns the type in the last slot.
func (f form) last() typ { return types[f[len(f)-1]] }

// match returns the row and the form of an opcode as written in PTX text.
func match(op string) (*opcode, form, error) {
	name, rest, _ := strings.Cut(op, ".")
	rows, ok := table[name]
	if !ok {
		return nil, nil, fmt.Errorf("unknown instruction %q", name)
	}
	var mods []string
	if rest != "" {
		mods = strings.Split(rest, ".")
	}
	for i := range rows {
		if f, ok := rows[i].match(mods); ok {
			return &rows[i], f, nil
		}
	}
	return nil, nil, fmt.Errorf("unknown form %q", op)
}

func (o *opcode) match(mods []string) (form, bool) {
	var f form
	for slot := range strings.FieldsSeq(o.slots) {
		choices, optional := strings.CutPrefix(slot, "?")
		found := ""
		if len(mods) > 0 {
			for c := range strings.SplitSeq(choices, "|") {
				if c == mods[0] {
					found = c
					break
				}
			}
		}
		if found != "" {
			mods = mods[1:]
		} else if !optional {
			return nil, false
		}
		f = append(f, found)
	}
	return f, len(mods) == 0
}

// forms lists every way to write the opcode.
func (o *opcode) forms() []string {
	all := []string{o.name}
	for slot := range strings.FieldsSeq(o.slots) {
		choices, optional := strings.CutPrefix(slot, "?")
		var next []string
		for _, prefix := range all {
			if optional {
				next = append(next, prefix)
			}
			for c := range strings.SplitSeq(choices, "|") {
				next = append(next, prefix+"."+c)
			}
		}
		all = next
	}
	return all
}
