package weft

import (
	"errors"
	"fmt"
	"testing"
)

func TestOpKindNames(t *testing.T) {
	for kind, want := range map[OpKind]string{
		OpGet: "Get", OpPut: "Put", OpPutNew: "PutNew", OpDelete: "Delete",
		OpDeleteAll: "DeleteAll", OpSum: "Sum", OpOr: "Or", OpOr + 1: "invalid operation", 255: "invalid operation",
	} {
		if got := kind.String(); got != want {
			t.Errorf("OpKind(%d) is %q, want %q", uint8(kind), got, want)
		}
	}
}

// The numbers of operations must not change, because kernels and stored batches contain them.
func TestOpKindNumbers(t *testing.T) {
	for want, kind := range []OpKind{OpGet, OpPut, OpPutNew, OpDelete, OpDeleteAll, OpSum, OpMin, OpMax, OpAnd, OpOr} {
		if int(kind) != want {
			t.Errorf("%v is %d, want %d", kind, kind, want)
		}
	}
	var op Op[uint64, float32]
	if op.Kind != OpGet {
		t.Errorf("the zero Op is a %v; it must change nothing", op.Kind)
	}
}

func TestErrorsAreDistinct(t *testing.T) {
	all := []error{ErrClosed, ErrFull, ErrOptions, ErrFormat, ErrCorrupt}
	for i, a := range all {
		for j, b := range all {
			if got := errors.Is(fmt.Errorf("linear: Put: %w", a), b); got != (i == j) {
				t.Errorf("wrapped %q is %q: %v", a, b, got)
			}
		}
	}
}

// Keys and values may be named types.
func TestNamedTypes(t *testing.T) {
	type id uint64
	type score float32
	op := Op[id, score]{Kind: OpPut, Key: 7, Value: .5}
	res := Result[score]{Value: op.Value, OK: true}
	if fmt.Sprint(op, res) != "{Put 7 0.5} {0.5 true}" {
		t.Errorf("%v %v", op, res)
	}
}
