package enum

import (
	"errors"
	"testing"
)

type color int

var errColor = errors.New("no color")

var colors = Names[color]{"test.Color", []string{"Red", "", "Green"}, errColor}

func TestNames(t *testing.T) {
	for v, want := range map[color]string{0: "Red", 2: "Green", 1: "", 3: "", -1: ""} {
		text, err := colors.Text(v)
		if string(text) != want || (err == nil) != (want != "") || want != "" && colors.String(v) != want {
			t.Errorf("%d is %q, %v, %q; want %q", int(v), text, err, colors.String(v), want)
		}
		if err != nil && !errors.Is(err, errColor) {
			t.Errorf("%d: %v", int(v), err)
		}
		got := color(7)
		if err := colors.Read(&got, []byte(want)); want != "" && (err != nil || got != v) {
			t.Errorf("%q reads as %d, %v", want, int(got), err)
		}
	}
	if s := colors.String(-1); s != "test.Color(-1)" {
		t.Errorf("-1 is %q", s)
	}
	got := color(7)
	if err := colors.Read(&got, []byte("gREEN")); err != nil || got != 2 {
		t.Errorf("gREEN reads as %d, %v", got, err)
	}
	for _, text := range []string{"", "Blue", "Red "} {
		got = 7
		err := colors.Read(&got, []byte(text))
		if !errors.Is(err, errColor) || got != 7 {
			t.Errorf("%q reads as %d, %v", text, got, err)
		}
	}
	if err := colors.Read(&got, []byte("Blue")); err.Error() != `no color: test.Color "Blue": want Red or Green` {
		t.Error(err)
	}
	one := Names[color]{"one", []string{"a"}, errColor}
	if err := one.Read(&got, nil); err.Error() != `no color: one "": want a` {
		t.Error(err)
	}
}
