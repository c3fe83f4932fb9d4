package op

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// The numbers of the kinds never change, since kernels and files contain them.
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

// public has the fields of a PartialError, like weft.PartialError.
type public struct {
	Done, Failed int
	Rows         []int
	Err          error
}

func (*public) Error() string { return "" }

type other struct{ Done int }

func (*other) Error() string { return "" }

// errors.As finds a PartialError as a type with the same fields, and as no other type.
func TestPartialErrorAs(t *testing.T) {
	rows := []int{1, 3}
	err := fmt.Errorf("linear: Put: %w", errors.Join(ErrFormat, Partial(7, rows, ErrFull)))
	p, own := (*public)(nil), (*PartialError)(nil)
	if !errors.As(err, &p) || p.Done != 7 || p.Failed != 2 || !slices.Equal(p.Rows, rows) || p.Err != ErrFull {
		t.Errorf("%+v", p)
	}
	if !errors.As(err, &own) || own.Done != 7 {
		t.Errorf("%+v", own)
	}
	p.Done = 8 // both point to the same error
	if own.Done != 8 {
		t.Error("a copy")
	}
	var different *other
	var any interface{ Timeout() bool }
	if errors.As(err, &different) || errors.As(err, &any) {
		t.Error("found as what it is not")
	}
	if c := Cause(err); c != ErrFull {
		t.Errorf("Cause: %v", c)
	}
	if c := Cause(ErrClosed); c != ErrClosed {
		t.Errorf("Cause: %v", c)
	}
}

// A PartialError reports the numbers of operations and wraps the cause.
func TestPartialError(t *testing.T) {
	for want, p := range map[string]*PartialError{
		"7 operations done: closed":          {Done: 7, Err: ErrClosed},
		"7 operations tried, 2 failed: full": {Done: 7, Failed: 2, Err: ErrFull},
		"0 operations done: invalid stream":  {Err: ErrFormat},
	} {
		if p.Error() != want || !errors.Is(p, p.Err) {
			t.Errorf("%q, want %q", p.Error(), want)
		}
	}
}
