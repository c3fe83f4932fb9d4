// Package enum prints the values of enumerations and reads them again, for the String,
// MarshalText and UnmarshalText of options: so flag.TextVar and configuration files take
// them by name.
package enum

import (
	"fmt"
	"strings"
)

// Names are those of the values 0, 1, 2 … of a type; "" of what is no value.
type Names[T ~int | ~uint8 | ~uint32] struct {
	Type  string // for messages, with its package: "linear.Tombstones"
	Names []string
	Err   error // what errors of Read wrap
}

// String is the name of a value, and "linear.Tombstones(7)" of what is none.
func (n *Names[T]) String(v T) string {
	if name, ok := n.name(v); ok {
		return name
	}
	return fmt.Sprintf("%s(%d)", n.Type, v)
}

func (n *Names[T]) name(v T) (name string, ok bool) {
	if v < 0 || uint64(v) >= uint64(len(n.Names)) {
		return "", false
	}
	name = n.Names[v]
	return name, name != ""
}

// Text is String for MarshalText: an error for what is no value.
func (n *Names[T]) Text(v T) ([]byte, error) {
	name, ok := n.name(v)
	if !ok {
		return nil, fmt.Errorf("%w: there is no %s", n.Err, n.String(v))
	}
	return []byte(name), nil
}

// Read is for UnmarshalText: it reads a name, in upper or lower case. What is no name leaves
// the value as it is.
func (n *Names[T]) Read(to *T, text []byte) error {
	var known []string
	for v, name := range n.Names {
		if name == "" {
			continue
		}
		if strings.EqualFold(name, string(text)) {
			*to = T(v)
			return nil
		}
		known = append(known, name)
	}
	return fmt.Errorf("%w: %s %.40q: want %s", n.Err, n.Type, text, list(known))
}

// list is "a, b or c".
func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
