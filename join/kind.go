package join

import (
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Kind selects the rows that a [Join] yields.
type Kind uint8

// The kinds. The left side is the probed side.
const (
	Inner Kind = iota // each pair of rows with equal keys
	// Left selects the pairs of Inner, and each left row without a match, with nulls on the right.
	Left
	Semi // each left row with a match, once
	Anti // each left row without a match
)

var kinds = enum.Names[Kind]{
	Type: "join.Kind", Err: op.ErrOptions, Names: []string{"inner", "left", "semi", "anti"},
}

// String returns the name of the kind, in lower case.
func (k Kind) String() string { return kinds.String(k) }

// MarshalText returns String, or weft.ErrOptions for an invalid kind.
func (k Kind) MarshalText() ([]byte, error) { return kinds.Text(k) }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar accepts a Kind.
func (k *Kind) UnmarshalText(text []byte) error { return kinds.Read(k, text) }

// pairs reports whether the kind yields columns of the right side.
func (k Kind) pairs() bool { return k <= Left }
