package mutate

import (
	"fmt"
	"strings"
)

// Reasons explain why mutants survive. A table is text, with one row per line:
//
//	class | outcome | name | context | reason
//
// A row applies to a mutant if its outcome, name and context match the row's patterns. In a
// pattern, * matches any text. The class describes the effect of the mutants: none that is
// observable ([Same]), more or fewer steps ([Speed]), or another effect that no test detects
// ([Escapes]). Lines that begin with # are comments.
type Reasons []Reason

// Reason is a row of a table.
type Reason struct {
	Class                  string
	Outcome, Name, Context string // patterns
	Text                   string
}

// These are the classes of reasons.
const (
	Same    = "same"
	Speed   = "speed"
	Escapes = "escapes"
)

// ParseReasons parses a table.
func ParseReasons(text string) (all Reasons, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 5 || cells[4] == "" || cells[0] != Same && cells[0] != Speed && cells[0] != Escapes {
			return nil, fmt.Errorf("reasons, line %d: want same, speed or escapes | outcome | name | context | reason, have %q", i+1, line)
		}
		all = append(all, Reason{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return all, nil
}

// find returns the first reason that applies to a survivor, or nil. If survivors were not probed,
// the outcome need not match.
func (all Reasons) find(v *Verdict, probed bool) *Reason {
	for i := range all {
		if r := &all[i]; (!probed || match(r.Outcome, string(v.Outcome))) && match(r.Name, v.Mutant) && match(r.Context, v.Context) {
			return r
		}
	}
	return nil
}

// match reports whether the pattern matches the whole text.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, last)
}
