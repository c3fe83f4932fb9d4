package ablation

import "testing"

func TestOf(t *testing.T) {
	if got := Of(t.Context()); got != (Without{}) {
		t.Errorf("a context of a user leaves out %+v", got)
	}
	want := Without{Fences: true}
	if got := Of(Context(t.Context(), want)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
