package op

import (
	"errors"
	"testing"
)

// Kernels and files know the kinds by their numbers.
func TestKinds(t *testing.T) {
	for number, want := range []struct {
		kind    Kind
		name    string
		inserts bool
	}{
		{Get, "Get", false}, {Put, "Put", true}, {PutNew, "PutNew", true}, {Delete, "Delete", false}, {DeleteAll, "DeleteAll", false},
		{Sum, "Sum", true}, {Min, "Min", true}, {Max, "Max", true}, {And, "And", true}, {Or, "Or", true}, {10, "invalid operation", false},
		{Update, "Update", false}, {Rank, "Rank", false}, {Select, "Select", false}, {Successor, "Successor", false},
		{Predecessor, "Predecessor", false}, {DeleteRange, "DeleteRange", false}, {17, "invalid operation", false},
	} {
		if int(want.kind) != number || want.kind.String() != want.name || want.kind.Inserts() != want.inserts || want.kind.Reduces() != (number >= 5 && number < 10) {
			t.Errorf("kind %d is %v and inserts: %v", want.kind, want.kind, want.kind.Inserts())
		}
	}
}

// A partial error says how far a call came and wraps why.
func TestPartialError(t *testing.T) {
	for want, p := range map[string]*PartialError{
		"7 operations done: closed":                  {Done: 7, Err: ErrClosed},
		"7 operations done, of which 2 failed: full": {Done: 7, Failed: 2, Err: ErrFull},
		"0 operations done: invalid stream":          {Err: ErrFormat},
	} {
		if p.Error() != want || !errors.Is(p, p.Err) {
			t.Errorf("%q, want %q", p.Error(), want)
		}
	}
}
