package progress

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Interruptible does not wait for a call that never ends once its context has ended.
func TestInterruptible(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	v, err := Interruptible(ctx, func() (int, error) { return 7, nil })
	if v != 7 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	forever := make(chan int)
	defer close(forever)
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := Interruptible(ctx, func() (int, error) { return <-forever, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after cancelling", err)
	}
}

// Printable escapes unprintable characters, on one line.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{"é x": "é x", "a\nb": `a\nb`, "\xff\x00": `\xff\x00`, `"`: `"`, "": ""} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}
