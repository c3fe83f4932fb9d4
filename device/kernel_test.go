package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestImageFor(t *testing.T) {
	both := device.Image{Name: "both", Targets: []device.Target{{Arch: 80, PTX: "old"}, {Arch: 90, PTX: "new"}}}
	for arch, want := range map[int]string{75: "", 79: "", 80: "old", 86: "old", 89: "old", 90: "new", 100: "new", 120: "new"} {
		got := ""
		if target := both.For(arch); target != nil {
			got = target.PTX
		}
		if got != want {
			t.Errorf("for architecture %d: %q, want %q", arch, got, want)
		}
	}
	if target := (&device.Image{}).For(90); target != nil {
		t.Errorf("an image without targets has %+v", target)
	}
}

func TestImageNames(t *testing.T) {
	for img, want := range map[*device.Image][2]string{
		{Name: "linear"}:                   {"linear", "linear_get"},
		{Name: "linear", Variant: "64_32"}: {"linear_64_32", "linear_get_64_32"},
	} {
		if got := [2]string{img.String(), img.Entry("get")}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// For returns a pointer to the image's own target, because devices compare its address.

func TestImageForIsNoCopy(t *testing.T) {
	img := device.Image{Targets: []device.Target{{Arch: 80}}}
	if img.For(80) != &img.Targets[0] {
		t.Error("For copies")
	}
}

type launches struct {
	device.StreamDriver
	params []byte
	grid   device.Dim
}

func (l *launches) Launch(_ device.Kernel, grid, _ device.Dim, params []byte) error {
	l.grid, l.params = grid, append([]byte(nil), params...)
	return nil
}

type kernel int

func (k kernel) Name() string   { return "kernel_under_test" }
func (k kernel) ParamSize() int { return int(k) }

func TestLaunchPassesParameters(t *testing.T) {
	l := &launches{}
	s := device.NewStream(nil, l)
	params := struct{ a, b uint32 }{0x04030201, 0x08070605}
	if err := device.Launch(s, kernel(8), device.Dim{X: 3}, device.Dim{X: 1}, &params); err != nil {
		t.Fatal(err)
	}
	if string(l.params) != "\x01\x02\x03\x04\x05\x06\x07\x08" || l.grid.X != 3 {
		t.Errorf("launched %v with % x", l.grid, l.params)
	}
}

// Launch does not pass the padding after the last of several parameters.
func TestLaunchDropsPadding(t *testing.T) {
	l := &launches{}
	s := device.NewStream(nil, l)
	implicit := struct {
		a uint64
		b uint16
	}{1, 0x0203}
	explicit := struct {
		a uint64
		b uint16
		_ [6]byte
	}{1, 0x0203, [6]byte{}}
	for _, launch := range []func() error{
		func() error { return device.Launch(s, kernel(10), device.Dim{}, device.Dim{}, &implicit) },
		func() error { return device.Launch(s, kernel(10), device.Dim{}, device.Dim{}, &explicit) },
	} {
		if err := launch(); err != nil || string(l.params) != "\x01\x00\x00\x00\x00\x00\x00\x00\x03\x02" {
			t.Errorf("launched with % x: %v", l.params, err)
		}
		l.params = nil
	}
	for _, size := range []int{8, 9, 11, 24} {
		if err := device.Launch(s, kernel(size), device.Dim{}, device.Dim{}, &explicit); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("fields of 10 bytes for a kernel that takes %d: %v", size, err)
		}
	}
	if err := device.Launch(s, kernel(0), device.Dim{}, device.Dim{}, &struct{}{}); err != nil {
		t.Errorf("a kernel that takes nothing: %v", err)
	}
}

// Launch returns an error for a struct of the wrong size and launches nothing.
func TestLaunchChecksSizes(t *testing.T) {
	l := &launches{}
	s := device.NewStream(nil, l)
	params := struct{ a uint64 }{1}
	for _, size := range []int{0, 4, 16} {
		err := device.Launch(s, kernel(size), device.Dim{}, device.Dim{}, &params)
		if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "kernel_under_test") {
			t.Errorf("8 bytes for a kernel that takes %d: %v", size, err)
		}
	}
	if l.params != nil {
		t.Error("it was launched all the same")
	}
}
