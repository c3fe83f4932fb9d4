package variant

import (
	"reflect"
	"testing"
)

func TestOf(t *testing.T) {
	if got := Of(t.Context()); !reflect.DeepEqual(got, GPHash{}) {
		t.Errorf("a context of a user has %+v", got)
	}
	want := GPHash{Lanes: 1, Kernels: []string{"get"}}
	if got := Of(Context(t.Context(), want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
