// Package enum implements String, MarshalText and UnmarshalText of enumerations in options, so that
// flag.TextVar and configuration files accept their values by name.
package enum

import (
	"fmt"
	"strings"
)

// Names holds the names of the values 0, 1, 2 … of a type. A number whose name is "" is not a
// value.
type Names[T ~int | ~uint8 | ~uint32] struct {
	Type  string // type name in messages, with its package: "linear.Tombstones"
	Names []string
	Err   error // wrapped by errors of Text and Read
}

// String returns the name of a value, or "linear.Tombstones(7)" for a number that is not a value.
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

// Text implements MarshalText. It returns the name of a value, or an error for a number that is not
// a value.
func (n *Names[T]) Text(v T) ([]byte, error) {
	name, ok := n.name(v)
	if !ok {
		return nil, fmt.Errorf("%w: unknown %s", n.Err, n.String(v))
	}
	return []byte(name), nil
}

// Read implements UnmarshalText. It accepts a name in upper or lower case. Other text is an error
// and does not change the value.
func (n *Names[T]) Read(to *T, text []byte) error {
	var names []string
	for v, name := range n.Names {
		if name == "" {
			continue
		}
		if strings.EqualFold(name, string(text)) {
			*to = T(v)
			return nil
		}
		names = append(names, name)
	}
	return fmt.Errorf("%w: %s %.40q: want %s", n.Err, n.Type, text, list(names))
}

// list returns "a, b or c".
func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
